"""Kernels that create, reshape, join, split, index, order and check tensors of any element type."""
