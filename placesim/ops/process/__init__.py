"""Services of the process that kernels use: a memory limit, threads, denormals, the console."""
