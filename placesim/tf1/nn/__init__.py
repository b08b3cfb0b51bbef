"""`tf.nn`: what stands between an op's own function and its public name."""
