"""Functions of numbers: by element, over axes, and by order."""
