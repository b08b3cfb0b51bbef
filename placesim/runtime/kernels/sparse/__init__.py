"""Sparse tensors, as indices, values and a shape: arithmetic, rearrangement, reductions, segments, sets, serialization."""
