"""A graph under many combinations of options: what can be varied, the simulations in processes, and what is kept of them."""
