"""`tf.app`, `tf.flags` and `tf.logging`, which scripts also import as `absl`."""
