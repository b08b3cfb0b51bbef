"""The most used parts of TensorFlow 1.15's `tf.contrib`, as thin layers over TensorFlow 2.21's API."""
