"""Predicted costs of nodes on devices."""
