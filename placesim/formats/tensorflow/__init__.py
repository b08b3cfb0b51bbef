"""Reader and writer of TensorFlow's own files. Importing its readers imports protobuf.

`reader` reads all formats. `graph_def`, `meta_graph` and `saved_model` read one format each, and `file_bytes` opens the files.
`node_def`, `function_def`, `attr_value` and `tensor_proto` convert the message of their name to placesim's value and back.
`messages` has the classes of all messages, without generated code. `new_attrs` removes attrs with default values that a newer
TensorFlow wrote. `restoring` gives variables the values of a checkpoint.
"""
