"""Optimizers, moving averages, learning rates and the global step: section 6."""
