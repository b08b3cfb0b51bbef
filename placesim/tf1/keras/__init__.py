"""`tf.keras` in graphs: layers, subclasses of `Model`, regularizers, activations and functions of the backend, but no `fit`."""
