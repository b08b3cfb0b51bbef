"""Files that hold a graph -> GraphFile, and back.

`recognition` says what a file is; `graph_file/` reads and writes placesim's own YAML and JSON, `tensorflow/` the files of
TensorFlow.  Between them stand what both are made with: `node_import`, the one importer of NodeDefs, with its checks
(`node_checks`, `library_checks`), `problems`, which collects what is wrong with a file, and `annotations`, the devices that
came with a graph.
"""
