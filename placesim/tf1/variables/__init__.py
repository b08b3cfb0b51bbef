"""Variables: their kinds, initializers, scopes, and `tf.get_variable`."""

from placesim.tf1.variables import creating as _creating  # noqa: F401 - calls of `Variable` come to it
