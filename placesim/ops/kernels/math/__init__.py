"""Kernels of numbers: functions element by element, arithmetic, comparisons, casts, reductions, scans, segments, counts."""
