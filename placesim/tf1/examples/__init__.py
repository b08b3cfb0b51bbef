"""What scripts import from TensorFlow's tutorials: the MNIST digits, and a network for them."""
