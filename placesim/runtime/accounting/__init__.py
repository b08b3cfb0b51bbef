"""Memory accounting: the buffers of a session's devices, and reports where there is no room."""
