"""Casts between element types."""

from __future__ import annotations

from placesim.core.dtypes import BOOL, FLOAT, INT64, STRING, UINT8, DataType
from placesim.formats.onnx.element_types import BY_ONNX_NUMBER
from placesim.formats.onnx.onnx_node import OnnxNode, Rows, Tensor, UnsupportedNodeError


def cast(node: OnnxNode) -> Tensor:
    """Cast; AsString and StringToNumber for strings; a type of 8 bits or fewer is saturated before, where that is asked for."""
    number = node.attr("to")
    dtype = BY_ONNX_NUMBER.get(number)
    if dtype is None:
        raise UnsupportedNodeError(f"no such element type: got number {number}, expected a TensorFlow type")
    return convert(node, node[0], dtype)


def cast_like(node: OnnxNode) -> Tensor:
    """The same, to the type of the second input."""
    return convert(node, node[0], node.dtype(node[1]))


def convert(node: OnnxNode, x: Tensor, dtype: DataType) -> Tensor:
    """A tensor as another type, as ONNX's Cast does it."""
    own = node.dtype(x)
    if own is dtype:
        return node.emit("Identity", x)
    if dtype is STRING:
        return node.emit("AsString", node.cast(x, FLOAT) if own.size < 4 and own.is_floating else x, shortest=True)
    if own is STRING:
        is_integer = dtype.is_integer or dtype is BOOL
        return node.cast(node.emit("StringToNumber", x, out_type=INT64 if is_integer else FLOAT), dtype)
    if dtype.name.startswith("float8"):
        return _saturated(node, x, dtype) if node.attr("saturate", 1) else node.emit("Cast", x, DstT=dtype)
    if dtype.name in ("int4", "uint4", "int2", "uint2") and not node.computes("Cast", SrcT=own, DstT=dtype):
        x = node.emit("Cast", x, DstT=UINT8)
    return node.emit("Cast", x, DstT=dtype)


def _saturated(node: OnnxNode, x: Tensor, dtype: DataType) -> Tensor:
    """Clipped to the largest that the type has, also where it is infinite."""
    x = node.cast(x, FLOAT)
    most = _LARGEST[dtype.name]
    clipped = node.emit("Maximum", node.emit("Minimum", x, node.like(most, x)), node.like(-most, x))
    kept = node.emit("SelectV2", node.emit("IsNan", x), x, clipped)
    return node.emit("Cast", kept, DstT=dtype)


_LARGEST = {"float8_e4m3fn": 448.0, "float8_e4m3fnuz": 240.0, "float8_e5m2": 57344.0, "float8_e5m2fnuz": 57344.0}
"""The largest finite values, as ONNX's page on its 8-bit floats has them."""

ROWS: Rows = {
    ("Cast", 6, 9, 13, 19, 21, 23, 24, 25, 28): cast,
    ("CastLike", 15, 19, 21, 23, 24, 25): cast_like,
}
