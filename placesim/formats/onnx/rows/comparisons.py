"""Comparisons, logic and bit operations."""

from __future__ import annotations

from placesim.core.dtypes import BOOL, UINT8
from placesim.formats.onnx.onnx_node import OnnxNode, Row, Rows, Tensor, UnsupportedNodeError, describe_row, dtype_of
from placesim.formats.onnx.rows.elementwise import broadcast_op, same_op


def equal(node: OnnxNode) -> Tensor:
    """Equal."""
    is_bool = node.dtype(node[0]) is BOOL
    return node.emit("Equal", node[0], node[1]) if is_bool else node.emit_widened("Equal", *node.aligned())


def _plain(op: str) -> Row:
    """Return the row of an op of booleans."""

    def row(node: OnnxNode) -> Tensor:
        return node.emit(op, *(node.aligned() if len(node.inputs) > 1 else node.inputs))

    return describe_row(row, f"{op}.")


def shift(node: OnnxNode) -> Tensor:
    """LeftShift or RightShift, and SelectV2 if the number of bits is negative or not less than the width of the type."""
    direction = node.attr("direction")
    if direction not in ("LEFT", "RIGHT"):
        raise UnsupportedNodeError(f"no such direction: got '{direction}', expected LEFT or RIGHT")
    x, places = node[0], node[1]
    width = node.like(8 * node.dtype(x).size - 1, places)
    is_over = node.emit("Greater", places, width)
    if node.since >= 28:
        is_over = node.emit("LogicalOr", is_over, node.emit("Less", places, node.like(0, places)))
    if direction == "LEFT":
        return node.emit("SelectV2", is_over, node.like(0, x), node.emit_widened("LeftShift", x, places))
    return node.emit_widened("RightShift", x, node.emit("SelectV2", is_over, width, places))


def where(node: OnnxNode) -> Tensor:
    """SelectV2."""
    return node.emit("SelectV2", node[0], node[1], node[2])


def bit_cast(node: OnnxNode) -> Tensor:
    """Bitcast to a type of the same size; Cast for booleans."""
    dtype = dtype_of(node.attr("to"))
    if BOOL in (dtype, node.dtype(node[0])):  # TensorFlow's Bitcast takes no bool, which is a byte of 0 or 1
        return node.cast(node.cast(node[0], UINT8) if dtype is not BOOL else node[0], dtype)
    return node.emit("Bitcast", node[0], type=dtype)


ROWS: Rows = {
    ("And", 1, 7): _plain("LogicalAnd"),
    ("BitCast", 26): bit_cast,
    ("BitShift", 11, 28): shift,
    ("BitwiseAnd", 18): broadcast_op("BitwiseAnd"),
    ("BitwiseNot", 18): same_op("Invert"),
    ("BitwiseOr", 18): broadcast_op("BitwiseOr"),
    ("BitwiseXor", 18): broadcast_op("BitwiseXor"),
    ("Equal", 1, 7, 11, 13, 19): equal,
    ("Greater", 1, 7, 9, 13): broadcast_op("Greater"),
    ("GreaterOrEqual", 12, 16): broadcast_op("GreaterEqual"),
    ("Less", 1, 7, 9, 13): broadcast_op("Less"),
    ("LessOrEqual", 12, 16): broadcast_op("LessEqual"),
    ("Not", 1): _plain("LogicalNot"),
    ("Or", 1, 7): _plain("LogicalOr"),
    ("Where", 9, 16): where,
    ("Xor", 1, 7): _plain("NotEqual"),
}
