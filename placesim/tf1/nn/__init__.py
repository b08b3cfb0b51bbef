"""`tf.nn`: wrappers between generated op functions and public names."""
