"""`slim.nets`: networks that scripts take whole, with the names of `tf.contrib.slim.nets`."""
