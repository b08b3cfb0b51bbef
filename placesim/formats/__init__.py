"""Readers and writers of files that hold a graph.

`recognition` finds the format of a file. `graph_file/` reads and writes placesim's own YAML and JSON, `tensorflow/` the files
of TensorFlow. Both use `node_import`, which imports NodeDefs with the checks of `node_checks` and `library_checks`. `problems`
collects the problems of a file, and `device_annotations` changes the requested devices of a graph.
"""
