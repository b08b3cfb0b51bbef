"""Functions that make operations from a script's arguments and attrs."""
