"""A node of an ONNX graph, as a converter takes it: inputs as tensors, and methods that add ops to the graph."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Protocol

import numpy as np

from placesim.core.dtypes import DTYPES, INT32, INT64, DataType
from placesim.core.errors import GraphBuildError
from placesim.formats.onnx.element_types import BY_ONNX_NUMBER, ONNX_NUMBER
from placesim.formats.onnx.values import Dims, Value, tensor_type
from placesim.graph.builder import ScopedGraphBuilder
from placesim.graph.graph import TensorRef
from placesim.ops.attributes import TensorValue

Tensor = TensorRef
Outputs = TensorRef | Value | None | Sequence[TensorRef | Value | None]
Row = Callable[["OnnxNode"], Outputs]
"""Converter, which adds the ops of a node and returns the node's outputs; None for an output that is not supported."""
Rows = dict[tuple[Any, ...], Row]
"""Converters by op and versions of its definition: `{("Gemm", 7, 9, 11, 13): gemm}`, or `com.x::Op` with another domain."""


def describe_row(row: Row, text: str) -> Row:
    """Attach the manual's description to a generated row."""
    row.__doc__ = text
    return row


class UnsupportedNodeError(GraphBuildError):
    """A feature of a node that its converter does not support, described in a sentence."""


def tensor_of(value: Value) -> TensorRef:
    """Return the tensor of a value. Raises UnsupportedNodeError for a sequence or optional that has none."""
    if value.ref is None:
        raise UnsupportedNodeError("not a tensor: got a nested sequence or optional, expected a tensor")
    return value.ref


def dtype_of(number: int) -> DataType:
    """Return the type with this number in ONNX. Raises UnsupportedNodeError if TensorFlow has none."""
    found: DataType | None = BY_ONNX_NUMBER.get(number)
    if found is None:
        raise UnsupportedNodeError(f"no such element type: got number {number}, expected a TensorFlow type")
    return found


def check_range(content: np.ndarray, dtype: DataType) -> None:
    """Raise UnsupportedNodeError for integers that are too large for another integer type."""
    if not content.size or content.dtype.kind not in "iu" or dtype.numpy.kind not in "iu":
        return
    limits = np.iinfo(dtype.numpy)
    for value in (int(content.min()), int(content.max())):
        if not limits.min <= value <= limits.max:
            raise UnsupportedNodeError(f"number too large: got {value}, expected one of {dtype.size * 8} bits")


class NodeReading(Protocol):
    """Protocol of the reader of a node's graph (`GraphReader`), with the same fields."""

    builder: ScopedGraphBuilder
    by_ref: dict[TensorRef, Value]
    declared: dict[str, Any]
    inferred: dict[str, Any]
    is_definition: bool

    def attribute(self, proto: Any) -> Any:
        """Return an AttributeProto's value in the form that converters take."""

    def know(self, ref: TensorRef, tensor: TensorValue) -> Value:
        """Record the content of a constant."""

    def composition(self, node: OnnxNode) -> Outputs:
        """Return the outputs of a node by ONNX's composition of its op. Raises UnsupportedNodeError if there is none."""

    def apply(self, op: str, inputs: Sequence[Value | None], attrs: Mapping[str, Any], outputs: int) -> Sequence[Value | None]:
        """Add a node of an ONNX op, and return its outputs. Raises UnsupportedNodeError."""

    def has_kernel(self, op: str, attrs: Mapping[str, DataType]) -> bool:
        """Whether an op is defined, and has a kernel on a CPU, for these types."""


class OnnxNode:
    """A node. `since` is the version of its op's definition. `inputs` has None for an omitted input, and for a sequence."""

    __slots__ = ("_attrs", "inputs", "name", "op", "proto", "reading", "since", "values")

    def __init__(
        self, reading: NodeReading, proto: Any, name: str, since: int, values: Sequence[Value | None], attrs: dict[str, Any]
    ) -> None:
        self.reading = reading
        self.proto = proto
        self.op: str = proto.op_type
        self.name = name
        self.since = since
        self.values = tuple(values)
        self.inputs: tuple[TensorRef | None, ...] = tuple(None if value is None else value.ref for value in values)
        self._attrs = attrs

    # --- inputs, attributes, outputs --------------------------------------------------------------------------------

    def __getitem__(self, index: int) -> TensorRef:
        """Return a required input. Raises UnsupportedNodeError if it is missing or not a tensor."""
        found = self.inputs[index] if index < len(self.inputs) else None
        if found is None:
            raise UnsupportedNodeError(f"no input {index}: got {len(self.inputs)} inputs, expected a tensor there")
        return found

    def input(self, index: int) -> TensorRef | None:
        """Return an optional input; None if omitted."""
        return self.inputs[index] if index < len(self.inputs) else None

    def value(self, index: int) -> Value:
        """Return a required input that need not be a tensor. Raises UnsupportedNodeError if it is missing."""
        found = self.values[index] if index < len(self.values) else None
        if found is None:
            raise UnsupportedNodeError(f"no input {index}: expected one")
        return found

    def attr(self, name: str, default: Any = None) -> Any:
        """Return an attribute: an int, float, str (bytes if not UTF-8), tuple of these, TensorValue or GraphProto."""
        found = self._attrs.get(name)
        return default if found is None else self.reading.attribute(found)

    def type_attr(self, name: str, default: DataType) -> DataType:
        """Return the type whose ONNX number an attribute has; 0 or no attribute gives the default.

        Raises UnsupportedNodeError for a type that TensorFlow lacks.
        """
        number = self.attr(name, 0)
        found = BY_ONNX_NUMBER.get(number) if number else default
        if found is None:
            raise UnsupportedNodeError(f"wrong {name}: got {number}, expected the number of a TensorFlow type")
        return found

    def has_output(self, index: int) -> bool:
        """Whether an output is used."""
        return index < len(self.proto.output) and bool(self.proto.output[index])

    @property
    def outputs(self) -> int:
        """Return the number of outputs that the node lists."""
        return len(self.proto.output)

    # --- known facts ------------------------------------------------------------------------------------------------

    def dtype(self, tensor: TensorRef) -> DataType:
        """Return a tensor's element type."""
        found: DataType = self.reading.builder.graph.nodes[tensor.node].signature.output_dtypes[tensor.slot]
        return found

    def shape(self, tensor: TensorRef) -> Dims | None:
        """Return the known shape of a tensor; None for an unknown rank, and for most tensors that a converter adds."""
        value = self.reading.by_ref.get(tensor)
        return None if value is None else value.shape

    def rank(self, tensor: TensorRef) -> int | None:
        """Return the number of dimensions of a tensor; None if it is unknown."""
        shape = self.shape(tensor)
        return None if shape is None else len(shape)

    def known_rank(self, tensor: TensorRef) -> int:
        """Return the rank of a tensor, for converters that need it. Raises UnsupportedNodeError if it is unknown."""
        rank = self.rank(tensor)
        if rank is None:
            raise UnsupportedNodeError("unknown rank: expected an input whose rank can be inferred before the model runs")
        return rank

    def content(self, tensor: TensorRef | None) -> np.ndarray[Any, Any] | None:
        """Return the elements of a tensor if they are known before the graph runs, else None."""
        value = None if tensor is None else self.reading.by_ref.get(tensor)
        return None if value is None else value.content

    def sizes_known(self, vector: TensorRef) -> list[int | None] | None:
        """Return the elements of a vector of sizes, with None for an unknown size; None if even their number is unknown."""
        value = self.reading.by_ref.get(vector)
        if value is None or value.known is None:
            return None
        return [None if size is None else int(size) for size in value.known.reshape(-1).tolist()]

    def output_type(self, index: int = 0) -> Any:
        """Return the inferred TypeProto of an output; None if it is unknown."""
        return self.reading.inferred.get(self.proto.output[index]) if self.has_output(index) else None

    def output_dtype(self, index: int = 0) -> DataType | None:
        """Return the element type of a tensor output; None if it is unknown."""
        found = self.output_type(index)
        return None if found is None else BY_ONNX_NUMBER.get(found.tensor_type.elem_type)

    # --- adding ops -------------------------------------------------------------------------------------------------

    def emit(self, op: str, *inputs: Any, name: str | None = None, **attrs: Any) -> TensorRef:
        """Add an op and return its first output.

        Inputs are tensors, lists of them (for list arguments) and literals. Attrs have the forms of `ops/attributes.py`; types
        and counts that follow from the inputs may be left out. The default name is the op's, in the node's scope.
        """
        return self.emit_all(op, *inputs, name=name, **attrs)[0]

    def emit_all(self, op: str, *inputs: Any, name: str | None = None, **attrs: Any) -> tuple[TensorRef, ...]:
        """Add an op like `emit`, and return all outputs."""
        made = self.reading.builder.add(op, list(_flat(inputs)), name=name, attrs=attrs)
        return tuple(TensorRef(made.id, slot) for slot in range(len(made.signature.output_dtypes)))

    def apply(self, op: str, *inputs: Any, **attrs: Any) -> TensorRef:
        """Add a node of an ONNX op, and return its first output, whose shape is then known as for a node of a model.

        Inputs are tensors, arrays, `int64` numbers and lists of them, and None for an omitted input.
        """
        return self.apply_all(op, 1, *inputs, **attrs)[0]

    def apply_all(self, op: str, outputs: int, *inputs: Any, **attrs: Any) -> list[TensorRef]:
        """Add a node like `apply`, and return this number of outputs."""
        values = [None if given is None else self._operand(given) for given in inputs]
        return [tensor_of(value) for value in self.reading.apply(op, values, attrs, outputs) if value is not None]

    def _operand(self, given: Any) -> Value:
        if not isinstance(given, TensorRef):
            given = self.constant(np.asarray(given, np.int64 if isinstance(given, list) else None))
        known = self.reading.by_ref.get(given)
        if known is not None and known.type is not None:
            return known
        return Value(given, tensor_type(ONNX_NUMBER.get(self.dtype(given), 0), self.shape(given)))

    def constant(self, value: Any, dtype: DataType | None = None, name: str | None = None) -> TensorRef:
        """Add a Const of a literal, an array or a TensorValue, and record its content."""
        made = self.reading.builder.constant(value, dtype, name=name)
        ref = TensorRef(made.id, 0)
        self.reading.know(ref, made.attrs["value"])
        return ref

    def cast(self, tensor: TensorRef, dtype: DataType) -> TensorRef:
        """Return a tensor in a type, by a Cast if needed. Raises UnsupportedNodeError for known integers that are too large."""
        own = self.dtype(tensor)
        if own is dtype:
            return tensor
        content = self.content(tensor)
        if content is not None:
            check_range(content, dtype)
        return self.emit("Cast", tensor, DstT=dtype)

    def narrow(self, tensor: TensorRef, what: str) -> TensorRef:
        """Return an integer scalar or vector as `int32`. A number that is too large is an error, found here or by an Assert.

        `what` names the numbers in the error.
        """
        found = self.cast(tensor, INT32)
        if found == tensor or self.content(tensor) is not None:
            return found
        fits = self.emit("Equal", self.cast(found, self.dtype(tensor)), tensor)
        if self.shape(tensor) != ():
            fits = self.emit("All", fits, self.emit("Range", np.int32(0), self.emit("Rank", fits), np.int32(1)))
        message = np.array(f"{what} out of range: expected numbers of 32 bits, got".encode(), object)
        check = self.reading.builder.add("Assert", [fits, self.constant(message), tensor])
        return TensorRef(self.reading.builder.add("Identity", [found], control_inputs=[check]).id, 0)

    def like(self, value: Any, tensor: TensorRef) -> TensorRef:
        """Add a scalar Const of a tensor's type."""
        dtype = self.dtype(tensor)
        return self.constant(np.asarray(value).astype(dtype.numpy), dtype)

    def vector(self, values: Sequence[int], name: str | None = None) -> TensorRef:
        """Add a Const of `int64` numbers, ONNX's type for shapes and axes."""
        return self.constant(np.asarray(values, np.int64).reshape(-1), INT64, name)

    def sizes(self, tensor: TensorRef) -> TensorRef:
        """Return the shape of a tensor as an `int64` vector: a Const if it is known, else a Shape."""
        shape = self.shape(tensor)
        if shape is not None and None not in shape:
            return self.vector([size for size in shape if size is not None], "shape")
        found = self.emit("Shape", tensor, out_type=INT64)
        return found if shape is None else self.know_shape(found, (len(shape),))

    def size(self, tensor: TensorRef, axis: int) -> int | TensorRef:
        """Return the size of an axis: a number if it is known, else an `int64` scalar tensor."""
        shape = self.shape(tensor)
        known = None if shape is None or not -len(shape) <= axis < len(shape) else shape[axis]
        if known is not None:
            return known
        return self.part(self.emit("Shape", tensor, out_type=INT64), axis)

    def part(self, vector: TensorRef, index: int) -> TensorRef:
        """Return an element of a vector as a scalar."""
        end = self.vector([0 if index == -1 else index + 1])
        mask: dict[str, Any] = {"end_mask": 1} if index == -1 else {}
        return self.emit("StridedSlice", vector, self.vector([index]), end, self.vector([1]), shrink_axis_mask=1, **mask)

    def range_of(self, vector: TensorRef, start: int | None, end: int | None) -> TensorRef:
        """Return `vector[start:end]`."""
        masks: dict[str, Any] = {**({"begin_mask": 1} if start is None else {}), **({"end_mask": 1} if end is None else {})}
        bounds = [self.vector([start or 0]), self.vector([end or 0]), self.vector([1])]
        return self.emit("StridedSlice", vector, *bounds, **masks)

    def scalar(self, size: int | TensorRef) -> TensorRef:
        """Return a size as a scalar tensor of `int64`."""
        return self.constant(size, INT64) if isinstance(size, int) else size

    def pack(self, sizes: Sequence[int | TensorRef]) -> TensorRef:
        """Return a vector of `int64` sizes: a Const if all are numbers, else a Pack."""
        numbers = [size for size in sizes if isinstance(size, int)]
        if len(numbers) == len(sizes):
            return self.vector(numbers, "shape")
        return self.emit("Pack", [self.scalar(size) for size in sizes], axis=0)

    def permuted(self, tensor: TensorRef, order: Sequence[int]) -> TensorRef:
        """Return a transposed tensor; the tensor itself for the identity order."""
        if list(order) == list(range(len(order))):
            return tensor
        made = self.emit("Transpose", tensor, self.constant(np.asarray(order, np.int32), name="perm"))
        shape = self.shape(tensor)
        return made if shape is None else self.know_shape(made, tuple(shape[axis] for axis in order))

    def axis(self, axis: int, tensor: TensorRef) -> int:
        """Return an axis as a number >= 0. Raises UnsupportedNodeError if out of range, or negative for an unknown rank."""
        if axis >= 0 and self.rank(tensor) is None:
            return axis
        rank = self.known_rank(tensor)
        if not -rank <= axis < rank:
            raise UnsupportedNodeError(f"no such axis: got {axis}, expected one of {rank} dimensions")
        return axis % rank

    def aligned(self) -> tuple[TensorRef, TensorRef]:
        """Return both inputs for broadcasting from the last axis, as in opset 7 and later.

        In earlier opsets, the attribute `axis` said which axis of the first input is the first axis of the second.
        """
        a, b = self[0], self[1]
        axis = self.attr("axis")
        if self.since >= 7 or axis is None or not self.attr("broadcast", 0):
            return a, b
        for _ in range(self.known_rank(a) - self.axis(axis, a) - self.known_rank(b)):
            b = self.emit("ExpandDims", b, -1)
        return a, b

    def composition(self) -> Outputs:
        """Add the ops that define this op in ONNX, and return the outputs. Raises UnsupportedNodeError if there are none."""
        return self.reading.composition(self)

    def computes(self, op: str, **attrs: DataType) -> bool:
        """Whether an op has a kernel on a CPU for these types."""
        return self.reading.has_kernel(op, attrs)

    def emit_widened(self, op: str, *inputs: Any, type_attr: str = "T", **attrs: Any) -> TensorRef:
        """Add an op like `emit`. If no CPU kernel has the inputs' type, the op gets a wider type; its result is cast back.

        All tensors among the inputs must have the same type, that of `type_attr`.
        """
        tensors = [item for item in _flat(inputs) if isinstance(item, TensorRef)]
        own = self.dtype(tensors[0])
        wide = self.wider(op, own, type_attr)
        if wide is own:
            return self.emit(op, *inputs, **attrs)
        widened = [self.cast(item, wide) if isinstance(item, TensorRef) else item for item in _flat(inputs)]
        made = self.emit(op, *widened, **attrs)
        return self.cast(made, own) if self.dtype(made) is wide else made

    def wider(self, op: str, dtype: DataType, type_attr: str = "T") -> DataType:
        """Return the first type with a CPU kernel for the op: this type, or a wider one. Raises UnsupportedNodeError."""
        for wide in (dtype, *_WIDER.get(dtype.name, ())):
            if self.computes(op, **{type_attr: wide}):
                return wide
        raise UnsupportedNodeError(f"no kernel of {op} for {dtype.name}: expected a supported type")

    def same_shape(self, tensor: TensorRef, like: TensorRef) -> TensorRef:
        """Return a tensor, after recording that it has the shape of `like`, if this shape is known."""
        value = self.reading.by_ref.get(like)
        if value is not None and value.shape is not None:
            self.know_shape(tensor, value.shape)
        return tensor

    def know_shape(self, tensor: TensorRef, dims: Dims) -> TensorRef:
        """Return a tensor, after recording its shape for other converters."""
        kind = tensor_type(ONNX_NUMBER.get(self.dtype(tensor), 0), dims)
        self.reading.by_ref.setdefault(tensor, Value(tensor, kind))
        return tensor


def _flat(items: Iterable[Any]) -> Iterable[Any]:
    """Yield the items, with lists of tensors flattened."""
    for item in items:
        is_list = isinstance(item, list | tuple) and not isinstance(item, TensorRef)
        if is_list and any(isinstance(part, TensorRef) for part in item):
            yield from _flat(item)
        else:
            yield item


_WIDER = {
    name: tuple(DTYPES[wide] for wide in text.split())
    for name, text in {
        "half": "float double",
        "bfloat16": "float double",
        "float": "double",
        "int8": "int16 int32 int64 float double",
        "int16": "int32 int64 float double",
        "int32": "int64 double",
        "uint8": "int16 int32 int64 float double",
        "uint16": "int32 int64 float double",
        "uint32": "int64 double",
        "uint64": "int64 double",
        "bool": "int32 int64 float",
        "float8_e4m3fn": "half float",
        "float8_e5m2": "half float",
        "float8_e4m3fnuz": "half float",
        "float8_e5m2fnuz": "half float",
        "int4": "int8 int32",
        "uint4": "uint8 int32",
        "int64": "double",
    }.items()
}
"""Wider types for types without a kernel. `double` can't hold the largest `int64` and `uint64`, but has a kernel."""
