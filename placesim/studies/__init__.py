"""A graph, a machine and options -> an answer: simulations, memory and time studies, plans, sweeps, calibration."""
