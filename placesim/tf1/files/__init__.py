"""`tf.gfile`, record files and event files, as scripts read and write them."""
