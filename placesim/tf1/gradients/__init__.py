"""Gradients of graphs: the walk backwards, and a function for each op that has one."""
