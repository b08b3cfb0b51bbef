"""Kernels of strings: joins, splits, conversions, patterns, hashes, Unicode, tensors as bytes."""
