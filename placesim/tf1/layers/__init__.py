"""`tf.layers`: layers with variables, and functions that make a layer and apply it."""
