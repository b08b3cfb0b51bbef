"""Loads of numpy's kernels on a host: one module for each way of working."""
