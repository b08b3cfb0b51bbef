"""TensorFlow's tutorial modules: the MNIST digits, and a network for them."""
