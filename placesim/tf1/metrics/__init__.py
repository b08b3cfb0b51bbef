"""`tf.metrics`."""
