"""Conditionals, loops and TensorArrays: version 1 as Switch, Merge, Enter and Exit, version 2 as calls of functions."""

from placesim.tf1.control_flow import tensor_lists as _tensor_lists  # noqa: F401 - calls of `TensorArray` may come to it
