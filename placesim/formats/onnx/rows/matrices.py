"""Matrix products, determinants, triangles and diagonals."""

from __future__ import annotations

from placesim.core.dtypes import BOOL, INT64
from placesim.formats.onnx.onnx_node import OnnxNode, Rows, Tensor, UnsupportedNodeError
from placesim.formats.onnx.rows.elementwise import same_op


def gemm(node: OnnxNode) -> Tensor:
    """MatMul, Mul by `alpha` and `beta` unless they are 1, and AddV2 of C."""
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


def matmul(node: OnnxNode) -> Tensor:
    """MatMul, or BatchMatMulV2 for more axes; ExpandDims and Squeeze around it for vectors."""
    a, b = node[0], node[1]
    ranks = node.rank(a), node.rank(b)
    if 0 in ranks:
        raise UnsupportedNodeError("cannot multiply matrices: got a scalar, expected tensors of at least one dimension")
    if ranks[0] == 1:
        a = node.emit("ExpandDims", a, 0)
    if ranks[1] == 1:
        b = node.emit("ExpandDims", b, -1)
    is_flat = all(rank in (1, 2) for rank in ranks)
    product = node.emit_widened("MatMul" if is_flat else "BatchMatMulV2", a, b)
    dropped = [axis for axis, rank in zip((-2, -1), ranks, strict=True) if rank == 1]
    return node.emit("Squeeze", product, squeeze_dims=tuple(dropped)) if dropped else product


def triangle(node: OnnxNode) -> Tensor:
    """MatrixBandPart if the kept triangle includes the diagonal; else SelectV2 by row and column."""
    x, upper = node[0], bool(node.attr("upper", 1))
    given = node.input(1)
    content = node.content(given)
    k = 0 if given is None else None if content is None else int(content.reshape(-1)[0])
    if k is not None and (k <= 0 if upper else k >= 0) and node.computes("MatrixBandPart", T=node.dtype(x)):
        bounds = (-k, -1) if upper else (-1, k)
        return node.emit("MatrixBandPart", x, *(node.constant(bound, INT64) for bound in bounds))
    offset = node.constant(k, INT64) if k is not None or given is None else node.emit("Reshape", given, node.vector([]))
    kept = node.emit("GreaterEqual" if upper else "LessEqual", _distances(node, x), offset)
    return node.emit("SelectV2", kept, x, node.like(0, x))


def _distances(node: OnnxNode, x: Tensor) -> Tensor:
    """Return `column - row` of each element of a matrix, an array of shape `[rows, columns]`."""
    numbers = [
        node.emit("Range", node.constant(0, INT64), node.scalar(node.size(x, axis)), node.constant(1, INT64))
        for axis in (-2, -1)
    ]
    return node.emit("Sub", numbers[1], node.emit("ExpandDims", numbers[0], -1))


def eye_like(node: OnnxNode) -> Tensor:
    """Cast of Equal: `column - row` is `k`."""
    x = node[0]
    ones = node.emit("Equal", _distances(node, x), node.constant(node.attr("k", 0), INT64))
    dtype = node.output_dtype() or node.dtype(x)
    return ones if dtype is BOOL else node.cast(ones, dtype)


ROWS: Rows = {
    ("Det", 11, 22): same_op("MatrixDeterminant"),
    ("EyeLike", 9, 22): eye_like,
    ("Gemm", 6, 7, 9, 11, 13): gemm,
    ("MatMul", 1, 9, 13): matmul,
    ("Trilu", 14): triangle,
}
