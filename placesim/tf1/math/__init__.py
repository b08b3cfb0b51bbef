"""Functions of numbers: elementwise, reductions, products, sorting."""
