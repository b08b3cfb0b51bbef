"""Plans of graphs: a placed graph as a planning problem, and a plan as annotations."""
