"""Kernels of linear algebra: products, Einsum, decompositions, solvers, diagonals, Fourier transforms."""
