"""Changes of shape, and parts of tensors by ranges."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from placesim.core.dtypes import INT32, INT64
from placesim.formats.onnx.onnx_node import OnnxNode, Outputs, Rows, Tensor, UnsupportedNodeError

# --- shapes as tensors ----------------------------------------------------------------------------------------------


def shape(node: OnnxNode) -> Tensor:
    """Shape; StridedSlice for a part of it."""
    found = node.emit("Shape", node[0], out_type=INT64)
    start, end = node.attr("start", 0), node.attr("end")
    return found if not start and end is None else node.range_of(found, start, end)


def size(node: OnnxNode) -> Tensor:
    """Size."""
    return node.emit("Size", node[0], out_type=INT64)


# --- other shapes of the same elements ------------------------------------------------------------------------------


def reshape(node: OnnxNode) -> Tensor:
    """Reshape; SelectV2 replaces sizes of 0 by those of the input, unless they are known."""
    x, wanted = node[0], node[1]
    sizes = node.sizes_known(wanted)
    if node.attr("allowzero", 0) or (sizes is not None and 0 not in sizes):
        return node.emit("Reshape", x, wanted)
    own = node.shape(x)
    if sizes is not None and None not in sizes and own is not None:
        filled = [own[i] if known == 0 and i < len(own) else known for i, known in enumerate(sizes)]
        open_places = [i for i, known in enumerate(filled) if known is None]
        if len(open_places) == 1 and -1 not in filled:
            filled[open_places[0]] = -1
        numbers = [known for known in filled if known is not None]
        if len(numbers) == len(filled):
            return node.emit("Reshape", x, node.vector(numbers, "shape"))
    found = node.sizes(x)
    length = None if sizes is None else len(sizes)
    if length is None or own is None or length != len(own):
        padded = node.emit("ConcatV2", [found, node.emit("OnesLike", wanted)], 0)
        found = node.emit("Slice", padded, node.vector([0]), node.emit("Shape", wanted, out_type=INT64))
    return node.emit("Reshape", x, node.emit("SelectV2", node.emit("Equal", wanted, node.constant(0, INT64)), found, wanted))


def flatten(node: OnnxNode) -> Tensor:
    """Reshape to a matrix whose columns are all axes from `axis` on."""
    x, axis = node[0], node.attr("axis", 1)
    own = node.shape(x)
    if own is not None:
        axis = axis + len(own) if axis < 0 else axis
        for sizes, is_first in ((own[axis:], False), (own[:axis], True)):
            if None not in sizes and 0 not in sizes:
                known = math.prod(one for one in sizes if one is not None)
                return node.emit("Reshape", x, node.vector([known, -1] if is_first else [-1, known], "shape"))
    found = node.sizes(x)
    halves = [node.range_of(found, 0, axis), node.range_of(found, axis, None)]
    products = [node.emit("Prod", half, node.vector([0]), keep_dims=True) for half in halves]
    return node.emit("Reshape", x, node.emit("ConcatV2", products, 0))


def squeeze(node: OnnxNode) -> Tensor:
    """Squeeze; Reshape for axes that are not known."""
    x = node[0]
    given = node.input(1)
    axes = node.attr("axes") if given is None else node.content(given)
    if axes is not None:
        return node.emit("Squeeze", x, squeeze_dims=tuple(int(axis) for axis in np.ravel(axes)))
    if given is None:
        return node.emit("Squeeze", x)
    sizes = node.sizes(x)
    dropped = _marked(node, given, node.emit("Size", sizes, out_type=INT64))
    kept = node.emit("Where", node.emit("Equal", dropped, node.constant(0, INT64)))
    return node.emit("Reshape", x, node.emit("GatherNd", sizes, kept))


def unsqueeze(node: OnnxNode) -> Tensor:
    """ExpandDims for each axis; Reshape for axes that are not known."""
    x = node[0]
    given = node.input(1)
    axes = node.attr("axes") if given is None else node.content(given)
    if axes is None:
        return _unsqueezed(node, x, node[1])
    numbers = [int(axis) for axis in np.ravel(axes)]
    if len(numbers) != 1 and any(axis < 0 for axis in numbers):
        rank = node.known_rank(x) + len(numbers)
        numbers = [axis % rank for axis in numbers]
    for axis in sorted(numbers):
        x = node.emit("ExpandDims", x, node.constant(axis, INT32, "dim"))
    return x if numbers else node.emit("Identity", x)


def _unsqueezed(node: OnnxNode, x: Tensor, axes: Tensor) -> Tensor:
    sizes = node.sizes(x)
    rank = node.emit("AddV2", node.emit("Size", sizes, out_type=INT64), node.emit("Size", axes, out_type=INT64))
    added = _marked(node, axes, rank)
    kept = node.emit("Where", node.emit("Equal", added, node.constant(0, INT64)))
    others = node.emit("ScatterNd", kept, sizes, node.emit("ExpandDims", rank, 0))
    return node.emit("Reshape", x, node.emit("AddV2", added, others))


def _marked(node: OnnxNode, axes: Tensor, rank: Tensor) -> Tensor:
    """Return a vector of `rank` numbers: 1 for each of the axes, which may be negative, else 0."""
    places = node.emit("ExpandDims", node.emit("FloorMod", node.cast(axes, INT64), rank), -1)
    return node.emit("ScatterNd", places, node.emit("OnesLike", node.cast(axes, INT64)), node.emit("ExpandDims", rank, 0))


def transpose(node: OnnxNode) -> Tensor:
    """Transpose, by default to the reverse order of the axes."""
    x = node[0]
    order = node.attr("perm")
    if order is None and (rank := node.rank(x)) is not None:
        order = range(rank)[::-1]
    if order is not None:
        return node.emit("Transpose", x, node.constant(np.asarray(order, np.int32).reshape(-1), name="perm"))
    last = node.emit("Sub", node.emit("Rank", x), 1)
    return node.emit("Transpose", x, node.emit("Range", last, -1, -1))


def depth_to_space(node: OnnxNode) -> Tensor:
    """Reshape, Transpose and Reshape, as in ONNX's definition."""
    x, block = node[0], node.attr("blocksize")
    batch, depth, rows, columns = (node.size(x, axis) for axis in range(4))
    less = _divided(node, depth, block * block)
    is_crd = node.attr("mode", "DCR") == "CRD"
    inner = [less, block, block] if is_crd else [block, block, less]
    parts = node.emit("Reshape", x, node.pack([batch, *inner, rows, columns]))
    order = (0, 1, 4, 2, 5, 3) if is_crd else (0, 3, 4, 1, 5, 2)
    sizes = [batch, less, _times(node, rows, block), _times(node, columns, block)]
    return node.emit("Reshape", node.permuted(parts, order), node.pack(sizes))


def space_to_depth(node: OnnxNode) -> Tensor:
    """Reshape, Transpose and Reshape, as in ONNX's definition."""
    x, block = node[0], node.attr("blocksize")
    batch, depth, rows, columns = (node.size(x, axis) for axis in range(4))
    less = [_divided(node, rows, block), _divided(node, columns, block)]
    parts = node.emit("Reshape", x, node.pack([batch, depth, less[0], block, less[1], block]))
    order = (0, 1, 3, 5, 2, 4) if node.attr("mode", "DCR") == "CRD" else (0, 3, 5, 1, 2, 4)
    return node.emit("Reshape", node.permuted(parts, order), node.pack([batch, _times(node, depth, block * block), *less]))


def _divided(node: OnnxNode, size: int | Tensor, by: int) -> int | Tensor:
    return size // by if isinstance(size, int) else node.emit("FloorDiv", size, node.constant(by, INT64))


def _times(node: OnnxNode, size: int | Tensor, by: int) -> int | Tensor:
    return size * by if isinstance(size, int) else node.emit("Mul", size, node.constant(by, INT64))


# --- joining, splitting, repeating ----------------------------------------------------------------------------------


def concat(node: OnnxNode) -> Tensor:
    """ConcatV2."""
    parts = [node[i] for i in range(len(node.inputs))]
    axis = node.attr("axis", 1)
    return node.emit("ConcatV2", parts, axis) if len(parts) > 1 else node.emit("Identity", parts[0])


def split(node: OnnxNode) -> Outputs:
    """Split into equal parts, else SplitV."""
    x, axis, count = node[0], node.attr("axis", 0), node.outputs
    given = node.input(1)

    def split_at(parts: Tensor) -> tuple[Tensor, ...]:
        return node.emit_all("SplitV", x, parts, node.constant(axis, INT32, "split_dim"), num_split=count)

    sizes = node.attr("split") if given is None else node.content(given)
    if given is not None and sizes is None:
        return split_at(given)
    if sizes is None:
        whole = node.size(x, axis)
        if isinstance(whole, int) and whole % count:
            if node.since < 18:
                raise UnsupportedNodeError(f"uneven parts: got {whole} elements of axis {axis}, expected a multiple of {count}")
            most = -(-whole // count)
            sizes = [max(min(most, whole - most * i), 0) for i in range(count)]
        elif not isinstance(whole, int) and node.since >= 18:
            part = node.emit("AddV2", whole, node.constant(count - 1, INT64))
            part = node.emit("FloorDiv", part, node.constant(count, INT64))
            last = node.emit("Sub", whole, node.emit("Mul", part, node.constant(count - 1, INT64)))
            return split_at(node.emit("Pack", [part] * (count - 1) + [last], axis=0))
    if sizes is None or len({int(one) for one in sizes}) == 1:
        return node.emit_all("Split", node.constant(axis, INT32, "split_dim"), x, num_split=count)
    return split_at(node.vector([int(one) for one in sizes]))


def tile(node: OnnxNode) -> Tensor:
    """Tile."""
    return node.emit("Tile", node[0], node[1])


def expand(node: OnnxNode) -> Tensor:
    """BroadcastTo; if the result's shape is unknown, BroadcastArgs computes it."""
    x, wanted = node[0], node[1]
    own, sizes = node.shape(x), node.content(wanted)
    if own is not None and sizes is not None and None not in own:
        whole = np.broadcast_shapes(tuple(one for one in own if one is not None), tuple(int(one) for one in sizes))
        return node.emit("BroadcastTo", x, node.vector(whole, "shape"))
    return node.emit("BroadcastTo", x, node.emit("BroadcastArgs", node.sizes(x), wanted))


# --- parts by ranges ------------------------------------------------------------------------------------------------


def slice_(node: OnnxNode) -> Tensor:
    """StridedSlice; TensorScatterUpdate for the bounds of axes that are not known."""
    x = node[0]
    if node.since < 10:
        starts, ends = node.attr("starts"), node.attr("ends")
        return _strided(node, x, starts, ends, node.attr("axes", range(len(starts))), [1] * len(starts))
    contents = [node.content(node.input(i)) for i in range(1, 5)]
    if all(content is not None or node.input(i) is None for i, content in enumerate(contents, 1)):
        starts, ends, axes, steps = (None if content is None else [int(one) for one in content] for content in contents)
        assert starts is not None
        assert ends is not None
        return _strided(node, x, starts, ends, range(len(starts)) if axes is None else axes, steps or [1] * len(starts))
    return _by_tensors(node, x)


def _strided(
    node: OnnxNode, x: Tensor, starts: Sequence[int], ends: Sequence[int], axes: Sequence[int], steps: Sequence[int]
) -> Tensor:
    places = [node.axis(axis, x) for axis in axes]
    length = max(places, default=-1) + 1
    begin, end, stride, untouched = [0] * length, [0] * length, [1] * length, (1 << length) - 1
    for place, start, stop, step in zip(places, starts, ends, steps, strict=True):
        begin[place], end[place], stride[place] = start, stop, step
        untouched &= ~(1 << place)
    bounds = [node.vector(begin, "begin"), node.vector(end, "end"), node.vector(stride, "strides")]
    masks: dict[str, Any] = {"begin_mask": untouched, "end_mask": untouched} if untouched else {}
    return node.emit("StridedSlice", x, *bounds, **masks)


def _by_tensors(node: OnnxNode, x: Tensor) -> Tensor:
    starts, ends = node.cast(node[1], INT64), node.cast(node[2], INT64)
    sizes = node.sizes(x)
    rank = node.emit("Size", sizes, out_type=INT64)
    zero, one = node.constant(0, INT64), node.constant(1, INT64)
    given = node.input(3)
    axes = (
        node.emit("Range", zero, node.emit("Size", starts, out_type=INT64), one) if given is None else node.cast(given, INT64)
    )
    places = node.emit("ExpandDims", node.emit("FloorMod", axes, rank), -1)
    begin = node.emit("TensorScatterUpdate", node.emit("ZerosLike", sizes), places, starts)
    end = node.emit("TensorScatterUpdate", sizes, places, ends)
    stride = node.emit("OnesLike", sizes)
    if (steps := node.input(4)) is not None:
        stride = node.emit("TensorScatterUpdate", stride, places, node.cast(steps, INT64))
    return node.emit("StridedSlice", x, begin, end, stride)


def pad(node: OnnxNode) -> Tensor:
    """PadV2 for a constant, MirrorPad for `reflect`, and GatherV2 along each axis for `edge` and `wrap`."""
    x = node[0]
    mode = node.attr("mode", "constant")
    listed = node.attr("pads")
    given = node.vector(listed, "pads") if listed is not None else node[1]
    content = node.content(given)
    axes = node.content(node.input(3))
    if node.input(3) is not None and axes is None:
        return _padded(node, x, _placed(node, x, given), mode)
    if content is None:
        return _padded(node, x, _pairs(node, given) if axes is None else _placed(node, x, given), mode)
    count = len(content) // 2
    before, after = [int(one) for one in content[:count]], [int(one) for one in content[count:]]
    if axes is not None:
        rank = node.known_rank(x)
        places = [int(axis) % rank for axis in axes]
        before, after = (
            [dict(zip(places, half, strict=True)).get(axis, 0) for axis in range(rank)] for half in (before, after)
        )
    if min([*before, *after], default=0) < 0:
        cropped = [(max(-one, 0), max(-other, 0)) for one, other in zip(before, after, strict=True)]
        ends = [-other for _, other in cropped]
        whole = sum(1 << i for i, end in enumerate(ends) if not end)
        bounds = [node.vector([one for one, _ in cropped]), node.vector(ends), node.vector([1] * len(ends))]
        x = node.emit("StridedSlice", x, *bounds, end_mask=whole)
        before, after = ([max(one, 0) for one in half] for half in (before, after))
    pairs = node.constant(np.asarray([before, after], np.int64).T.reshape(-1, 2), INT64, "paddings")
    return _padded(node, x, pairs, mode)


def _pairs(node: OnnxNode, given: Tensor) -> Tensor:
    """Return pads as pairs, `[axes, 2]`; `given` has first the pads before each axis, and then the pads after each axis."""
    return node.emit("Transpose", node.emit("Reshape", node.cast(given, INT64), node.vector([2, -1])), [1, 0])


def _placed(node: OnnxNode, x: Tensor, given: Tensor) -> Tensor:
    """Return the pads of some axes as pairs for all axes, `[rank, 2]`."""
    pairs = _pairs(node, given)
    rank = node.emit("Size", node.sizes(x), out_type=INT64)
    places = node.emit("ExpandDims", node.emit("FloorMod", node.cast(node[3], INT64), rank), -1)
    return node.emit("ScatterNd", places, pairs, node.emit("Pack", [rank, node.constant(2, INT64)], axis=0))


def _padded(node: OnnxNode, x: Tensor, pairs: Tensor, mode: str) -> Tensor:
    """Return a padded tensor. `pairs` are the pads `[rank, 2]`, none of them negative."""
    if mode == "constant":
        given = node.input(2)
        value = node.like(node.attr("value", 0.0), x) if given is None else given
        if node.rank(value) != 0:
            value = node.emit("Reshape", value, node.vector([]))
        return node.emit("PadV2", x, pairs, value)
    if mode == "reflect":
        return node.emit("MirrorPad", x, pairs, mode="REFLECT")
    if mode not in ("edge", "wrap"):
        raise UnsupportedNodeError(f"no such mode: got '{mode}', expected constant, reflect, edge or wrap")
    content = node.content(pairs)
    for axis in range(node.known_rank(node[0])):
        if content is None or content[axis].any():
            x = _around(node, x, pairs, axis, mode)
    return node.emit("Identity", x) if x == node[0] else x


def _around(node: OnnxNode, x: Tensor, pairs: Tensor, axis: int, mode: str) -> Tensor:
    """Return a tensor with an axis padded by its first and last elements, or with `wrap` by the elements of the other end."""
    zero, one = node.constant(0, INT64), node.constant(1, INT64)
    length = node.part(node.emit("Shape", x, out_type=INT64), axis)
    before, after = (node.emit("GatherNd", pairs, node.vector([axis, side])) for side in (0, 1))
    numbers = node.emit("Range", node.emit("Neg", before), node.emit("AddV2", length, after), one)
    if mode == "wrap":
        numbers = node.emit("FloorMod", numbers, length)
    else:
        numbers = node.emit("Minimum", node.emit("Maximum", numbers, zero), node.emit("Sub", length, one))
    return node.emit("GatherV2", x, numbers, axis)


def reverse_sequence(node: OnnxNode) -> Tensor:
    """ReverseSequence."""
    return node.emit(
        "ReverseSequence", node[0], node[1], seq_dim=node.attr("time_axis", 0), batch_dim=node.attr("batch_axis", 1)
    )


def range_(node: OnnxNode) -> Tensor:
    """Range."""
    dtype = node.dtype(node[0])
    wide = node.wider("Range", dtype, "Tidx")

    def bound(index: int) -> Tensor:
        found = node.cast(node[index], wide)
        return found if node.rank(node[index]) == 0 else node.emit("Reshape", found, node.vector([]))

    return node.cast(node.emit("Range", *map(bound, range(3))), dtype)


ROWS: Rows = {
    ("Concat", 4, 11, 13): concat,
    ("DepthToSpace", 1, 11, 13, 28): depth_to_space,
    ("Expand", 8, 13): expand,
    ("Flatten", 1, 9, 11, 13, 21, 23, 24, 25): flatten,
    ("Pad", 2, 11, 13, 18, 19, 21, 23, 24, 25): pad,
    ("Range", 11, 27): range_,
    ("Reshape", 5, 13, 14, 19, 21, 23, 24, 25): reshape,
    ("ReverseSequence", 10, 28): reverse_sequence,
    ("Shape", 1, 13, 15, 19, 21, 23, 24, 25): shape,
    ("Size", 1, 13, 19, 21, 23, 24, 25): size,
    ("Slice", 1, 10, 11, 13): slice_,
    ("SpaceToDepth", 1, 13, 28): space_to_depth,
    ("Split", 2, 11, 13, 18): split,
    ("Squeeze", 1, 11, 13, 21, 23, 24, 25): squeeze,
    ("Tile", 6, 13): tile,
    ("Transpose", 1, 13, 21, 23, 24, 25): transpose,
    ("Unsqueeze", 1, 11, 13, 21, 23, 24, 25): unsqueeze,
}
