"""Variables: section 4 of the facts."""

from placesim.tf1.variables import creating as _creating  # noqa: F401 - calls of `Variable` come to it
