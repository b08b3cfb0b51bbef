"""`tf.linalg`: matrices."""
