"""Lines of text, and the JSON objects of the same contents: one module for each thing that is told."""
