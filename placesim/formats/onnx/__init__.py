"""Reader of ONNX models, and writer of their device annotations. Importing `reader` imports the optional package `onnx`.

`reader` reads a model. `weights` separates its large tensors from the bytes before `messages` parses the rest. `tensors` makes
arrays of TensorProtos, including those in other files. `element_types` maps the element types.

`graph_reading` reads the nodes of a graph, body or function. `onnx_node` is a node as its converter sees it. `names` makes
names that TensorFlow allows, and `known_values` finds values of tensors before execution. `families` collects the converters of
`rows/`, one module for each family of ops.
"""
