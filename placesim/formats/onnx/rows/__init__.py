"""Converters of ONNX's ops ("rows"), a module for each family. Its table ROWS, at the end, is joined by `families`.

The first paragraph of a converter's docstring says which TensorFlow ops it adds; the manual shows it.
"""
