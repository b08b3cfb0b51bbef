"""The graph: nodes, edges, functions, and the builder that creates them."""
