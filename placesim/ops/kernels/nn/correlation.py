"""Convolution (a correlation): the output, and the gradients of its input and its filter.

Tensors are `[batch, spatial..., channels]`, filters `[taps..., input channels, output channels]`.  All three functions multiply
by the matrix of patches (`patches.py`).
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from math import ceil, prod
from typing import Any

import numpy as np

from placesim.ops.kernels.blocks.constant_layouts import is_constant
from placesim.ops.kernels.blocks.epilogues import Begin, nothing_follows
from placesim.ops.kernels.blocks.scratch_buffers import scratch
from placesim.ops.kernels.blocks.work_parts import BLOCK_BYTES, parts, shares
from placesim.ops.kernels.kernel import Tensor
from placesim.ops.kernels.linalg.products import is_shared, multiply_into, multiply_part, product
from placesim.ops.kernels.nn.patches import WindowBlock, add_patches, is_pointwise, patches_of, rows_of, strided, whole
from placesim.ops.kernels.nn.windows import SpatialWindow
from placesim.ops.kernels.nn.winograd import correlate_filter_tiles, correlate_tiles, suits
from placesim.ops.kernels.precision import is_narrow, rounded_to_half
from placesim.ops.process.intra_op_threads import spread

ROUNDED_STEPS = 1 << 22
"""Maximum elements rounded in one product of half precision; see `half_product`."""
LONG_BLOCK = 1 << 9
"""Minimum patches per block if there are more than two blocks, since each block reads the whole filter."""
SMALL_FILTER = 1 << 16
"""Maximum elements of a filter for which each block has its own sum of the gradient."""
WIDE_BLOCK_BYTES = 1 << 23
"""Size of a block of patches in `_add_as_planes`: larger blocks give longer runs."""
TALL_BLOCK = 1 << 11
"""Minimum patches per block for the gradient of a larger filter, since each block adds a whole filter to the sum."""
TALL_BLOCK_BYTES = 1 << 23
"""Size of the patches of a block with `TALL_BLOCK` patches or more, which all threads of an op share."""


def half_product(left: Tensor, right: Tensor, rounds_products: bool = False) -> Tensor:
    """`left @ right` of half-precision matrices, with the sum rounded after each addition, as in TensorFlow.

    `rounds_products` also rounds each product before it is added. In a large matrix product this would take too long: there,
    the sum is rounded after several additions.
    """
    count, outputs = len(right), left.shape[0] * right.shape[1]
    steps = max(1, min(count, ROUNDED_STEPS // max(1, outputs)))
    first, second = left.astype(np.float32), right.astype(np.float32)
    total = np.zeros((left.shape[0], right.shape[1]), np.float32)
    for part in parts(count, 1, ceil(count / steps) or 1):
        added = first[:, part] @ second[part]
        if rounds_products:
            added = _rounded(added, left.dtype)
        added += total
        total = _rounded(added, left.dtype)
    return total.astype(left.dtype)


def _rounded(values: Tensor, dtype: np.dtype[Any]) -> Tensor:
    """Return float32 values rounded to half or bfloat16, as float32."""
    return rounded_to_half(values) if dtype == np.float16 else values.astype(dtype).astype(np.float32)


def correlate(tensor: Tensor, filters: Tensor, windows: tuple[SpatialWindow, ...], begin: Begin = nothing_follows) -> Tensor:
    """The convolution, `[batch, outputs..., output channels]`; it is grouped if the filter has fewer channels than the input.

    `begin` is the epilogue for each block of the output; half precision and groups ignore it. Half precision is computed in
    float32 and rounded once, except with three spatial axes.
    """
    depth, channels = filters.shape[-2:]
    shape = (len(tensor), *[window.outputs for window in windows], channels)
    if filters.size == 0 or tensor.size == 0 or 0 in shape:
        return np.zeros(shape, tensor.dtype)
    if is_narrow(tensor.dtype):
        if len(windows) == 3:
            return _correlate_halves(tensor, filters, windows).reshape(shape)
        return correlate(tensor.astype(np.float32), filters.astype(np.float32), windows).astype(tensor.dtype)
    # each group of input channels has its own part of the filter's outputs
    if tensor.shape[-1] != depth:
        groups = tensor.shape[-1] // depth
        pairs = zip(np.split(tensor, groups, axis=-1), np.split(filters, groups, axis=-1), strict=True)
        return np.concatenate([correlate(group, part, windows) for group, part in pairs], axis=-1)
    is_product = is_pointwise(windows)
    if not is_product and suits(windows, len(tensor), depth, channels, tensor.dtype, is_constant(filters)):
        found, is_finite = correlate_tiles(np.ascontiguousarray(tensor), np.ascontiguousarray(filters), windows, begin)
        if is_finite:
            return found
    output = np.empty(shape, tensor.dtype)
    finish = begin(output)
    matrix = np.ascontiguousarray(filters).reshape(-1, channels)
    if is_product:
        cells = np.ascontiguousarray(strided(tensor, windows)).reshape(-1, depth)
        multiply_into(output.reshape(-1, channels), cells, matrix, finish)
        return output
    tensor = np.ascontiguousarray(tensor)

    def fill(block: WindowBlock) -> None:
        multiply_part(output[block].reshape(-1, channels), patches_of(tensor, windows, block), matrix)
        finish(block.flat(shape))

    # if the filter is larger than all patches, the product is split along the filter's outputs, so no thread reads all of it
    if prod(shape[:-1]) < channels:
        multiply_into(output.reshape(-1, channels), patches_of(tensor, windows, whole(windows, len(tensor))), matrix, finish)
    else:
        spread(fill, blocks_of(shape, windows, len(matrix), tensor.itemsize))
    return output


def blocks_of(shape: Sequence[int], windows: Sequence[SpatialWindow], length: int, itemsize: int) -> list[WindowBlock]:
    """Split an output `[batch, outputs..., channels]` into blocks: one for little work, else at least two.

    `length` is the number of elements of a patch.
    """
    patches = prod(shape[:-1])
    count = ceil(patches / max(LONG_BLOCK, BLOCK_BYTES // (length * itemsize)))
    least = 2 if is_shared(patches, length, shape[-1]) else 1
    return whole(windows, shape[0]).cut(shares(max(count, least)))


def _correlate_halves(tensor: Tensor, filters: Tensor, windows: Sequence[SpatialWindow]) -> Tensor:
    """The convolution in half precision, rounded after each addition: `[windows of all images, output channels]`."""
    matrix = filters.reshape(-1, filters.shape[-1])
    blocks = whole(windows, len(tensor)).cut(prod(window.outputs for window in windows) * len(tensor) // LONG_BLOCK)
    return np.concatenate([half_product(patches_of(tensor, windows, block), matrix) for block in blocks])


def correlate_filter(tensor: Tensor, grads: Tensor, windows: tuple[SpatialWindow, ...]) -> Tensor:
    """The gradient of the filter `[taps..., input channels, output channels]`, from the input and the output's gradient."""
    depth, channels = tensor.shape[-1], grads.shape[-1]
    shape = (*(window.kernel for window in windows), depth, channels)
    if tensor.size == 0 or grads.size == 0 or 0 in shape:
        return np.zeros(shape, tensor.dtype)
    grads = np.ascontiguousarray(grads)
    if suits(windows, len(tensor), depth, channels, tensor.dtype):
        found, is_finite = correlate_filter_tiles(np.ascontiguousarray(tensor), grads, windows)
        if is_finite:
            return found
    multiply = half_product if is_narrow(tensor.dtype) else product
    if is_pointwise(windows):
        cells = np.ascontiguousarray(strided(tensor, windows)).reshape(-1, depth)
        return multiply(cells.T, grads.reshape(-1, channels)).reshape(shape)
    tensor, length = np.ascontiguousarray(tensor), prod(shape[:-1])
    if length * channels <= SMALL_FILTER and not is_narrow(tensor.dtype):
        return _correlate_small_filter(tensor, grads, windows).reshape(shape)
    total = np.zeros((length, channels), tensor.dtype)
    patches = max(TALL_BLOCK, TALL_BLOCK_BYTES // (length * tensor.itemsize))
    for block in whole(windows, len(tensor)).cut(ceil(prod(grads.shape[:-1]) / patches)):
        total += multiply(_shared_patches(tensor, windows, block).T, grads[block].reshape(-1, channels))
    return total.reshape(shape)


def _correlate_small_filter(tensor: Tensor, grads: Tensor, windows: Sequence[SpatialWindow]) -> Tensor:
    """The gradient of a small filter `[taps * channels, output channels]`: the total of one sum per block."""
    channels, length = grads.shape[-1], prod(window.kernel for window in windows) * tensor.shape[-1]
    blocks = blocks_of(grads.shape, windows, length, tensor.itemsize)
    sums = np.empty((len(blocks), length, channels), tensor.dtype)

    def fill(number: int) -> None:
        block = blocks[number]
        multiply_part(sums[number], patches_of(tensor, windows, block).T, grads[block].reshape(-1, channels))

    spread(fill, range(len(blocks)))
    total: Tensor = sums.sum(axis=0, dtype=tensor.dtype)
    return total


def _shared_patches(tensor: Tensor, windows: Sequence[SpatialWindow], block: WindowBlock) -> Tensor:
    """The patches of a large block, `[windows, taps * channels]`; the op's threads share the copying."""
    row = prod(window.outputs for window in windows[1:])
    length = prod(window.kernel for window in windows) * tensor.shape[-1]
    images, rows = (part.stop - part.start for part in block)
    matrix = scratch("shared patches", (images, rows, row, length), tensor.dtype)

    def fill(part: WindowBlock) -> None:
        places = (slice(inner.start - outer.start, inner.stop - outer.start) for inner, outer in zip(part, block, strict=True))
        patches_of(tensor, windows, part, matrix[tuple(places)])

    spread(fill, block.cut(shares(ceil(matrix.nbytes / BLOCK_BYTES))))
    return matrix.reshape(-1, length)


def correlate_back(grads: Tensor, filters: Tensor, windows: tuple[SpatialWindow, ...]) -> Tensor:
    """The gradient of the input `[batch, inputs..., input channels]`, from the output's `[batch, outputs..., channels]`."""
    depth, channels = filters.shape[-2:]
    shape = (len(grads), *(window.input for window in windows), depth)
    if filters.size == 0 or grads.size == 0 or 0 in shape:
        return np.zeros(shape, grads.dtype)
    if is_narrow(grads.dtype):
        return _add_halves(grads, filters, windows)
    back = mirrored(windows)
    if all(window.stride == 1 for window in windows) and suits(back, len(grads), channels, depth, grads.dtype):
        # a convolution of the gradients with the filter reversed
        turned = np.ascontiguousarray(filters[::-1, ::-1].swapaxes(-1, -2))
        found, is_finite = correlate_tiles(np.ascontiguousarray(grads), turned, back)
        if is_finite:
            return found
    grads, matrix = np.ascontiguousarray(grads), np.ascontiguousarray(filters).reshape(-1, channels).T
    if is_pointwise(windows):
        cells = product(grads.reshape(-1, channels), matrix).reshape(*grads.shape[:-1], depth)
        # with strides, the gradient of cells between windows is 0
        if cells.shape == shape:
            return cells
        output = np.zeros(shape, grads.dtype)
        strided(output, windows)[...] = cells
        return output
    output = np.zeros(shape, grads.dtype)
    has_short_runs = len(windows) > 1 and windows[-1].kernel * depth < windows[-1].outputs
    add_patches_back = _add_as_planes if has_short_runs else _add_as_cells

    def add(block: WindowBlock) -> None:
        add_patches_back(grads[block.images], matrix, windows, output[block.images])

    count = len(blocks_of(grads.shape, windows, matrix.shape[1], grads.itemsize))
    # threads get whole images, since windows of neighbouring rows add to the same cells
    spread(add, whole(windows, len(grads)).cut(min(len(grads), count)))
    return output


def mirrored(windows: Sequence[SpatialWindow]) -> list[SpatialWindow]:
    """Windows over the outputs, one for each input cell: for stride 1, the outputs to which the cell contributes."""
    return [
        window._replace(input=window.outputs, outputs=window.input, before=window.kernel - 1 - window.before)
        for window in windows
    ]


def _add_halves(grads: Tensor, filters: Tensor, windows: Sequence[SpatialWindow]) -> Tensor:
    """The gradient of the input in half precision, rounded after each addition, as in TensorFlow.

    A cell's patches are added in the order of their windows, so the taps that meet the cell come in reverse order.
    """
    matrix = filters.reshape(-1, filters.shape[-1]).T
    patches = half_product(grads.reshape(-1, grads.shape[-1]), matrix, rounds_products=True)
    patches = patches.reshape(*grads.shape[:-1], *filters.shape[:-1])
    extents = (max(window.extent, window.before + window.input) for window in windows)
    region = np.zeros((len(grads), *extents, filters.shape[-2]), grads.dtype)
    outputs = (slice(None),) * (1 + len(windows))
    for taps in itertools.product(*(range(window.kernel)[::-1] for window in windows)):
        places = (window.cells(tap) for window, tap in zip(windows, taps, strict=True))
        index: tuple[Any, ...] = (*outputs, *taps)
        region[(slice(None), *places)] += patches[index]
    return region[(slice(None), *(slice(window.before, window.before + window.input) for window in windows))]


def _add_as_cells(grads: Tensor, matrix: Tensor, windows: Sequence[SpatialWindow], images: Tensor) -> None:
    """Add the patches `grads @ matrix` to their cells of the images."""
    is_padded = any(window.before > 0 or window.after > 0 for window in windows)
    region = images
    if is_padded:
        region = scratch("region", (len(images), *(window.extent for window in windows), images.shape[-1]), images.dtype)
        region.fill(0)
    for rows, patches in _patches_back(grads, matrix, transposed=False):
        part = patches.reshape(len(images), -1, *grads.shape[2:-1], matrix.shape[1])
        add_patches(part, rows_of(windows, rows), region[:, rows.start * windows[0].stride :])
    if is_padded:
        cells = region[(slice(None), *(slice(window.before, window.before + window.input) for window in windows))]
        images[tuple(map(slice, cells.shape))] = cells


def _add_as_planes(grads: Tensor, matrix: Tensor, windows: Sequence[SpatialWindow], images: Tensor) -> None:
    """Like `_add_as_cells`, but faster for a few channels: one plane per channel, so that whole rows of windows are added.

    The planes are `[phases, channels, images, cells...]`. In the last axis, cells that are a stride apart become neighbours; a
    phase is a cell's position modulo the stride.
    """
    *leading, last = windows
    depth, steps = images.shape[-1], ceil(last.extent / last.stride)
    extents = [window.extent for window in leading]
    planes = scratch("region", (last.stride, depth, len(images), *extents, steps), images.dtype)
    planes.fill(0)
    for rows, patches in _patches_back(grads, matrix, transposed=True):
        by_tap = patches.reshape(*(window.kernel for window in windows), depth, len(images), -1, *grads.shape[2:-1])
        here = planes[:, :, :, rows.start * windows[0].stride :]
        for taps in itertools.product(*(range(window.kernel) for window in leading)):
            places = [window.cells(tap) for window, tap in zip(rows_of(leading, rows), taps, strict=True)]
            row, patch = here[(slice(None), slice(None), slice(None), *places)], by_tap[taps]
            for tap in range(last.kernel):
                start, phase = divmod(tap * last.dilation, last.stride)
                target = row[phase, ..., start : start + last.outputs]
                np.add(target, patch[tap], out=target)
    _take_planes(planes, windows, images)


def _take_planes(planes: Tensor, windows: Sequence[SpatialWindow], images: Tensor) -> None:
    """Copy the planes of `_add_as_planes`, without their padding, to the images."""
    *leading, last = windows
    inside = [slice(window.before, min(window.before + window.input, window.extent)) for window in leading]
    outside = [slice(0, part.stop - part.start) for part in inside]
    for phase in range(last.stride):
        columns, steps = last.phase(phase)
        # by channel, so that numpy's inner loop is along a row
        for channel in range(images.shape[-1]):
            target: tuple[Any, ...] = (slice(None), *outside, columns, channel)
            source: tuple[Any, ...] = (phase, channel, slice(None), *inside, steps)
            images[target] = planes[source]


def _patches_back(grads: Tensor, matrix: Tensor, transposed: bool) -> Iterator[tuple[slice, Tensor]]:
    """Yield pairs: a range of window rows, and its patches `grads @ matrix`, `[windows, taps * channels]` or `transposed`."""
    length = matrix.shape[1]
    row_bytes, long_bytes = (count * length * grads.itemsize for count in (prod(grads.shape[2:-1]), LONG_BLOCK))
    block_bytes = max(WIDE_BLOCK_BYTES if transposed else BLOCK_BYTES, long_bytes)
    for rows in parts(grads.shape[1], len(grads) * row_bytes, block_bytes):
        part = grads[:, rows].reshape(-1, len(matrix))
        shape = (length, len(part)) if transposed else (len(part), length)
        patches = scratch("patches", shape, grads.dtype)
        multiply_into(patches.T if transposed else patches, part, matrix)
        yield rows, patches
