"""Build bodies of functions by calling Python functions."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from placesim.tf1.control_flow.tensor_arrays import build_with_flow
from placesim.tf1.functions.function_graph import FunctionGraph
from placesim.tf1.functions.ordering import order_effects
from placesim.tf1.graphs.graph import get_default_graph
from placesim.tf1.graphs.tensor import Operation, Tensor, uid
from placesim.tf1.graphs.tensor_likes import TensorLike
from placesim.tf1.ops.conversion import constant, convert_to_tensor
from placesim.tf1.ops.generated_functions import gen
from placesim.tf1.sparse.values import IndexedSlices, SparseTensor
from placesim.tf1.types import nest


def function_name(parts: Sequence[str]) -> str:
    """Join the parts and a new number of the process to a function's name, with underscores for slashes."""
    return f"{''.join(parts)}_{uid()}".replace("/", "_")


def build(
    body: FunctionGraph,
    function: Callable[..., Any],
    args: Sequence[Any] = (),
    after_op: Tensor | None = None,
    orders_effects: bool | None = None,
) -> FunctionGraph:
    """Call a Python function in a body's graph.  Its result, a structure of tensor-likes, becomes the body's outputs.

    An operation in the result is replaced by `after_op` (None: by 1), computed after the operation.  With `orders_effects`
    (default: as in the enclosing function) all stateful ops run in order, and the outputs are Identities.
    """
    body.orders_effects = _orders_effects() if orders_effects is None else orders_effects
    with body.as_default():
        first = len(body._operations)
        result = nest.map_structure(lambda leaf: _as_output(leaf, after_op), function(*args))
        if body.orders_effects:
            result = nest.map_structure(_returned, result)
        body.structured_outputs = result
        flat = [leaf for leaf in nest.flatten(result, expand_composites=True) if leaf is not None]
        body.outputs.extend(body.capture(leaf.flow if hasattr(leaf, "flow") else leaf) for leaf in flat)
        if body.orders_effects:
            order_effects(body, first, body.outputs)
    return body


def _orders_effects() -> bool:
    graph = get_default_graph()
    return isinstance(graph, FunctionGraph) and graph.orders_effects


def _returned(value: Any) -> Any:
    if isinstance(value, IndexedSlices | SparseTensor):
        return nest.with_components(value, [gen("Identity")(tensor) for tensor in nest.components(value)])
    if hasattr(value, "flow"):
        return build_with_flow(value, gen("Identity")(value.flow))
    return None if value is None else gen("Identity")(value)


def _as_output(value: TensorLike, after_op: Tensor | None) -> Any:
    """Convert a leaf of a function's result to an output of its body."""
    if value is None or isinstance(value, IndexedSlices | SparseTensor) or hasattr(value, "flow"):
        return value
    if isinstance(value, Operation):
        with value.graph.control_dependencies([value]):
            return gen("Identity")(constant(1) if after_op is None else after_op)
    return convert_to_tensor(value)
