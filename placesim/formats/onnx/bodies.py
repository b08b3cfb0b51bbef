"""Bodies of ONNX conditionals and loops as TensorFlow functions.

The makers of a graph file's `cond` and `while` create the functions (`formats/graph_file/entries/node_makers.py`). This module
adds the nodes of their bodies, and captures values of the graph around a body.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, cast

import numpy as np

from placesim.core.dtypes import BOOL, INT64, VARIANT, DataType
from placesim.formats.graph_file.entries.node_makers import FunctionMaker, Writer, make_functions
from placesim.formats.onnx.element_types import BY_ONNX_NUMBER, ONNX_NUMBER
from placesim.formats.onnx.graph_reading import REFUSED, GraphReader
from placesim.formats.onnx.lists import (
    as_tensor,
    common_type,
    empty_list,
    open_sizes,
    optional_type,
    pushed,
    sequence_type,
    stacked,
    tensor_value,
    type_of,
)
from placesim.formats.onnx.onnx_node import OnnxNode, UnsupportedNodeError, tensor_of
from placesim.formats.onnx.values import Dims, Value, dims_of, tensor_type
from placesim.graph.builder import ScopedGraphBuilder
from placesim.graph.graph import TensorRef
from placesim.ops.attributes import UNKNOWN_RANK, Shape, TensorValue

_MOST_COPIED_BYTES = 256
"""Constants up to this size are copied into a body, where their content is known; larger ones become arguments."""
_MOST_TRIALS = 4
"""Maximum number of times that a loop's body is read to find constant sizes; after that, all sizes count as unknown."""
_MOST_NESTED_TRIALS = 3
"""Maximum depth of nested loops whose sizes are found, since each level reads its content again."""
_TRUE = TensorValue(BOOL, np.array(True))
_ZERO = TensorValue(INT64, np.array(0, np.int64))


class BodyReader(GraphReader):
    """A reader of the nodes of a body. Values of enclosing graphs become arguments of the function."""

    def __init__(self, outer: GraphReader, functions: FunctionMaker) -> None:
        super().__init__(outer.model, functions.builder, outer, outer.opsets, outer.given_attrs, outer.depth + 1)
        self.maker = functions
        self.left_out = outer.left_out

    def captured(self, name: str) -> Value | None:
        """Return a value of an enclosing graph, captured in this one."""
        assert self.outer is not None
        found = self.outer.lookup(name)
        self.names[name] = found if found is None else self.brought_in(found)
        return self.names[name]

    def brought_in(self, value: Value) -> Value:
        """Return a value of the directly enclosing graph, captured in this one."""
        if value.items is not None:
            return Value(None, value.type, None, tuple(map(self.brought_in, value.items)))
        content, dtype = value.content, self._dtype_outside(tensor_of(value))
        if content is not None and content.nbytes <= _MOST_COPIED_BYTES and dtype.name != "string":
            ref = TensorRef(self.builder.constant(content.astype(dtype.numpy), dtype).id, 0)
        else:
            ref = self.argument(value)
        found = self.by_ref[ref] = Value(ref, value.type, value.known)
        return found

    def argument(self, value: Value) -> TensorRef:
        """Return the argument of the body that passes in a tensor of the enclosing graph."""
        assert self.outer is not None
        assert self.maker is not None
        return TensorRef(self.maker.capture(maker_of(self.outer), tensor_of(value), self.builder.prefix), 0)

    def _dtype_outside(self, ref: TensorRef) -> DataType:
        assert self.outer is not None
        found: DataType = self.outer.builder.graph.nodes[ref.node].signature.output_dtypes[ref.slot]
        return found


class TrialReader(BodyReader):
    """A reader of a body into a temporary graph, to find its result types."""

    def __init__(self, outer: GraphReader) -> None:
        builder = ScopedGraphBuilder(outer.builder.registry)
        GraphReader.__init__(self, outer.model, builder, outer, outer.opsets, outer.given_attrs, outer.depth + 1)
        self.left_out = outer.left_out
        self.trials += 1

    def argument(self, value: Value) -> TensorRef:
        """Return a Placeholder that replaces a tensor of the enclosing graph."""
        assert self.outer is not None
        return tensor_of(self.given(value, type_of(emitter_of(self.outer), value)))

    def given(self, value: Value, kind: Any) -> Value:
        """Return a Placeholder with a given type; nothing else is known about it."""
        dims = _handle_dims(kind)
        dtype = BY_ONNX_NUMBER[kind.tensor_type.elem_type] if kind.WhichOneof("value") == "tensor_type" else VARIANT
        shape = UNKNOWN_RANK if dims is None else Shape(open_sizes(dims))
        ref = TensorRef(self.builder.add("Placeholder", attrs={"dtype": dtype, "shape": shape}).id, 0)
        found = self.by_ref[ref] = Value(ref, kind)
        return found


def emitter_of(reading: GraphReader) -> OnnxNode:
    """Return an object that adds ops to the graph of a reader."""
    from onnx import NodeProto

    return OnnxNode(reading, NodeProto(), "", 0, (), {})


def brought_in(body: OnnxNode, value: Value) -> Value:
    """Return a value of the graph around a node's body, captured in the body."""
    assert isinstance(body.reading, BodyReader)
    return body.reading.brought_in(value)


def reader_of(node: OnnxNode) -> GraphReader:
    """Return the reader of a node's graph."""
    assert isinstance(node.reading, GraphReader)
    return node.reading


def maker_of(reading: GraphReader) -> FunctionMaker:
    """Return the maker of conditionals and loops in the graph of a reader."""
    if reading.maker is None:
        reading.maker = make_functions(reading.builder)
    return cast("FunctionMaker", reading.maker)


def read_body(reading: GraphReader, graph: Any, arguments: Sequence[Value] = ()) -> list[Value]:
    """Read a GraphProto into the graph of `reading`, and return its results. Raises UnsupportedNodeError."""
    if len(graph.input) > len(arguments):
        raise UnsupportedNodeError(f"body '{graph.name}' of {len(graph.input)} inputs: expected {len(arguments)}")
    for given, value in zip(graph.input, arguments, strict=False):
        reading.names[given.name] = value
    for tensor in graph.initializer:
        reading.add_initializer(tensor.name, *reading.model.tensors.read_weights(tensor))
    reading.read_nodes(graph.node)
    found = [reading.lookup(wanted.name) for wanted in graph.output]
    if None in found:
        raise REFUSED
    return cast("list[Value]", found)


def inline_body(node: OnnxNode, graph: Any, arguments: Sequence[Value] = ()) -> list[Value]:
    """Add a body's nodes to the graph of its node, and return the results."""
    outer = reader_of(node)
    inner = GraphReader(outer.model, outer.builder, outer, outer.opsets, outer.given_attrs, outer.depth + 1)
    inner.left_out, inner.maker = outer.left_out, outer.maker
    return read_body(inner, graph, arguments)


def conditional(node: OnnxNode, pred: TensorRef, then: Any, otherwise: Any) -> list[Value]:
    """Add a `tf.cond` of two GraphProtos, and return its results; sequences and optionals are single tensors."""
    given: list[list[Value]] = []

    def writer(graph: Any) -> Any:
        def write(functions: FunctionMaker, arguments: Sequence[int]) -> list[TensorRef]:
            reading = BodyReader(reader_of(node), functions)
            given.append([as_tensor(emitter_of(reading), value) for value in read_body(reading, graph)])
            if len(given[0]) != len(given[-1]):
                got = f"{len(given[0])} and {len(given[-1])}"
                raise UnsupportedNodeError(f"branches differ in results: got {got}, expected equal numbers")
            return list(map(tensor_of, given[-1]))

        return write

    made = maker_of(reader_of(node)).cond(pred, writer(then), writer(otherwise), None, 0)
    return [Value(ref, common_type(one.type, other.type)) for ref, one, other in zip(made, *given, strict=True)]


# --- loops ----------------------------------------------------------------------------------------------------------


class IterationResult(NamedTuple):
    """The result of an iteration. `goes_on` says whether another iteration follows; None if there is always another.

    `carried` are the values for the next iteration, and `gathered` the values that the loop collects.
    """

    goes_on: Value | None
    carried: list[Value]
    gathered: list[Value]


Turn = Callable[[OnnxNode, Value, Value, list[Value]], IterationResult]
"""Function that adds the ops of an iteration.

Its arguments are the node, the iteration's number (an int64 scalar), the loop condition, and the carried values.
"""


class Loop(NamedTuple):
    """The result of a loop: the carried values after it, and the collected values, stacked along a new first axis."""

    carried: list[Value]
    gathered: list[Value]


def repeat(node: OnnxNode, count: TensorRef | None, goes_on: TensorRef | None, first: Sequence[Value], turn: Turn) -> Loop:
    """Add a `tf.while_loop` of at most `count` iterations (an int64 scalar), as long as `goes_on` is true.

    `goes_on` is a bool scalar that iterations may change. `first` are the carried values of the first iteration.
    """
    outer = reader_of(node)
    types, trial = _learned(node, first, turn, goes_on is None or _holds(node.reading.by_ref.get(goes_on) or Value(goes_on)))
    flags = []
    if not trial.is_counted:
        flags = [node.emit("Const", dtype=BOOL, value=_TRUE, name="goes_on") if goes_on is None else goes_on]
    number = node.emit(
        "Const", dtype=INT64, value=_ZERO, name="number"
    )  # not `constant`: its content is not known, as iterations change it
    starts = [as_tensor(node, value).ref for value in first]
    lists = [empty_list(node, dtype) for dtype in trial.gathered]
    begin = 1 + len(flags)
    end = begin + len(first)
    gathered: list[Dims | None] = []

    def write(functions: FunctionMaker, arguments: Sequence[int]) -> list[TensorRef]:
        reading = BodyReader(outer, functions)
        emitter = emitter_of(reading)
        refs = [TensorRef(argument, 0) for argument in arguments]
        values = [Value(ref, kind) for ref, kind in zip(refs[begin:end], types, strict=True)]
        reading.by_ref |= {tensor_of(value): value for value in values}
        flag = tensor_value(emitter, refs[1], ()) if flags else _always(emitter)
        found = turn(emitter, _counter(emitter, refs[0]), flag, values)
        gathered[:] = [value.shape for value in found.gathered]
        following = emitter.emit("AddV2", refs[0], emitter.constant(np.int64(1)))
        flagged = [scalar(emitter, found.goes_on or flag)] if flags else []
        grown = [pushed(emitter, *pair) for pair in zip(refs[end:], map(tensor_of, found.gathered), strict=True)]
        return [following, *flagged, *[tensor_of(as_tensor(emitter, value)) for value in found.carried], *grown]

    variables = [number, *flags, *starts, *lists]
    shapes = {begin + i: None if dims is None else open_sizes(dims) for i, dims in enumerate(map(_handle_dims, types))}
    check = _condition(outer, count, bool(flags))
    made = maker_of(outer).while_loop(check, write, variables, shapes, {}, None, 0)
    length = _known_length(node, count) if not flags else None
    members = zip(made[end:], trial.gathered, gathered, strict=True)
    return Loop(
        [Value(ref, kind) for ref, kind in zip(made[begin:end], types, strict=True)],
        [stacked(node, handle, dtype, dims, length) for handle, dtype, dims in members],
    )


def _condition(outer: GraphReader, count: TensorRef | None, has_flag: bool) -> Writer:
    """Return a function that adds the condition of a loop: its flag, and a number of iterations below `count`."""

    def check(functions: FunctionMaker, arguments: Sequence[int]) -> list[TensorRef]:
        reading = BodyReader(outer, functions)
        emitter = emitter_of(reading)
        checks = [TensorRef(arguments[1], 0)] if has_flag else []
        if count is not None:
            limit = reading.brought_in(outer.by_ref.get(count) or Value(count))
            checks.append(emitter.emit("Less", TensorRef(arguments[0], 0), limit.ref))
        if not checks:
            return [emitter.constant(np.bool_(True))]
        return [checks[0] if len(checks) == 1 else emitter.emit("LogicalAnd", *checks)]

    return check


def _always(node: OnnxNode) -> Value:
    """Return a condition that is known to be true."""
    return node.reading.by_ref[node.constant(np.bool_(True))]


def _known_length(node: OnnxNode, count: TensorRef | None) -> int | None:
    content = node.content(count)
    return None if content is None else max(int(content.reshape(())), 0)


def _counter(node: OnnxNode, ref: TensorRef) -> Value:
    found = node.reading.by_ref[ref] = tensor_value(node, ref, ())
    return found


def _handle_dims(kind: Any) -> Dims | None:
    """Return the shape of a tensor of this type; a list or an optional is a scalar tensor."""
    return dims_of(kind) if kind.WhichOneof("value") == "tensor_type" else ()


def scalar(node: OnnxNode, value: Value) -> TensorRef:
    """Return a tensor of one element as a scalar; some exporters write a scalar as a vector of one element."""
    return tensor_of(value) if value.shape == () else node.emit("Reshape", tensor_of(value), np.zeros(0, np.int32))


class _Trial(NamedTuple):
    """Known facts about the iterations of a loop.

    With `is_counted`, only the maximum number of iterations ends the loop. `gathered` has the element types of collected
    values.
    """

    is_counted: bool
    gathered: list[DataType]


def _learned(node: OnnxNode, first: Sequence[Value], turn: Turn, is_counted: bool) -> tuple[list[Any], _Trial]:
    """Return, for each carried value of a loop, a type that holds in every iteration, and known facts about the iterations.

    The body is read into temporary graphs until the types do not change. `is_counted` says that the condition is known to be
    true before the first iteration.
    """
    kinds = [type_of(node, value) for value in first]
    is_deep = reader_of(node).trials >= _MOST_NESTED_TRIALS
    types = [_without_shape(kind) for kind in kinds] if is_deep else kinds
    for trial in range(_MOST_TRIALS):
        reading = TrialReader(reader_of(node))
        emitter = emitter_of(reading)
        number = TensorRef(reading.builder.add("Placeholder", attrs={"dtype": INT64, "shape": Shape(())}).id, 0)
        arguments = [
            reading.brought_in(value) if trial == 0 and value.items is not None else reading.given(value, kind)
            for value, kind in zip(first, types, strict=True)
        ]
        flag = _always(emitter) if is_counted else reading.given(Value(None), tensor_type(ONNX_NUMBER[BOOL], ()))
        found = turn(emitter, _counter(emitter, number), flag, arguments)
        if len(found.carried) != len(first):
            got = f"{len(found.carried)} from an iteration"
            raise UnsupportedNodeError(f"wrong number of carried values: got {got}, expected {len(first)}")
        given = [type_of(emitter, value) for value in found.carried]
        wider = [
            new if trial == 0 and value.items == () else common_type(kind, new)
            for value, kind, new in zip(first, types, given, strict=True)
        ]
        gathered = [emitter.dtype(tensor_of(value)) for value in found.gathered]
        ends = found.goes_on is not None and not _holds(found.goes_on)
        if wider == types and not (is_counted and ends):
            break
        is_counted = is_counted and not ends
        types = wider if trial + 2 < _MOST_TRIALS else [_without_shape(kind) for kind in kinds]
    return types, _Trial(is_counted, gathered)


def ends_by_count(node: OnnxNode, first: Sequence[Value], turn: Turn) -> bool:
    """Whether the condition of a loop is true after each iteration, so that only their number ends it."""
    return _learned(node, first, turn, True)[1].is_counted


def _holds(value: Value) -> bool:
    """Whether a condition is known to be true."""
    return value.content is not None and bool(value.content.all())


def _without_shape(kind: Any) -> Any:
    """Return the type of tensors of any shape, or of sequences of them."""
    if kind.WhichOneof("value") == "tensor_type":
        return tensor_type(kind.tensor_type.elem_type, None)
    if kind.WhichOneof("value") == "sequence_type":
        return sequence_type(_without_shape(kind.sequence_type.elem_type))
    return optional_type(_without_shape(kind.optional_type.elem_type))
