"""Execution of a script in its own process: the recorded graph, and messages for errors."""
