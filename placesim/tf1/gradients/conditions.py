"""Gradients of what was computed in a branch of a conditional: zeros are made in the branch that ran."""

from __future__ import annotations

from typing import Any

from placesim.tf1.gradients.rules.variables import variable_shape
from placesim.tf1.graphs.default_graph_scopes import control_dependencies
from placesim.tf1.graphs.tensor import Operation
from placesim.tf1.importing.namespaces import namespace
from placesim.tf1.ops.generated_functions import gen

tf = namespace("")


def zeros_like_output(op: Operation, index: int) -> Any:
    """Zeros for an output without incoming gradients."""
    output = op.outputs[index]
    context = op._get_control_flow_context()
    if context is None:
        if output.dtype.name == "resource":
            held = op.graph.shapes.handle(output.node_ref)
            return tf.zeros(gen("VariableShape")(output), None if held is None else held[0].name)
        if not op.graph.is_turn:
            return tf.zeros_like(output, optimize=False)
        # a turn's tensor would have to be kept on a list: its shape is less
        sizes = output.sizes
        if sizes is not None and -1 not in sizes:
            return tf.constant(0, output.dtype, sizes)
        return tf.zeros(gen("Shape")(output), output.dtype)
    switched = gen("Switch")(op.inputs[0], context.pred)[1 - context.branch]
    pivot = tf.identity(switched)
    if output.dtype.base_dtype.name == "resource":
        with control_dependencies([pivot]):
            shape, dtype = variable_shape(switched, with_dtype=True)
            return tf.zeros(shape, dtype)
    shape = gen("Shape")(switched)
    with control_dependencies([pivot]):
        return tf.zeros(shape, dtype=output.dtype.base_dtype)
