"""Random tensors and the seeds that they come of."""
