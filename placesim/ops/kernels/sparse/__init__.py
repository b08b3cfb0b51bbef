"""Kernels of sparse tensors, as indices, values and shape: arithmetic, rearrangement, reductions, segments, sets, strings."""
