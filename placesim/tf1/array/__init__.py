"""Tensors: creation, reshaping, slicing and joining."""
