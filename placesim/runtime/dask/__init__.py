"""Execution on a Dask cluster: partitions that run in several processes, with tensors that go from one to the other."""
