"""Kernels with variables: reading, assigning and scattering them, training ops, saving and restoring."""
