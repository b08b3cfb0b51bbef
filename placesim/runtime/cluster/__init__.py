"""A Dask cluster: reaching one or starting workers of our own, and which device lives in which worker."""
