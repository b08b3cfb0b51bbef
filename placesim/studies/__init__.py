"""Studies of a graph on a machine with options: simulations, memory and time, plans, sweeps, and calibration."""
