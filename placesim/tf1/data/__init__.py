"""`tf.data`: datasets, what makes and changes them, and iterators over them."""

from placesim.tf1.data import methods as _methods  # noqa: F401 - a dataset has its methods, whichever module makes it
