"""Pictures of a placement: Graphviz, Mermaid, SVG, and HTML pages with the files of `assets/`."""
