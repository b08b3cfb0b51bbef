"""tf.data: datasets as values, what makes and changes them, and iterators over them."""
