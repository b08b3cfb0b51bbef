"""`tf.distributions` and `tf.contrib.distributions`: random variables, their samples, densities and divergences.

The ops of each method and their order are TensorFlow's.
"""
