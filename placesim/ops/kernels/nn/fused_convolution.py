"""FusedPadConv2D, FusedResizeAndPadConv2D: images are resized bilinearly, mirrored beyond their edges, and convolved."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

import numpy as np

from placesim.core.errors import InvalidArgumentError
from placesim.ops.attributes import Attrs
from placesim.ops.kernels.image.resizing import gather, read_size, sample_linear
from placesim.ops.kernels.kernel import Kernel, Table, Tensor, elements
from placesim.ops.kernels.nn.correlation import correlate
from placesim.ops.kernels.nn.windows import UNSTRIDED, check_entries, check_filter, check_image, static_outputs, windows_of
from placesim.ops.kernels.precision import wide_dtype
from placesim.ops.kernels.shapes import Dims, ShapeContext, ShapeError, add_dims, format_dims, merge_dim, with_rank, with_value

# --- kernels --------------------------------------------------------------------------------------------------------


def convolve_padded(inputs: Sequence[Tensor], attrs: Attrs, is_resized: bool) -> Sequence[Tensor]:
    """(images, with `is_resized` their new size, paddings `[4, 2]`, filter) -> `[batch, windows, windows, outputs]`.

    Raises InvalidArgumentError if attrs or shapes do not fit, and where images or the output have no elements.
    """
    tensor, paddings, filters = inputs[0], inputs[-2], inputs[-1]
    strides = attrs["strides"]
    check_entries(strides, "strides", 4)
    if not strides[0] == strides[3] == 1:
        raise InvalidArgumentError(UNSTRIDED)
    check_image(tensor)
    if tensor.size == 0:
        raise InvalidArgumentError("Input tensor can't be empty")
    if is_resized:
        tensor = resize(tensor, inputs[1], attrs["resize_align_corners"])
    padded = mirror(tensor, paddings, attrs["mode"])
    check_filter(filters, 4, padded.shape[3])
    windows = windows_of(padded.shape[1:3], filters.shape[:2], strides[1:3], (1, 1), attrs["padding"])
    output = correlate(padded, filters, windows)
    if output.size == 0:
        raise InvalidArgumentError("Output tensor can't be empty")
    return (output,)


def resize(tensor: Tensor, size: Tensor, align_corners: bool) -> Tensor:
    """The images `[batch, rows, columns, channels]` in their new size (rows, columns), as ResizeBilinear makes them.

    Raises InvalidArgumentError unless the size is two positive numbers.
    """
    options = {"align_corners": align_corners, "half_pixel_centers": False}
    sizes = zip(tensor.shape[1:3], read_size(size), strict=True)
    rows, columns = (sample_linear(old, new, options) for old, new in sizes)
    found: Tensor = gather(tensor.astype(wide_dtype(tensor.dtype)), rows, columns).astype(tensor.dtype)
    return found


def mirror(tensor: Tensor, paddings: Tensor, mode: str) -> Tensor:
    """The images with rows and columns around them that mirror theirs: REFLECT without the edge itself, SYMMETRIC with it.

    `paddings` `[4, 2]`: how many before and after along each axis. Raises InvalidArgumentError for another shape, for negative
    ones, for more than there are rows or columns to mirror, and for any along the batch or the channels.
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
        if before < 0 or after < 0:
            raise InvalidArgumentError(f"paddings must be non-negative: {before} {after}")
        _check_mirror(before, after, size, mode)
    for (before, after), kind in ((rows[0], "batches"), (rows[3], "channels")):
        if before or after:
            raise InvalidArgumentError(f"Fused mirror padding only support spatial padding, not {kind}: {_summary(paddings)}")
    return np.pad(tensor, rows, mode="reflect" if mode == "REFLECT" else "symmetric")


def _check_mirror(before: int, after: int, size: int, mode: str) -> None:
    if mode == "REFLECT":
        if before >= size or after >= size:
            raise InvalidArgumentError(f"paddings must be less than the dimension size: {before}, {after} not less than {size}")
    else:
        if before > size or after > size:
            raise InvalidArgumentError(
                f"paddings must be no greater than the dimension size: {before}, {after} greater than {size}"
            )


def _summary(paddings: Tensor) -> str:
    # as TensorFlow describes a tensor for a log: no more than its first row
    rows = "".join(f"[{before} {after}]" for before, after in paddings[:1])
    return f"Tensor<type: int32 shape: {format_dims(paddings.shape)} values: {rows}...>"


# --- shape functions ------------------------------------------------------------------------------------------------


def infer_padded(context: ShapeContext, is_resized: bool) -> Sequence[Dims]:
    """`[batch, windows, windows, outputs]` from the padded size, as far as paddings and the new size are constants.

    Raises ShapeError for shapes or attrs that do not fit.
    """
    dims = list(with_rank(context.shapes[0], 4))
    index = 2 if is_resized else 1
    if is_resized:
        with_value(with_rank(context.shapes[1], 1)[0], 2)
        size = context.value(1)
        dims[1:3] = (-1, -1) if size is None else map(int, size)
    count, columns = with_rank(context.shapes[index], 2)
    # TensorFlow takes the rank from the number of paddings, so that it refuses where that is unknown too
    if count != 4:
        raise ShapeError(f"Shape must be rank {count} but is rank 4")
    merge_dim(columns, 2)
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


# --- costs ----------------------------------------------------------------------------------------------------------


def forward_flops(inputs: Sequence[Dims], outputs: Sequence[Dims], attrs: Attrs) -> int:
    """A multiplication and an addition for each output and each cell of a filter."""
    return 2 * elements(outputs[0]) * elements((inputs[-1] or ())[:-1])


# --- rows -----------------------------------------------------------------------------------------------------------


def _build_row(is_resized: bool) -> Kernel:
    return Kernel(partial(convolve_padded, is_resized=is_resized), partial(infer_padded, is_resized=is_resized), forward_flops)


TABLE: Table = {
    "FusedPadConv2D": _build_row(is_resized=False),
    "FusedResizeAndPadConv2D": _build_row(is_resized=True),
}
