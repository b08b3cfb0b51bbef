"""The most used parts of `tf.contrib`, which ended with TensorFlow 1.15, as thin layers over TensorFlow 2.21's API."""
