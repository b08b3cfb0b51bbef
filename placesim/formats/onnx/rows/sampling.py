"""Samples of images at points between their elements: weighted sums of the neighbours of each point."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from placesim.core.dtypes import FLOAT, INT32
from placesim.formats.onnx.folding import MOST_KNOWN, ConstantFolder, Value, float32, int32
from placesim.formats.onnx.onnx_node import OnnxNode, Rows, Tensor, UnsupportedNodeError
from placesim.formats.onnx.rows.windows import group_count, kernel_shape, spatial_attr

CUBIC = -0.75
"""Coefficient of GridSample's cubic interpolation, from its definition."""


class Taps(NamedTuple):
    """The neighbours of points along an axis: their indices, all inside the image, and weights, `[batch, points, taps]`."""

    places: Value
    weights: Value


def gathered(node: OnnxNode, images: Tensor, sizes: Sequence[Value], axes: Sequence[Taps]) -> tuple[Tensor, Tensor]:
    """Return all combinations of the points' neighbours along the axes, and their weights.

    `images` are `[batch, channels, spatial...]` of these `sizes`. The neighbours are `[batch, channels, points, neighbours]`,
    their weights `[batch, 1, points, neighbours]`.
    """
    fold, count = ConstantFolder(node), len(axes)
    places: Value | None = None
    weights: Value | None = None
    for number, (size, taps) in enumerate(zip(sizes[2:], axes, strict=True)):
        own, weight = (_widened(node, part, number, count) for part in taps)
        places = own if places is None else fold("AddV2", fold("Mul", places, size), own)
        weights = weight if weights is None else fold("Mul", weights, weight)
    assert places is not None
    assert weights is not None
    flat = node.emit("Reshape", images, fold.pack([*sizes[:2], int32(-1)]))
    found = node.emit("GatherV2", flat, fold("Reshape", places, fold.pack([sizes[0], int32(-1)])), int32(2), batch_dims=1)
    points = fold("GatherV2", fold.shape(places), int32(1), int32(0))
    made = node.emit("Reshape", found, fold.pack([*sizes[:2], points, int32(-1)]))
    shaped = node.emit("Reshape", weights, fold.pack([sizes[0], int32(1), points, int32(-1)]))
    return made, node.cast(shaped, node.dtype(images))


def _widened(node: OnnxNode, value: Value, number: int, count: int) -> Value:
    """Return `[batch, points, taps]` with `count` axes in place of `taps`: of size 1, except axis `number` with the taps."""
    fold = ConstantFolder(node)
    shape = fold.shape(value)
    start = fold("GatherV2", shape, int32([0, 1]), int32(0))
    own = fold("GatherV2", shape, int32([2]), int32(0))
    return fold("Reshape", value, fold.concat([start, int32([1] * number), own, int32([1] * (count - 1 - number))]))


def _summed(node: OnnxNode, images: Tensor, sizes: Sequence[Value], axes: Sequence[Taps]) -> Tensor:
    """Return the weighted sums of the points' neighbours, `[batch, channels, points]`."""
    found, weights = gathered(node, images, sizes, axes)
    return node.emit("Sum", node.emit("Mul", found, weights), int32(3))


def _column(node: OnnxNode, value: Value) -> Value:
    return np.expand_dims(value, -1) if isinstance(value, np.ndarray) else node.emit("ExpandDims", value, np.int32(-1))


def _linear(node: OnnxNode, points: Value, size: Value) -> Taps:
    """Return the two neighbours of points `[batch, points]`; neighbours outside the image have weight 0."""
    fold = ConstantFolder(node)
    base = fold("Floor", points)
    places, weights = _two_indices(node, base), _two_weights(node, points, base)
    return Taps(fold.clamped(places, size), fold("SelectV2", fold.inside(places, size), weights, float32(0)))


def _two_indices(node: OnnxNode, base: Value) -> Value:
    """Return the indices of the two neighbours of points: `base` and `base + 1`."""
    fold = ConstantFolder(node)
    return fold("AddV2", fold.cast(_column(node, base), INT32), int32([0, 1]))


def _two_weights(node: OnnxNode, points: Value, base: Value) -> Value:
    """Return the weights of the two neighbours of points: 1 - x and x, where x is `points - base`."""
    fold = ConstantFolder(node)
    after = _column(node, fold("Sub", points, base))
    return fold("AddV2", float32([1, 0]), fold("Mul", after, float32([-1, 1])))


# --- grids ----------------------------------------------------------------------------------------------------------


def grid_sample(node: OnnxNode) -> Tensor:
    """GatherV2 of all neighbours of each point, Mul by their weights and Sum.

    Images are `[batch, channels, spatial...]`, and the grid is `[batch, spatial..., axes]`; a point's coordinates begin with
    the last axis.
    """
    images, fold = node[0], ConstantFolder(node)
    axes = node.known_rank(images) - 2
    sizes, out = fold.sizes(images), fold.sizes(node[1])
    mode = {"bilinear": "linear", "bicubic": "cubic"}.get(node.attr("mode", "linear"), node.attr("mode", "linear"))
    padding = node.attr("padding_mode", "zeros")
    if mode not in ("linear", "nearest", "cubic") or padding not in ("zeros", "border", "reflection"):
        raise UnsupportedNodeError(f"no such mode: got '{mode}' with padding '{padding}'")
    flat = node.emit("Reshape", node.cast(node[1], FLOAT), fold.pack([out[0], int32(-1), int32(axes)]))
    points = node.emit_all("Unpack", flat, num=axes, axis=2)[::-1]
    taps = [_grid_taps(node, point, size, mode, padding) for point, size in zip(points, sizes[2:], strict=True)]
    own = node.dtype(images)
    wide = images if own.numpy.kind == "f" or mode == "nearest" else node.cast(images, FLOAT)
    made = _summed(node, wide, sizes, taps)
    return node.cast(node.emit("Reshape", made, fold.pack([*sizes[:2], *out[1:-1]])), own)


def _grid_taps(node: OnnxNode, point: Value, size: Value, mode: str, padding: str) -> Taps:
    fold, half = ConstantFolder(node), float32(0.5)
    length = fold.cast(size, FLOAT)
    aligned = bool(node.attr("align_corners", 0))
    first = float32(0) if aligned else float32(-0.5)
    last = fold("Sub", length, float32(1) if aligned else half)
    share = fold("Mul", fold("AddV2", point, float32(1)), half)
    where = fold("AddV2", fold("Mul", share, fold("Sub", last, first)), first)
    if mode == "nearest":
        where = fold("Rint", where)
    if padding == "border":
        where = fold("Minimum", fold("Maximum", where, float32(0)), fold("Sub", length, float32(1)))
    elif padding == "reflection":
        where = _reflected(fold, where, first, last)
    base = where if mode == "nearest" else fold("Floor", where)
    offsets = {"nearest": [0], "linear": [0, 1], "cubic": [-1, 0, 1, 2]}[mode]
    whole = fold("AddV2", _column(node, base), float32(offsets))
    if mode == "nearest":
        weights = fold("AddV2", fold("Mul", whole, float32(0)), float32(1))
    else:
        distance = fold("Abs", fold("Sub", _column(node, where), whole))
        weights = fold("Sub", float32(1), distance) if mode == "linear" else cubic_weights(fold, distance, CUBIC)
    if padding == "reflection":
        whole = fold("Floor", _reflected(fold, whole, first, last))
    places = fold.cast(whole, INT32)
    if padding == "zeros":
        weights = fold("SelectV2", fold.inside(places, size), weights, float32(0))
    return Taps(fold.clamped(places, size), weights)


def _reflected(fold: ConstantFolder, where: Value, first: Value, last: Value) -> Value:
    """Return points, reflected at `first` and `last` as often as needed until they lie between these."""
    span = fold("Sub", last, first)
    twice = fold("Maximum", fold("Mul", span, float32(2)), float32(np.finfo(np.float32).tiny))
    rest = fold("FloorMod", fold("Sub", where, first), twice)
    return fold("AddV2", first, fold("Minimum", rest, fold("Sub", twice, rest)))


def cubic_weights(fold: ConstantFolder, distance: Value, a: float) -> Value:
    """Return the weights of neighbours at these distances from a sample, by Keys' cubic with the coefficient `a`."""
    near = _polynomial(fold, distance, [a + 2, -(a + 3), 0, 1])
    far = _polynomial(fold, distance, [a, -5 * a, 8 * a, -4 * a])
    outer = fold("SelectV2", fold("Less", distance, float32(2)), far, float32(0))
    return fold("SelectV2", fold("LessEqual", distance, float32(1)), near, outer)


def _polynomial(fold: ConstantFolder, value: Value, coefficients: Sequence[float]) -> Value:
    made: Value = float32(coefficients[0])
    for coefficient in coefficients[1:]:
        made = fold("AddV2", fold("Mul", made, value), float32(coefficient))
    return made


# --- deformable convolutions ----------------------------------------------------------------------------------------


def deform_conv(node: OnnxNode) -> Tensor:
    """GatherV2, Mul and Sum for samples at the taps plus offsets, and BatchMatMulV2 by the filters."""
    images, filters, offsets, mask = node[0], node[1], node[2], node.input(4)
    if (rank := node.known_rank(images)) != 4:
        raise UnsupportedNodeError(f"unsupported deformable convolution: got images of rank {rank}, expected rank 4")
    fold = ConstantFolder(node)
    taps = kernel_shape(node, filters)
    strides, rates = spatial_attr(node, "strides", 2, 1), spatial_attr(node, "dilations", 2, 1)
    pads = spatial_attr(node, "pads", 4, 0)
    groups, sharing = group_count(node), group_count(node, "offset_group")
    sizes, out = fold.sizes(images), fold.sizes(offsets)[2:]
    batch = fold("Mul", sizes[0], int32(sharing))
    size, every = taps[0] * taps[1], int32(-1)
    parts = node.emit("Reshape", images, fold.pack([batch, every, *sizes[2:]]))
    share = fold("FloorDiv", sizes[1], int32(sharing))
    moved = node.emit("Reshape", node.cast(offsets, FLOAT), fold.pack([batch, int32(size), int32(2), every]))
    axes = []
    for axis, part in enumerate(node.emit_all("Unpack", moved, num=2, axis=2)):
        along = fold.cast(fold("Range", int32(0), out[axis], int32(1)), FLOAT)
        starts = fold("AddV2", fold("Mul", along, float32(strides[axis])), float32(-pads[axis]))
        shape = int32([-1, 1]) if axis == 0 else int32([1, -1])
        ones = node.emit("Fill", fold.pack(out), np.float32(0))
        plane = node.emit("Reshape", node.emit("AddV2", ones, fold("Reshape", starts, shape)), int32([1, -1]))
        steps = np.arange(taps[axis], dtype=np.float32) * rates[axis]
        own = np.repeat(steps, taps[1]) if axis == 0 else np.tile(steps, taps[0])
        where = node.emit("AddV2", part, node.emit("AddV2", plane, float32(own).reshape(-1, 1)))
        axes.append(_linear(node, node.emit("Reshape", where, fold.pack([batch, every])), sizes[axis + 2]))
    found = _summed(node, parts, [batch, share, *sizes[2:]], axes)
    if mask is not None:
        found = node.emit("Mul", found, node.emit("Reshape", mask, fold.pack([batch, int32(1), every])))
    points = fold("Mul", out[0], out[1])
    columns = node.emit("Reshape", found, fold.pack([sizes[0], int32(groups), every, points]))
    outputs = fold.sizes(filters)[0]
    rows = node.emit("Reshape", filters, fold.pack([int32(groups), fold("FloorDiv", outputs, int32(groups)), every]))
    made = node.emit("Reshape", node.emit("BatchMatMulV2", rows, columns), fold.pack([sizes[0], outputs, *out]))
    bias = node.input(3)
    return made if bias is None else node.emit("AddV2", made, node.emit("Reshape", bias, int32([-1, 1, 1])))


# --- regions --------------------------------------------------------------------------------------------------------


def roi_align(node: OnnxNode) -> Tensor:
    """GatherV2 of the neighbours of all samples of each bin, Mul by their weights, and Sum or Max."""
    images, fold = node[0], ConstantFolder(node)
    mode = node.attr("mode", "avg")
    if mode not in ("avg", "max"):
        raise UnsupportedNodeError(f"no such mode: got '{mode}', expected avg or max")
    if mode == "max" and node.attr("sampling_ratio", 0) < 1:
        raise UnsupportedNodeError("max pooling needs a fixed number of samples: expected a sampling_ratio of 1 or more")
    how = node.attr("coordinate_transformation_mode", "half_pixel" if node.since >= 16 else "output_half_pixel")
    scaled = node.emit("Mul", node.cast(node[1], FLOAT), np.float32(node.attr("spatial_scale", 1.0)))
    if how == "half_pixel":
        scaled = node.emit("Sub", scaled, np.float32(0.5))
    left, top, right, bottom = node.emit_all("Unpack", scaled, num=4, axis=1)
    sizes = fold.sizes(images)
    regions = node.emit("GatherV2", images, node[2], np.int32(0))
    count = node.emit("Size", node[2])
    bins = (node.attr("output_height", 1), node.attr("output_width", 1))
    if not 0 < min(bins) <= max(bins) <= MOST_KNOWN:
        raise UnsupportedNodeError(f"wrong number of bins: got {bins[0]} x {bins[1]}, expected from 1 to {MOST_KNOWN} of each")
    axes, counts = [], []
    for number, (start, end) in enumerate(((top, bottom), (left, right))):
        length = node.emit("Sub", end, start)
        if how != "half_pixel":
            length = node.emit("Maximum", length, np.float32(1))
        taps, samples = _region_taps(node, start, length, bins[number], sizes[number + 2])
        axes.append(taps)
        counts.append(samples)
    # a point is a pair of bins, of rows and of columns; its neighbours are those of all samples in the bins
    shape = fold.pack([count, int32(bins[0] * bins[1]), int32(-1)])
    spread = []
    for number, taps in enumerate(axes):
        own = [_over_bins(node, part, number, bins) for part in taps]
        spread.append(Taps(*(node.emit("Reshape", part, shape) for part in own)))
    found, weights = gathered(node, regions, [count, *sizes[1:]], spread)
    weighted = node.emit("Mul", found, weights)
    made = node.emit("Max", weighted, int32(3)) if mode == "max" else node.emit("Sum", weighted, int32(3))
    made = node.emit("Reshape", made, fold.pack([count, sizes[1], int32(bins[0]), int32(bins[1])]))
    if mode == "max":
        return made
    total = node.emit("Maximum", node.emit("Mul", *counts), np.float32(1))
    return node.emit("RealDiv", made, node.cast(node.emit("Reshape", total, int32([-1, 1, 1, 1])), node.dtype(made)))


def max_roi_pool(node: OnnxNode) -> Tensor:
    """SelectV2 of the elements in each bin of each region, and Max; 0 for a bin without elements."""
    fold, bins = ConstantFolder(node), [int(count) for count in node.attr("pooled_shape", ())]
    if len(bins) != 2 or not 0 < min(bins) <= max(bins) <= MOST_KNOWN:
        raise UnsupportedNodeError(f"wrong pooled_shape: got {bins}, expected two numbers from 1 to {MOST_KNOWN}")
    batch, left, top, right, bottom = node.emit_all("Unpack", node.cast(node[1], FLOAT), num=5, axis=1)
    sizes, scale = fold.sizes(node[0]), np.float32(node.attr("spatial_scale", 1.0))
    found = node.emit("GatherV2", node[0], node.cast(batch, INT32), np.int32(0))
    least = np.array(-np.inf, node.dtype(found).numpy)
    # the columns first, `[regions, channels, height, columns' bins]`, then the rows
    for axis, (start, end) in ((3, (left, right)), (2, (top, bottom))):
        first, last = (_rounded_half_away(node, node.emit("Mul", edge, scale)) for edge in (start, end))
        inside = _elements_in_bins(node, first, last, bins[axis - 2], sizes[axis])
        inside = node.emit("ExpandDims", node.emit("ExpandDims", inside, np.int32(1)), np.int32(1))
        turned = node.emit("Transpose", found, int32([0, 1, 2, 3] if axis == 3 else [0, 1, 3, 2]))
        kept = node.emit("SelectV2", inside, node.emit("ExpandDims", turned, np.int32(3)), least)
        found = node.emit("Max", kept, int32(4))
    found = node.emit("Transpose", found, int32([0, 1, 3, 2]))
    return node.emit("SelectV2", node.emit("Equal", found, least), np.zeros((), least.dtype), found)


def _rounded_half_away(node: OnnxNode, value: Tensor) -> Tensor:
    return node.emit(
        "Mul", node.emit("Sign", value), node.emit("Floor", node.emit("AddV2", node.emit("Abs", value), np.float32(0.5)))
    )


def _elements_in_bins(node: OnnxNode, start: Tensor, end: Tensor, bins: int, size: Value) -> Tensor:
    """Return which elements of an axis are in each bin of a region: `[regions, bins, elements]`."""
    fold = ConstantFolder(node)
    length = node.emit("Maximum", node.emit("AddV2", node.emit("Sub", end, start), np.float32(1)), np.float32(1))
    start, length = (node.emit("Reshape", part, int32([-1, 1])) for part in (start, length))
    width, numbers = node.emit("RealDiv", length, np.float32(bins)), np.arange(bins, dtype=np.float32)
    first = node.emit("AddV2", start, node.emit("Floor", node.emit("Mul", width, numbers)))
    last = node.emit("AddV2", start, node.emit("Ceil", node.emit("Mul", width, numbers + np.float32(1))))
    first, last = (node.emit("ExpandDims", part, np.int32(2)) for part in (first, last))
    places = fold.cast(fold("Range", int32(0), size, int32(1)), FLOAT)
    return node.emit("LogicalAnd", node.emit("GreaterEqual", places, first), node.emit("Less", places, last))


def _region_taps(node: OnnxNode, start: Tensor, length: Tensor, bins: int, size: Value) -> tuple[Taps, Tensor]:
    """Return the neighbours of all samples along an axis, `[regions, bins, samples, 2]`, and the number of samples in a bin."""
    fold, ratio = ConstantFolder(node), node.attr("sampling_ratio", 0)
    step = node.emit("RealDiv", length, np.float32(bins))
    each = node.emit("Fill", node.emit("Shape", step), np.float32(ratio)) if ratio > 0 else node.emit("Ceil", step)
    most: Value = int32(ratio) if ratio > 0 else node.cast(node.emit("Max", each, int32(0)), INT32)
    numbers = fold.cast(fold("Range", int32(0), most, int32(1)), FLOAT)
    column = int32([-1, 1, 1])
    start, step, per = (node.emit("Reshape", part, column) for part in (start, step, each))
    within = node.emit("RealDiv", fold("AddV2", numbers, float32(0.5)), node.emit("Maximum", per, np.float32(1)))
    bin_starts = node.emit("AddV2", start, node.emit("Mul", step, float32(np.arange(bins)).reshape(-1, 1)))
    points = node.emit("AddV2", bin_starts, node.emit("Mul", step, within))
    taken = node.emit("Less", numbers, per)
    limit = fold.cast(size, FLOAT)
    last = fold("Sub", limit, float32(1))
    near = fold("LogicalAnd", fold("LessEqual", float32(-1), points), fold("LessEqual", points, limit))
    held = fold("Minimum", fold("Maximum", points, float32(0)), last)
    base = fold("Minimum", fold("Floor", held), last)
    weights = _two_weights(node, held, base)
    counted = _column(node, fold("LogicalAnd", near, taken))
    places = fold.clamped(_two_indices(node, base), size)
    return Taps(places, fold("SelectV2", counted, weights, float32(0))), each


def _over_bins(node: OnnxNode, part: Value, number: int, bins: tuple[int, int]) -> Tensor:
    """Return `[regions, bins, samples, 2]` of axis `number`, repeated along the bins of the other axis."""
    wide = node.emit("ExpandDims", part, np.int32(2 if number == 0 else 1))
    multiples = int32([1, 1, bins[1], 1, 1] if number == 0 else [1, bins[0], 1, 1, 1])
    return node.emit("Tile", wide, multiples)


ROWS: Rows = {
    ("DeformConv", 19, 22): deform_conv,
    ("GridSample", 16, 20, 22): grid_sample,
    ("MaxRoiPool", 1, 22): max_roi_pool,
    ("RoiAlign", 10, 16, 22): roi_align,
}
