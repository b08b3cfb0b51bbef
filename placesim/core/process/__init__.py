"""The process that placesim runs in: Ctrl-C, deadlines, progress, worker processes, the garbage collector's pause."""
