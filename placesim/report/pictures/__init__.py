"""Pictures of a placement: Graphviz, Mermaid, SVG, and an HTML page with the files of `assets/`."""
