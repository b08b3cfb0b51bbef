"""Tensors made, reshaped, cut and put together."""
