"""Conv and ConvTranspose, as TensorFlow's convolutions between Transposes.

Before a single spatial axis, an axis of size 1 is added. Conv2D has groups; if each channel is a group, DepthwiseConv2dNative
is used. Volumes and transposed convolutions, for which TensorFlow has no groups, are computed group by group.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from placesim.formats.onnx.folding import MOST_KNOWN, ConstantFolder, Value
from placesim.formats.onnx.onnx_node import OnnxNode, Rows, Tensor, UnsupportedNodeError
from placesim.formats.onnx.rows.windows import (
    UNIT,
    AxisWindow,
    channels_last,
    group_count,
    kernel_shape,
    padding_attrs,
    pads_of,
    planes_first,
    spatial_attr,
    windows_of,
)


def conv(node: OnnxNode) -> Tensor:
    """Conv2D (DepthwiseConv2dNative if each channel is a group, Conv3D for volumes) and BiasAdd, between Transposes."""
    return convolved(node, node[0], node[1], node.input(2))


def convolved(node: OnnxNode, images: Tensor, filters: Tensor, bias: Tensor | None) -> Tensor:
    """Return the result of `conv` for these tensors, of a type that Conv2D takes."""
    windows = list(windows_of(node, images, kernel_shape(node, filters)))
    spatial = len(windows)
    if spatial not in (1, 2, 3):
        raise UnsupportedNodeError(f"unsupported convolution: got {spatial} spatial axes, expected 1 to 3")
    dims = node.shape(filters)
    images, filters, windows = _as_planes(node, images, filters, windows)
    planes = len(windows)
    last = channels_last(node, images, planes)
    groups = group_count(node)
    depthwise = groups > 1 and dims is not None and dims[1] == 1 and dims[0] is not None
    if planes == 3:
        made = _volumes(node, last, filters, windows, groups)
    elif depthwise and node.computes("DepthwiseConv2dNative", T=node.dtype(images)) and _is_plain(windows):
        made = _depthwise(node, last, filters, windows, (groups, (dims or ())[0] or 0))
    else:
        turned = node.emit("Transpose", filters, np.array([2, 3, 1, 0], np.int32))
        rates = (1, *(window.rate for window in windows), 1)
        made = node.emit("Conv2D", last, turned, strides=_strides(windows), dilations=rates, **padding_attrs(windows))
    return _finished(node, made, bias, spatial)


def _as_planes(
    node: OnnxNode, images: Tensor, filters: Tensor, windows: list[AxisWindow]
) -> tuple[Tensor, Tensor, list[AxisWindow]]:
    if len(windows) > 1:
        return images, filters, windows
    axis = np.int32(2)
    return node.emit("ExpandDims", images, axis), node.emit("ExpandDims", filters, axis), [UNIT, *windows]


def _finished(node: OnnxNode, made: Tensor, bias: Tensor | None, spatial: int) -> Tensor:
    """Return a result with the bias added to the channels, which are last, and with the channels moved first."""
    if bias is not None:
        made = node.emit("BiasAdd" if node.computes("BiasAdd", T=node.dtype(made)) else "AddV2", made, bias)
    return planes_first(node, made, spatial)


def _is_plain(windows: Sequence[AxisWindow]) -> bool:
    """Whether DepthwiseConv2dNative allows these windows: equal strides, no dilations."""
    return len({window.stride for window in windows}) == 1 and all(window.rate == 1 for window in windows)


def _strides(windows: Sequence[AxisWindow]) -> tuple[int, ...]:
    return (1, *(window.stride for window in windows), 1)


def _depthwise(
    node: OnnxNode, images: Tensor, filters: Tensor, windows: Sequence[AxisWindow], counts: tuple[int, int]
) -> Tensor:
    """Add a DepthwiseConv2dNative. `counts` are the numbers of channels and of outputs."""
    groups, outputs = counts
    turned = node.emit("Transpose", filters, np.array([2, 3, 1, 0], np.int32))
    shape = np.array([*(window.taps for window in windows), groups, outputs // groups], np.int32)
    shaped = node.emit("Reshape", turned, shape)
    return node.emit("DepthwiseConv2dNative", images, shaped, strides=_strides(windows), **padding_attrs(windows))


def _volumes(node: OnnxNode, images: Tensor, filters: Tensor, windows: Sequence[AxisWindow], groups: int) -> Tensor:
    turned = dilated(node, node.emit("Transpose", filters, np.array([2, 3, 4, 1, 0], np.int32)), windows)
    pads = pads_of(windows)
    padded = node.emit("Pad", images, np.array(pads, np.int32).reshape(-1, 2)) if any(pads) else images
    pieces = zip(split(node, padded, groups, 4), split(node, turned, groups, 4), strict=True)
    made = [node.emit("Conv3D", part, taps, strides=_strides(windows), padding="VALID") for part, taps in pieces]
    return joined(node, made, 4)


def split(node: OnnxNode, tensor: Tensor, count: int, axis: int) -> tuple[Tensor, ...]:
    """Return a tensor in equal parts along an axis; the tensor itself for a single part."""
    return (tensor,) if count == 1 else node.emit_all("Split", np.int32(axis), tensor, num_split=count)


def joined(node: OnnxNode, parts: Sequence[Tensor], axis: int) -> Tensor:
    """Return parts joined along an axis, the reverse of `split`."""
    return parts[0] if len(parts) == 1 else node.emit("ConcatV2", list(parts), np.int32(axis))


def dilated(node: OnnxNode, filters: Tensor, windows: Sequence[AxisWindow]) -> Tensor:
    """Return filters `[taps..., channels, outputs]` with zeros between taps, for ops whose kernels have no dilations."""
    for axis, window in enumerate(windows):
        if window.rate > 1:
            if window.reach > MOST_KNOWN:
                raise UnsupportedNodeError(f"window too large: got {window.reach}, expected at most {MOST_KNOWN}")
            paddings = np.zeros((len(windows) + 2, 2), np.int32)
            paddings[axis, 1] = 1
            padded = node.emit("Pad", filters, paddings)
            steps = np.arange(window.reach, dtype=np.int32)
            taken = np.where(steps % window.rate == 0, steps // window.rate, window.taps).astype(np.int32)
            filters = node.emit("GatherV2", padded, taken, np.int32(axis))
    return filters


# --- transposed -----------------------------------------------------------------------------------------------------


def conv_transpose(node: OnnxNode) -> Tensor:
    """Conv2DBackpropInput (Conv3DBackpropInputV2 for volumes) for each group, and BiasAdd, between Transposes.

    Images are `[batch, channels, spatial...]`, filters `[channels, outputs of a group, taps...]`.
    """
    images, filters = node[0], node[1]
    taps = kernel_shape(node, filters)
    spatial = len(taps)
    if spatial not in (1, 2, 3):
        raise UnsupportedNodeError(f"unsupported transposed convolution: got {spatial} spatial axes, expected 1 to 3")
    node.known_rank(images)
    windows = _transposed_windows(node, images, taps)
    more = list(spatial_attr(node, "output_padding", spatial, 0))
    images, filters, windows = _as_planes(node, images, filters, windows)
    more = [0] * (len(windows) - spatial) + more
    planes, groups = len(windows), group_count(node)
    last = channels_last(node, images, planes)
    turned = node.emit("Transpose", filters, np.array([*range(2, planes + 2), 1, 0], np.int32))
    taps_last = dilated(node, turned, windows)
    sizes = _transposed_sizes(node, node[0], windows, more)
    given = zip(split(node, last, groups, planes + 1), split(node, taps_last, groups, planes + 1), strict=True)
    made = joined(node, [_transposed(node, part, taps, windows, more, sizes) for part, taps in given], planes + 1)
    return _finished(node, made, node.input(2), spatial)


def _transposed_windows(node: OnnxNode, images: Tensor, taps: Sequence[int]) -> list[AxisWindow]:
    """Return windows whose padding is cut from the ends of the whole output; negative padding makes the output longer."""
    count, shape = len(taps), node.attr("output_shape")
    auto = node.attr("auto_pad", "NOTSET")
    if auto == "NOTSET" and shape is None:
        return list(windows_of(node, images, taps))
    strides, rates = spatial_attr(node, "strides", count, 1), spatial_attr(node, "dilations", count, 1)
    more = spatial_attr(node, "output_padding", count, 0)
    plain = [AxisWindow(*row, 0, 0) for row in zip(taps, strides, rates, strict=True)]
    if auto == "VALID" and shape is None:
        return plain
    dims = (node.shape(images) or ())[2:]
    made = []
    for axis, window in enumerate(plain):
        # with `auto_pad` and no `output_shape`, the output size is the input size times the stride
        total = window.reach - window.stride + more[axis]
        if shape is not None:
            size = dims[axis]
            if size is None:
                got = "got an output_shape for an axis of unknown size"
                raise UnsupportedNodeError(f"unknown padding: {got}, expected a known size")
            total += size * window.stride - tuple(shape)[-count:][axis]
        less = total // 2
        before, after = (less, total - less) if auto == "SAME_UPPER" else (total - less, less)
        made.append(window._replace(before=before, after=after))
    return made


def _transposed_sizes(node: OnnxNode, images: Tensor, windows: Sequence[AxisWindow], more: Sequence[int]) -> list[Value]:
    """Return the spatial sizes of the output."""
    fold = ConstantFolder(node)
    given = fold.sizes(images)[2:]
    known: list[Value] = [*[np.array(1, np.int32)] * (len(windows) - len(given)), *given]
    ends = [window.reach - window.stride - window.before - window.after for window in windows]
    return [
        fold("AddV2", fold("Mul", size, np.array(window.stride, np.int32)), np.array(end + extra, np.int32))
        for size, window, end, extra in zip(known, windows, ends, more, strict=True)
    ]


def _transposed(
    node: OnnxNode, images: Tensor, filters: Tensor, windows: Sequence[AxisWindow], more: Sequence[int], sizes: list[Value]
) -> Tensor:
    fold = ConstantFolder(node)
    pads = pads_of(windows)
    fits = min(pads) >= 0 and all(extra < window.stride for extra, window in zip(more, windows, strict=True))
    if len(windows) == 2 and fits:
        attrs = {"strides": _strides(windows), **padding_attrs(windows)}
        return node.emit("Conv2DBackpropInput", fold.pack(sizes), filters, images, **attrs)
    # the whole output, whose ends are then cut off or padded with zeros
    cut = [window.before + window.after - extra for window, extra in zip(windows, more, strict=True)]
    whole = [fold("AddV2", size, np.array(less, np.int32)) for size, less in zip(sizes, cut, strict=True)]
    op, shape = "Conv2DBackpropInput", whole
    if len(windows) == 3:
        batch = node.emit("GatherV2", node.emit("Shape", images), np.int32(0), np.int32(0))
        outputs = node.emit("GatherV2", node.emit("Shape", filters), np.int32(3), np.int32(0))
        op, shape = "Conv3DBackpropInputV2", [batch, *whole, outputs]
    made = node.emit(op, fold.pack(shape), filters, images, strides=_strides(windows), padding="VALID")
    longer = [(max(-w.before, 0), max(extra - w.after, 0)) for w, extra in zip(windows, more, strict=True)]
    if any(map(any, longer)):
        made = node.emit("Pad", made, np.array([(0, 0), *longer, (0, 0)], np.int32))
    begin = np.array([0, *(max(window.before, 0) for window in windows), 0], np.int32)
    if not any(w.before > 0 or w.after > extra for w, extra in zip(windows, more, strict=True)):
        return made
    all_of = np.array(-1, np.int32)
    return node.emit("Slice", made, begin, fold.pack([all_of, *sizes, all_of]))


ROWS: Rows = {
    ("Conv", 1, 11, 22): conv,
    ("ConvTranspose", 1, 11, 22): conv_transpose,
}
