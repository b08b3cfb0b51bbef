"""Memory accounting: buffers of a session's devices, and out-of-memory reports."""
