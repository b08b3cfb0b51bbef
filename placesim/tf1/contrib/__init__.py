"""Most used parts of `tf.contrib`, which ended with TensorFlow 1.15: thin layers over what TensorFlow 2.21 still has."""
