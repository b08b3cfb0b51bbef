"""Optimizers, moving averages, learning rates and the global step."""
