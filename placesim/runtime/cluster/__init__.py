"""Connections to a Dask cluster or to local workers, and the assignment of devices to workers."""
