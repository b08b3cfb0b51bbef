"""A picture of a placement in the languages that draw it: Graphviz, Mermaid, and one HTML page with what stands in `assets/`."""
