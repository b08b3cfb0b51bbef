"""`tf.data`: datasets, what makes and changes them, and iterators over them."""
