"""Simulation of a graph on a machine with options, shared by the command line and the Python API.

At first, only the modules that `devices` needs are imported; numpy and the rest are imported with the first graph.
"""
