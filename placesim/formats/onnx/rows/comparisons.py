"""Comparisons, logic and bit operations."""

from __future__ import annotations

from placesim.core.dtypes import BOOL, UINT8
from placesim.formats.onnx.onnx_node import OnnxNode, Row, Rows, Tensor, UnsupportedNodeError, describe_row, dtype_of


def _of_two(op: str) -> Row:
    """Return the row of an op with two inputs."""

    def row(node: OnnxNode) -> Tensor:
        if node.dtype(node[0]) is BOOL and op == "Equal":
            return node.emit("Equal", node[0], node[1])
        return node.emit_widened(op, *node.aligned())

    return describe_row(row, f"{op}.")


def _plain(op: str) -> Row:
    """Return the row of an op of booleans."""

    def row(node: OnnxNode) -> Tensor:
        return node.emit(op, *(node.aligned() if len(node.inputs) > 1 else node.inputs))

    return describe_row(row, f"{op}.")


def invert(node: OnnxNode) -> Tensor:
    """Invert."""
    return node.emit_widened("Invert", node[0])


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
    ("BitwiseAnd", 18): _of_two("BitwiseAnd"),
    ("BitwiseNot", 18): invert,
    ("BitwiseOr", 18): _of_two("BitwiseOr"),
    ("BitwiseXor", 18): _of_two("BitwiseXor"),
    ("Equal", 1, 7, 11, 13, 19): _of_two("Equal"),
    ("Greater", 1, 7, 9, 13): _of_two("Greater"),
    ("GreaterOrEqual", 12, 16): _of_two("GreaterEqual"),
    ("Less", 1, 7, 9, 13): _of_two("Less"),
    ("LessOrEqual", 12, 16): _of_two("LessEqual"),
    ("Not", 1): _plain("LogicalNot"),
    ("Or", 1, 7): _plain("LogicalOr"),
    ("Where", 9, 16): where,
    ("Xor", 1, 7): _plain("NotEqual"),
}
