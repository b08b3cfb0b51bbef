"""`tf.distribute`: strategies that run a model on several devices, each with a replica and copies of the variables."""
