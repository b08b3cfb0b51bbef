"""`tf.keras` in graphs, as far as it is thin: layers, regularizers, activations and the backend's functions.

Training loops and models that record their layers (`Model`, `fit`) are not there; what is not says so by its name.
"""
