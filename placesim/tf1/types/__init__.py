"""Element types, shapes, devices and specs as TensorFlow 1's API has them, and nested structures."""
