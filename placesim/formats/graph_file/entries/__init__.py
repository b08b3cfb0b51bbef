"""The entries of `nodes` and `functions` -> builder calls."""
