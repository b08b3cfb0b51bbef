"""Sessions: steps of a graph that scripts build, on the simulated machine."""
