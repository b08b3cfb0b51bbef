"""Loads of numpy kernels on a host: one module for each way of working."""
