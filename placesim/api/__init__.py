"""placesim for Python callers."""
