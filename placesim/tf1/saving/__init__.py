"""Checkpoints of sessions: what `tf.train.Saver` adds to a graph, and the files it keeps."""
