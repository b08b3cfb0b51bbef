"""Arithmetic of elements."""

from __future__ import annotations

from placesim.formats.onnx.onnx_node import OnnxNode, Row, Rows, Tensor


def _same(op: str) -> Row:
    """The op of that name, of all inputs, which have one type."""

    def row(node: OnnxNode) -> Tensor:
        return node.emit_widened(op, *(node[i] for i in range(len(node.inputs))))

    return row


ROWS: Rows = {
    ("Add", 7, 13, 14): _same("AddV2"),
    ("Sub", 7, 13, 14): _same("Sub"),
    ("Mul", 7, 13, 14): _same("Mul"),
    ("Relu", 6, 13, 14): _same("Relu"),
}
