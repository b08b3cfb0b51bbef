"""Work of a node's kernel for the cost formulas, from the node's op, attrs and static shapes."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from math import isqrt, prod
from typing import NamedTuple

from placesim.core.dtypes import BFLOAT16, DOUBLE, HALF, QINT8, QUINT8, DataType
from placesim.ops.attributes import Attrs
from placesim.ops.kernels import cost_of
from placesim.ops.kernels.cost_model import DISPATCH, CostKind, CostModel
from placesim.ops.kernels.nn.windows import layout_of
from placesim.prediction.processors import Arithmetic, Processor
from placesim.prediction.work_amounts import (
    Convolution,
    Direction,
    Product,
    RecurrentLayer,
    Rows,
    StreamedBytes,
    Work,
    matrix_product,
)

Dims = tuple[int, ...]
_ARITHMETICS: Mapping[DataType, Arithmetic] = {
    DOUBLE: "float64",
    HALF: "float16",
    BFLOAT16: "bfloat16",
    QINT8: "int8",
    QUINT8: "int8",
}
_CONVOLUTIONS: Mapping[CostKind, Direction] = {
    "convolution": "forward",
    "convolution input gradient": "input gradient",
    "convolution filter gradient": "filter gradient",
}
_IMAGE_AXES = 4
_MOST_AXES = 8
_DENSE_OPERATIONS_PER_BYTE = 8
"""Operations per byte from which an op without a formula counts as compute-bound, like a product."""


class NodeShapes(NamedTuple):
    """A node's op, attrs and static shapes (all known), and the operations and bytes that its kernel's cost model counts.

    `moved_bytes` are the bytes that the kernel reads and writes, `read_bytes` the bytes of its inputs. `updated_bytes` are the
    bytes of variables that it reads and then writes; `moved_bytes` has them twice. `kept_bytes` are the bytes of inputs that
    the step did not make, and `step_bytes` those that a step accesses between two reads of such an input; both are 0 unless a
    measured host needs them.
    """

    op: str
    attrs: Attrs
    inputs: Sequence[Dims]
    outputs: Sequence[Dims]
    dtype: DataType
    operations: int
    moved_bytes: int
    read_bytes: int = 0
    updated_bytes: int = 0
    kept_bytes: int = 0
    step_bytes: int = 0

    @property
    def accessed_bytes(self) -> int:
        """The bytes of the tensors that the kernel moves, each counted once."""
        return self.moved_bytes - self.updated_bytes

    @property
    def cost(self) -> CostModel:
        return cost_of(self.op)

    @property
    def touched_elements(self) -> int:
        """The elements of the first input that the kernel reads or updates."""
        access = self.cost.access
        return prod(self.inputs[0]) if access is None else access.elements(self.inputs, self.outputs, self.attrs)

    @property
    def placed_elements(self) -> int:
        """The elements of the results, if an operand has other dimensions, so that the kernel computes places in it; else 0.

        An operand of few elements counts as a number, an axis or a shape.
        """
        is_placed = any(dims not in self.outputs and prod(dims) > _MOST_AXES for dims in self.inputs)
        return sum(map(prod, self.outputs)) if is_placed else 0

    def convolution(self, direction: Direction) -> tuple[Dims, Dims, Dims]:
        """Return the shapes of a convolution's images, filters and results, from the convolution or one of its gradients."""
        if direction == "input gradient":
            return self.outputs[0], self.inputs[1], self.inputs[2]
        if direction == "filter gradient":
            return self.inputs[0], self.outputs[0], self.inputs[2]
        return self.inputs[0], self.inputs[1], self.outputs[0]


def node_work(node: NodeShapes, processor: Processor) -> Work | None:
    """Return the work of the node's kernel; None if it does nothing."""
    kind = node.cost.kind
    if kind == DISPATCH.kind or not node.moved_bytes:
        return None
    found = _RULES.get(kind, _stream)
    # a batch normalization that computes its statistics has empty ones as inputs
    if found is not _stream and prod(node.inputs[0]) * prod(node.outputs[0]) == 0:
        return _stream(node, processor)
    return found(node, processor)


def arithmetic_of(dtype: DataType, processor: Processor) -> Arithmetic:
    """Return the arithmetic of an op with this element type.

    As in TensorFlow, float32 is computed as tf32 if tensor cores support it.
    """
    found = _ARITHMETICS.get(dtype, "float32")
    return "tf32" if found == "float32" and "tf32" in processor.tensor else found


def _stream(node: NodeShapes, processor: Processor) -> Work:
    """Return the work of streaming the bytes; with many operations per byte, the work of a matrix product instead."""
    if node.operations <= _DENSE_OPERATIONS_PER_BYTE * node.moved_bytes:
        placed = float(node.placed_elements)
        return StreamedBytes("indexed" if placed else "elementwise", float(node.moved_bytes), placed)
    results = max(1, sum(map(prod, node.outputs)))
    side = max(1, isqrt(results))
    depth = max(1, node.operations // (2 * side * side))
    arithmetic, size = arithmetic_of(node.dtype, processor), node.dtype.size
    return Product("product", 1, side, side, depth, arithmetic, size, float(node.moved_bytes))


def _product(first: str, second: str, node: NodeShapes, processor: Processor) -> Work:
    """Return the work of matrix products; the first arguments name the op's transposition attrs."""
    left, right = node.inputs[0], node.inputs[1]
    depth, rows = (left[-2], left[-1]) if node.attrs.get(first) else (left[-1], left[-2])
    columns = right[-2] if node.attrs.get(second) else right[-1]
    batch = prod(node.outputs[0][:-2])
    contiguous = left[-1], right[-1], columns
    product = matrix_product(batch, rows, columns, depth, arithmetic_of(node.dtype, processor), node.dtype.size, contiguous)
    return product._replace(crosswise=bool(node.attrs.get(first)) + (not node.attrs.get(second)))


def _convolution(direction: Direction, node: NodeShapes, processor: Processor) -> Work:
    """Return the work of a convolution or one of its gradients.

    A three-dimensional convolution is counted as a two-dimensional one whose heights include the depth; it has no tiles that
    could be transformed.
    """
    arithmetic = arithmetic_of(node.dtype, processor)
    found = _convolution_sizes(node, direction)
    work = found.work(direction, arithmetic, node.dtype.size, has_channels_apart=_has_channels_apart(node))
    return work if len(node.convolution(direction)[1]) == _IMAGE_AXES else work._replace(fourier=None)


def _has_channels_apart(node: NodeShapes) -> bool:
    """Return whether each channel of the images is a plane of its own in memory."""
    return str(node.attrs.get("data_format", "NHWC")).startswith("NC")


def _convolution_sizes(node: NodeShapes, direction: Direction, *, is_depthwise: bool = False) -> Convolution:
    images, filters, results = node.convolution(direction)
    layout = layout_of(node.attrs["data_format"], len(filters) - 2)
    *depth, height, width = zip(
        layout.pick(images), filters[:-2], layout.pick(node.attrs["strides"]), layout.pick(results), strict=True
    )
    extent, taps, stride, outputs = (prod(sizes) for sizes in zip(*depth, height, strict=True))
    channels = images[layout.channel]
    groups = channels if is_depthwise else max(1, channels // filters[-2])
    made = filters[-1] * channels if is_depthwise else filters[-1]
    sizes = (extent, width[0], made, taps, width[1], stride, width[2], outputs, width[3], groups)
    return Convolution(images[0], channels, *sizes)


def convolution_of(node: NodeShapes) -> Convolution | None:
    """Return the sizes of a convolution, from a convolution node or one of its gradients; None for other nodes."""
    direction = _CONVOLUTIONS.get(node.cost.kind)
    if direction is None or min((prod(dims) for dims in (*node.inputs, *node.outputs)), default=0) == 0:
        return None
    return _convolution_sizes(node, direction)


def _reduction(node: NodeShapes, processor: Processor) -> Work:
    """Return the work of a reduction. A reduction along the last axes has a row for each result."""
    images, results = tuple(node.inputs[0]), tuple(node.outputs[0])
    while results[-1:] == (1,):
        results = results[:-1]
    if results and images[: len(results)] == results:
        rows = prod(results)
        return Rows("reduction of rows", rows, prod(images) // rows, node.dtype.size)
    return StreamedBytes("reduction", float(node.moved_bytes))


def _transposition(node: NodeShapes, processor: Processor) -> Work:
    """Return the work of a transposition, which finds the place of each element even if the dimensions are equal."""
    return StreamedBytes("indexed", float(node.moved_bytes), float(prod(node.outputs[0])))


def _normalization(suffix: str, node: NodeShapes, processor: Processor) -> Work:
    """Return the work of a batch normalization; in inference, the kernel only scales each element.

    If the channels are planes, a thread block computes each channel.
    """
    if not (suffix or node.attrs.get("is_training", True)):
        return StreamedBytes("elementwise", float(node.moved_bytes))
    family = f"batch normalization{suffix}"
    if not _has_channels_apart(node):
        return StreamedBytes(family, float(node.moved_bytes))
    channels = node.inputs[0][1]
    return Rows(f"{family} of planes", channels, prod(node.inputs[0]) // channels, node.dtype.size)


def _depthwise(direction: Direction, node: NodeShapes, processor: Processor) -> Work:
    """Return the work of a depthwise convolution or one of its gradients, which have no tiles."""
    found = _convolution_sizes(node, direction, is_depthwise=True)
    return found.depthwise_work(direction, node.dtype.size, has_channels_apart=_has_channels_apart(node))


def _streamed(family: str) -> Callable[[NodeShapes, Processor], Work]:
    return lambda node, processor: StreamedBytes(family, float(node.moved_bytes))


def _rows(family: str, node: NodeShapes, processor: Processor) -> Work:
    """Return the work of a kernel that processes the rows along the last axis one by one."""
    *others, columns = node.inputs[0]
    return Rows(family, prod(others), columns, node.dtype.size)


def _sequence(direction: Direction, node: NodeShapes, processor: Processor) -> Work:
    """Return the work of an LSTM over time: x is `[time, batch, inputs]`, h_prev is `[batch, hidden]`."""
    steps, batch, _ = node.inputs[1]
    hidden = node.inputs[3][-1]
    arithmetic = arithmetic_of(node.dtype, processor)
    return RecurrentLayer(f"recurrent {direction}", 4, hidden, batch, steps, arithmetic, node.dtype.size)


_RULES: Mapping[CostKind, Callable[[NodeShapes, Processor], Work]] = {
    "matmul": partial(_product, "transpose_a", "transpose_b"),
    "batch matmul": partial(_product, "adj_x", "adj_y"),
    **{kind: partial(_convolution, direction) for kind, direction in _CONVOLUTIONS.items()},
    "depthwise": partial(_depthwise, "forward"),
    "depthwise input gradient": partial(_depthwise, "input gradient"),
    "depthwise filter gradient": partial(_depthwise, "filter gradient"),
    "batch normalization": partial(_normalization, ""),
    "batch normalization gradient": partial(_normalization, " gradient"),
    "pooling": _streamed("pooling"),
    "max pooling gradient": _streamed("pooling gradient"),
    "average pooling gradient": _streamed("pooling gradient"),
    "reduction": _reduction,
    "bias gradient": _streamed("reduction"),
    "softmax": partial(_rows, "softmax"),
    "transpose": _transposition,
    "recurrent": partial(_sequence, "forward"),
    "recurrent gradient": partial(_sequence, "input gradient"),
}
"""Rules by kind of cost; all other ops stream their bytes."""
