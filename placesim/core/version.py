"""The version of placesim."""

__version__ = "1.0.0"
