"""Rules of `check` for placements, and the search for violations."""
