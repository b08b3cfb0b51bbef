"""Sweeps of a graph over combinations of options: axes, parallel simulation, and storage of rows."""
