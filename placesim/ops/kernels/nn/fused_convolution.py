"""FusedPadConv2D, FusedResizeAndPadConv2D: resize images bilinearly, pad them with their mirror image, and convolve them."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

import numpy as np

from placesim.core.errors import InvalidArgumentError
from placesim.ops.attributes import Attrs
from placesim.ops.kernels.array.padding import check_mirror, check_not_negative
from placesim.ops.kernels.image.resizing import gather, read_size, sample_linear
from placesim.ops.kernels.kernel import Kernel, Table, Tensor
from placesim.ops.kernels.nn.convolution import forward_flops
from placesim.ops.kernels.nn.correlation import correlate
from placesim.ops.kernels.nn.windows import UNSTRIDED, check_entries, check_filter, check_image, static_outputs, windows_of
from placesim.ops.kernels.precision import wide_dtype
from placesim.ops.kernels.shapes import (
    Dims,
    ShapeContext,
    ShapeError,
    add_dims,
    format_dims,
    merge,
    merge_dim,
    with_rank,
    with_value,
)

# --- kernels --------------------------------------------------------------------------------------------------------


def convolve_padded(inputs: Sequence[Tensor], attrs: Attrs, is_resized: bool) -> Sequence[Tensor]:
    """(images, their new size if `is_resized`, paddings `[4, 2]`, filter) -> `[batch, windows, windows, outputs]`.

    Raises InvalidArgumentError if attrs or shapes do not fit, and for images or an output without elements.
    """
    tensor, paddings, filters = inputs[0], inputs[-2], inputs[-1]
    strides = attrs["strides"]
    check_entries(strides, "strides", 4)
    if not strides[0] == strides[3] == 1:
        raise InvalidArgumentError(UNSTRIDED)
    check_image(tensor.shape)
    if tensor.size == 0:
        raise InvalidArgumentError("Input tensor can't be empty")
    if is_resized:
        tensor = resize(tensor, inputs[1], attrs["resize_align_corners"])
    padded = mirror(tensor, paddings, attrs["mode"])
    check_filter(filters.shape, 4, padded.shape[3])
    windows = windows_of(padded.shape[1:3], filters.shape[:2], strides[1:3], (1, 1), attrs["padding"])
    output = correlate(padded, filters, windows)
    if output.size == 0:
        raise InvalidArgumentError("Output tensor can't be empty")
    return (output,)


def resize(tensor: Tensor, size: Tensor, align_corners: bool) -> Tensor:
    """Resize images `[batch, rows, columns, channels]` to `size` (rows, columns), as ResizeBilinear does.

    Raises InvalidArgumentError unless the size is two positive numbers.
    """
    options = {"align_corners": align_corners, "half_pixel_centers": False}
    sizes = zip(tensor.shape[1:3], read_size(size), strict=True)
    rows, columns = (sample_linear(old, new, options) for old, new in sizes)
    found: Tensor = gather(tensor.astype(wide_dtype(tensor.dtype)), rows, columns).astype(tensor.dtype)
    return found


def mirror(tensor: Tensor, paddings: Tensor, mode: str) -> Tensor:
    """Pad images with their mirrored rows and columns; REFLECT leaves out the edge itself, SYMMETRIC repeats it.

    `paddings` `[4, 2]` has the cells before and after along each axis. Raises InvalidArgumentError for another shape, for
    negative paddings, for paddings larger than the rows or columns to mirror, and for paddings of batch or channels.
    """
    shape = format_dims(paddings.shape)
    if paddings.ndim != 2 or paddings.shape[1] != 2:
        raise InvalidArgumentError(f"paddings must be a matrix with 2 columns: {shape}")
    if tensor.ndim != len(paddings):
        raise InvalidArgumentError(
            f"The first dimension of paddings must be the rank of inputs: {tensor.ndim} {shape} {format_dims(tensor.shape)}"
        )
    rows = [(int(before), int(after)) for before, after in paddings]
    for (before, after), size in zip(rows, tensor.shape, strict=True):
        check_not_negative((before, after), "paddings")
        check_mirror(size, before, after, 1 if mode == "REFLECT" else 0, "dimension size")
    for (before, after), kind in ((rows[0], "batches"), (rows[3], "channels")):
        if before or after:
            raise InvalidArgumentError(f"Fused mirror padding only support spatial padding, not {kind}: {_summary(paddings)}")
    return np.pad(tensor, rows, mode="reflect" if mode == "REFLECT" else "symmetric")


def _summary(paddings: Tensor) -> str:
    # TensorFlow's short description of a tensor shows only its first row
    rows = "".join(f"[{before} {after}]" for before, after in paddings[:1])
    return f"Tensor<type: int32 shape: {format_dims(paddings.shape)} values: {rows}...>"


# --- shape functions ------------------------------------------------------------------------------------------------


def infer_padded(context: ShapeContext, is_resized: bool) -> Sequence[Dims]:
    """Static shape `[batch, windows, windows, outputs]`; windows are known if paddings and the new size are constants.

    Raises ShapeError for shapes or attrs that do not fit.
    """
    dims = list(with_rank(context.shapes[0], 4))
    index = 2 if is_resized else 1
    if is_resized:
        with_value(with_rank(context.shapes[1], 1)[0], 2)
        size = context.value(1)
        dims[1:3] = (-1, -1) if size is None else map(int, size)
    count, columns = with_rank(context.shapes[index], 2)
    # TensorFlow compares the rank with the number of paddings, so an unknown number fails too
    if count != 4:
        raise ShapeError(f"Shape must be rank {count} but is rank 4")
    merge((count, columns), (4, 2))
    paddings = context.value(index)
    padded = [-1] * 4 if paddings is None else [_padded(dim, pair) for dim, pair in zip(dims, paddings, strict=True)]
    filters, strides = with_rank(context.shapes[index + 1], 4), context.attrs["strides"]
    if len(strides) != 4:
        raise ShapeError(f"Operation requires the stride attribute to contain 4 values, but got: {len(strides)}")
    merge_dim(padded[3], filters[2])
    rows = zip(padded[1:3], filters[:2], strides[1:3], strict=True)
    outputs = [static_outputs(dim, size, stride, 1, context.attrs["padding"]) for dim, size, stride in rows]
    return ((padded[0], *outputs, filters[3]),)


def _padded(dim: int, pair: Tensor) -> int:
    before, after = map(int, pair)
    if before < 0 or after < 0:
        raise ShapeError("Paddings must be non-negative")
    return add_dims(dim, before + after)


def _build_row(is_resized: bool) -> Kernel:
    return Kernel(
        partial(convolve_padded, is_resized=is_resized),
        partial(infer_padded, is_resized=is_resized),
        partial(forward_flops, filters=-1),
    )


TABLE: Table = {
    "FusedPadConv2D": _build_row(is_resized=False),
    "FusedResizeAndPadConv2D": _build_row(is_resized=True),
}
