"""Nodes for entries of a graph file that expand to calls of TensorFlow's Python."""
