"""Assertions on tensors, at graph construction and at run time."""
