"""Zeros for outputs without gradients; for a conditional's Switch, they are made in the branch that ran."""

from __future__ import annotations

from typing import Any

from placesim.tf1.control_flow.switching import SWITCHES
from placesim.tf1.gradients.rules.variables import held_type
from placesim.tf1.graphs.default_graph_scopes import control_dependencies
from placesim.tf1.graphs.tensor import Operation
from placesim.tf1.importing.namespaces import namespace
from placesim.tf1.ops.generated_functions import gen

tf = namespace("")


def zeros_like_output(op: Operation, index: int) -> Any:
    """Zeros for an output that received no gradient."""
    output = op.outputs[index]
    is_resource = output.dtype.base_dtype.name == "resource"
    dtype = held_type(output) if is_resource else output.dtype.base_dtype
    context = op._get_control_flow_context()
    # only the output of a Switch may be dead, so only its zeros need the branch
    if context is None or op.type not in SWITCHES:
        if is_resource:
            return tf.zeros(gen("VariableShape")(output), dtype)
        if not op.graph.is_turn:
            # without `optimize` a known shape makes a ZerosLike as well, as in TensorFlow
            return tf.zeros_like(output, optimize=False)
        # The body of a loop would push the tensor on a list for its gradient: a shape is smaller.
        sizes = output.sizes
        if sizes is not None and -1 not in sizes:
            return tf.constant(0, dtype, sizes)
        return tf.zeros(gen("Shape")(output), dtype)
    switched = gen("Switch")(op.inputs[0], context.pred)[1 - context.branch]
    # the zeros exist only if the other branch was taken, where the Merge expects them
    pivot = tf.identity(switched)
    if is_resource:
        with control_dependencies([pivot]):
            return tf.zeros(gen("VariableShape")(switched), dtype)
    shape = gen("Shape")(switched)
    with control_dependencies([pivot]):
        return tf.zeros(shape, dtype)
