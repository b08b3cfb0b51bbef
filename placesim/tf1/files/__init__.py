"""`tf.gfile`, record files and event files: what scripts read and write themselves."""
