"""Measures the machine that it runs on: what placesim's own executors and numpy kernels take there, as a host's profile."""
