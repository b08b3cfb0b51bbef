"""A Dask cluster: connecting to one or starting local workers, and assigning devices to workers."""
