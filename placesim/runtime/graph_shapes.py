"""Static shapes over a whole graph: what is known of every tensor before anything runs.

Values of constants, and shapes that are computed from shapes, are followed as TensorFlow's shape refiner does it.  Nothing here
raises: where a shape function refuses, or an op has none, its outputs are unknown.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from placesim.errors import PlacesimError
from placesim.graph.graph import Graph, Node, TensorRef, split_tensor_name
from placesim.runtime.kernels import load_kernels
from placesim.runtime.kernels.kernel import Kernel
from placesim.runtime.shapes import Dims, HandleShape, ShapeContext, is_fully_defined

if TYPE_CHECKING:
    from placesim.runtime.prepared import PreparedStep

MAX_VALUE_ELEMENTS = 256
"""Values of larger tensors are not followed: a shape has few dimensions."""
MOVING_OPS = frozenset(
    [
        "Pack",
        "Concat",
        "ConcatV2",
        "StridedSlice",
        "Slice",
        "Cast",
        "Identity",
        "Reshape",
        "ExpandDims",
        "Squeeze",
        "Gather",
        "GatherV2",
        "Unpack",
        "Split",
    ]
)
"""Ops that only move elements, so that an unknown dimension (-1) among them stays one."""
COMPUTING_OPS = frozenset(
    [
        "Add",
        "AddV2",
        "Sub",
        "Mul",
        "FloorDiv",
        "FloorMod",
        "Maximum",
        "Minimum",
        "Neg",
        "Prod",
        "Sum",
        "Max",
        "Min",
        "Range",
        "Fill",
        "Equal",
        "Less",
        "Greater",
        "Select",
        "SelectV2",
    ]
)
"""Ops that shapes are computed with where all their inputs are known."""

Value = np.ndarray[Any, Any]


class NodeShapes(NamedTuple):
    """What is known of one node's outputs: shapes, values (with -1 for what is not known), and what resources hold."""

    shapes: tuple[Dims, ...]
    values: tuple[Value | None, ...]
    handles: Mapping[int, HandleShape]


class GraphShapes:
    """The shapes of a graph's tensors, each inferred when it is first asked for.

    `arguments` are the shapes of what is fed, by `_Arg` index.
    """

    def __init__(self, graph: Graph, arguments: Sequence[Dims] = ()) -> None:
        self._graph = graph
        self._arguments = arguments
        self._kernels = load_kernels()
        self._known: dict[int, NodeShapes] = {}

    def shape(self, tensor: TensorRef) -> Dims:
        """The static shape of a tensor; None where its rank is unknown."""
        self._infer_with_ancestors(tensor.node)
        return self._known[tensor.node].shapes[tensor.slot]

    def _infer_with_ancestors(self, node_id: int) -> None:
        waiting = [node_id]
        entered: set[int] = set()
        while waiting:
            current = waiting[-1]
            if current in self._known:
                waiting.pop()
                continue
            missing = [i for i in self._graph.nodes[current].input_nodes if i not in self._known and i not in entered]
            if current in entered or not missing:
                self._known[current] = self._infer(self._graph.nodes[current])
                waiting.pop()
            entered.add(current)
            waiting += missing

    def _infer(self, node: Node) -> NodeShapes:
        kernel = self._kernels.get(node.op)
        count = len(node.signature.output_dtypes)
        if node.op == "_Arg" and self._arguments:
            return NodeShapes((self._arguments[node.attrs["index"]],), (None,), {})
        if kernel is None or any(i not in self._known for i in node.input_nodes):
            return _unknown(count)
        inputs = [self._input(i, slot) for i, slot in zip(node.input_nodes, node.input_slots, strict=True)]
        context = self._context(node, inputs)
        try:
            shapes = tuple(kernel.shape(context))
        except (PlacesimError, ArithmeticError, LookupError, TypeError, ValueError, AttributeError):
            return _unknown(count)
        shapes += (None,) * (count - len(shapes))
        return NodeShapes(
            shapes, _values(kernel, node, context, shapes, [value for _, value, _ in inputs]), context.output_handles
        )

    def _input(self, node_id: int, slot: int) -> tuple[Dims, Value | None, HandleShape | None]:
        known = self._known[node_id]
        return known.shapes[slot], known.values[slot], known.handles.get(slot)

    def _context(self, node: Node, inputs: Sequence[tuple[Dims, Value | None, HandleShape | None]]) -> ShapeContext:
        return ShapeContext(
            [shape for shape, _, _ in inputs],
            self._graph.full_attrs(node),
            [value if _is_whole(value) else None for _, value, _ in inputs],
            [handle for _, _, handle in inputs],
            [_spelled_shape(value) for _, value, _ in inputs],
        )


def _unknown(count: int) -> NodeShapes:
    return NodeShapes((None,) * count, (None,) * count, {})


class _Partial(np.ndarray[Any, Any]):
    """A value some of whose elements are -1 because they are not known."""


def _spelled_shape(value: Value | None) -> Dims:
    return None if value is None or value.ndim != 1 or value.dtype.kind not in "iu" else tuple(map(int, value))


def _is_whole(value: Value | None) -> bool:
    return value is not None and not isinstance(value, _Partial)


def _values(
    kernel: Kernel, node: Node, context: ShapeContext, shapes: tuple[Dims, ...], inputs: Sequence[Value | None]
) -> tuple[Value | None, ...]:
    """The outputs' values as far as they follow from what is known of the inputs."""
    nothing = (None,) * len(shapes)
    if node.op == "Const":
        array = node.attrs["value"].array
        return (array if array.size <= MAX_VALUE_ELEMENTS else None,)
    if node.op in ("Shape", "Size", "Rank"):
        return (_measured(node, context.shapes[0]),)
    if node.op not in MOVING_OPS and node.op not in COMPUTING_OPS:
        return nothing
    is_partial = any(isinstance(value, _Partial) for value in inputs)
    if any(value is None for value in inputs) or (is_partial and node.op not in MOVING_OPS):
        return nothing
    if any(math.prod(shape or ()) > MAX_VALUE_ELEMENTS for shape in shapes):
        return nothing
    return _computed(kernel, inputs, context, is_partial) or nothing


def _measured(node: Node, shape: Dims) -> Value | None:
    if shape is None:
        return None
    dtype = node.signature.output_dtypes[0].numpy
    if node.op == "Rank":
        return np.array(len(shape), dtype)
    if node.op == "Size":
        return np.array(math.prod(shape), dtype) if is_fully_defined(shape) else None
    found = np.array(shape, dtype)
    return found if is_fully_defined(shape) else found.view(_Partial)


def _computed(
    kernel: Kernel, inputs: Sequence[Value | None], context: ShapeContext, is_partial: bool
) -> tuple[Value | None, ...] | None:
    try:
        outputs = kernel.compute(tuple(np.asarray(value) for value in inputs), context.attrs)
    except (PlacesimError, ArithmeticError, LookupError, TypeError, ValueError):
        return None
    arrays = [np.asarray(output) for output in outputs]
    return tuple(array.view(_Partial) if is_partial and (array == -1).any() else array for array in arrays)


# --- what a transfer carries ----------------------------------------------------------------------------------------


def transfer_sizes(step: PreparedStep, graph: Graph) -> list[int | None]:
    """The bytes of each transfer of a step: 0 on a control edge, None where the shape or the element size is not known.

    `graph` is the whole graph, whose placeholders declare the shapes of what is fed.
    """
    client = step.client
    shapes = GraphShapes(client.graph, _fed_shapes(graph, client.feeds))
    received = {transfer.recv: transfer for transfer in step.partitions.transfers}
    sizes: list[int | None] = []
    for transfer in step.partitions.transfers:
        origin = transfer
        while origin.slot >= 0 and origin.producer in received and origin.producer not in client.graph.ids:
            origin = received[origin.producer]  # between tasks a tensor passes through a CPU of each
        sizes.append(_size(client.graph, shapes, origin.producer, origin.slot))
    return sizes


def _size(graph: Graph, shapes: GraphShapes, producer: str, slot: int) -> int | None:
    if slot < 0:
        return 0
    if producer not in graph.ids:
        return None
    node = graph.node(producer)
    dims, size = shapes.shape(TensorRef(node.id, slot)), node.signature.output_dtypes[slot].size
    return math.prod(dims) * size if dims is not None and is_fully_defined(dims) and size else None


def _fed_shapes(graph: Graph, feeds: Iterable[str]) -> list[Dims]:
    found: list[Dims] = []
    for name, _ in map(split_tensor_name, feeds):
        node = graph.node(name) if name in graph.ids else None
        shape = node.attrs.get("shape") if node is not None else None
        found.append(getattr(shape, "dims", None))
    return found
