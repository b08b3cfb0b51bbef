"""Records of steps: executions, their dependencies, and kernel times."""
