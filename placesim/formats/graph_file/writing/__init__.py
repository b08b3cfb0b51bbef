"""Graphs -> the text of a graph file."""
