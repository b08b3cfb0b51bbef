"""`tf.data`: datasets, transformations and iterators."""

from placesim.tf1.data import methods as _methods  # noqa: F401 - a dataset has its methods, whichever module makes it
