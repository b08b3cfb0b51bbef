"""Plans of graphs: the problem that a placed graph is, a plan of it as annotations, and what that comes to."""
