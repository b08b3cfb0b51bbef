"""`tf.data.experimental`: what was a function for `Dataset.apply` before it became a method."""
