"""What numpy's kernels do on a host, counted: one module for each way of working."""
