"""Sparse tensors."""
