"""Static shapes of all tensors of a graph.

Shape functions may ask for values of inputs. As in TensorFlow's shape refiner, known values are those of constants, and those
that are computed from constants and shapes. If a shape function fails, or an op has none, the shapes of the outputs are
unknown; `refusals` returns TensorFlow's errors.
"""

from __future__ import annotations

import math
from collections.abc import Hashable, Iterable, Sequence
from typing import Any, NamedTuple

import numpy as np

from placesim.core.errors import GraphBuildError, InvalidArgumentError, PlacesimError
from placesim.graph.functions import instantiate
from placesim.graph.graph import Graph, Node, TensorRef
from placesim.ops.attributes import Attrs, FunctionName
from placesim.ops.categories import (
    ARGUMENTS,
    CALLS,
    CONTROL_FLOW,
    FUNCTION_ENDS,
    JOINS,
    LOWERED,
    PARTIAL_SHAPE_OPS,
    PLACEHOLDERS,
    SHAPE_OPS,
    STATIC_PART_OPS,
    WHOLE_SHAPE_OPS,
)
from placesim.ops.kernels import load_kernels
from placesim.ops.kernels.device_resources import ResourceManager
from placesim.ops.kernels.kernel import Kernel, KernelContext, Trait
from placesim.ops.kernels.op_families import OP_FAMILIES
from placesim.ops.kernels.shapes import Dims, HandleShape, ShapeContext, ShapeError, is_fully_defined
from placesim.ops.process.memory_limit import AllocationRefusal
from placesim.runtime.shapes.int32_attrs import int32_problem
from placesim.runtime.shapes.shape_inference import infer_shapes, word_refusal

MAX_VALUE_ELEMENTS = 256
"""Maximum number of elements of tensors whose values are tracked: a shape has few dimensions."""
_NEVER_FOLLOWED = CONTROL_FLOW - {"Switch"} | {*PLACEHOLDERS, *FUNCTION_ENDS, *LOWERED}
"""Stateless ops whose values are not tracked."""

Value = np.ndarray[Any, Any]


class _CallError(GraphBuildError):
    """An error of a function call, for which TensorFlow's Python raises InternalError."""

    @property
    def type_name(self) -> str:
        return "InternalError"


class _Refusal(NamedTuple):
    """The error of a node's shape function, and the context in which it ran; TensorFlow's full text is made on demand."""

    error: ShapeError | GraphBuildError
    context: ShapeContext


_DEFECTS = (PlacesimError, ArithmeticError, LookupError, TypeError, ValueError, AttributeError)
"""Errors that a shape function raises for attrs of the wrong type or size; the shapes are then unknown."""


class GraphShapes:
    """Static shapes of a graph's tensors, inferred on demand; the graph may grow.

    `arguments` are the shapes of fed tensors, by `_Arg` index, and `argument_values` their values, as far as they are known.
    """

    def __init__(self, graph: Graph, arguments: Sequence[Dims] = (), argument_values: Sequence[Value | None] = ()) -> None:
        self.graph = graph
        self._arguments, self._argument_values = arguments, argument_values
        self._kernels = load_kernels()
        self._known: dict[int, tuple[Dims, ...]] = {}
        self._handles: dict[TensorRef, HandleShape] = {}
        self._values: dict[int, tuple[Value | None, ...]] = {}
        self._static_parts: dict[int, _PartialVector] = {}
        self._refused: dict[int, _Refusal] = {}
        self._instantiated: dict[Hashable, str | None] = {}
        self._alike: dict[tuple[Any, ...], tuple[Dims, ...]] = {}

    def shape(self, tensor: TensorRef) -> Dims:
        """Return the static shape of a tensor; None if its rank is unknown."""
        return self.outputs(tensor.node)[tensor.slot]

    def settle(self, node_id: int, dims: Dims, slot: int = 0) -> None:
        """Set the shape of a node's output, which the graph alone does not determine."""
        found = self.outputs(node_id)
        self._known[node_id] = (*found[:slot], dims, *found[slot + 1 :])

    def forget(self, node_id: int) -> None:
        """Drop the inferred shapes of a node that is removed, or whose inputs change."""
        self._known.pop(node_id, None)
        self._values.pop(node_id, None)
        self._static_parts.pop(node_id, None)
        self._refused.pop(node_id, None)

    def refusal(self, node_id: int) -> GraphBuildError | None:
        """Infer the shapes of a new node; return the error that TensorFlow's Python raises for it, or None."""
        self.outputs(node_id)
        found = self._refused.get(node_id) if self._refused else None
        return None if found is None else self._worded(self.graph.nodes[node_id], found)

    def handle(self, tensor: TensorRef) -> HandleShape | None:
        """Return the type and shape of the value behind a resource handle; None if they are unknown."""
        return self._handles.get(tensor)

    def hold(self, tensor: TensorRef, handle: HandleShape | None) -> None:
        """Set the type and shape of the value behind a resource handle, which the graph alone does not determine."""
        if handle is not None:
            self._handles[tensor] = handle

    def outputs(self, node_id: int) -> tuple[Dims, ...]:
        """Return the static shapes of a node's outputs."""
        found = self._known.get(node_id)
        if found is None:
            self._infer_each((self.graph.nodes[node_id],))
            found = self._known[node_id]
        return found

    def context(self, node: Node) -> ShapeContext:
        """Return what is known of a node's inputs: their shapes, and their values on demand."""
        return _NodeContext(self, node, tuple(map(self.shape, node.inputs)), list(map(self.handle, node.inputs)))

    def refusals(self) -> list[GraphBuildError]:
        """Return the errors that TensorFlow's Python would have raised when it created the nodes, in graph order."""
        self._infer_each(self.graph.nodes)
        return [self._worded(self.graph.nodes[node_id], self._refused[node_id]) for node_id in sorted(self._refused)]

    def _worded(self, node: Node, refusal: _Refusal) -> GraphBuildError:
        error, context = refusal
        # Python gives a node its colocation groups only after its shape function has run
        context.attrs = {name: value for name, value in context.attrs.items() if name != "_class"}
        texts, dtypes = self.graph.input_texts(node), node.signature.input_dtypes
        found = word_refusal(error, self._kernels[node.op], context, node.name, node.op, texts, dtypes)
        kind = _CallError if isinstance(found, _CallError) else GraphBuildError
        return kind(found.message, node=node.name, location=self.graph.location(node))

    def _infer_each(self, nodes: Iterable[Node]) -> None:
        """Infer the shapes of nodes, after those of their ancestors. Most of a million nodes need no call."""
        known, alike, handles = self._known, self._alike, self._handles
        shapes_of = known.__getitem__
        for node in nodes:
            node_id, op = node.id, node.signature.op
            if node_id in known:
                continue
            if op == "Const":
                known[node_id] = (node.attrs["value"].array.shape,)
                continue
            try:
                inputs = tuple(map(shapes_of, node.input_nodes))
            except KeyError:
                self._infer_with_ancestors(node_id)
                continue
            # nodes with equal attrs share one object, which the graph keeps alive, so its id identifies the attrs
            kind = (op, id(node.attrs), node.input_slots, inputs)
            found = None if handles else alike.get(kind)
            known[node_id] = self._infer(node, inputs, kind) if found is None else found

    def _infer_with_ancestors(self, node_id: int) -> None:
        known, nodes = self._known, self.graph.nodes
        waiting = [node_id]
        entered: set[int] = set()
        while waiting:
            node = nodes[waiting[-1]]
            missing = [i for i in node.input_nodes if i not in known]
            if missing and node.id not in known and node.id not in entered:
                entered.add(node.id)
                waiting += [i for i in missing if i not in entered]
                continue
            waiting.pop()
            if missing:  # in a loop, one node is inferred before its input, which needs this node
                known.setdefault(node.id, (None,) * len(node.signature.output_dtypes))
            else:
                self._infer_each((node,))

    def _infer(self, node: Node, inputs: tuple[tuple[Dims, ...], ...], kind: tuple[Any, ...]) -> tuple[Dims, ...]:
        """Return the shapes of a node's outputs; nodes of the same `kind` have the same, except for what they ask for."""
        if node.op in ARGUMENTS and self._arguments:
            return (self._arguments[node.attrs["index"]],)
        if self._handles and any(ref in self._handles for ref in node.inputs):
            handles = list(map(self._handles.get, node.inputs))
            return self._run_shape_function(node, _NodeContext(self, node, _picked(inputs, node), handles))
        found = self._alike.get(kind)
        if found is None:
            context = _NodeContext(self, node, _picked(inputs, node))
            found = self._run_shape_function(node, context)
            if not (context.asked or context.output_handles or node.id in self._refused):
                self._alike[kind] = found
        return found

    def _run_shape_function(self, node: Node, context: _NodeContext) -> tuple[Dims, ...]:
        count = len(node.signature.output_dtypes)
        if node.op not in OP_FAMILIES:
            return (None,) * count
        try:
            self._check_call(node)
            problem = int32_problem(node.op, node.attrs, in_shape_function=True)
            if problem is not None:
                raise ShapeError(problem)
            shapes = infer_shapes(self._kernels[node.op], context)
        except (ShapeError, GraphBuildError) as error:
            self._refused[node.id] = _Refusal(error, context)
            return (None,) * count
        except _DEFECTS:
            return (None,) * count
        self._handles |= {TensorRef(node.id, slot): handle for slot, handle in context.output_handles.items()}
        return shapes + (None,) * (count - len(shapes))

    def _check_call(self, node: Node) -> None:
        """Raise GraphBuildError for a call whose function TensorFlow can't instantiate.

        Argument types are not checked here: shape functions ignore them, and the session reports wrong ones.
        """
        if node.op not in CALLS:
            return
        called: FunctionName = node.attrs["f"]
        function = self.graph.functions.get(called.name)
        if function is None:
            return
        if called.key not in self._instantiated:
            try:
                instantiate(self.graph, function, dict(called.attrs))
                self._instantiated[called.key] = None
            except InvalidArgumentError as error:
                self._instantiated[called.key] = error.message
        problem = self._instantiated[called.key]
        if problem is not None:
            raise GraphBuildError(problem)
        for what, takes, gets in (
            ("input", len(function.inputs), len(node.signature.input_dtypes)),
            ("output", len(function.outputs), len(node.signature.output_dtypes)),
        ):
            if gets < takes:
                raise _CallError(f"Function instantiation included invalid {what} index: {takes - 1} not in [0, {gets}).")

    # --- values

    def value(self, tensor: TensorRef) -> Value | None:
        """Return the value of a tensor whose shape has been inferred; None if it is unknown.

        If only some elements of a shape are known, the value is a `_PartialVector`.
        """
        waiting = [tensor.node]
        entered: set[int] = set()
        while waiting:
            current = waiting[-1]
            if current not in self._values:
                node = self.graph.nodes[current]
                missing = [] if current in entered else self._values_needed(node)
                if missing:
                    entered.add(current)
                    waiting += [i for i in missing if i not in entered]
                    continue
                self._values[current] = self._evaluate(node)
            waiting.pop()
        return self._values[tensor.node][tensor.slot]

    def _is_followed(self, node: Node) -> bool:
        """Whether values are tracked through this node: its op must be stateless, as in TensorFlow's constant folding."""
        has_state = node.signature.definition is None or node.signature.is_stateful
        return not has_state and node.op not in _NEVER_FOLLOWED and node.op in OP_FAMILIES and bool(node.input_nodes)

    def _values_needed(self, node: Node) -> list[int]:
        return [i for i in node.input_nodes if i not in self._values] if self._is_followed(node) else []

    def _evaluate(self, node: Node) -> tuple[Value | None, ...]:
        """Return the values of a node's outputs; None for each that does not follow from the known inputs."""
        nothing = (None,) * len(node.signature.output_dtypes)
        if node.op == "Const":
            array = node.attrs["value"].array
            return (array if array.size <= MAX_VALUE_ELEMENTS else None,)
        if node.op in ARGUMENTS and self._argument_values:
            given = self._argument_values[node.attrs["index"]]
            return (None if isinstance(given, _PartialVector) else given,)
        is_whole = node.op in WHOLE_SHAPE_OPS
        if is_whole or node.op in SHAPE_OPS:
            measured = [_measured(node, self._dims_measured(node, tensor)) for tensor in node.inputs]
            if node.op == "Shape":
                self._note_static_part(node, measured[0], _measured(node, self._inferred(*next(iter(node.inputs)))))
            # folding the measured constants computes the shape itself
            is_folded = all(i in self._values and self._values[i][slot] is not None for i, slot in node.inputs)
            return tuple(
                one.view(_PartialVector) if one is not None and is_whole and not is_folded else one for one in measured
            )
        if not self._is_followed(node) or node.id not in self._known or node.id in self._refused:
            return nothing
        values = [self._values[i][slot] if i in self._values else None for i, slot in node.inputs]
        found = self._computed_from(node, values)
        if node.op in STATIC_PART_OPS and self._static_parts:
            parts = [self._static_parts.get(i, value) for i, value in zip(node.input_nodes, values, strict=True)]
            self._note_static_part(node, found[0], self._computed_from(node, parts)[0])
        return found

    def _computed_from(self, node: Node, values: list[Value | None]) -> tuple[Value | None, ...]:
        """Return the values of a node's outputs, computed from values of its inputs."""
        nothing = (None,) * len(node.signature.output_dtypes)
        if node.op in JOINS:
            values = self._filled_in(node, values)
        is_partial = any(isinstance(value, _PartialVector) for value in values)
        if node.op == "Switch" and not is_partial:
            data, predicate = values
            return nothing if predicate is None else tuple(data if live == bool(predicate) else None for live in (False, True))
        if any(value is None for value in values):
            return nothing
        picks = is_partial and self._picks_dimensions(node)
        if is_partial and not picks and (node.op not in PARTIAL_SHAPE_OPS or _has_partial_bounds(node, values)):
            return nothing
        if any(math.prod(shape or ()) > MAX_VALUE_ELEMENTS for shape in self._known[node.id]):
            return nothing
        computed = _computed(node, self._kernels[node.op], values, self.graph.kernel_attrs(node))
        if computed is None or not is_partial:
            return computed or nothing
        if picks:
            return tuple(None if array < 0 else array for array in computed)
        return tuple(array.view(_PartialVector) if array.ndim else None for array in computed)

    def _dims_measured(self, node: Node, tensor: TensorRef) -> Dims:
        """Return the shape that Shape, Rank, Size or VariableShape reads: of its input, or of the variable behind a handle."""
        if node.op == "ShapeN":
            return self._inferred(*tensor)
        if node.op != "VariableShape":
            return self._dims_of(*tensor)
        held = self.handle(tensor)
        return None if held is None else held.shape

    def _inferred(self, node_id: int, slot: int) -> Dims:
        return self._known[node_id][slot] if node_id in self._known else None

    def _dims_of(self, node_id: int, slot: int) -> Dims:
        """Return the static shape of an output; if it is not fully known, but the value is, return the value's shape."""
        dims = self._inferred(node_id, slot)
        if is_fully_defined(dims) or node_id not in self._values:
            return dims
        value = self._values[node_id][slot]
        return dims if value is None or isinstance(value, _PartialVector) else value.shape

    def _note_static_part(self, node: Node, value: Value | None, part: Value | None) -> None:
        """Keep the part of a shape that follows from static shapes alone, if the value follows only from computed tensors."""
        if value is not None and isinstance(part, _PartialVector) and not isinstance(value, _PartialVector):
            self._static_parts[node.id] = part

    def static_part(self, tensor: TensorRef) -> Dims:
        """Return the static shape, or the part of one, that a tensor of known value holds; None for other tensors."""
        self.value(tensor)
        found = self._static_parts.get(tensor.node)
        return None if found is None else tuple(map(int, found))

    def reversed_shape(self, tensor: TensorRef) -> Dims:
        """Return the shape that TensorFlow reads from a slice of a shape with a negative stride; None for other tensors.

        TensorFlow takes an omitted bound for that of a positive stride. Raises GraphBuildError if the slice then ends after its
        beginning.
        """
        node = self.graph.nodes[tensor.node]
        if node.op in JOINS:
            for part in node.inputs:
                self.reversed_shape(TensorRef(*part))
        # the rank of a slice that changes axes is unknown
        if node.op != "StridedSlice" or any(map(_changes_axes, (node, self.graph.nodes[node.input_nodes[0]]))):
            return None
        attrs = self.graph.kernel_attrs(node)
        source, *bounds = (TensorRef(*given) for given in node.inputs)
        begin, end, stride = (
            None if (found := self.value(bound)) is None or found.size != 1 else int(found[0]) for bound in bounds
        )
        if stride is None or stride >= 0:
            return None
        begin, end = 0 if attrs["begin_mask"] else begin, np.iinfo(np.int64).max if attrs["end_mask"] else end
        dims = self.shape(source)
        if begin is None or end is None or dims is None or not is_fully_defined(dims):
            return None
        (rank,) = dims
        first, last = (min(bound, rank) + (rank if bound < 0 else 0) for bound in (begin, end))
        first -= first == rank
        if first < last:
            raise GraphBuildError(
                f"Subshape must have computed start >= end since stride is negative, but is {first} and {last} (computed from "
                f"start {begin} and end {end} over shape with rank {rank} and stride{stride})"
            )
        return () if attrs["begin_mask"] else None

    def _picks_dimensions(self, node: Node) -> bool:
        """Whether a node selects single dimensions of a shape; known dimensions then count as known values."""
        if self.graph.nodes[node.input_nodes[0]].op != "Shape":
            return False
        if node.op == "Unpack":
            return True
        # TensorFlow reads the beginning of a slice only from a Const, not from a value computed from constants
        begins_at_constant = node.op == "StridedSlice" and self.graph.nodes[node.input_nodes[1]].op == "Const"
        return begins_at_constant and self._known[node.id] == ((),)

    def _filled_in(self, node: Node, values: Sequence[Value | None]) -> list[Value | None]:
        """Replace each unknown part of a concatenated shape by -1 for each of its elements, so that known parts count."""
        found = list(values)
        for i in _joined(node):
            reference = TensorRef(node.input_nodes[i], node.input_slots[i])
            dims = self.shape(reference)
            dtype = self.graph.nodes[reference.node].signature.output_dtypes[reference.slot]
            if found[i] is None and dtype.is_integer and is_fully_defined(dims) and len(dims or ()) <= 1:
                found[i] = np.full(dims or (), -1, dtype.numpy).view(_PartialVector)
        return found


def _picked(inputs: Sequence[tuple[Dims, ...]], node: Node) -> tuple[Dims, ...]:
    """Return the shapes of a node's inputs, from those of all outputs of its input nodes."""
    return tuple([outputs[slot] for outputs, slot in zip(inputs, node.input_slots, strict=True)])


class _NodeContext(ShapeContext):
    """The shapes and values of a node's inputs, as far as they are known; values are computed on demand.

    `asked` is set when the shape function asks for a value: its result then holds for this node alone.
    """

    def __init__(
        self, graph_shapes: GraphShapes, node: Node, shapes: tuple[Dims, ...], handles: Sequence[HandleShape | None] = ()
    ) -> None:
        super().__init__(shapes, graph_shapes.graph.kernel_attrs(node), handles=handles)
        self._graph_shapes = graph_shapes
        self._refs = list(node.inputs)
        self.asked = False

    def known_value(self, index: int) -> Value | None:
        self.asked = True
        found = self._graph_shapes.value(self._refs[index])
        return None if isinstance(found, _PartialVector) else found

    def shape_value(self, index: int) -> Dims:
        self.asked = True
        found = self._graph_shapes.reversed_shape(self._refs[index])
        if found is None:
            found = self._graph_shapes.static_part(self._refs[index])
        if found is None:
            return super().shape_value(index)
        self.used_partial_shapes[index] = found
        return found

    def known_partial_shape(self, index: int) -> Dims:
        self.asked = True
        found = self._graph_shapes.value(self._refs[index])
        return None if found is None or found.ndim != 1 or found.dtype.kind not in "iu" else tuple(map(int, found))


class _PartialVector(np.ndarray[Any, Any]):
    """A vector of dimensions with -1 for each unknown one; only shape functions may use it."""


def _joined(node: Node) -> range:
    """Return the positions of the inputs that a node joins: those of the argument that is a list."""
    assert node.signature.definition is not None
    args = node.signature.definition.inputs
    first = next(index for index, arg in enumerate(args) if arg.number_attr)
    return range(first, len(node.input_nodes) - (len(args) - 1 - first))


def _changes_axes(node: Node) -> bool:
    """Whether a node is a slice that adds or removes axes."""
    return node.op == "StridedSlice" and any(
        node.attrs.get(mask) for mask in ("ellipsis_mask", "new_axis_mask", "shrink_axis_mask")
    )


def _has_partial_bounds(node: Node, values: Sequence[Value | None]) -> bool:
    """Whether a slice begins, ends or steps at an unknown number, which is no -1."""
    return node.op == "StridedSlice" and any(isinstance(value, _PartialVector) for value in values[1:])


def _measured(node: Node, shape: Dims) -> Value | None:
    if shape is None:
        return None
    dtype = node.signature.output_dtypes[0].numpy
    if node.op == "Rank":
        return np.array(len(shape), dtype)
    if node.op == "Size":
        return np.array(math.prod(shape), dtype) if is_fully_defined(shape) else None
    found = np.array(shape, dtype)
    return found if is_fully_defined(shape) else found.view(_PartialVector)


def _computed(node: Node, kernel: Kernel, inputs: Sequence[Value | None], attrs: Attrs) -> tuple[Value, ...] | None:
    # a kernel that takes its context only for names in errors computes the same in any
    context = (KernelContext(node.name, "", ResourceManager()),) if Trait.CONTEXT_NAMES in kernel.traits else ()
    try:
        with np.errstate(all="ignore"):  # the logarithm of 0 is no news while a graph is built
            outputs = kernel.compute(tuple(np.asarray(value) for value in inputs), attrs, *context)
    except (PlacesimError, ArithmeticError, LookupError, TypeError, ValueError, MemoryError, AllocationRefusal):
        return None
    return tuple(np.asarray(output) for output in outputs)
