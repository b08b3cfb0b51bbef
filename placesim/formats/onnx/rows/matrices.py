"""Products of matrices."""

from __future__ import annotations

from placesim.formats.onnx.onnx_node import OnnxNode, Rows, Tensor


def gemm(node: OnnxNode) -> Tensor:
    """MatMul with its transposes; Mul by `alpha` and `beta` where they are not 1; AddV2 of C."""
    product = node.emit_widened(
        "MatMul", node[0], node[1], transpose_a=bool(node.attr("transA", 0)), transpose_b=bool(node.attr("transB", 0))
    )
    if (alpha := node.attr("alpha", 1.0)) != 1:
        product = node.emit_widened("Mul", product, node.like(alpha, product))
    addend = node.input(2)
    beta = node.attr("beta", 1.0)
    if addend is None or beta == 0:
        return product
    if beta != 1:
        addend = node.emit_widened("Mul", addend, node.like(beta, addend))
    return node.emit_widened("AddV2", product, addend)


ROWS: Rows = {
    ("Gemm", 7, 9, 11, 13): gemm,
}
