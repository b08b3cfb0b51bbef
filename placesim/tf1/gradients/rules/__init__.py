"""A gradient function for each op that has one, by family."""
