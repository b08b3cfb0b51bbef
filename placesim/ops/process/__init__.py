"""Services of the process that kernels use: the memory limit, threads, denormals, the console."""
