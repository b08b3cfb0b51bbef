"""Library functions made from Python functions: branches, loop bodies, `tf.function`, and functions of datasets."""
