"""The simulated machine: devices, their names and memory settings, the links between them, and a session's options."""
