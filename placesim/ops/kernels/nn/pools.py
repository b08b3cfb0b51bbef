"""Pooling: maxima and means of windows, their gradients, and the gradients of the maxima's gradients.

Tensors are `[batch, spatial..., channels]`.  Each tap of the window is one operation on all windows of an image.  A maximum
ignores NaN, and starts at the lowest finite value; a mean counts only cells that are not padding.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import ceil
from typing import Any, NamedTuple

import numpy as np

from placesim.ops.kernels.blocks.scratch_buffers import scratch
from placesim.ops.kernels.blocks.work_parts import even_parts, shares
from placesim.ops.kernels.element_selection import choose
from placesim.ops.kernels.kernel import Tensor
from placesim.ops.kernels.nn.windows import SpatialWindow, covered_tap_slices
from placesim.ops.kernels.precision import is_narrow, lowest, wide_dtype
from placesim.ops.process.intra_op_threads import spread

IMAGES_BYTES = 1 << 22
"""Size of the images that a thread processes together; with less, waiting for Python's lock costs more than caches gain."""
Index = tuple[Any, ...]
"""Index of a numpy array."""


class PoolWindows(NamedTuple):
    """Windows of a pooling op; with `depth` above 1, only each group of `depth` channels is pooled."""

    windows: tuple[SpatialWindow, ...]
    depth: int = 1

    def shape(self, dims: Sequence[int]) -> tuple[int, ...]:
        """The output's shape for an input of shape `dims`."""
        return (dims[0], *(window.outputs for window in self.windows), dims[-1] // self.depth)


def for_each_tap(windows: Sequence[SpatialWindow], tensor: Tensor, work: Callable[[int, Index, Index], None]) -> None:
    """Call `work(tap, windows, cells)` for each tap in order; the op's threads share the images of `tensor` `[batch, ...]`.

    `tap` is the tap's number. `windows` is an index of the windows, in some images, in which the tap meets the input;
    `cells` is an index of the cells that it meets there.
    """
    taps = list(covered_tap_slices(windows))

    def work_on(images: slice) -> None:
        for number, outputs, cells in taps:
            work(number, (images, *outputs), (images, *cells))

    spread(work_on, list(even_parts(len(tensor), shares(ceil(tensor.nbytes / IMAGES_BYTES)))))


def pool_max(tensor: Tensor, pool: PoolWindows) -> Tensor:
    """The largest cell of each window, `[batch, outputs..., channels]`; the lowest value for a window of only NaN."""
    if is_narrow(tensor.dtype):
        floor = np.float32(lowest(tensor.dtype))
        return _pool_max(tensor.astype(np.float32), pool, floor).astype(tensor.dtype)
    return _pool_max(tensor, pool, lowest(tensor.dtype))


def _pool_max(tensor: Tensor, pool: PoolWindows, floor: Any, larger: np.ufunc = np.fmax) -> Tensor:
    """The `larger` of each window's cells and `floor`; `np.fmax` ignores NaN."""
    output = np.full(pool.shape(tensor.shape), floor, tensor.dtype)
    if pool.depth > 1:
        groups = tensor.reshape(*output.shape, pool.depth)
        larger(output, larger.reduce(groups, axis=-1), out=output)
        return output

    def enlarge(_: int, place: Index, cells: Index) -> None:
        larger(output[place], tensor[cells], out=output[place])

    for_each_tap(pool.windows, tensor, enlarge)
    return output


def pool_mean(tensor: Tensor, pool: PoolWindows) -> Tensor:
    """The mean of each window's cells that are not padding, `[batch, outputs..., channels]`."""
    # half precision is added in float32 and rounded once
    output: Tensor = np.zeros(pool.shape(tensor.shape), wide_dtype(tensor.dtype))

    def add(_: int, place: Index, cells: Index) -> None:
        output[place] += tensor[cells]

    for_each_tap(pool.windows, tensor, add)
    output /= counts(pool).astype(output.dtype)
    return output.astype(tensor.dtype, copy=False)


def counts(pool: PoolWindows) -> Tensor:
    """Number of cells of each window that are not padding `[outputs..., 1]`."""
    found = np.zeros((*(window.outputs for window in pool.windows), 1), np.int32)
    for _, outputs, _ in covered_tap_slices(pool.windows):
        found[outputs] += 1
    return found


def spread_mean(grads: Tensor, pool: PoolWindows) -> Tensor:
    """The gradient of a mean's input, `[batch, inputs..., channels]`: each cell gets its share of its windows' gradients."""
    shape = (len(grads), *(window.input for window in pool.windows), grads.shape[-1])
    output: Tensor = np.zeros(shape, wide_dtype(grads.dtype))
    # TensorFlow multiplies by the inverse of the count, which rounds differently from a division
    shared = grads.astype(output.dtype, copy=False) * (1 / counts(pool).astype(output.dtype))

    def add(_: int, place: Index, cells: Index) -> None:
        output[cells] += shared[place]

    for_each_tap(pool.windows, grads, add)
    return output.astype(grads.dtype, copy=False)


def largest_taps(tensor: Tensor, pool: PoolWindows) -> tuple[Tensor, Tensor]:
    """(the largest cell of each window, the number of its tap), both `[batch, outputs..., channels]`.

    Of equal cells, the first is taken. A NaN is taken only as a window's first cell.
    """
    shape = pool.shape(tensor.shape)
    values, taps = np.full(shape, lowest(tensor.dtype), tensor.dtype), np.full(shape, -1, np.int64)

    def enlarge(number: int, place: Index, cells: Index) -> None:
        # the first tap is always taken, even the lowest value, -inf or NaN
        is_larger = (values[place] < tensor[cells]) | (taps[place] < 0)
        np.copyto(values[place], tensor[cells], where=is_larger)
        np.copyto(taps[place], np.int64(number), where=is_larger)

    for_each_tap(pool.windows, tensor, enlarge)
    return values, taps


def flat_places(taps: Tensor, pool: PoolWindows, channels: int) -> Tensor:
    """For each window, the position of its tap in the flattened image; shaped as `taps`, `[batch, outputs..., channels]`."""
    kernels = [window.kernel for window in pool.windows]
    place = np.zeros(taps.shape, np.int64)
    for axis, (window, tap) in enumerate(zip(pool.windows, np.unravel_index(np.maximum(taps, 0), kernels), strict=True)):
        starts = np.arange(window.outputs).reshape(-1, *(1,) * (len(kernels) - axis)) * window.stride - window.before
        place = place * window.input + starts + tap
    return place * channels + np.arange(channels)


def spread_max(tensor: Tensor, grads: Tensor, pool: PoolWindows) -> Tensor:
    """The gradient of a maximum's input: each window's gradient is added to the window's first largest cell."""
    output: Tensor = np.zeros(tensor.shape, tensor.dtype)
    has_nan = bool(np.isnan(tensor).any())
    # without NaN the plain maximum is faster; here -inf is an ordinary value
    floor = lowest(tensor.dtype) if tensor.dtype.kind in "iu" else -np.inf
    largest = largest_taps(tensor, pool)[0] if has_nan else _pool_max(tensor, pool, floor, np.maximum)
    bits = np.dtype(f"i{tensor.itemsize}")
    # gradients not yet added to a cell, as bits: zero after a window's largest cell is found
    rest: Tensor = grads.astype(tensor.dtype, order="C").view(bits)

    def add(_: int, place: Index, cells: Index) -> None:
        left = rest[place]
        is_here, here = scratch("is here", left.shape, np.dtype(np.int8)), scratch("here", left.shape, bits)
        np.equal(tensor[cells], largest[place], out=is_here.view(bool))
        if has_nan:
            # a NaN is the largest only as the first cell, which then gets the gradient
            is_here |= np.isnan(largest[place])
        # a mask with all bits set for the largest cells
        np.copyto(here, np.negative(is_here, out=is_here))
        here &= left
        left ^= here
        output[cells] += here.view(tensor.dtype)

    for_each_tap(pool.windows, tensor, add)
    return output


def spread_max_to_equals(tensor: Tensor, largest: Tensor, grads: Tensor, pool: PoolWindows) -> Tensor:
    """Like `spread_max`, but each cell within 1e-5 of its window's maximum gets the window's whole gradient.

    TensorFlow's kernel for three spatial axes does so.
    """
    output: Tensor = np.zeros(tensor.shape, tensor.dtype)
    zero, about = tensor.dtype.type(0), tensor.dtype.type(1e-5)

    def add(_: int, place: Index, cells: Index) -> None:
        is_largest = np.abs(tensor[cells] - largest[place]) < about
        output[cells] += choose(is_largest, grads[place], zero)

    for_each_tap(pool.windows, tensor, add)
    return output


def take_at_max(tensor: Tensor, largest: Tensor, grads: Tensor, pool: PoolWindows) -> Tensor:
    """The second gradient of max pooling, `[batch, outputs..., channels]`: `grads` at each window's first largest cell."""
    output: Tensor = np.zeros(largest.shape, tensor.dtype)
    is_found: Tensor = np.zeros(largest.shape, bool)

    def take(_: int, place: Index, cells: Index) -> None:
        is_here = (tensor[cells] == largest[place]) & ~is_found[place]
        np.copyto(output[place], grads[cells], where=is_here)
        is_found[place] |= is_here

    for_each_tap(pool.windows, tensor, take)
    return output
