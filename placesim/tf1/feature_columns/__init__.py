"""`tf.feature_column`: columns that turn features of examples into dense tensors, and linear models of them."""
