"""`tf.signal` and `tf.spectral`."""
