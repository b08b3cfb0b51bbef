"""Casts between element types."""

from __future__ import annotations

from placesim.core.dtypes import BOOL, FLOAT, INT64, STRING, UINT8, DataType
from placesim.formats.onnx.onnx_node import OnnxNode, Rows, Tensor, dtype_of


def cast(node: OnnxNode) -> Tensor:
    """A Cast; before it Minimum and Maximum for a saturated float8. For strings, AsString or StringToNumber instead."""
    return convert(node, node[0], dtype_of(node.attr("to")))


def cast_like(node: OnnxNode) -> Tensor:
    """Cast, AsString or StringToNumber, to the type of the second input."""
    return convert(node, node[0], node.dtype(node[1]))


def convert(node: OnnxNode, x: Tensor, dtype: DataType) -> Tensor:
    """Return a tensor in another type, by the rules of ONNX's Cast."""
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
    """Return a tensor as a float8 type, with larger and infinite values replaced by the largest finite ones."""
    x = node.cast(x, FLOAT)
    most = _LARGEST[dtype.name]
    clipped = node.emit("Maximum", node.emit("Minimum", x, node.like(most, x)), node.like(-most, x))
    kept = node.emit("SelectV2", node.emit("IsNan", x), x, clipped)
    return node.emit("Cast", kept, DstT=dtype)


_LARGEST = {"float8_e4m3fn": 448.0, "float8_e4m3fnuz": 240.0, "float8_e5m2": 57344.0, "float8_e5m2fnuz": 57344.0}
"""Largest finite value of each type. Source: ONNX's page on float8."""

ROWS: Rows = {
    ("Cast", 6, 9, 13, 19, 21, 23, 24, 25, 28): cast,
    ("CastLike", 15, 19, 21, 23, 24, 25): cast_like,
}
