"""DepthwiseConv2dNative and its gradients: each channel is convolved separately, into `multiplier` channels of the output.

For each tap of the filter, one pass over the input cells that it meets adds products to sums.  At stride 1, the cells that a
tap meets in a row of windows are neighbours in memory.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from functools import lru_cache, partial
from math import ceil, prod

import numpy as np
from numpy.lib.stride_tricks import as_strided

from placesim.core.dtypes import DataType
from placesim.core.errors import InvalidArgumentError, UnimplementedError
from placesim.ops.attributes import Attrs
from placesim.ops.kernels.blocks.constant_layouts import arranged
from placesim.ops.kernels.blocks.epilogues import Begin, nothing_follows, taken
from placesim.ops.kernels.blocks.work_parts import shares
from placesim.ops.kernels.cost_model import CostModel
from placesim.ops.kernels.kernel import Kernel, Table, Tensor, Trait, elements
from placesim.ops.kernels.memory_rules import KernelMemory, TensorMemory, item_size
from placesim.ops.kernels.nn.patches import WindowBlock, padded_region, whole
from placesim.ops.kernels.nn.windows import (
    UNSTRIDED,
    SpatialWindow,
    TensorLayout,
    arrange,
    check_entries,
    check_filter,
    check_image,
    check_padding,
    explicit_pairs,
    layout_of,
    remembered,
    static_windows,
    tap_flops,
    tap_gradient_flops,
    tap_slices,
    windows_of,
)
from placesim.ops.kernels.precision import is_narrow, packet_size
from placesim.ops.kernels.shapes import Dims, ShapeContext, ShapeError, infer_from_sizes, merge_dim, multiply_dims, with_rank
from placesim.ops.process.intra_op_threads import spread

BLOCK_BYTES = 1 << 20
"""Size of the cells under a block's windows: cells and sums stay in a core's own cache from tap to tap."""
RUN = 3 << 9
"""Minimum elements of a run, see `_taps_of`: starting shorter ones takes long, and filters of longer ones leave the cache."""


@lru_cache(maxsize=1024)
def blocks_of(shape: tuple[int, ...], windows: tuple[SpatialWindow, ...], itemsize: int) -> Sequence[WindowBlock]:
    """Split all windows over images `[batch, rows, columns, channels]` into blocks of about `BLOCK_BYTES` each."""
    vertical, horizontal = windows
    size = shape[0] * vertical.outputs * vertical.stride * horizontal.extent * shape[-1] * itemsize
    return tuple(whole(windows, shape[0]).cut(shares(ceil(size / BLOCK_BYTES))))


def _taps_of(tensor: Tensor, windows: Sequence[SpatialWindow], block: WindowBlock, count: int) -> Tensor:
    """View of the padded cells under each tap of a block's windows, `[taps, taps, images, rows, runs, run]`.

    A run is contiguous in both cells and output: the channels of `count` windows, which is 1 for strides above 1.
    """
    vertical, horizontal = windows
    region = padded_region(tensor[block.images], windows, block.rows)
    if not region[0, 0].flags.c_contiguous:  # a transposed tensor
        region = np.ascontiguousarray(region)
    image, down, *_ = region.strides
    # an axis of one element may have any stride
    item, across = region.itemsize, region.itemsize * region.shape[-1]
    runs, run = horizontal.outputs // count, count * region.shape[-1]
    shape = (vertical.kernel, horizontal.kernel, len(region), block.rows.stop - block.rows.start, runs, run)
    strides = (down, across, image, down * vertical.stride, across * horizontal.stride * count, item)
    if region.flags.c_contiguous:  # for which this takes a tenth of the time
        return np.ndarray(shape, region.dtype, region, 0, strides)
    return as_strided(region, shape, strides)


@lru_cache(maxsize=1024)
def _windows_of_run(window: SpatialWindow, channels: int) -> int:
    """Number of windows of a row whose cells under a tap are one run of at least `RUN` elements, if there are so many."""
    if window.stride > 1:
        return 1
    counts = (count for count in range(1, window.outputs) if window.outputs % count == 0 and count * channels >= RUN)
    return next(counts, window.outputs)


def correlate_channels(
    tensor: Tensor, filters: Tensor, windows: tuple[SpatialWindow, ...], begin: Begin = nothing_follows
) -> Tensor:
    """`[batch, rows, columns, channels]` by `[taps, taps, channels]` -> `[batch, outputs, outputs, channels]`.

    `begin` is the epilogue for each block.
    """
    vertical, horizontal = windows
    channels = tensor.shape[-1]
    output = np.empty((len(tensor), vertical.outputs, horizontal.outputs, channels), tensor.dtype)
    finish = begin(output)
    count = _windows_of_run(horizontal, channels)
    run = arranged(filters, ("run", count), partial(_repeated, count=count))

    def fill(block: WindowBlock) -> None:
        taps = _taps_of(tensor, windows, block, count)
        # einsum needs one pass over a tap's cells, and no array of products
        np.einsum("ijnrwc,ijc->nrwc", taps, run, out=output[block].reshape(taps.shape[2:]))
        finish(block.flat(output.shape))

    spread(fill, blocks_of(tensor.shape, windows, tensor.itemsize))
    return output


def _repeated(filters: Tensor, count: int) -> Tensor:
    """Repeat the channels of each tap of `[taps, taps, channels]`."""
    tiled = np.empty((*filters.shape[:2], count, filters.shape[2]), filters.dtype)
    tiled[...] = filters[:, :, None]
    return tiled.reshape(*filters.shape[:2], -1)


def correlate_channels_back(grads: Tensor, filters: Tensor, windows: tuple[SpatialWindow, ...]) -> Tensor:
    """The gradient of the input `[batch, rows, columns, channels]`, from the output's gradient with the same channels.

    Input cells that are a stride apart meet the same taps, in reverse order. Their gradient is one correlation of the output's
    gradient with these taps.
    """
    output = np.zeros((len(grads), windows[0].input, windows[1].input, grads.shape[-1]), grads.dtype)
    for phases in itertools.product(*(range(min(window.stride, window.kernel)) for window in windows)):
        cells, taps, own = zip(*map(_seen_from_cells, windows, phases), strict=True)
        if all(window.outputs for window in own):
            turned = filters[taps][::-1, ::-1]
            output[(slice(None), *cells)] = correlate_channels(grads, turned, own)
    return output


def _seen_from_cells(window: SpatialWindow, phase: int) -> tuple[slice, slice, SpatialWindow]:
    """(input cells with this `phase` modulo the stride, the taps that meet them, these cells' windows over the outputs)."""
    cells, ranks = window.phase(phase)
    taps = slice(phase, None, window.stride)
    kernel = len(range(phase, window.kernel, window.stride))
    own = SpatialWindow(window.outputs, kernel, 1, 1, ranks.stop - ranks.start, kernel - 1 - ranks.start)
    return cells, taps, own


def correlate_channels_filter(tensor: Tensor, grads: Tensor, windows: tuple[SpatialWindow, ...]) -> Tensor:
    """The gradient of the filter `[taps, taps, channels]`, from the input and the output's gradient with the same channels."""
    vertical, horizontal = windows
    channels = tensor.shape[-1]
    blocks = blocks_of(tensor.shape, windows, tensor.itemsize)
    count = horizontal.outputs if horizontal.stride == 1 else 1
    sums: Tensor = np.empty((len(blocks), vertical.kernel, horizontal.kernel, count * channels), tensor.dtype)

    def fill(number: int) -> None:
        taps = _taps_of(tensor, windows, blocks[number], count)
        np.einsum("ijnrwc,nrwc->ijc", taps, grads[blocks[number]].reshape(taps.shape[2:]), out=sums[number])

    spread(fill, range(len(blocks)))
    found: Tensor = sums.sum(axis=0).reshape(*sums.shape[1:3], -1, channels).sum(axis=2)
    return found


# --- half precision: the sum is rounded after each product, in TensorFlow's order -----------------------------------


def add_rounded(total: Tensor, left: Tensor, right: Tensor) -> Tensor:
    """`total + left * right` in half precision, rounded once; the operands may broadcast."""
    wide = left.astype(np.float32) * right.astype(np.float32)
    return (total.astype(np.float32) + wide).astype(total.dtype)


def correlate_halves(tensor: Tensor, filters: Tensor, windows: Sequence[SpatialWindow], is_back: bool = False) -> Tensor:
    """`correlate_channels`, or if `is_back` `correlate_channels_back`, in half precision, tap after tap."""
    sizes = (window.input if is_back else window.outputs for window in windows)
    output = np.zeros((len(tensor), *sizes, tensor.shape[-1]), tensor.dtype)
    taps = filters.reshape(-1, filters.shape[-1])
    for weights, (outputs, cells) in zip(taps, tap_slices(windows), strict=True):
        target, source = (cells, outputs) if is_back else (outputs, cells)
        place = (slice(None), *target)
        output[place] = add_rounded(output[place], tensor[(slice(None), *source)], weights)
    return output


def correlate_halves_filter(tensor: Tensor, grads: Tensor, windows: Sequence[SpatialWindow]) -> Tensor:
    """`correlate_channels_filter` in half precision: the sum over the windows of each image, then over the images."""
    vertical, horizontal = windows
    images, channels = len(tensor), tensor.shape[-1]
    padded = np.zeros((images, vertical.extent, horizontal.extent, channels), tensor.dtype)
    inside = tuple(slice(window.before, min(window.before + window.input, window.extent)) for window in windows)
    cells = padded[(slice(None), *inside)]
    cells[...] = tensor[tuple(map(slice, cells.shape))]
    total = np.zeros((images, vertical.kernel, horizontal.kernel, channels), tensor.dtype)
    for row, column in itertools.product(range(vertical.outputs), range(horizontal.outputs)):
        top, left = row * vertical.stride, column * horizontal.stride
        patch = padded[:, top : top + vertical.kernel, left : left + horizontal.kernel]
        total = add_rounded(total, patch, grads[:, row, column][:, None, None])
    return add_one_by_one(np.moveaxis(total, 0, -1))


def add_one_by_one(tensor: Tensor) -> Tensor:
    """The sum over the last axis of `[..., terms]`; in half precision it is rounded after each addition."""
    if not is_narrow(tensor.dtype):
        found: Tensor = tensor.sum(axis=-1)
        return found
    total = tensor[..., 0]
    for number in range(1, tensor.shape[-1]):
        total = total + tensor[..., number]
    return total


def _add_multiplied(tensor: Tensor) -> Tensor:
    """The sum over the last axis (the output channels of one input channel), with Eigen's rounding of half precision.

    Each whole packet is summed in float; then the packets' sums and the remaining terms are added one by one.
    """
    multiplier = tensor.shape[-1]
    if not is_narrow(tensor.dtype) or multiplier < packet_size(tensor.dtype):
        return add_one_by_one(tensor)
    whole = multiplier - multiplier % packet_size(tensor.dtype)
    packets = tensor[..., :whole].reshape(*tensor.shape[:-1], -1, packet_size(tensor.dtype))
    # Eigen adds the halves of a packet to each other until one number is left
    sums = packets.astype(np.float32)
    while sums.shape[-1] > 1:
        half = sums.shape[-1] // 2
        sums = sums[..., :half] + sums[..., half:]
    return add_one_by_one(np.concatenate((sums[..., 0].astype(tensor.dtype), tensor[..., whole:]), axis=-1))


# --- kernels, shape functions, costs and memory ---------------------------------------------------------------------


def convolve_depthwise(inputs: Sequence[Tensor], attrs: Attrs) -> Sequence[Tensor]:
    """`[batch, rows, columns, channels]` by `[taps, taps, channels, multiplier]` -> `[..., channels * multiplier]`.

    Raises InvalidArgumentError if attrs, ranks or channels do not fit, and UnimplementedError for dilations and channels first.
    """
    tensor, filters = inputs
    windows, empty = _check_forward(tensor.shape, filters.shape, attrs)
    if empty is not None:
        return (np.zeros(empty, tensor.dtype),)
    spread_out = _spread(tensor, filters.shape[3]), _flat(filters), windows
    if is_narrow(tensor.dtype):
        return (correlate_halves(*spread_out),)
    return (correlate_channels(*spread_out, taken()),)


@remembered
def _check_forward(
    dims: tuple[int, ...], filters: tuple[int, ...], attrs: Attrs
) -> tuple[tuple[SpatialWindow, ...], tuple[int, ...] | None]:
    """(windows, the output's shape if it is empty) for an input and a filter of these shapes; see `convolve_depthwise`."""
    layout = _check_attrs(attrs)
    if any(rate != 1 for rate in attrs["dilations"]):
        rates = " ".join(map(str, attrs["dilations"]))
        raise UnimplementedError(f"Current kernel implementation does not support dilations, received [{rates}]")
    check_image(dims)
    depth = dims[layout.channel]
    check_filter(filters, 4, depth)
    windows = _windows(dims, filters, attrs, layout)
    shape = arrange(dims[0], [window.outputs for window in windows], depth * filters[3], layout) or ()
    # TensorFlow returns an empty output before it checks the data format
    if 0 in shape or 0 in filters:
        return windows, shape
    _check_launch(layout)
    return windows, None


def convolve_depthwise_back(inputs: Sequence[Tensor], attrs: Attrs) -> Sequence[Tensor]:
    """(the input's shape, filter, gradients of the output) -> gradient of the input `[batch, rows, columns, channels]`.

    Raises InvalidArgumentError if attrs or shapes do not fit, and UnimplementedError for channels first.
    """
    sizes, filters, grads = inputs
    layout = _check_attrs(attrs)
    shape = _shape_of_sizes(sizes, "Input")
    windows = _back_windows("DepthwiseConv2DBackpropInput", shape, filters.shape, grads.shape, attrs, layout)
    if 0 in (*shape, *filters.shape, *grads.shape):
        return (np.zeros(shape, grads.dtype),)
    _check_launch(layout)
    operands = np.ascontiguousarray(grads), _flat(filters), windows
    is_half = is_narrow(grads.dtype)
    multiplied = correlate_halves(*operands, is_back=True) if is_half else correlate_channels_back(*operands)
    return (_add_multiplied(multiplied.reshape(*shape, -1)),)


def convolve_depthwise_filter(inputs: Sequence[Tensor], attrs: Attrs) -> Sequence[Tensor]:
    """(input, the filter's shape, gradients of the output) -> gradient of the filter `[taps, taps, channels, multiplier]`.

    Raises InvalidArgumentError if attrs or shapes do not fit, and UnimplementedError for channels first.
    """
    tensor, sizes, grads = inputs
    layout = _check_attrs(attrs)
    shape = _shape_of_sizes(sizes, "Filter")
    windows = _back_windows("DepthwiseConv2DBackpropFilter", tensor.shape, shape, grads.shape, attrs, layout)
    if 0 in (*shape, *tensor.shape, *grads.shape):
        return (np.zeros(shape, tensor.dtype),)
    _check_launch(layout)
    compute = correlate_halves_filter if is_narrow(grads.dtype) else correlate_channels_filter
    return (compute(_spread(tensor, shape[3]), np.ascontiguousarray(grads), windows).reshape(shape),)


def _shape_of_sizes(sizes: Tensor, of: str) -> tuple[int, ...]:
    # TensorFlow's messages name Conv2D's gradients here
    name = f"{of.lower()}_sizes"
    if sizes.ndim != 1:
        raise InvalidArgumentError(f"Conv2DBackprop{of}: {name} input must be 1-dim, not {sizes.ndim}")
    for number, size in enumerate(sizes):
        if size < 0:
            raise InvalidArgumentError(f"Dimension {number} of {name} must be >= 0")
    return tuple(map(int, sizes))


def _spread(tensor: Tensor, multiplier: int) -> Tensor:
    """Repeat each channel `multiplier` times, which gives the number of channels of the output."""
    return np.repeat(tensor, multiplier, axis=-1) if multiplier > 1 else tensor


def _flat(filters: Tensor) -> Tensor:
    """`[taps, taps, channels, multiplier]` -> `[taps, taps, output channels]`."""
    return filters.reshape(*filters.shape[:2], -1)


def _windows(inputs: Sequence[int], filters: Sequence[int], attrs: Attrs, layout: TensorLayout) -> tuple[SpatialWindow, ...]:
    strides, pairs = layout.pick(attrs["strides"]), explicit_pairs(attrs, layout)
    # the kernel rejects dilations, its gradients ignore them
    return windows_of(layout.pick(inputs), filters[:2], strides, (1, 1), attrs["padding"], pairs)


def _check_attrs(attrs: Attrs) -> TensorLayout:
    layout, strides = layout_of(attrs["data_format"]), attrs["strides"]
    check_entries(strides, "strides", 4)
    height, width = layout.pick(strides)
    if height != width:
        raise InvalidArgumentError(
            "Current implementation only supports equal length strides in the row and column dimensions."
        )
    if not strides[0] == strides[layout.channel] == 1:
        raise InvalidArgumentError(UNSTRIDED)
    check_padding(attrs, layout)
    return layout


def _check_launch(layout: TensorLayout) -> None:
    if layout.channel == 1:
        raise UnimplementedError("Depthwise convolution on CPU is only supported for NHWC format")


def _back_windows(
    label: str, inputs: Sequence[int], filters: Sequence[int], grads: Sequence[int], attrs: Attrs, layout: TensorLayout
) -> tuple[SpatialWindow, ...]:
    """Check the three shapes of a gradient, and return its windows along rows and columns."""
    for name, shape in (("input", inputs), ("filter", filters), ("out_backprop", grads)):
        if len(shape) != 4:
            raise InvalidArgumentError(f"{label}: {name} must be 4-dimensional")
    if inputs[0] != grads[0]:
        raise InvalidArgumentError(f"{label}: input and out_backprop must have the same batch size")
    depth, outputs = inputs[layout.channel], grads[layout.channel]
    if depth != filters[2]:
        raise InvalidArgumentError(f"{label}: input and filter must have the same in_depth")
    if depth * filters[3] != outputs:
        raise InvalidArgumentError(f"{label}: depth_multiplier * in_depth not equal to out_depth")
    windows = _windows(inputs, filters, attrs, layout)
    for name, axis, window in zip(("rows", "cols"), layout.spatial, windows, strict=True):
        if grads[axis] != window.outputs:
            raise InvalidArgumentError(
                f"{label}: Number of {name} of out_backprop doesn't match computed: "
                f"actual = {grads[axis]}, computed = {window.outputs}"
            )
    return windows


def infer_depthwise(context: ShapeContext) -> Sequence[Dims]:
    """Static shape: batch, windows, and channels * multiplier. Unlike the kernel, it supports dilations.

    Raises ShapeError for shapes or attrs that do not fit.
    """
    attrs = context.attrs
    layout = layout_of(attrs["data_format"])
    dims, filters = with_rank(context.shapes[0], 4), with_rank(context.shapes[1], 4)
    for what, name in (("stride", "strides"), ("dilations", "dilations")):
        if len(attrs[name]) != 4:
            raise ShapeError(f"DepthwiseConv2D requires the {what} attribute to contain 4 values, but got: {len(attrs[name])}")
    depth = merge_dim(dims[layout.channel], filters[2])
    check_padding(attrs, layout, ShapeError)
    strides, dilations = layout.pick(attrs["strides"]), layout.pick(attrs["dilations"])
    outputs = static_windows(layout.pick(dims), filters[:2], strides, dilations, attrs, layout)
    return (arrange(dims[0], outputs, multiply_dims(depth, filters[3]), layout),)


def filter_gradient_flops(inputs: Sequence[Dims], outputs: Sequence[Dims], attrs: Attrs) -> int:
    """Two operations for each element of the output's gradient and each tap of the filter's gradient."""
    return 2 * elements(inputs[2]) * elements((outputs[0] or ())[:2])


def depthwise_memory(memory: KernelMemory, is_gradient: bool = False) -> None:
    """The output, a padded copy of the filter if its channels do not fill Eigen's packets, and the cells of one window.

    The gradient of the input also needs the cells of one tap. TensorFlow has these buffers per thread; one thread is assumed.
    """
    memory.allocate(0)
    if memory.outputs[0].elements:
        filters = memory.inputs[1]
        taps, channels = _padded_dims(filters)
        is_padded = channels != prod(filters.dims[2:])
        for _ in range(1 + is_padded):
            _allocate_temporary(memory, (taps, channels), filters.dtype)
        if is_gradient:
            _allocate_temporary(memory, (channels,), filters.dtype)


def depthwise_filter_gradient_memory(memory: KernelMemory) -> None:
    """The output; a padded gradient of each image, all of which are added at the end; and the cells of one window."""
    memory.allocate(0)
    if memory.outputs[0].elements and memory.inputs[0].elements:
        filters = memory.outputs[0]
        dims = _padded_dims(filters)
        _allocate_temporary(memory, (memory.inputs[0].dims[0], *dims), filters.dtype)
        _allocate_temporary(memory, dims, filters.dtype)


def _allocate_temporary(memory: KernelMemory, dims: tuple[int, ...], dtype: DataType) -> None:
    memory.temporary(prod(dims) * item_size(dtype), dims, dtype)


def _padded_dims(filters: TensorMemory) -> tuple[int, int]:
    """(taps, output channels rounded up to whole Eigen packets) of a filter."""
    rows, columns, depth, multiplier = filters.dims
    packet = packet_size(filters.dtype.numpy)
    return rows * columns, -(-depth * multiplier // packet) * packet


TABLE: Table = {
    "DepthwiseConv2dNative": Kernel(
        convolve_depthwise,
        infer_depthwise,
        tap_flops,
        memory=depthwise_memory,
        traits=Trait.NEW_MEMORY,
        cost=CostModel("depthwise"),
    ),
    "DepthwiseConv2dNativeBackpropInput": Kernel(
        convolve_depthwise_back,
        partial(infer_from_sizes, index=0, rank=4),
        tap_gradient_flops,
        memory=partial(depthwise_memory, is_gradient=True),
        cost=CostModel("depthwise input gradient"),
    ),
    "DepthwiseConv2dNativeBackpropFilter": Kernel(
        convolve_depthwise_filter,
        partial(infer_from_sizes, index=1, rank=4),
        filter_gradient_flops,
        memory=depthwise_filter_gradient_memory,
        traits=Trait.SUMS,
        cost=CostModel("depthwise filter gradient"),
    ),
}
