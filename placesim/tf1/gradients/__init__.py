"""Gradients of graphs: the backward traversal, and the gradient function of each differentiable op."""
