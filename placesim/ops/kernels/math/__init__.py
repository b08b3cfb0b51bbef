"""Kernels of numbers: elementwise functions, arithmetic, comparisons, casts, reductions, scans, segments, counts."""
