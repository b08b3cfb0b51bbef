"""Implementation of placesim's public Python functions."""
