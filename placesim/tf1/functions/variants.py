"""Element types of variants: the type of a list's elements, or of an optional's value."""

from __future__ import annotations

from placesim.core.dtypes import DataType
from placesim.tf1.functions.function_graph import FunctionGraph
from placesim.tf1.graphs.tensor import Tensor

_PASSING = frozenset(("Identity", "TensorListResize", "ZerosLike", "AddN", "While", "StatelessWhile"))
"""Ops each of whose outputs contains the same elements as the input at its index."""
_BRANCHING = frozenset(("If", "StatelessIf", "Case", "StatelessCase"))


def element_type(tensor: Tensor) -> DataType | None:
    """Element type of a variant, None if unknown."""
    seen: set[Tensor] = set()
    while tensor not in seen:
        seen.add(tensor)
        op = tensor.op
        attrs = op.node.attrs
        if "element_dtype" in attrs:
            found: DataType = attrs["element_dtype"]
            return found
        if len(set(attrs.get("Toutput_types", ()))) == 1:
            return attrs["Toutput_types"][0]  # type: ignore[no-any-return]
        bodies: list[FunctionGraph] = getattr(op, "bodies", [])
        if op.type in _PASSING:
            tensor = op.inputs[min(tensor.value_index, len(op.inputs) - 1)]
        elif op.type in _BRANCHING and bodies:
            tensor = bodies[0].outputs[tensor.value_index]
        elif isinstance(tensor.graph, FunctionGraph) and tensor in tensor.graph.sources:
            tensor = tensor.graph.sources[tensor]
    return None
