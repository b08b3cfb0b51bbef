"""Dry runs: steps without values, and the assumptions made where values are not known."""
