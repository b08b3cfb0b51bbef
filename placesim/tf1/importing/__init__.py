"""`import tensorflow`: the modules of the API, found when they are first asked for."""
