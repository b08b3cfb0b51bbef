"""GraphDefs and MetaGraphDefs: importing, exporting, parts of them."""

ROWS = {
    "graph_defs.importer": "import_graph_def graph_util.import_graph_def=import_graph_def",
    "graph_defs.meta_graph_importer": "train.import_meta_graph",
    "graph_defs.meta_graphs": ("train.export_meta_graph train.write_graph io.write_graph=write_graph"),
    "graph_defs.parts": (
        "graph_util.convert_variables_to_constants graph_util.extract_sub_graph graph_util.must_run_on_cpu "
        "graph_util.remove_training_nodes graph_util.tensor_shape_from_node_def_name"
    ),
}
