"""Kernels that make, shape, join, cut, index, order and check tensors, whatever their elements mean."""
