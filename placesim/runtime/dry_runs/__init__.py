"""Dry runs: steps without values, and assumptions for unknown values."""
