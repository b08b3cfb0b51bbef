"""tf.data: datasets as values, transformations, and iterators."""
