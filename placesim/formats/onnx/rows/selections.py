"""Selections by value: the largest elements, unique elements, and boxes that do not overlap."""

from __future__ import annotations

import numpy as np

from placesim.core.dtypes import INT32, INT64
from placesim.formats.onnx.folding import Value, int32
from placesim.formats.onnx.onnx_node import OnnxNode, Rows, Tensor, UnsupportedNodeError

_MOST_LISTS = 4096
"""Maximum number of lists of boxes, one for each class of each image, since each adds nodes."""


def top_k(node: OnnxNode) -> list[Tensor]:
    """TopKV2, between Transposes for another axis than the last, and between Negs (Inverts of integers) for the smallest."""
    tensor = node[0]
    rank, axis = node.known_rank(tensor), node.attr("axis", -1)
    last = axis in (-1, rank - 1)
    order = [other for other in range(rank) if other != axis % rank] + [axis % rank]
    moved = tensor if last else node.emit("Transpose", tensor, int32(order))
    count = int32(node.attr("k")) if node.since < 10 else _scalar_int32(node, node[1])
    smallest = node.since >= 11 and not node.attr("largest", 1)
    values, places = _largest(node, _reversed(node, moved) if smallest else moved, count)
    values = _reversed(node, values) if smallest else values
    back = int32(np.argsort(order))
    if not last:
        values, places = (node.emit("Transpose", made, back) for made in (values, places))
    return [values, node.cast(places, INT64)]


def _largest(node: OnnxNode, tensor: Tensor, count: Value) -> tuple[Tensor, Tensor]:
    values, places = node.emit_all("TopKV2", tensor, count, sorted=True, index_type=INT32)
    return values, places


def _reversed(node: OnnxNode, tensor: Tensor) -> Tensor:
    """Return elements with the reverse order: negated, or for integers complemented, as -x may not fit the type."""
    return node.emit("Neg" if node.dtype(tensor).numpy.kind not in "iu" else "Invert", tensor)


def _scalar_int32(node: OnnxNode, tensor: Tensor) -> Value:
    """Return the single element of a tensor as an int32, with larger numbers clipped."""
    content = node.content(tensor)
    most = np.iinfo(np.int32).max
    if content is not None:
        if content.size != 1:
            raise UnsupportedNodeError(f"wrong number of elements: got {content.size}, expected a count")
        return int32(min(int(content.reshape(())), most))
    scalar = node.emit("Reshape", tensor, np.zeros(0, np.int32))
    if node.dtype(scalar) is INT64:
        scalar = node.emit("Minimum", scalar, np.int64(most))
    return node.cast(scalar, INT32)


# --- boxes ----------------------------------------------------------------------------------------------------------


def non_max_suppression(node: OnnxNode) -> Tensor:
    """NonMaxSuppressionV3 for each class of each image, and ConcatV2 of rows with image, class and box."""
    boxes, scores = node[0], node[1]
    dims = (node.shape(scores) or ())[:2]
    if len(dims) != 2 or None in dims:
        raise UnsupportedNodeError("unknown number of images and classes: set it with --shape or --batch")
    images, classes = (size or 0 for size in dims)
    if images * classes > _MOST_LISTS:
        raise UnsupportedNodeError(f"too many lists of boxes: got {images} x {classes}, expected at most {_MOST_LISTS}")
    most = int32(0) if node.input(2) is None else _scalar_int32(node, node[2])
    overlap, least = _threshold(node, 3, 0.0), _threshold(node, 4, -np.inf)
    corners = _corners(node, boxes) if node.attr("center_point_box", 0) else boxes
    made = []
    for image, own in enumerate(_parts(node, corners, images)):
        lists = _parts(node, _parts(node, scores, images)[image], classes) if classes else ()
        for number, rated in enumerate(lists):
            chosen = node.emit("NonMaxSuppressionV3", own, rated, most, overlap, least)
            column = node.emit("ExpandDims", node.cast(chosen, INT64), np.int32(1))
            rows = node.emit("Pad", column, int32([[0, 0], [2, 0]]))
            made.append(node.emit("AddV2", rows, np.array([image, number, 0], np.int64)))
    if not made:
        return node.constant(np.zeros((0, 3), np.int64))
    return made[0] if len(made) == 1 else node.emit("ConcatV2", made, np.int32(0))


def _parts(node: OnnxNode, tensor: Tensor, count: int) -> tuple[Tensor, ...]:
    return node.emit_all("Unpack", tensor, num=count, axis=0)


def _threshold(node: OnnxNode, index: int, default: float) -> Value:
    tensor = node.input(index)
    return np.array(default, np.float32) if tensor is None else node.emit("Reshape", tensor, np.zeros(0, np.int32))


def _corners(node: OnnxNode, boxes: Tensor) -> Tensor:
    """Return boxes of centre x, centre y, width and height as two corners, with rows before columns."""
    x, y, width, height = node.emit_all("Unpack", boxes, num=4, axis=-1)
    sides = []
    for centre, size in ((y, height), (x, width)):
        half = node.emit("Mul", size, node.like(0.5, size))
        sides.append((node.emit("Sub", centre, half), node.emit("AddV2", centre, half)))
    (top, bottom), (left, right) = sides
    return node.emit("Pack", [top, left, bottom, right], axis=-1)


# --- unique ---------------------------------------------------------------------------------------------------------


def unique(node: OnnxNode) -> list[Tensor | None]:
    """UniqueWithCountsV2, in the order of first occurrence; to sort, TopKV2, or for slices comparisons of all pairs."""
    tensor, axis = node[0], node.attr("axis")
    if axis is None:
        tensor, axis, rank = node.emit("Reshape", tensor, int32([-1])), 0, 1
    else:
        rank = node.known_rank(tensor)
    number = axis % rank
    values, back, counts = node.emit_all("UniqueWithCountsV2", tensor, np.array([number], np.int64), out_idx=INT64)
    total = node.emit("GatherV2", node.emit("Shape", counts), np.int32(0), np.int32(0))
    along = node.emit("Range", *_from_zero(node, node.emit("Size", back, out_type=INT64)))
    first = node.emit("UnsortedSegmentMin", along, back, total)
    if node.attr("sorted", 1):
        order = _sorting(node, values, total) if rank == 1 else _sorting_slices(node, values, number, rank)
        places = node.cast(node.emit("InvertPermutation", order), INT64)
        values = node.emit("GatherV2", values, order, np.int32(number))
        first, counts = (node.emit("GatherV2", each, order, np.int32(0)) for each in (first, counts))
        back = node.emit("GatherV2", places, back, np.int32(0))
    return [values, first, back, counts]


def _from_zero(node: OnnxNode, end: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Return the inputs of an int64 Range from 0 in steps of 1; literals would be int32."""
    return node.constant(0, INT64), end, node.constant(1, INT64)


def _sorting(node: OnnxNode, vector: Tensor, total: Tensor) -> Tensor:
    """Return the indices that sort a vector."""
    if not node.computes("TopKV2", T=node.dtype(vector)):
        raise UnsupportedNodeError(f"cannot sort {node.dtype(vector).name} elements: expected numbers, or sorted = 0")
    return _largest(node, _reversed(node, vector), total)[1]


def _sorting_slices(node: OnnxNode, tensor: Tensor, axis: int, rank: int) -> Tensor:
    """Return the indices that sort slices lexicographically, from the number of slices that come before each slice."""
    order = [axis, *(other for other in range(rank) if other != axis)]
    moved = node.emit("Transpose", tensor, int32(order)) if axis else tensor
    size = node.emit("GatherV2", node.emit("Shape", moved), np.int32(0), np.int32(0))
    flat = node.emit("Reshape", moved, node.emit("Pack", [size, node.constant(np.int32(-1))], axis=0))
    own, others = node.emit("ExpandDims", flat, np.int32(1)), node.emit("ExpandDims", flat, np.int32(0))
    differs = node.cast(node.emit("NotEqual", own, others), INT32)
    first = node.emit("ExpandDims", node.emit("ArgMax", differs, np.int32(2), output_type=INT32), np.int32(2))
    length = node.emit("GatherV2", node.emit("Shape", flat), np.int32(1), np.int32(0))
    is_first = node.emit("Equal", node.emit("Range", np.int32(0), length, np.int32(1)), first)
    before = node.emit("LogicalAnd", node.emit("Less", others, own), is_first)
    count = node.emit("Sum", node.cast(node.emit("Any", before, np.int32(2)), INT32), np.int32(1))
    return node.emit("InvertPermutation", count)


ROWS: Rows = {
    ("NonMaxSuppression", 10, 11): non_max_suppression,
    ("TopK", 1, 10, 11, 24): top_k,
    ("Unique", 11, 28): unique,
}
