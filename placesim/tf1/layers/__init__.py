"""`tf.layers`: layers that keep their variables, and functions that make one and apply it at once."""
