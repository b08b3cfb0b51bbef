"""Reader of ONNX models, and writer of their device annotations. Importing `reader` imports the optional package `onnx`.

`reader` reads a model. `weights` separates large tensors from its bytes, and `messages` parses the rest. `tensors` makes arrays
of TensorProtos, including those in other files. `element_types` maps the element types.

`graph_reading` reads the nodes of a graph, a body or a function. `onnx_node` has the node that a converter takes. `names` makes
names that TensorFlow allows, and `known_values` finds values of tensors before execution. `families` collects the converters of
`rows/`, which has a module for each family of ops.
"""
