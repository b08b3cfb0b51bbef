"""`tf.image`."""
