"""`tf.contrib.slim.nets`: complete networks."""
