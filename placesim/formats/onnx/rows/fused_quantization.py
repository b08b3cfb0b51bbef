"""Quantized ops of `com.microsoft`, which ONNX Runtime's quantizer writes."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from placesim.core.dtypes import UINT8
from placesim.formats.onnx.folding import MOST_KNOWN, int32
from placesim.formats.onnx.onnx_node import OnnxNode, Row, Rows, Tensor, UnsupportedNodeError, describe_row
from placesim.formats.onnx.rows.fused import WINDOWS, as_onnx, check_channels_first


def _dequantized(node: OnnxNode, index: int) -> Tensor:
    """Return the input at an index as real numbers; its scale and its zero point follow it."""
    return node.apply("DequantizeLinear", node[index], node[index + 1], node.input(index + 2))


def _quantized(node: OnnxNode, tensor: Tensor, index: int) -> Tensor:
    """Return a quantized tensor. Input `index` is the scale; the zero point is next, by default 0 in the type of input 0."""
    zero = node.input(index + 1)
    zero = node.constant(np.zeros((), node.dtype(node[0]).numpy)) if zero is None else zero
    return node.apply("QuantizeLinear", tensor, node[index], zero)


class _RealOp(NamedTuple):
    """An ONNX op that a quantized op computes with real numbers.

    Quantized inputs, each with scale and zero point, begin at the indices `given`; the scale of the output is at `made`.
    """

    op: str
    attrs: tuple[str, ...] = ()
    given: tuple[int, ...] = (0,)
    made: int = 3


def _in_real_numbers(real: _RealOp) -> Row:
    """Return the row of a quantized op: dequantized inputs, the ONNX op of real numbers, and a quantized output."""

    def row(node: OnnxNode) -> Tensor:
        check_channels_first(node)
        inputs = [_dequantized(node, index) for index in real.given]
        made = node.apply(real.op, *inputs, **{name: node.attr(name) for name in real.attrs})
        return _quantized(node, made, real.made)

    return describe_row(row, f"DequantizeLinear of the inputs, then {real.op}, then QuantizeLinear.")


_POOLED = ("auto_pad", "ceil_mode", "count_include_pad", "kernel_shape", "pads", "strides")
_REAL_OPS = {
    "QLinearAdd": _RealOp("Add", given=(0, 3), made=6),
    "QLinearAveragePool": _RealOp("AveragePool", _POOLED),
    "QLinearGlobalAveragePool": _RealOp("GlobalAveragePool"),
    "QLinearLeakyRelu": _RealOp("LeakyRelu", ("alpha",)),
    "QLinearMul": _RealOp("Mul", given=(0, 3), made=6),
    "QLinearSigmoid": _RealOp("Sigmoid"),
}


def qlinear_concat(node: OnnxNode) -> Tensor:
    """DequantizeLinear of the inputs, then Concat, then QuantizeLinear."""
    parts = [_dequantized(node, index) for index in range(2, len(node.inputs), 3)]
    return node.apply("QuantizeLinear", node.apply("Concat", *parts, axis=node.attr("axis")), node[0], node[1])


def qlinear_reduce_mean(node: OnnxNode) -> Tensor:
    """DequantizeLinear of the input, then ReduceMean, then QuantizeLinear."""
    made = node.apply("ReduceMean", _dequantized(node, 0), list(node.attr("axes")), keepdims=node.attr("keepdims", 1))
    return _quantized(node, made, 3)


def qlinear_softmax(node: OnnxNode) -> Tensor:
    """DequantizeLinear of the input, then Softmax, then QuantizeLinear; before opset 13, Softmax of a matrix."""
    given, axis = _dequantized(node, 0), node.attr("axis", -1)
    if node.attr("opset", 13) >= 13:
        return _quantized(node, node.apply("Softmax", given, axis=axis), 3)
    matrix = node.apply("Flatten", given, axis=node.axis(axis, given))
    made = node.apply("Reshape", node.apply("Softmax", matrix), node.apply("Shape", given))
    return _quantized(node, made, 3)


def qlinear_where(node: OnnxNode) -> Tensor:
    """DequantizeLinear of the second and third input, then Where, then QuantizeLinear."""
    made = node.apply("Where", node[0], _dequantized(node, 1), _dequantized(node, 4))
    return node.apply("QuantizeLinear", made, node[7], node[8])


# --- products of matrices -------------------------------------------------------------------------------------------


def qgemm(node: OnnxNode) -> Tensor:
    """As MatMulInteger, then AddV2 of C and Mul by the scales; QuantizeLinear if the output has a scale."""
    left, right = (
        node.apply("Transpose", node[index], perm=[1, 0]) if node.attr(name, 0) else node[index]
        for index, name in ((0, "transA"), (3, "transB"))
    )
    made = node.apply("MatMulInteger", left, right, node[2], node[5])
    made = made if node.input(6) is None else node.apply("Add", made, node[6])
    scale = node.apply("Mul", node.apply("Mul", node[1], node[4]), node.like(node.attr("alpha", 1.0), node[1]))
    real = node.apply("Mul", node.apply("Cast", made, to=1), scale)
    return real if node.input(7) is None else node.apply("QuantizeLinear", real, node[7], node.input(8))


def matmul_integer_to_float(node: OnnxNode) -> Tensor:
    """As MatMulInteger, then Mul by both scales and AddV2 of the bias."""
    return _scaled_product(node, (node[0], node[2], node.input(4)), (node[1], node[3], node.input(5)), node.input(6))


def dynamic_quantize_matmul(node: OnnxNode) -> Tensor:
    """As DynamicQuantizeLinear of the first input and MatMulInteger, then Mul by both scales and AddV2 of the bias."""
    left = node.apply_all("DynamicQuantizeLinear", 3, node[0])
    return _scaled_product(node, tuple(left), (node[1], node[2], node.input(3)), node.input(4))


def _scaled_product(
    node: OnnxNode, left: tuple[Tensor | None, ...], right: tuple[Tensor | None, ...], bias: Tensor | None
) -> Tensor:
    """Return the product of two quantized matrices, each with scale and zero point, in real numbers."""
    made = node.apply("Cast", node.apply("MatMulInteger", left[0], right[0], left[2], right[2]), to=1)
    made = node.apply("Mul", made, node.apply("Mul", left[1], right[1]))
    return made if bias is None else node.apply("Add", made, bias)


def matmul_n_bits(node: OnnxNode) -> Tensor:
    """RightShift and BitwiseAnd unpack the weights, Sub subtracts zero points, Mul multiplies by scales; then MatMul.

    The weights are `[columns, blocks, packed bytes of a block]`.
    """
    rows, columns, block, bits = (node.attr(name, 4) for name in ("K", "N", "block_size", "bits"))
    if bits not in (2, 4, 8) or node.attr("weight_prepacked", 0):
        raise UnsupportedNodeError(f"unsupported weights: got {bits} bits or weight_prepacked, expected 2, 4 or 8 bits")
    if not 0 < rows <= MOST_KNOWN:
        raise UnsupportedNodeError(f"wrong K: got {rows}, expected a number from 1 to {MOST_KNOWN}")
    count = -(-rows // block)
    scales, zero, groups = node.emit("Reshape", node[2], int32([columns, count])), node.input(3), node.input(4)
    dtype = node.dtype(scales)
    if zero is None:
        points = node.emit("Fill", int32([columns, count]), node.like(1 << bits - 1, scales))
    elif node.dtype(zero) is UINT8:
        points = node.cast(_unpacked(node, zero, bits, (columns, count)), dtype)
    else:
        points = node.emit("Reshape", zero, int32([columns, count]))
    blocks = int32(np.arange(rows) // block) if groups is None else groups
    points, factors = (node.emit("GatherV2", each, blocks, np.int32(1)) for each in (points, scales))
    whole = node.cast(_unpacked(node, node[1], bits, (columns, rows)), dtype)
    weights = node.emit("Mul", node.emit("Sub", whole, points), factors)
    turned = node.know_shape(node.emit("Transpose", weights, int32([1, 0])), (rows, columns))
    made = node.apply("MatMul", node[0], turned)
    return made if node.input(5) is None else node.apply("Add", made, node[5])


def _unpacked(node: OnnxNode, packed: Tensor, bits: int, shape: tuple[int, int]) -> Tensor:
    """Return packed numbers as a matrix, without padding. The first number of a byte is in its lowest bits."""
    mask = np.uint8((1 << bits) - 1)
    shifted = [node.emit("RightShift", packed, np.uint8(shift)) if shift else packed for shift in range(0, 8, bits)]
    parts = [node.emit("BitwiseAnd", part, mask) for part in shifted] if bits < 8 else shifted
    flat = node.emit("Reshape", node.emit("Pack", parts, axis=-1), int32([shape[0], -1]))
    return node.emit("Slice", flat, int32([0, 0]), int32(shape))


ROWS: Rows = {
    **{(f"com.microsoft::{name}", 1): _in_real_numbers(real) for name, real in _REAL_OPS.items()},
    ("com.microsoft::DequantizeLinear", 1): as_onnx("DequantizeLinear", "axis"),
    ("com.microsoft::DynamicQuantizeMatMul", 1): dynamic_quantize_matmul,
    ("com.microsoft::MatMulIntegerToFloat", 1): matmul_integer_to_float,
    ("com.microsoft::MatMulNBits", 1): matmul_n_bits,
    ("com.microsoft::QGemm", 1): qgemm,
    ("com.microsoft::QLinearConcat", 1): qlinear_concat,
    ("com.microsoft::QLinearConv", 1): as_onnx("QLinearConv", *WINDOWS),
    ("com.microsoft::QLinearReduceMean", 1): qlinear_reduce_mean,
    ("com.microsoft::QLinearSoftmax", 1): qlinear_softmax,
    ("com.microsoft::QLinearWhere", 1): qlinear_where,
    ("com.microsoft::QuantizeLinear", 1): as_onnx("QuantizeLinear", "axis"),
}
