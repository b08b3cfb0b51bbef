"""Variables: reading, assigning and scattering them, training ops, and saving and restoring them."""
