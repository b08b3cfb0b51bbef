"""Quantized ops, as ONNX defines them: casts, products of int32, and rounding.

TensorFlow's own quantized ops have ranges in place of scales and zero points, and round differently.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from placesim.core.dtypes import FLOAT, INT32, UINT8, DataType
from placesim.formats.onnx.folding import ConstantFolder
from placesim.formats.onnx.onnx_node import OnnxNode, Rows, Tensor, UnsupportedNodeError
from placesim.formats.onnx.rows.convolutions import convolved

_RANGES = {
    "int4": (-8, 7),
    "uint4": (0, 15),
    "int2": (-2, 1),
    "uint2": (0, 3),
    "float4_e2m1fn": (-6, 6),
    "float8_e4m3fn": (-448, 448),
    "float8_e4m3fnuz": (-240, 240),
    "float8_e5m2": (-57344, 57344),
    "float8_e5m2fnuz": (-57344, 57344),
}
"""Smallest and largest values of types for which numpy does not know them."""


def quantize_linear(node: OnnxNode) -> Tensor:
    """RealDiv, Rint, AddV2, ClipByValue and Cast, with a scale for the tensor, each channel or each block."""
    given, scale, zero = node[0], node[1], node.input(2)
    dtype = node.dtype(zero) if zero is not None else node.type_attr("output_dtype", UINT8)
    precision = node.type_attr("precision", FLOAT if node.dtype(scale) is INT32 else node.dtype(scale))
    divisor = _spread(node, node.cast(scale, precision), scale, given)
    ratio = node.emit("RealDiv", node.cast(given, precision), divisor)
    return rounded(node, ratio, None if zero is None else _spread(node, zero, scale, given), dtype)


def rounded(node: OnnxNode, ratio: Tensor, zero: Tensor | None, dtype: DataType) -> Tensor:
    """Return `saturate(round(ratio) + zero)` in a type. For a floating point type, the Cast rounds."""
    points = None if zero is None or _is_zero(node, zero) else zero
    least, most = _range(dtype)
    if dtype.name.startswith("float"):
        moved = ratio if points is None else node.emit("AddV2", ratio, node.cast(points, node.dtype(ratio)))
        saturates = node.attr("saturate", 1) or dtype.name == "float4_e2m1fn"
        return node.cast(_clipped(node, moved, least, most) if saturates else moved, dtype)
    # `half` and `bfloat16` can't hold all integers of the range
    whole = node.emit_widened("Rint", ratio)
    whole = node.cast(whole, FLOAT) if node.dtype(whole).name in ("half", "bfloat16") else whole
    if points is not None:
        whole = node.emit("AddV2", whole, node.cast(points, node.dtype(whole)))
    return node.cast(_clipped(node, whole, least, most), dtype)


def _range(dtype: DataType) -> tuple[float, float]:
    """Return the smallest and largest value of a type. Raises UnsupportedNodeError for a type of unquantized values."""
    if dtype.name in _RANGES:
        return _RANGES[dtype.name]
    if dtype.numpy.kind not in "iu":
        raise UnsupportedNodeError(f"cannot quantize to {dtype.name}: expected an integer or a type of at most 8 bits")
    bounds = np.iinfo(dtype.numpy)
    return bounds.min, bounds.max


def _clipped(node: OnnxNode, tensor: Tensor, least: float, most: float) -> Tensor:
    return node.emit("ClipByValue", tensor, node.like(least, tensor), node.like(most, tensor))


def _is_zero(node: OnnxNode, tensor: Tensor | None) -> bool:
    content = node.content(tensor)
    return content is not None and not np.asarray(content).astype(np.float32).any()


def dequantize_linear(node: OnnxNode) -> Tensor:
    """Cast, Sub and Mul, with a scale for the tensor, each channel or each block."""
    given, scale, zero = node[0], node[1], node.input(2)
    dtype = node.type_attr("output_dtype", node.dtype(scale))
    # `float` holds all differences of 16-bit integers; a Sub of int32 would run on the host even with a GPU
    wide = node.cast(given, FLOAT)
    if zero is not None and not _is_zero(node, zero):
        wide = node.emit("Sub", wide, _spread(node, node.cast(zero, FLOAT), scale, given))
    return node.emit("Mul", node.cast(wide, dtype), _spread(node, node.cast(scale, dtype), scale, given))


def _spread(node: OnnxNode, tensor: Tensor, scale: Tensor, given: Tensor) -> Tensor:
    """Return scales, or zero points of the same shape, in a shape that broadcasts over the quantized tensor.

    The scale of a block is repeated for each of its elements along the axis; the last block may be shorter.
    """
    dims = node.shape(scale)
    if dims is None:
        raise UnsupportedNodeError("unknown rank of the scale: expected one that can be inferred before the model runs")
    if not dims:
        return tensor
    rank, axis, size = node.known_rank(given), node.attr("axis", 1), node.attr("block_size", 0)
    if len(dims) == 1 and not size:
        return tensor if dims[0] == 1 and rank else _laid_along(node, tensor, axis, rank)
    if size < 1:
        raise UnsupportedNodeError(f"wrong block_size: got {size}, expected 1 or more for scales of {len(dims)} axes")
    fold = ConstantFolder(node)
    steps = fold("Range", np.array(0, np.int32), fold.sizes(given)[axis], np.array(1, np.int32))
    return node.emit("GatherV2", tensor, fold("FloorDiv", steps, np.array(size, np.int32)), np.int32(axis))


def _laid_along(node: OnnxNode, vector: Tensor, axis: int, rank: int) -> Tensor:
    """Return a vector in a shape that broadcasts along an axis of a tensor with this rank."""
    if rank == 1:
        return vector
    shape = [-1 if other == axis % rank else 1 for other in range(rank)] if rank else []
    return node.emit("Reshape", vector, np.array(shape, np.int32))


# --- integer products -----------------------------------------------------------------------------------------------


def _less_zero_point(node: OnnxNode, tensor: Tensor, zero: Tensor | None, axis: int | None = None) -> Tensor:
    """Return a quantized tensor minus its zero point, in int32. A vector has zero points along `axis`."""
    wide = node.same_shape(node.cast(tensor, INT32), tensor)
    if zero is None or _is_zero(node, zero):
        return wide
    return node.same_shape(node.emit("Sub", wide, _along(node, node.cast(zero, INT32), zero, axis, tensor)), tensor)


def _along(node: OnnxNode, values: Tensor, like: Tensor, axis: int | None, tensor: Tensor) -> Tensor:
    """Return values in a shape that broadcasts over a tensor; a vector is laid along the axis. `like` has the values' shape."""
    dims = node.shape(like)
    if dims is None or len(dims) != 1 or axis is None:
        return values
    if dims[0] == 1:
        return node.emit("Reshape", values, np.zeros(0, np.int32))
    return _laid_along(node, values, axis, node.known_rank(tensor))


def _product(node: OnnxNode, left: Tensor, right: Tensor, like: Sequence[Tensor]) -> Tensor:
    """Return the product of matrices, stacks of matrices or vectors. The ranks are those of the tensors `like`."""
    ranks = [node.known_rank(tensor) for tensor in like]
    if ranks == [2, 2]:
        return node.emit("MatMul", left, right)
    if ranks[0] == 1:
        left = node.emit("ExpandDims", left, np.int32(0))
    if ranks[1] == 1:
        right = node.emit("ExpandDims", right, np.int32(-1))
    made = node.emit("BatchMatMulV2", left, right)
    dropped = [axis for axis, rank in ((-2, ranks[0]), (-1, ranks[1])) if rank == 1]
    return node.emit("Squeeze", made, squeeze_dims=tuple(dropped)) if dropped else made


def matmul_integer(node: OnnxNode) -> Tensor:
    """MatMul or BatchMatMulV2 of int32, after Sub of the zero points (by row of the first, by column of the second)."""
    left = _less_zero_point(node, node[0], node.input(2), -2)
    right = _less_zero_point(node, node[1], node.input(3), -1)
    return _product(node, left, right, (node[0], node[1]))


def qlinear_matmul(node: OnnxNode) -> Tensor:
    """MatMul or BatchMatMulV2 of int32, then Mul, Rint, AddV2, ClipByValue and Cast by the third scale and zero point."""
    first, first_scale, first_zero, second, second_scale, second_zero, scale, zero = (node[index] for index in range(8))
    if node.dtype(first).name.startswith("float"):
        left, right = node.cast(first, FLOAT), node.cast(second, FLOAT)
    else:
        left, right = _less_zero_point(node, first, first_zero, -2), _less_zero_point(node, second, second_zero, -1)
    product = node.cast(_product(node, left, right, (first, second)), FLOAT)
    factors = _along(node, node.cast(first_scale, FLOAT), first_scale, -2, first)
    more = _along(node, node.cast(second_scale, FLOAT), second_scale, -1, second)
    ratio = node.emit("RealDiv", node.emit("Mul", factors, more), _along(node, node.cast(scale, FLOAT), scale, -2, first))
    points = _along(node, zero, zero, -2, first)
    return rounded(node, node.emit("Mul", product, ratio), points, node.dtype(zero))


def qlinear_conv(node: OnnxNode) -> Tensor:
    """Conv2D of int32, then Mul by channel, Rint, AddV2, ClipByValue and Cast by the third scale and zero point."""
    images, images_scale, images_zero, filters, filters_scale, filters_zero, scale, zero = (node[index] for index in range(8))
    left = _less_zero_point(node, images, images_zero)
    right = _less_zero_point(node, filters, filters_zero, 0)
    product = node.cast(convolved(node, left, right, node.input(8)), FLOAT)
    factors = _along(node, filters_scale, filters_scale, 1, images)
    ratio = node.emit("RealDiv", node.emit("Mul", images_scale, factors), scale)
    return rounded(node, node.emit("Mul", product, ratio), zero, node.dtype(zero))


def conv_integer(node: OnnxNode) -> Tensor:
    """Conv2D of int32, after Sub of the zero points."""
    images = _less_zero_point(node, node[0], node.input(2))
    return convolved(node, images, _less_zero_point(node, node[1], node.input(3), 0), None)


ROWS: Rows = {
    ("ConvInteger", 10): conv_integer,
    ("DequantizeLinear", 10, 13, 19, 21, 23, 24, 25, 28): dequantize_linear,
    ("MatMulInteger", 10): matmul_integer,
    ("QLinearConv", 10): qlinear_conv,
    ("QLinearMatMul", 10, 21): qlinear_matmul,
    ("QuantizeLinear", 10, 13, 19, 21, 23, 24, 25, 28): quantize_linear,
}
