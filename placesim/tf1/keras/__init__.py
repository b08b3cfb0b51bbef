"""`tf.keras` in graphs: layers, regularizers, activations and functions of the backend, but no `Model` and no `fit`."""
