"""Readers of the entries of `nodes` and `functions`."""
