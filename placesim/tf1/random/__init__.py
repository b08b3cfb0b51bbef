"""Random tensors and seeds."""
