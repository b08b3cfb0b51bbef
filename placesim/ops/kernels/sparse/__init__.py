"""Kernels of sparse tensors (indices, values, shape): arithmetic, rearrangement, reductions, segments, sets, strings."""
