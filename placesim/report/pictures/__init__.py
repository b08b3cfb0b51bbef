"""A picture of a placement in what draws it: Graphviz, Mermaid, and one HTML page with what is in `assets/`."""
