"""Sources of graphs: files of all formats, mappings, builders, scripts and the examples."""
