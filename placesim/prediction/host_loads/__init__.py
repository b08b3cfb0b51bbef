"""Work of numpy kernels on a host: one module for each kind of kernel."""
