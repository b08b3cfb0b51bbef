"""Writers of graphs as the text of a graph file."""
