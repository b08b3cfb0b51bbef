"""Pooling: maxima and means of windows, with their gradients, and the gradients' gradients.

Tensors are `[batch, spatial..., channels]`.  Each tap of the window is one operation on all windows of an image.  A maximum
never chooses NaN, and starts at the lowest finite value; a mean divides by the cells that are not padding.
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
"""Of images that a thread works on at once: with less, threads would meet at Python's lock more often than caches gain."""
Index = tuple[Any, ...]
"""Index of a numpy array."""


class PoolWindows(NamedTuple):
    """Windows of a pooling op; with `depth` above 1, that many channels are pooled into one, and nothing else is."""

    windows: tuple[SpatialWindow, ...]
    depth: int = 1

    def shape(self, dims: Sequence[int]) -> tuple[int, ...]:
        """The output's shape for an input's."""
        return (dims[0], *(window.outputs for window in self.windows), dims[-1] // self.depth)


def for_each_tap(windows: Sequence[SpatialWindow], tensor: Tensor, work: Callable[[int, Index, Index], None]) -> None:
    """`work(number of the tap, some images' windows, the cells under them)`, tap after tap; the op's threads share the images.

    The tensor `[batch, ...]` says how many images there are, and how much work.
    """
    taps = list(covered_tap_slices(windows))

    def work_on(images: slice) -> None:
        for number, outputs, cells in taps:
            work(number, (images, *outputs), (images, *cells))

    spread(work_on, list(even_parts(len(tensor), shares(ceil(tensor.nbytes / IMAGES_BYTES)))))


def pool_max(tensor: Tensor, pool: PoolWindows) -> Tensor:
    """The largest cell of each window `[batch, outputs..., channels]`."""
    if is_narrow(tensor.dtype):
        floor = np.float32(lowest(tensor.dtype))
        return _pool_max(tensor.astype(np.float32), pool, floor).astype(tensor.dtype)
    return _pool_max(tensor, pool, lowest(tensor.dtype))


def _pool_max(tensor: Tensor, pool: PoolWindows, floor: Any) -> Tensor:
    output = np.full(pool.shape(tensor.shape), floor, tensor.dtype)
    if pool.depth > 1:
        groups = tensor.reshape(*output.shape, pool.depth)
        # fmax passes NaN over; where a window has nothing else, the lowest value stays
        np.fmax(output, np.fmax.reduce(groups, axis=-1), out=output)
        return output

    def enlarge(_: int, place: Index, cells: Index) -> None:
        np.fmax(output[place], tensor[cells], out=output[place])

    for_each_tap(pool.windows, tensor, enlarge)
    return output


def pool_mean(tensor: Tensor, pool: PoolWindows) -> Tensor:
    """The mean of the cells of each window that are not padding, `[batch, outputs..., channels]`."""
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
    """The gradient of the input `[batch, inputs..., channels]` of a mean: every cell gets its share of the windows it is in."""
    shape = (len(grads), *(window.input for window in pool.windows), grads.shape[-1])
    output: Tensor = np.zeros(shape, wide_dtype(grads.dtype))
    # TensorFlow multiplies by the inverse of the count, which rounds otherwise than a division
    shared = grads.astype(output.dtype, copy=False) * (1 / counts(pool).astype(output.dtype))

    def add(_: int, place: Index, cells: Index) -> None:
        output[cells] += shared[place]

    for_each_tap(pool.windows, grads, add)
    return output.astype(grads.dtype, copy=False)


def largest_taps(tensor: Tensor, pool: PoolWindows) -> tuple[Tensor, Tensor]:
    """(the largest cell of each window, the number of its tap), `[batch, outputs..., channels]` both.

    The first of equals; a NaN only where it comes first, as nothing is larger than it.
    """
    shape = pool.shape(tensor.shape)
    values, taps = np.full(shape, lowest(tensor.dtype), tensor.dtype), np.full(shape, -1, np.int64)

    def enlarge(number: int, place: Index, cells: Index) -> None:
        # the first tap is taken whatever it is: the lowest value, -inf or NaN
        is_larger = (values[place] < tensor[cells]) | (taps[place] < 0)
        np.copyto(values[place], tensor[cells], where=is_larger)
        np.copyto(taps[place], np.int64(number), where=is_larger)

    for_each_tap(pool.windows, tensor, enlarge)
    return values, taps


def flat_places(taps: Tensor, pool: PoolWindows, channels: int) -> Tensor:
    """Position in its flattened image of each window's tap, shaped as `taps`: `[batch, outputs..., channels]`."""
    kernels = [window.kernel for window in pool.windows]
    place = np.zeros(taps.shape, np.int64)
    for axis, (window, tap) in enumerate(zip(pool.windows, np.unravel_index(np.maximum(taps, 0), kernels), strict=True)):
        starts = np.arange(window.outputs).reshape(-1, *(1,) * (len(kernels) - axis)) * window.stride - window.before
        place = place * window.input + starts + tap
    return place * channels + np.arange(channels)


def spread_max(tensor: Tensor, grads: Tensor, pool: PoolWindows) -> Tensor:
    """The gradient of the input of a maximum, shaped as it: a window's gradient goes to its first largest cell."""
    output: Tensor = np.zeros(tensor.shape, tensor.dtype)
    has_nan = bool(np.isnan(tensor).any())
    largest = largest_taps(tensor, pool)[0] if has_nan else _plain_max(tensor, pool)
    bits = np.dtype(f"i{tensor.itemsize}")
    # what no cell has got yet: nothing, once a window's largest cell is found
    rest: Tensor = grads.astype(tensor.dtype, order="C").view(bits)

    def add(_: int, place: Index, cells: Index) -> None:
        left = rest[place]
        is_here, here = scratch("is here", left.shape, np.dtype(np.int8)), scratch("here", left.shape, bits)
        np.equal(tensor[cells], largest[place], out=is_here.view(bool))
        if has_nan:
            # a NaN is the largest only where it is the first cell, to which the gradient then goes
            is_here |= np.isnan(largest[place])
        # all bits where it holds, none elsewhere
        np.copyto(here, np.negative(is_here, out=is_here))
        here &= left
        left ^= here
        output[cells] += here.view(tensor.dtype)

    for_each_tap(pool.windows, tensor, add)
    return output


def _plain_max(tensor: Tensor, pool: PoolWindows) -> Tensor:
    """Maximum of each window for input without NaN; -inf is an ordinary value."""
    dtype = tensor.dtype
    output: Tensor = np.full(pool.shape(tensor.shape), lowest(dtype) if dtype.kind in "iu" else -np.inf, dtype)

    def enlarge(_: int, place: Index, cells: Index) -> None:
        np.maximum(output[place], tensor[cells], out=output[place])

    for_each_tap(pool.windows, tensor, enlarge)
    return output


def spread_max_to_equals(tensor: Tensor, largest: Tensor, grads: Tensor, pool: PoolWindows) -> Tensor:
    """Like `spread_max` for three spatial axes: the gradient goes to every cell that is about as large as the maximum.

    TensorFlow's kernel for volumes compares so (1e-5), and gives a window's gradient to each of several equal cells.
    """
    output: Tensor = np.zeros(tensor.shape, tensor.dtype)
    zero, about = tensor.dtype.type(0), tensor.dtype.type(1e-5)

    def add(_: int, place: Index, cells: Index) -> None:
        is_largest = np.abs(tensor[cells] - largest[place]) < about
        output[cells] += choose(is_largest, grads[place], zero)

    for_each_tap(pool.windows, tensor, add)
    return output


def take_at_max(tensor: Tensor, largest: Tensor, grads: Tensor, pool: PoolWindows) -> Tensor:
    """The gradient of a maximum's gradient `[batch, outputs..., channels]`: what lies where each window's largest cell is."""
    output: Tensor = np.zeros(largest.shape, tensor.dtype)
    is_found: Tensor = np.zeros(largest.shape, bool)

    def take(_: int, place: Index, cells: Index) -> None:
        is_here = (tensor[cells] == largest[place]) & ~is_found[place]
        np.copyto(output[place], grads[cells], where=is_here)
        is_found[place] |= is_here

    for_each_tap(pool.windows, tensor, take)
    return output
