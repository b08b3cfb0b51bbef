"""Pools, as TensorFlow's pools if these have a kernel; else the elements of windows are gathered and reduced axis by axis."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import Any

import numpy as np

from placesim.core.dtypes import INT32, INT64
from placesim.formats.onnx.folding import MOST_KNOWN, ConstantFolder, Known, Value
from placesim.formats.onnx.onnx_node import OnnxNode, Row, Rows, Tensor, UnsupportedNodeError, describe_row
from placesim.formats.onnx.rows.windows import (
    UNIT,
    AxisWindow,
    channels_last,
    kernel_shape,
    padding_attrs,
    planes_first,
    spatial_attr,
    windows_of,
)


def pool_windows(node: OnnxNode, tensor: Tensor) -> tuple[tuple[AxisWindow, ...], tuple[int, ...]]:
    """Return windows whose padding covers the last window, and for each axis the padding beyond the requested padding."""
    windows = windows_of(node, tensor, kernel_shape(node))
    if not node.attr("ceil_mode", 0):
        return windows, (0,) * len(windows)
    dims = (node.shape(tensor) or (None,) * (len(windows) + 2))[2:]
    made = tuple(_rounded_up(window, dim) for window, dim in zip(windows, dims, strict=True))
    return made, tuple(max(now.after - was.after, 0) for now, was in zip(made, windows, strict=True))


def _rounded_up(window: AxisWindow, dim: int | None) -> AxisWindow:
    """Return windows for `ceil_mode`: with a last, partial window, unless this begins in the padding at the end."""
    if dim is None:
        # `stride - 1` more elements include a partial window if there is one; it must not begin in the padding
        if window.after + window.stride > window.reach:
            got = "got ceil_mode over an axis of unknown size"
            raise UnsupportedNodeError(f"unknown number of windows: {got}, expected a known size")
        return window._replace(after=window.after + window.stride - 1)
    padded = dim + window.before + window.after
    count = -(-(padded - window.reach) // window.stride) + 1
    if (count - 1) * window.stride >= dim + window.before:
        count -= 1
    return window._replace(after=(count - 1) * window.stride + window.reach - dim - window.before)


def max_pool(node: OnnxNode) -> list[Tensor | None]:
    """MaxPool or MaxPool3D between Transposes; with dilations or indices, GatherV2 and Max axis by axis."""
    images = node[0]
    windows, _ = pool_windows(node, images)
    if node.has_output(1):
        return list(_max_with_places(node, images, windows))
    spatial, dtype = len(windows), node.dtype(images)
    native = spatial < 4 and all(w.rate == 1 and min(w.before, w.after) >= 0 for w in windows)
    if not native or not node.computes("MaxPool3D" if spatial == 3 else "MaxPool", T=dtype):
        return [_reduced(node, _padded(node, images, windows, _lowest(node, images)), windows, "Max")]
    last, planes = _planes(node, images, windows)
    if spatial == 3:
        padded = _padded_last(node, last, planes, _lowest(node, images))
        return [planes_first(node, node.emit("MaxPool3D", padded, **_window_attrs(planes), padding="VALID"), spatial)]
    return [planes_first(node, node.emit("MaxPool", last, **_window_attrs(planes), **padding_attrs(planes)), spatial)]


def average_pool(node: OnnxNode) -> Tensor:
    """AvgPool or AvgPool3D between Transposes, and RealDiv by the counted share of each window, if padding does not count.

    Padding counts only with `count_include_pad`. Elements that only `ceil_mode` adds never count.
    """
    images = node[0]
    windows, beyond = pool_windows(node, images)
    pads = [(window.before, window.after - more) for window, more in zip(windows, beyond, strict=True)]
    counted = pads if node.attr("count_include_pad", 0) else [(0, 0)] * len(windows)
    if not any(beyond) and counted == pads:
        return _means(node, images, windows)
    dims = (node.shape(images) or ())[2:]
    if len(dims) == len(windows) and all(dim is not None and dim <= MOST_KNOWN for dim in dims):
        made = _means(node, images, windows)
        for share in _shares(windows, [dim or 0 for dim in dims], counted):
            made = node.emit("RealDiv", made, node.like(share, images))
        return made
    # for unknown sizes, the counted share is the mean of ones in place of the counted elements
    whole = _pad(node, images, [(0, 0), (0, 0), *counted], node.like(0, images))
    rest = [
        window._replace(before=window.before - before, after=window.after - after)
        for window, (before, after) in zip(windows, counted, strict=True)
    ]
    return node.emit("RealDiv", _means(node, whole, rest), _means(node, node.emit("OnesLike", whole), rest))


def lp_pool(node: OnnxNode) -> Tensor:
    """Pow of the sum of powers: AvgPool, and Mul by the window's size."""
    images, p = node[0], float(node.attr("p", 2))
    powers = node.emit("Pow", node.emit("Abs", images), node.like(p, images))
    windows, _ = pool_windows(node, images)
    size = prod(window.taps for window in windows)
    mean = _means(node, powers, windows)
    return node.emit("Pow", node.emit("Mul", mean, node.like(size, images)), node.like(1 / p, images))


def _means(node: OnnxNode, images: Tensor, windows: Sequence[AxisWindow]) -> Tensor:
    """Return the means of windows in which padding counts as zeros."""
    spatial, zero = len(windows), node.like(0, images)
    native = spatial < 4 and all(window.rate == 1 for window in windows)
    op = "AvgPool3D" if spatial == 3 else "AvgPool"
    if not native or not node.computes(op, T=node.dtype(images)):
        total = _reduced(node, _padded(node, images, windows, zero), windows, "Sum")
        return node.emit("RealDiv", total, node.like(prod(window.taps for window in windows), images))
    last, planes = _planes(node, images, windows)
    padded = _padded_last(node, last, planes, zero)
    return planes_first(node, node.emit(op, padded, **_window_attrs(planes), padding="VALID"), spatial)


def _shares(windows: Sequence[AxisWindow], dims: Sequence[int], counted: Sequence[tuple[int, int]]) -> list[Known]:
    """Return the counted share of each window along each axis that has uncounted elements, shaped for broadcasting.

    All elements of an axis are counted; of the padding, only the numbers of elements in `counted` (at the start, at the end).
    """
    shares = []
    for axis, (window, dim, pads) in enumerate(zip(windows, dims, counted, strict=True), 2):
        count = (dim + window.before + window.after - window.reach) // window.stride + 1
        places = np.arange(count)[:, None] * window.stride + np.arange(window.taps) * window.rate - window.before
        share = ((places >= -pads[0]) & (places < dim + pads[1])).mean(axis=1)
        if (share != 1).any():
            shares.append(share.reshape([-1 if other == axis else 1 for other in range(len(windows) + 2)]))
    return shares


def _window_attrs(planes: Sequence[AxisWindow]) -> dict[str, Any]:
    return {
        "ksize": (1, *(window.taps for window in planes), 1),
        "strides": (1, *(window.stride for window in planes), 1),
    }


def _planes(node: OnnxNode, images: Tensor, windows: Sequence[AxisWindow]) -> tuple[Tensor, list[AxisWindow]]:
    """Return images with channels last and at least two spatial axes, and the windows over these."""
    if len(windows) > 1:
        return channels_last(node, images, len(windows)), list(windows)
    return channels_last(node, node.emit("ExpandDims", images, np.int32(2)), 2), [UNIT, *windows]


def _lowest(node: OnnxNode, tensor: Tensor) -> Tensor:
    """Return the lowest value of a tensor's type."""
    numpy = node.dtype(tensor).numpy
    return node.like(np.iinfo(numpy).min if numpy.kind in "iu" else -np.inf, tensor)


def _padded(node: OnnxNode, images: Tensor, windows: Sequence[AxisWindow], value: Tensor) -> Tensor:
    """Return padded images `[batch, channels, spatial...]`."""
    return _pad(node, images, [(0, 0), (0, 0), *((w.before, w.after) for w in windows)], value)


def _padded_last(node: OnnxNode, images: Tensor, windows: Sequence[AxisWindow], value: Tensor) -> Tensor:
    return _pad(node, images, [(0, 0), *((w.before, w.after) for w in windows), (0, 0)], value)


def _pad(node: OnnxNode, images: Tensor, pads: Sequence[tuple[int, int]], value: Tensor) -> Tensor:
    # negative padding means that elements after the last window are not used
    paddings = np.maximum(np.array(pads, np.int32), 0)
    return node.emit("PadV2", images, paddings, value) if paddings.any() else images


def _reduced(node: OnnxNode, padded: Tensor, windows: Sequence[AxisWindow], op: str) -> Tensor:
    """Return windows reduced by an op, axis by axis."""
    for axis, window in enumerate(windows, 2):
        gathered = node.emit("GatherV2", padded, _places(node, padded, window, axis), np.int32(axis))
        padded = node.emit(op, gathered, np.int32(axis + 1))
    return padded


def sums_of_windows(node: OnnxNode, tensor: Tensor, window: AxisWindow, axis: int, rank: int) -> Tensor:
    """Return the sums of windows along one axis of a tensor, which is padded with zeros."""
    pads = [(window.before, window.after) if other == axis else (0, 0) for other in range(rank)]
    padded = _pad(node, tensor, pads, node.like(0, tensor))
    gathered = node.emit("GatherV2", padded, _places(node, padded, window, axis), np.int32(axis))
    return node.emit("Sum", gathered, np.int32(axis + 1))


def _places(node: OnnxNode, padded: Tensor, window: AxisWindow, axis: int) -> Value:
    """Return the indices of each window's elements along an axis: `[windows, taps]`."""
    fold = ConstantFolder(node)
    size = node.emit("GatherV2", node.emit("Shape", padded), np.int32(axis), np.int32(0))
    last = fold("Sub", size, np.array(window.reach - 1, np.int32))
    starts = fold("Range", np.array(0, np.int32), last, np.array(window.stride, np.int32))
    steps = np.arange(window.taps, dtype=np.int32) * np.int32(window.rate)
    return fold("AddV2", node.emit("ExpandDims", starts, np.int32(1)), steps)


def _max_with_places(node: OnnxNode, images: Tensor, windows: Sequence[AxisWindow]) -> tuple[Tensor, Tensor]:
    """Return the maxima of windows, and their indices in the flat, unpadded tensor; for equal elements, the first index.

    The last axis is reduced first, so that the first of equal elements in memory order is found.
    """
    fold = ConstantFolder(node)
    spatial = len(windows)
    sizes = [fold.cast(size, INT64) for size in fold.sizes(images)]
    order = sizes[2:][::-1] if node.attr("storage_order", 0) else sizes[2:]
    strides: list[Value] = [np.array(1, np.int64)]
    for size in order[::-1]:
        strides.append(fold("Mul", strides[-1], size))
    whole = strides.pop()
    steps = strides if node.attr("storage_order", 0) else strides[::-1]
    planes = fold("Range", np.array(0, np.int64), fold("Mul", sizes[0], sizes[1]), np.array(1, np.int64))
    shape = fold.pack([sizes[0], sizes[1], *[np.array(1, np.int64)] * spatial])
    places = fold("Reshape", fold("Mul", planes, whole), shape)
    for axis, (size, step) in enumerate(zip(sizes[2:], steps, strict=True)):
        along = fold("Range", np.array(0, np.int64), size, np.array(1, np.int64))
        shape_along = np.array([-1 if other == axis + 2 else 1 for other in range(spatial + 2)], np.int64)
        places = fold("AddV2", places, fold("Reshape", fold("Mul", along, step), shape_along))
    values = _padded(node, images, windows, _lowest(node, images))
    kept = _padded(
        node, node.constant(places) if isinstance(places, np.ndarray) else places, windows, node.constant(np.int64(0))
    )
    for axis in range(spatial + 1, 1, -1):
        window = windows[axis - 2]
        taken = _places(node, values, window, axis)
        gathered = node.emit("GatherV2", values, taken, np.int32(axis))
        best = node.emit("ArgMax", gathered, np.int32(axis + 1), output_type=INT32)
        # select the index of each window's maximum
        values = node.emit("Max", gathered, np.int32(axis + 1))
        kept = _picked(node, node.emit("GatherV2", kept, taken, np.int32(axis)), best, axis + 1)
    return values, kept


def _picked(node: OnnxNode, tensor: Tensor, chosen: Tensor, axis: int) -> Tensor:
    """Remove an axis of a tensor: keep one element along the axis for each position. `chosen` has the indices to keep."""
    rank = node.known_rank(node[0]) + 1
    last = [other for other in range(rank) if other != axis] + [axis]
    rows = node.emit("Transpose", tensor, np.array(last, np.int32)) if last[-2] != axis - 1 or axis != rank - 1 else tensor
    hot = node.emit(
        "OneHot",
        chosen,
        node.emit("GatherV2", node.emit("Shape", rows), np.int32(rank - 1), np.int32(0)),
        np.int64(1),
        np.int64(0),
        axis=-1,
    )
    return node.emit("Sum", node.emit("Mul", rows, hot), np.int32(rank - 1))


# --- global pools ---------------------------------------------------------------------------------------------------


def _spatial_axes(node: OnnxNode) -> Value:
    """Return the axes after batch and channels."""
    return np.arange(2, node.known_rank(node[0]), dtype=np.int32)


def _global(op: str) -> Row:
    """Return the row of a reduction over all spatial axes."""

    def row(node: OnnxNode) -> Tensor:
        return node.emit(op, node[0], _spatial_axes(node), keep_dims=True)

    return describe_row(row, f"{op} over all spatial axes.")


def global_lp_pool(node: OnnxNode) -> Tensor:
    """Pow of the Sum of powers over all spatial axes."""
    images, p = node[0], float(node.attr("p", 2))
    powers = node.emit("Pow", node.emit("Abs", images), node.like(p, images))
    return node.emit("Pow", node.emit("Sum", powers, _spatial_axes(node), keep_dims=True), node.like(1 / p, images))


def max_unpool(node: OnnxNode) -> Tensor:
    """ScatterNd of the values by their indices; Pad for a larger `output_shape`."""
    fold = ConstantFolder(node)
    values, places = node[0], node[1]
    taps = kernel_shape(node)
    count = len(taps)
    strides, pads = spatial_attr(node, "strides", count, 1), spatial_attr(node, "pads", 2 * count, 0)
    sizes = [fold.cast(size, INT64) for size in fold.sizes(values)]
    for axis in range(count):
        less = taps[axis] - strides[axis] - pads[axis] - pads[axis + count]
        scaled = fold("Mul", sizes[axis + 2], np.array(strides[axis], np.int64))
        sizes[axis + 2] = fold("AddV2", scaled, np.array(less, np.int64))
    shape = fold.pack(sizes)
    total = fold("Reshape", fold("Prod", shape, np.array(0, np.int32)), np.array([1], np.int32))
    flat = np.array([-1], np.int32)
    indices = node.emit("Reshape", places, np.array([-1, 1], np.int32))
    put = node.emit("ScatterNd", indices, node.emit("Reshape", values, flat), total)
    made = node.emit("Reshape", put, shape)
    if node.input(2) is None:
        return made
    more = fold("Sub", fold.value(node[2]), shape)
    return node.emit("Pad", made, fold.pack([np.zeros(count + 2, np.int64), more], 1))


ROWS: Rows = {
    ("AveragePool", 1, 7, 10, 11, 19, 22): average_pool,
    ("GlobalAveragePool", 1, 22): _global("Mean"),
    ("GlobalLpPool", 1, 2, 22): global_lp_pool,
    ("GlobalMaxPool", 1, 22): _global("Max"),
    ("LpPool", 1, 2, 11, 18, 22): lp_pool,
    ("MaxPool", 1, 8, 10, 11, 12, 22): max_pool,
    ("MaxUnpool", 9, 11, 22): max_unpool,
}
