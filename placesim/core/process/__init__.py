"""The current process: Ctrl-C, deadlines, progress, worker processes, and pauses of the garbage collector."""
