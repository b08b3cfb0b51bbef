"""Patches: the cells under each window as one row of a matrix, so that a convolution is a matrix product.

A matrix of all patches would be many times the input, and far larger than a cache. So it is made block by block, in reused
buffers; the threads of an op share the blocks.  Tensors are `[batch, spatial..., channels]`; a patch is `[taps..., channels]`,
flattened.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from functools import lru_cache
from math import ceil, prod
from typing import Any, NamedTuple

import numpy as np
from numpy.lib.stride_tricks import as_strided

from placesim.ops.kernels.blocks.scratch_buffers import padded_scratch, scratch
from placesim.ops.kernels.blocks.work_parts import even_parts, shares
from placesim.ops.kernels.kernel import Tensor
from placesim.ops.kernels.nn.windows import SpatialWindow

Slices = tuple[slice, ...]


class WindowBlock(NamedTuple):
    """A range of images, and for each of them a range of windows along the first spatial axis (`rows`)."""

    images: slice
    rows: slice

    def cut(self, count: int) -> list[WindowBlock]:
        """Split into `count` blocks or more, if possible. Each block has whole images, or rows of one image."""
        images, rows = self.images.stop - self.images.start, self.rows.stop - self.rows.start
        image_parts = even_parts(images, min(images, count), self.images.start)
        row_parts = list(even_parts(rows, shares(ceil(count / max(1, images))), self.rows.start))
        return [WindowBlock(some_images, some_rows) for some_images in image_parts for some_rows in row_parts]

    def flat(self, shape: Sequence[int]) -> slice:
        """The block's windows as a range of rows of the output `[batch, outputs..., channels]`, flattened to a matrix.

        The block must consist of whole images, or of rows of one image.
        """
        row = prod(shape[2:-1])
        image = shape[1] * row
        return slice(self.images.start * image + self.rows.start * row, (self.images.stop - 1) * image + self.rows.stop * row)


def whole(windows: Sequence[SpatialWindow], images: int) -> WindowBlock:
    """Block of all windows of `images` images."""
    return WindowBlock(slice(0, images), slice(0, windows[0].outputs))


def rows_of(windows: Sequence[SpatialWindow], rows: slice) -> tuple[SpatialWindow, ...]:
    """Windows limited to a range of rows along the first spatial axis."""
    return (windows[0]._replace(outputs=rows.stop - rows.start), *windows[1:])


@lru_cache(maxsize=1024)
def is_pointwise(windows: tuple[SpatialWindow, ...]) -> bool:
    """Whether a patch is one cell of the input."""
    return all(window.kernel == 1 and window.before == 0 and window.after <= 0 for window in windows)


def strided(tensor: Tensor, windows: tuple[SpatialWindow, ...]) -> Tensor:
    """View of the first cell of each window, `[batch, windows..., channels]`: all cells that a pointwise convolution reads."""
    return tensor[_first_cells(windows)]


@lru_cache(maxsize=1024)
def _first_cells(windows: tuple[SpatialWindow, ...]) -> Slices:
    return (slice(None), *(slice(0, window.extent, window.stride) for window in windows))


def patches_of(tensor: Tensor, windows: Sequence[SpatialWindow], block: WindowBlock, matrix: Tensor | None = None) -> Tensor:
    """The patches of a block, `[windows, taps * channels]`, written to `matrix` or to a `scratch` buffer."""
    part = rows_of(windows, block.rows)
    region = padded_region(tensor[block.images], windows, block.rows)
    length = prod(window.kernel for window in windows) * tensor.shape[-1]
    shape = (len(region), *(window.outputs for window in part), length)
    target = scratch("patches", shape, tensor.dtype) if matrix is None else matrix.reshape(shape)
    _copy_patches(region, part, target)
    return target.reshape(-1, length)


def padded_region(tensor: Tensor, windows: Sequence[SpatialWindow], rows: slice) -> Tensor:
    """The cells that a range of rows of windows covers, `[batch, spatial..., channels]`, with zeros for padding.

    Without padding it is a view of `tensor`, else a scratch buffer.
    """
    cells, inside, sizes = _cells_under(tuple(windows), rows.start, rows.stop)
    reached = tensor[cells]
    if reached.shape[1:-1] == sizes:
        return reached
    region = padded_scratch((len(tensor), *sizes, tensor.shape[-1]), inside, tensor.dtype)
    region[inside] = reached
    return region


@lru_cache(maxsize=1024)
def _cells_under(windows: tuple[SpatialWindow, ...], start: int, stop: int) -> tuple[Slices, Slices, tuple[int, ...]]:
    """(the input's cells under the rows `start` to `stop` of windows, their place among all cells, the number of all cells).

    The slices are of the batch and the spatial axes, the numbers of the spatial axes; all cells are those with padding.
    """
    cells, inside, sizes = [slice(None)], [slice(None)], []
    for axis, window in enumerate(windows):
        first, size = -window.before, window.extent
        if axis == 0:
            first, size = first + start * window.stride, window.reach(stop - start)
        reached = min(max(first, 0), window.input)
        last = max(min(first + size, window.input), reached)
        cells.append(slice(reached, last))
        inside.append(slice(max(reached - first, 0), max(last - first, 0)))
        sizes.append(size)
    return tuple(cells), tuple(inside), tuple(sizes)


def _copy_patches(region: Tensor, windows: Sequence[SpatialWindow], matrix: Tensor) -> None:
    """Copy each patch of a padded region to a row of `matrix`, in runs of cells that are contiguous in both."""
    steps = region.strides[1:-1]
    outputs = [window.outputs for window in windows]
    taps = [window.kernel for window in windows]
    tap_steps = [step * window.dilation for step, window in zip(steps, windows, strict=True)]
    run = region.shape[-1]
    # without dilation a row of taps is contiguous
    if tap_steps[-1] == run * region.itemsize:
        run *= taps.pop()
        tap_steps.pop()
    window_steps = [step * window.stride for step, window in zip(steps, windows, strict=True)]
    source = as_strided(
        region, (len(region), *outputs, *taps, run), (region.strides[0], *window_steps, *tap_steps, region.itemsize)
    )
    # A run is copied as one opaque element, which numpy does twice as fast as a short row of floats.
    opaque = np.dtype((np.void, run * region.itemsize))
    np.copyto(matrix.view(opaque).reshape(source.shape[:-1]), source.view(opaque)[..., 0])


def add_patches(matrix: Tensor, windows: Sequence[SpatialWindow], region: Tensor) -> None:
    """Add each patch of `matrix` `[images, outputs..., taps * channels]` to its cells of the region."""
    *leading, last = windows
    channels = region.shape[-1]
    patches = matrix.reshape(*matrix.shape[:-1], *(window.kernel for window in windows), channels)
    outputs = (slice(None),) * (1 + len(windows))
    for taps in itertools.product(*(range(window.kernel) for window in leading)):
        places = tuple(window.cells(tap) for tap, window in zip(taps, leading, strict=True))
        index: tuple[Any, ...] = (*outputs, *taps)
        _add_rows(patches[index], last, region[(slice(None), *places)])


def _add_rows(patches: Tensor, window: SpatialWindow, cells: Tensor) -> None:
    """Add rows of taps `[images, outputs..., taps, channels]` to their cells `[images, outputs..., cells, channels]`.

    Neighbouring windows overlap, so each addition takes every n-th window, where n is the smallest step without overlap.
    """
    channels = cells.shape[-1]
    if window.dilation == 1 and cells.strides[-2] == channels * cells.itemsize:
        span, offsets = window.kernel, [0]
    else:
        span, offsets = 1, [tap * window.dilation for tap in range(window.kernel)]
    apart = ceil(span / window.stride)
    for tap, offset in enumerate(offsets):
        for first in range(min(apart, window.outputs)):
            count = len(range(first, window.outputs, apart))
            added = patches[..., first::apart, tap : tap + span, :].reshape(*patches.shape[:-3], count, span * channels)
            target = as_strided(
                cells[..., offset + first * window.stride :, :],
                (*cells.shape[:-2], count, span * channels),
                (*cells.strides[:-2], cells.strides[-2] * window.stride * apart, cells.itemsize),
            )
            target += added
