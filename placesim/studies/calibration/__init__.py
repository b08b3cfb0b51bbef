"""Measurement of this machine: the times of placesim's executors and numpy kernels, as the profile of a host."""
