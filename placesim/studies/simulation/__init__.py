"""Simulation of a graph on a machine with options, shared by the command line and the Python API.

Only the imports of `devices` happen at once; numpy and the rest are imported with the first graph.
"""
