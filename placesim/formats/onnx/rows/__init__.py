"""Rows `ONNX op, since versions -> ops`, a module for each family; each ends in its table ROWS, which `families` joins.

The docstring of a row says the composition where it is no single op.
"""
