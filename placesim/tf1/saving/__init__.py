"""Checkpoints and SavedModels: the nodes of a `tf.train.Saver`, and files."""
