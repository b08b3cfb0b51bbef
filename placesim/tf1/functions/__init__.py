"""Functions of a graph's library, made of Python functions: branches, loops' bodies, `tf.function`, those of datasets."""
