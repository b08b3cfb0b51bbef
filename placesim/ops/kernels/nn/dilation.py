"""Dilation2D, the largest sum of input and filter in each window (grey-scale morphology), and its gradients.

Tensors are `[batch, rows, columns, channels]`, filters `[taps, taps, channels]`.  Of equal sums, the first gets the gradient.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from placesim.core.errors import InvalidArgumentError, UnimplementedError
from placesim.ops.attributes import Attrs
from placesim.ops.kernels.kernel import Kernel, Table, Tensor, Trait
from placesim.ops.kernels.nn.windows import (
    SpatialWindow,
    check_entries,
    check_filter,
    check_image,
    tap_flops,
    tap_gradient_flops,
    tap_slices,
    window_of,
)
from placesim.ops.kernels.precision import lowest
from placesim.ops.kernels.shapes import (
    Dims,
    ShapeContext,
    ShapeError,
    format_dims,
    infer_by,
    merge_dim,
    unchanged,
    with_rank,
)

# --- kernels and shape functions ------------------------------------------------------------------------------------


def dilate(inputs: Sequence[Tensor], attrs: Attrs) -> Sequence[Tensor]:
    """Dilation2D -> `[batch, windows, windows, channels]`.

    Raises InvalidArgumentError if attrs, ranks or channels do not fit, and UnimplementedError for strides or rates of batch or
    channels.
    """
    tensor, filters = inputs
    return (largest_sums(tensor, filters, _windows(tensor, filters, attrs))[0],)


def largest_sums(tensor: Tensor, filters: Tensor, windows: Sequence[SpatialWindow]) -> tuple[Tensor, Tensor]:
    """(the largest sum of each window, the number of its tap), both `[batch, windows, windows, channels]`.

    A window without a sum above the lowest value of the dtype, such as a window of NaN or padding, has this value and tap -1.
    """
    shape = (len(tensor), *(window.outputs for window in windows), tensor.shape[-1])
    sums, taps = np.full(shape, lowest(tensor.dtype), tensor.dtype), np.full(shape, -1, np.int32)
    for number, (weights, place, cells) in enumerate(_taps(filters, windows)):
        found = tensor[cells] + weights
        # comparisons with NaN are false, so that NaN is ignored
        is_larger = found > sums[place]
        np.copyto(sums[place], found, where=is_larger)
        np.copyto(taps[place], np.int32(number), where=is_larger)
    return sums, taps


def _taps(filters: Tensor, windows: Sequence[SpatialWindow]) -> Iterator[tuple[Tensor, tuple[slice, ...], tuple[slice, ...]]]:
    """For each tap: (its weights, the windows in which it covers the input, the covered cells)."""
    flat = filters.reshape(-1, filters.shape[-1])
    for weights, (outputs, cells) in zip(flat, tap_slices(windows), strict=True):
        yield weights, (slice(None), *outputs), (slice(None), *cells)


def dilate_back(inputs: Sequence[Tensor], attrs: Attrs) -> Sequence[Tensor]:
    """Dilation2DBackpropInput, shaped as the input: each gradient is added to the cell of its window's largest sum.

    If no sum is largest, the window's first cell gets the gradient. Raises the errors of `dilate`, and InvalidArgumentError for
    gradients that are not shaped as the output.
    """
    tensor, filters, grads = inputs
    windows = _back_windows(tensor, filters, grads, attrs)
    output = np.zeros(tensor.shape, tensor.dtype)
    _, taps = largest_sums(tensor, filters, windows)
    zero = tensor.dtype.type(0)
    for number, (_, place, cells) in enumerate(_taps(filters, windows)):
        output[cells] += np.where(taps[place] == number, grads[place], zero)
    # TensorFlow starts its search at the window's first cell on the input, and keeps this cell if no sum is larger
    starts = [np.maximum(np.arange(window.outputs) * window.stride - window.before, 0) for window in windows]
    is_inside = (starts[0][:, None, None] < tensor.shape[1]) & (starts[1][:, None] < tensor.shape[2])
    image, row, column, channel = np.nonzero((taps < 0) & is_inside)
    np.add.at(output, (image, starts[0][row], starts[1][column], channel), grads[image, row, column, channel])
    return (output,)


def dilate_filter(inputs: Sequence[Tensor], attrs: Attrs) -> Sequence[Tensor]:
    """Dilation2DBackpropFilter, shaped as the filter: each gradient is added to the tap of its window's largest sum.

    If no sum is largest, the first tap gets the gradient. Raises the errors of `dilate`, and InvalidArgumentError for gradients
    that are not shaped as the output.
    """
    tensor, filters, grads = inputs
    windows = _back_windows(tensor, filters, grads, attrs)
    _, taps = largest_sums(tensor, filters, windows)
    output = np.zeros(filters.shape, filters.dtype)
    columns = filters.shape[1]
    if output.size:
        number = np.maximum(taps, 0)
        np.add.at(output, (number // columns, number % columns, np.arange(filters.shape[2])), grads)
    return (output,)


def _windows(tensor: Tensor, filters: Tensor, attrs: Attrs) -> tuple[SpatialWindow, ...]:
    strides, rates = attrs["strides"], attrs["rates"]
    check_entries(strides, "stride", 4)
    if not strides[0] == strides[3] == 1:
        raise UnimplementedError("Stride is only supported across spatial dimensions.")
    if len(rates) != 4:
        raise InvalidArgumentError("Input stride (atrous rate) field must specify 4 dimensions")
    if not rates[0] == rates[3] == 1:
        raise UnimplementedError("Rate is only supported across spatial dimensions.")
    check_image(tensor.shape)
    check_filter(filters.shape, 3, tensor.shape[3])
    return tuple(_window(tensor.shape[a], filters.shape[a - 1], strides[a], rates[a], attrs["padding"]) for a in (1, 2))


def _window(size: int, taps: int, stride: int, rate: int, padding: str) -> SpatialWindow:
    """Windows along one axis; a rate of 0 puts all taps on one cell."""
    # padding and number of windows are those of an undilated window of the same extent
    effective = taps + (taps - 1) * (rate - 1)
    return window_of(size, effective, stride, 1, padding)._replace(kernel=taps, dilation=rate)


def _back_windows(tensor: Tensor, filters: Tensor, grads: Tensor, attrs: Attrs) -> tuple[SpatialWindow, ...]:
    windows = _windows(tensor, filters, attrs)
    if grads.ndim != 4:
        raise InvalidArgumentError(f"out_backprop must be 4-dimensional{format_dims(grads.shape)}")
    shape = (len(tensor), *(window.outputs for window in windows), tensor.shape[3])
    if grads.shape != shape:
        raise InvalidArgumentError("out_backprop has incompatible size.")
    return windows


def infer_dilation(context: ShapeContext) -> Sequence[Dims]:
    """`[batch, windows, windows, channels]`; both window dimensions are unknown if a size of input or filter is unknown.

    Raises ShapeError for shapes or attrs that do not fit.
    """
    attrs = context.attrs
    dims, filters = with_rank(context.shapes[0], 4), with_rank(context.shapes[1], 3)
    for what, name in (("stride", "strides"), ("rates", "rates")):
        if len(attrs[name]) != 4:
            raise ShapeError(f"Dilation2D requires the {what} attribute to contain 4 values, but got: {len(attrs[name])}")
    depth = merge_dim(dims[3], filters[2])
    if min(*dims[1:3], *filters[:2]) < 0:
        return ((dims[0], -1, -1, depth),)
    rows = zip(dims[1:3], filters[:2], attrs["strides"][1:3], attrs["rates"][1:3], strict=True)
    try:
        windows = [_window(*row, attrs["padding"]) for row in rows]
    except InvalidArgumentError as error:
        raise ShapeError(error.message) from None
    return ((dims[0], *(window.outputs for window in windows), depth),)


TABLE: Table = {
    "Dilation2D": Kernel(dilate, infer_dilation, tap_flops),
    "Dilation2DBackpropInput": Kernel(dilate_back, unchanged, tap_gradient_flops),
    "Dilation2DBackpropFilter": Kernel(dilate_filter, infer_by("*, x -> x"), tap_gradient_flops, traits=Trait.SUMS),
}
