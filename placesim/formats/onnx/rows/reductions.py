"""Reductions over axes, and indices of the largest and smallest elements."""

from __future__ import annotations

from placesim.core.dtypes import BOOL, DOUBLE, INT32, INT64
from placesim.formats.onnx.onnx_node import OnnxNode, Outputs, Row, Rows, Tensor, describe_row


def _axes(node: OnnxNode, x: Tensor) -> Tensor | None:
    """Return the axes to reduce as a tensor: the given axes, or else all axes; None if no axis is reduced."""
    given = node.input(1)
    if given is None and (listed := node.attr("axes")):
        given = node.vector(listed, "axes")
    length = (0,) if given is None else node.shape(given)
    if given is not None and length not in ((0,), (None,), None):
        return given
    everything = None if node.attr("noop_with_empty_axes", 0) else _all_axes(node, x)
    if given is None or length == (0,) or everything is None:
        return everything if given is None or length == (0,) else given
    return _all_unless_some(node, given, everything)


def _all_axes(node: OnnxNode, x: Tensor) -> Tensor:
    rank = node.rank(x)
    if rank is not None:
        return node.vector(range(rank), "axes")
    return node.cast(node.emit("Range", 0, node.emit("Rank", x), 1), INT64)


def _all_unless_some(node: OnnxNode, given: Tensor, everything: Tensor) -> Tensor:
    """Return a tensor that equals `given`, or `everything` if `given` is empty at run time."""
    is_empty = node.emit("Equal", node.emit("Size", given), 0)
    start = node.emit("SelectV2", is_empty, 0, node.emit("Size", everything))
    rest = node.emit("Slice", everything, node.emit("ExpandDims", start, 0), [-1])
    return node.emit("ConcatV2", [node.cast(given, INT64), rest], 0)


def _reduced(node: OnnxNode, op: str, x: Tensor, axes: Tensor, keeps: bool) -> Tensor:
    """Add a reduction, in a type with a CPU kernel."""
    dtype = node.dtype(x)
    wide = node.wider(op, dtype)
    return node.cast(node.emit(op, node.cast(x, wide), axes, keep_dims=keeps), dtype)


def _keeps(node: OnnxNode) -> bool:
    return bool(node.attr("keepdims", 1))


def _plain(op: str, of_booleans: str = "") -> Row:
    """Return the row of a TensorFlow op, or of the op `of_booleans` for booleans."""

    def row(node: OnnxNode) -> Tensor:
        x = node[0]
        axes = _axes(node, x)
        if axes is None:
            return node.emit("Identity", x)
        if node.dtype(x) is BOOL:
            return node.emit(of_booleans, x, axes, keep_dims=_keeps(node))
        return _reduced(node, op, x, axes, _keeps(node))

    return describe_row(row, f"{op}; {of_booleans} for booleans." if of_booleans else f"{op}.")


def _sum_of(*before: str, after: str = "") -> Row:
    """Return the row of a Sum after ops of the elements, and before an op of the sum. Without axes, the Sum is left out."""

    def row(node: OnnxNode) -> Outputs:
        x = node[0]
        axes = _axes(node, x)
        for op in before:
            x = node.emit_widened(op, x)
        if axes is not None:
            x = _reduced(node, "Sum", x, axes, _keeps(node))
        if after:
            x = node.emit_widened(after, x) if node.dtype(x).is_floating else _of_integers(node, after, x)
        return node.emit("Identity", x) if x == node[0] else x

    steps = [*before, "Sum", *([after] if after else [])]
    return describe_row(row, f"{', then '.join(steps)}.")


def _of_integers(node: OnnxNode, op: str, x: Tensor) -> Tensor:
    return node.cast(node.emit(op, node.cast(x, DOUBLE)), node.dtype(x))


def log_sum_exp(node: OnnxNode) -> Tensor:
    """`log(sum(exp(x - m))) + m`, in which `m` is the largest element, or 0 if that is not finite."""
    own = node.dtype(node[0])
    x = node[0] if own.is_floating else node.cast(node[0], DOUBLE)
    axes = _axes(node, x)
    if axes is None:
        return node.cast(node.emit_widened("Log", node.emit_widened("Exp", x)), own)
    largest = _reduced(node, "Max", x, axes, True)
    largest = node.emit("SelectV2", node.emit_widened("IsFinite", largest), largest, node.like(0, largest))
    shifted = node.emit_widened("Exp", node.emit_widened("Sub", x, largest))
    total = node.emit_widened("Log", _reduced(node, "Sum", shifted, axes, True))
    found = node.emit_widened("AddV2", total, largest)
    if not _keeps(node):
        kept = _reduced(node, "Sum", shifted, axes, False)
        found = node.emit("Reshape", found, node.emit("Shape", kept, out_type=INT64))
    return node.cast(found, own)


def _place_of(op: str) -> Row:
    """Return the row of ArgMax or ArgMin."""

    def row(node: OnnxNode) -> Tensor:
        x = node[0]
        axis = node.attr("axis", 0)
        wide = node.wider(op, node.dtype(x))
        x = node.cast(x, wide)
        from_end = bool(node.attr("select_last_index", 0))
        if from_end:
            x = node.emit("ReverseV2", x, node.vector([axis], "axis"))
        found = node.emit(op, x, node.constant(axis, INT32), output_type=INT64)
        if from_end:
            last = node.emit("Sub", node.scalar(node.size(node[0], axis)), node.constant(1, INT64))
            found = node.emit("Sub", last, found)
        return node.emit("ExpandDims", found, axis) if _keeps(node) else found

    return describe_row(row, f"{op}; with `select_last_index`, after ReverseV2.")


ROWS: Rows = {
    ("ArgMax", 1, 11, 12, 13): _place_of("ArgMax"),
    ("ArgMin", 1, 11, 12, 13): _place_of("ArgMin"),
    ("ReduceL1", 1, 11, 13, 18): _sum_of("Abs"),
    ("ReduceL2", 1, 11, 13, 18): _sum_of("Square", after="Sqrt"),
    ("ReduceLogSum", 1, 11, 13, 18, 28): _sum_of(after="Log"),
    ("ReduceLogSumExp", 1, 11, 13, 18, 28): log_sum_exp,
    ("ReduceMax", 1, 11, 12, 13, 18, 20): _plain("Max", "Any"),
    ("ReduceMean", 1, 11, 13, 18): _plain("Mean"),
    ("ReduceMin", 1, 11, 12, 13, 18, 20): _plain("Min", "All"),
    ("ReduceProd", 1, 11, 13, 18): _plain("Prod"),
    ("ReduceSum", 1, 11, 13): _plain("Sum"),
    ("ReduceSumSquare", 1, 11, 13, 18): _sum_of("Square"),
}
