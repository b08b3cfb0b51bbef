"""Gathering and scattering by indices."""

from __future__ import annotations

import numpy as np

from placesim.core.dtypes import INT32, INT64
from placesim.formats.onnx.onnx_node import OnnxNode, Rows, Tensor, UnsupportedNodeError


def _wrapped(node: OnnxNode, indices: Tensor, size: int | Tensor) -> Tensor:
    """Return indices in which each negative one, which counts from the end, is replaced by one that counts from the start."""
    content = node.content(indices)
    if content is not None and (content >= 0).all():
        return indices
    if content is not None and isinstance(size, int):
        return node.constant(np.where(content < 0, content + size, content), node.dtype(indices), "indices")
    return node.emit("FloorMod", indices, node.cast(node.scalar(size), node.dtype(indices)))


def gather(node: OnnxNode) -> Tensor:
    """GatherV2; negative indices count from the end."""
    axis = node.attr("axis", 0)
    indices = _wrapped(node, node[1], node.size(node[0], axis))
    return node.emit("GatherV2", node[0], indices, node.constant(axis, INT32, "axis"))


def _wrapped_rows(node: OnnxNode, indices: Tensor, sizes: Tensor, first: int, depth: int | None) -> Tensor:
    """Return indices `[..., depth]` into the axes from `first` on, with negative ones replaced like in `_wrapped`."""
    content = node.content(indices)
    if content is not None and (content >= 0).all():
        return indices
    end = None if depth is None else first + depth
    if depth is None:
        last = node.part(node.emit("Shape", indices, out_type=INT64), -1)
        bounds = node.emit("Slice", sizes, node.vector([first]), node.emit("ExpandDims", last, 0))
    else:
        bounds = node.range_of(sizes, first, end)
    return node.same_shape(node.emit("FloorMod", node.cast(indices, INT64), bounds), indices)


def _depth(node: OnnxNode, indices: Tensor) -> int | None:
    shape = node.shape(indices)
    return shape[-1] if shape else None


def gather_nd(node: OnnxNode) -> Tensor:
    """GatherNd; with `batch_dims`, the numbers of the batches become the first indices."""
    x, indices, batches = node[0], node[1], node.attr("batch_dims", 0)
    found = _wrapped_rows(node, indices, node.sizes(x), batches, _depth(node, indices))
    if not batches:
        return node.emit("GatherNd", x, found)
    rank = node.known_rank(indices)
    lead = node.range_of(node.sizes(indices), 0, rank - 1)
    grids = [_numbered(node, node.size(indices, axis), axis, rank - 1, lead) for axis in range(batches)]
    whole = [node.emit("ExpandDims", grid, -1) for grid in grids]
    return node.emit("GatherNd", x, node.emit("ConcatV2", [*whole, node.cast(found, INT64)], -1))


def _numbered(node: OnnxNode, size: int | Tensor, axis: int, rank: int, shape: Tensor) -> Tensor:
    """Return a tensor of a shape in which each element is its index along an axis."""
    numbers = node.emit("Range", node.constant(0, INT64), node.scalar(size), node.constant(1, INT64))
    line = node.emit("Reshape", numbers, node.vector([-1 if one == axis else 1 for one in range(rank)]))
    return node.emit("BroadcastTo", line, shape)


def _full_indices(node: OnnxNode, x: Tensor, indices: Tensor, axis: int) -> Tensor:
    """Return indices `[..., rank]` of elements of `x`: along `axis` from `indices`, along other axes the place in `indices`."""
    rank = node.known_rank(indices)
    axis %= rank
    sizes = node.sizes(indices)
    along = node.cast(_wrapped(node, indices, node.size(x, axis)), INT64)
    grids = [along if one == axis else _numbered(node, node.size(indices, one), one, rank, sizes) for one in range(rank)]
    return node.emit("Pack", grids, axis=-1)


def gather_elements(node: OnnxNode) -> Tensor:
    """GatherNd by indices for all axes."""
    return node.emit("GatherNd", node[0], _full_indices(node, node[0], node[1], node.attr("axis", 0)))


def _scattered(node: OnnxNode, x: Tensor, indices: Tensor, updates: Tensor) -> Tensor:
    """Add the scatter op of the attribute `reduction`; TensorFlow has none for `mul`."""
    reduction = node.attr("reduction", "none")
    if reduction == "mul":
        return _multiplied(node, x, indices, updates)
    if reduction not in _SCATTERS:
        raise UnsupportedNodeError(f"no such reduction: got '{reduction}', expected none, add, mul, max or min")
    return node.emit(_SCATTERS[reduction], x, indices, updates)


_SCATTERS = {
    "none": "TensorScatterUpdate",
    "add": "TensorScatterAdd",
    "max": "TensorScatterMax",
    "min": "TensorScatterMin",
}


def _multiplied(node: OnnxNode, x: Tensor, indices: Tensor, updates: Tensor) -> Tensor:
    """Multiply each element of `x` by all its updates: UnsortedSegmentProd of updates by the numbers of their slices."""
    depth = _depth(node, indices)
    if node.op == "ScatterElements":
        depth = node.known_rank(x)
    if depth is None:
        raise UnsupportedNodeError("cannot multiply updates: got indices of unknown length, expected a known length")
    sizes = node.sizes(x)
    outer, inner = node.range_of(sizes, 0, depth), node.range_of(sizes, depth, None)
    steps = node.emit("Cumprod", outer, 0, exclusive=True, reverse=True)
    numbers = node.emit("Sum", node.emit("Mul", node.cast(indices, INT64), steps), node.vector([-1]))
    count = node.emit("Prod", outer, node.vector([0]))
    factors = node.emit("UnsortedSegmentProd", updates, numbers, count)
    return node.emit("Mul", x, node.emit("Reshape", factors, node.emit("ConcatV2", [outer, inner], 0)))


def scatter_elements(node: OnnxNode) -> Tensor:
    """TensorScatterUpdate, TensorScatterAdd (or Max, Min) with indices for all axes; `mul` is UnsortedSegmentProd and Mul."""
    return _scattered(node, node[0], _full_indices(node, node[0], node[1], node.attr("axis", 0)), node[2])


def tensor_scatter(node: OnnxNode) -> Tensor:
    """TensorScatterUpdate of a cache, from a start index for each batch element; a circular cache wraps at the end."""
    cache, update, start = node[0], node[1], node.input(2)
    rank = node.known_rank(update)
    axis = node.attr("axis", -2) % rank
    sizes = node.sizes(update)
    along = _numbered(node, node.size(update, axis), axis, rank, sizes)
    if start is not None:
        first = node.emit("Reshape", node.cast(start, INT64), node.vector([-1] + [1] * (rank - 1)))
        along = node.emit("AddV2", along, first)
    if node.attr("mode", "linear") == "circular":
        along = node.emit("FloorMod", along, node.scalar(node.size(cache, axis)))
    grids = [along if one == axis else _numbered(node, node.size(update, one), one, rank, sizes) for one in range(rank)]
    return node.emit("TensorScatterUpdate", cache, node.emit("Pack", grids, axis=-1), update)


def scatter_nd(node: OnnxNode) -> Tensor:
    """TensorScatterUpdate, TensorScatterAdd (or Max, Min); `mul` is UnsortedSegmentProd and Mul."""
    x, indices = node[0], node[1]
    return _scattered(node, x, _wrapped_rows(node, indices, node.sizes(x), 0, _depth(node, indices)), node[2])


def one_hot(node: OnnxNode) -> Tensor:
    """OneHot, of indices to which the depth is added if they are negative."""
    indices, depth, values = node[0], node.cast(node[1], INT64), node[2]
    if node.rank(depth) != 0:
        depth = node.emit("Reshape", depth, node.vector([]))
    indices = node.cast(indices, INT64)
    wrapped = node.emit("AddV2", indices, depth)
    found = node.emit("SelectV2", node.emit("Less", indices, node.constant(0, INT64)), wrapped, indices)
    axis = node.attr("axis", -1)
    if axis < -1:
        axis += node.known_rank(indices if node.rank(indices) is not None else node[0]) + 1
    off, on = node.part(values, 0), node.part(values, 1)
    return node.emit("OneHot", found, node.narrow(depth, "depth"), on, off, axis=axis)


def non_zero(node: OnnxNode) -> Tensor:
    """Transpose of Where, `[rank, number of nonzero elements]`."""
    return node.emit("Transpose", node.emit("Where", node[0]), [1, 0])


def compress(node: OnnxNode) -> Tensor:
    """GatherV2 by the indices for which the condition is true; without an axis, of the flat tensor."""
    x, axis = node[0], node.attr("axis")
    if axis is None:
        x, axis = node.emit("Reshape", x, node.vector([-1])), 0
    places = node.emit("Reshape", node.emit("Where", node[1]), node.vector([-1]))
    return node.emit("GatherV2", x, places, node.constant(axis, INT32, "axis"))


ROWS: Rows = {
    ("Compress", 9, 11, 28): compress,
    ("Gather", 1, 11, 13): gather,
    ("GatherElements", 11, 13): gather_elements,
    ("GatherND", 11, 12, 13): gather_nd,
    ("NonZero", 9, 13): non_zero,
    ("OneHot", 9, 11, 28): one_hot,
    ("Scatter", 9): scatter_elements,
    ("ScatterElements", 11, 13, 16, 18): scatter_elements,
    ("ScatterND", 11, 13, 16, 18): scatter_nd,
    ("TensorScatter", 24): tensor_scatter,
}
