"""Kernels that draw random numbers: Philox words as numbers of many distributions, seeded by attrs, inputs or a variable."""
