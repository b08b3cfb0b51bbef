"""`tf.estimator`: model functions that are trained and evaluated by monitored sessions."""
