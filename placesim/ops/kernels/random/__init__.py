"""Kernels that draw: Philox's words as numbers of many distributions, seeded by attrs, by inputs or by a variable."""
