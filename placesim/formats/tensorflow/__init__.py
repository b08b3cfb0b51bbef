"""TensorFlow's own files <-> GraphFile.  Importing this room's readers imports protobuf.

- `reader` reads any of the files; `graph_def`, `meta_graph` and `saved_model` are the kinds of file, `file_bytes` opens them
- a module named after a message turns that message into the value that the rest of placesim holds, and back: `node_def`,
  `function_def`, `attr_value`, `tensor_proto`; `messages` has the classes of all messages, without generated code
- `new_attrs` drops what a newer TensorFlow wrote and means nothing; `restoring` gives variables the values of a checkpoint
"""
