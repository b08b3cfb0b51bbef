"""Execution on a Dask cluster: partitions run in several processes, which exchange tensors."""
