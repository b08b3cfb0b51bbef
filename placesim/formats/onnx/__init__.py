"""ONNX models -> GraphFile.  Importing this room's `reader` imports the `onnx` package, an extra.

- `reader` reads a model; `weights` takes its large tensors out of the bytes before `onnx` parses the rest, `messages` is that
  parse, `tensors` makes arrays of TensorProtos, also of those beside the model, `element_types` names types on both sides
- `graph_reading` walks the nodes of a graph, body or function; `onnx_node` is a node as its row meets it; `names` makes names
  that TensorFlow allows; `known_values` is what is known of tensors before anything runs
- `families` joins the rows (`ONNX op, since version -> ops`), a module for each family of ops in `rows/`
"""
