"""Elementwise arithmetic, functions and activations, and cumulative sums."""

from __future__ import annotations

from functools import reduce
from typing import Any

import numpy as np

from placesim.core.dtypes import BOOL, DOUBLE, HALF, INT32, INT64
from placesim.formats.onnx.onnx_node import OnnxNode, Outputs, Row, Rows, Tensor, describe_row


def same_op(op: str) -> Row:
    """Return the row of a TensorFlow op of all inputs, which have one type and are broadcast."""

    def row(node: OnnxNode) -> Tensor:
        return node.emit_widened(op, *(node[i] for i in range(len(node.inputs))))

    return describe_row(row, f"{op}.")


def _folded(op: str) -> Row:
    """Return the row of a TensorFlow op of two inputs, applied to the first two inputs, then to the result and the third."""

    def row(node: OnnxNode) -> Tensor:
        tensors = [node[i] for i in range(len(node.inputs))]
        return reduce(lambda so_far, tensor: node.emit_widened(op, so_far, tensor), tensors)

    return describe_row(row, f"{op} of the first two inputs, then of the result and the third, and so on.")


def broadcast_op(op: str) -> Row:
    """Return the row of a TensorFlow op of two inputs that are broadcast."""

    def row(node: OnnxNode) -> Tensor:
        return node.emit_widened(op, *node.aligned())

    return describe_row(row, f"{op}.")


def divide(node: OnnxNode) -> Tensor:
    """RealDiv; TruncateDiv for integers."""
    return node.emit_widened("TruncateDiv" if node.dtype(node[0]).is_integer else "RealDiv", *node.aligned())


def modulo(node: OnnxNode) -> Tensor:
    """FloorMod, with the sign of the divisor; with `fmod`, TruncateMod, with the sign of the dividend."""
    return node.emit_widened("TruncateMod" if node.attr("fmod", 0) else "FloorMod", node[0], node[1])


def power(node: OnnxNode) -> Tensor:
    """Pow in the type of the base; in `double` for integers."""
    base, exponent = node.aligned()
    dtype = node.dtype(base)
    if dtype.is_integer:
        wide = [node.cast(base, DOUBLE), node.cast(exponent, DOUBLE)]
        return node.cast(node.emit("Pow", *wide), dtype)
    return node.emit_widened("Pow", base, node.cast(exponent, dtype))


def mean(node: OnnxNode) -> Tensor:
    """AddV2 of all inputs, and RealDiv by their number."""
    total = _folded("AddV2")(node)
    assert isinstance(total, tuple)
    return node.emit_widened("RealDiv", total, node.like(len(node.inputs), node[0]))


def clip(node: OnnxNode) -> Tensor:
    """Maximum with the lower bound, and Minimum with the upper bound, if given."""
    found = node[0]
    low, high = node.input(1), node.input(2)
    if node.since < 11:
        bounds = np.finfo(np.float32)
        low = node.like(node.attr("min", float(bounds.min)), found)
        high = node.like(node.attr("max", float(bounds.max)), found)
    if low is not None:
        found = node.emit_widened("Maximum", found, low)
    if high is not None:
        found = node.emit_widened("Minimum", found, high)
    return node.emit("Identity", found) if found == node[0] else found


def prelu(node: OnnxNode) -> Tensor:
    """SelectV2 of `x` if it is not negative, else of `slope * x`."""
    x, slope = node[0], node[1]
    if node.since < 7 and node.rank(slope) == 1 and node.known_rank(x) > 2:  # a slope for each channel, the second axis
        slope = node.emit("Reshape", slope, node.vector([-1] + [1] * (node.known_rank(x) - 2)))
    negative = node.emit_widened("Less", x, node.like(0, x))
    return node.emit("SelectV2", negative, node.emit_widened("Mul", slope, x), x)


def leaky_relu(node: OnnxNode) -> Tensor:
    """LeakyRelu."""
    return node.emit_widened("LeakyRelu", node[0], alpha=node.attr("alpha", 0.01))


def elu(node: OnnxNode) -> Outputs:
    """Elu if `alpha` is 1, as in TensorFlow; else ONNX's composition."""
    return node.emit_widened("Elu", node[0]) if node.attr("alpha", 1.0) == 1 else node.composition()


def selu(node: OnnxNode) -> Outputs:
    """Selu if `alpha` and `gamma` are the defaults, as in TensorFlow; else ONNX's composition."""
    figures = (node.attr("alpha", _ALPHA), node.attr("gamma", _GAMMA))
    return node.emit_widened("Selu", node[0]) if np.allclose(figures, (_ALPHA, _GAMMA), 1e-6) else node.composition()


_ALPHA, _GAMMA = 1.67326319217681884765625, 1.05070102214813232421875
"""Defaults of `alpha` and `gamma` in ONNX's Selu."""


def _of_last_axis(op: str) -> Row:
    """Return the row of Softmax or LogSoftmax."""

    def row(node: OnnxNode) -> Tensor | Outputs:
        x = node[0]
        if node.since < 13:
            return _of_flattened(node, op)
        if node.reading.is_definition and node.dtype(x) is HALF:
            return node.composition()  # of Attention, whose tests round each step
        axis = node.attr("axis", -1)
        if axis == -1 or axis == (node.rank(x) or 0) - 1:
            return node.emit_widened(op, x)
        rank = node.known_rank(x)
        order = list(range(rank))
        order[axis], order[-1] = order[-1], order[axis]
        return node.permuted(node.emit_widened(op, node.permuted(x, order)), order)

    return describe_row(row, f"{op}, between Transposes for another axis than the last; before version 13, of a matrix.")


def _matrix(node: OnnxNode, x: Tensor, axis: int) -> tuple[Tensor, Tensor]:
    """Return a tensor as a matrix whose columns are all axes from `axis` on, and the sizes of the tensor."""
    sizes = node.sizes(x)
    before = node.emit("Prod", node.range_of(sizes, 0, axis), node.vector([0]), keep_dims=True)
    return node.emit("Reshape", x, node.emit("ConcatV2", [before, node.vector([-1])], 0)), sizes


def _of_flattened(node: OnnxNode, op: str) -> Tensor:
    """Add an op of the last axis of a matrix, as before version 13."""
    x = node[0]
    axis = node.attr("axis", 1)
    if node.rank(x) is not None:
        axis = node.axis(axis, x) if node.known_rank(x) else 0
        if axis == node.known_rank(x) - 1:
            return node.emit_widened(op, x)
    flat, sizes = _matrix(node, x, axis)
    return node.emit("Reshape", node.emit_widened(op, flat), sizes)


def hardmax(node: OnnxNode) -> Tensor:
    """OneHot of ArgMax; before version 13, of a matrix whose columns are all axes from `axis` on."""
    x = node[0]
    axis = node.attr("axis", 1 if node.since < 13 else -1)
    rank = node.known_rank(x)
    if node.since < 13 and node.axis(axis, x) < rank - 1:
        flat, sizes = _matrix(node, x, node.axis(axis, x))
        return node.emit("Reshape", _one_hot(node, flat, -1), sizes)
    return _one_hot(node, x, -1 if node.axis(axis, x) == rank - 1 else node.axis(axis, x))


def _one_hot(node: OnnxNode, x: Tensor, axis: int) -> Tensor:
    wide = node.wider("ArgMax", node.dtype(x))
    found = node.emit("ArgMax", node.cast(x, wide), node.constant(axis, INT32), output_type=INT64)
    depth = node.cast(node.scalar(node.size(x, axis)), INT32)
    return node.emit("OneHot", found, depth, node.like(1, x), node.like(0, x), axis=axis)


def _running(op: str) -> Row:
    """Return the row of Cumsum or Cumprod."""

    def row(node: OnnxNode) -> Tensor:
        x, axis = node[0], node[1]
        if node.rank(axis) != 0:
            axis = node.emit("Reshape", axis, node.constant(np.zeros(0, np.int32)))
        flags: dict[str, Any] = {"exclusive": bool(node.attr("exclusive", 0)), "reverse": bool(node.attr("reverse", 0))}
        wide = node.wider(op, node.dtype(x))
        return node.cast(node.emit(op, node.cast(x, wide), axis, **flags), node.dtype(x))

    return describe_row(row, f"{op}.")


def dropout(node: OnnxNode) -> Outputs:
    """Identity, and a mask of true; in training mode, GreaterEqual of RandomUniform selects the elements to keep."""
    x = node[0]
    training = node.input(2)
    mode = node.content(training)
    if training is None or (mode is not None and not mode.any()):
        mask = node.emit("Fill", node.sizes(x), node.constant(True)) if node.has_output(1) else None
        if mask is not None and node.since < 10:
            mask = node.cast(mask, node.dtype(x))
        return node.emit("Identity", x), mask
    ratio = node.input(1)
    dtype = node.dtype(x)
    given = node.like(0.5, x) if ratio is None else node.cast(ratio, dtype)
    seed = node.attr("seed", 0)
    drawn = node.emit("RandomUniform", node.sizes(x), dtype=dtype, seed=seed, seed2=seed)
    kept = node.emit("GreaterEqual", drawn, given)
    share = node.emit("Sub", node.like(1, x), given)
    scaled = node.emit("RealDiv", node.emit("Mul", x, node.cast(kept, dtype)), share)
    everything = node.emit("Fill", node.sizes(x), node.constant(True))
    return node.emit("SelectV2", training, scaled, x), node.emit("SelectV2", training, kept, everything)


def is_infinite(node: OnnxNode) -> Tensor:
    """IsInf; for one sign only, Equal to the infinity of that sign."""
    positive, negative = node.attr("detect_positive", 1), node.attr("detect_negative", 1)
    x = node[0]
    if positive and negative:
        return node.emit_widened("IsInf", x)
    if not positive and not negative:
        return node.emit("Fill", node.sizes(x), node.constant(False, BOOL))
    return node.emit_widened("Equal", x, node.like(np.inf if positive else -np.inf, x))


_SAME_NAMES = {
    (1, 22): "Softplus Softsign",
    (6, 13): "Abs Ceil Exp Floor Log Neg Reciprocal Sigmoid Sqrt Tanh",
    (6, 13, 14): "Relu",
    (7, 22): "Acos Asin Atan Cos Sin Tan",
    (9, 13): "Erf Sign",
    (9, 22): "Acosh Asinh Atanh Cosh Sinh",
    (11, 22): "Round",
}
"""Ops that have the same name in TensorFlow, by the versions of their definitions."""
ROWS: Rows = {
    **{(op, *versions): same_op(op) for versions, ops in _SAME_NAMES.items() for op in ops.split()},
    ("Add", 6, 7, 13, 14): broadcast_op("AddV2"),
    ("Clip", 6, 11, 12, 13): clip,
    ("CumProd", 26): _running("Cumprod"),
    ("CumSum", 11, 14): _running("Cumsum"),
    ("Div", 6, 7, 13, 14): divide,
    ("Dropout", 6, 7, 10, 12, 13, 22): dropout,
    ("Elu", 6, 22): elu,
    ("Hardmax", 1, 11, 13): hardmax,
    ("IsInf", 10, 20): is_infinite,
    ("IsNaN", 9, 13, 20): same_op("IsNan"),
    ("LeakyRelu", 6, 16): leaky_relu,
    ("LogSoftmax", 1, 11, 13): _of_last_axis("LogSoftmax"),
    ("Max", 6, 8, 12, 13): _folded("Maximum"),
    ("Mean", 6, 8, 13): mean,
    ("Min", 6, 8, 12, 13): _folded("Minimum"),
    ("Mod", 10, 13, 28): modulo,
    ("Mul", 6, 7, 13, 14): broadcast_op("Mul"),
    ("PRelu", 6, 7, 9, 16): prelu,
    ("Pow", 1, 7, 12, 13, 15): power,
    ("Selu", 6, 22): selu,
    ("Softmax", 1, 11, 13): _of_last_axis("Softmax"),
    ("Sub", 6, 7, 13, 14): broadcast_op("Sub"),
    ("Sum", 6, 8, 13): _folded("AddV2"),
}
