"""Simulation of a graph on a machine with options, shared by the command line and the Python API.

At first, only the modules that the command `devices` needs are imported; numpy and the rest follow with the first graph.
"""
