"""Conditionals, loops and TensorArrays: version 1 as Switch, Merge, Enter and Exit, version 2 as calls of functions."""
