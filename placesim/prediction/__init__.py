"""Predicted costs of nodes on devices, and simulated steps and their memory."""
