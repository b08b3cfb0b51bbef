"""Kernels with variables: reads, assignments and scatters, training ops, saving and restoring."""
