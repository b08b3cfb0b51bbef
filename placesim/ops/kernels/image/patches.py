"""Patches of images and volumes: the values in each position of a sliding window, and glimpses at given positions.

Source: TensorFlow's `extract_image_patches_op.cc`, `extract_volume_patches_op.cc`, `eigen_attention.h`.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from itertools import product
from math import prod

import numpy as np

from placesim.core.errors import InvalidArgumentError, OutOfRangeError, UnimplementedError
from placesim.ops.attributes import Attrs
from placesim.ops.kernels.image.resizing import infer_size
from placesim.ops.kernels.kernel import Kernel, Table, Tensor
from placesim.ops.kernels.nn.windows import SpatialWindow, windows_of
from placesim.ops.kernels.shapes import (
    Dims,
    ShapeContext,
    ShapeError,
    format_dims,
    merge_dim,
    multiply_dims,
    with_rank,
    with_value,
)
from placesim.ops.process.memory_limit import check_array

_FAR = 1 << 31
"""Smallest positive number that does not fit into 32 bits."""

# --- windows --------------------------------------------------------------------------------------------------------


def _spatial(attrs: Attrs, rank: int) -> tuple[tuple[int, ...], tuple[int, ...], tuple[int, ...]]:
    """Window sizes, strides and rates along the spatial axes."""
    names = ("ksizes", "strides", "rates") if "rates" in attrs else ("ksizes", "strides")
    for name in names:
        values = attrs[name]
        # each attr is checked completely before the next
        if values[0] != 1 or values[rank + 1] != 1:
            raise UnimplementedError(f"Only support {name} across space.")
        if min(values[1 : rank + 1]) < 1:
            raise OutOfRangeError(f"{name} is out of range.")
    sizes, strides = (tuple(attrs[name][1 : rank + 1]) for name in names[:2])
    return sizes, strides, tuple(attrs.get("rates", (1,) * (rank + 2))[1 : rank + 1])


def extract_patches(inputs: Sequence[Tensor], attrs: Attrs, rank: int) -> tuple[Tensor]:
    """Images `[batch, spatial..., depth]` -> the values of each window, `[batch, windows..., taps * depth]`.

    Values outside of the image are zero; `rank` is the number of spatial axes. Raises InvalidArgumentError for another rank, or
    windows that are too large, UnimplementedError for windows, strides or rates of batch or depth, and OutOfRangeError for
    values below 1.
    """
    (images,) = inputs
    sizes, strides, rates = _spatial(attrs, rank)
    if images.ndim != rank + 2:
        raise InvalidArgumentError(f"input must be {rank + 2}-dimensional{format_dims(images.shape)}")
    windows = windows_of(images.shape[1:-1], sizes, strides, rates, attrs["padding"])
    dims = (images.shape[0], *(window.outputs for window in windows))
    if not prod((*dims, images.shape[-1])):
        return (np.zeros((*dims, prod(sizes) * images.shape[-1]), images.dtype),)
    padded = _pad(images, windows)
    pieces = [
        padded[(slice(None), *(window.cells(tap) for window, tap in zip(windows, taps, strict=True)))]
        for taps in product(*map(range, sizes))
    ]
    return (np.stack(pieces, -2).reshape(*dims, -1),)


def _pad(images: Tensor, windows: Sequence[SpatialWindow]) -> Tensor:
    """Zero-pad images to the extent of the windows."""
    pads = [(0, 0), *((window.before, max(window.after, 0)) for window in windows), (0, 0)]
    check_array([dim + sum(pad) for dim, pad in zip(images.shape, pads, strict=True)], images.dtype)
    return np.pad(images, pads)


# --- glimpses -------------------------------------------------------------------------------------------------------


def extract_glimpses(inputs: Sequence[Tensor], attrs: Attrs, version: int) -> tuple[Tensor]:
    """(images, size `[2]`, offsets `[batch, 2]`) -> a glimpse of each image, with noise outside of the image.

    Raises InvalidArgumentError for other shapes, a negative size, and unknown noise.
    """
    images, size, offsets = inputs
    _check_noise(attrs)
    _check_glimpses(images, size, offsets)
    window = (int(size[0]), int(size[1]))
    for length in window:
        if length < 0:
            raise InvalidArgumentError(f"Expected a non-negative size, got {length}")
    glimpses = np.zeros((images.shape[0], *window, images.shape[3]), np.float32)
    noise = attrs["noise"] or ("uniform" if attrs["uniform_noise"] else "gaussian")
    if glimpses.size:
        for image, offset, glimpse in zip(images, offsets, glimpses, strict=True):
            starts = [_glimpse_start(offset[axis], image.shape[axis], window[axis], attrs, version) for axis in (0, 1)]
            _fill_glimpse(glimpse, image, starts, noise)
    return (glimpses,)


def _check_noise(attrs: Attrs) -> None:
    if attrs["uniform_noise"] and attrs["noise"] not in ("", "uniform"):
        raise InvalidArgumentError("The uniform_noise and noise could not be specified at the same time")
    if attrs["noise"] not in ("", "uniform", "gaussian", "zero"):
        raise InvalidArgumentError(f"The noise could only be uniform, gaussian, or zero, got{attrs['noise']}")


def _check_glimpses(images: Tensor, size: Tensor, offsets: Tensor) -> None:
    if images.ndim != 4:
        raise InvalidArgumentError(f"input must be 4-dimensional (batch_size, height, width, depth){format_dims(images.shape)}")
    if size.shape != (2,):
        raise InvalidArgumentError(f"input must be a vector of size 2 (height, width){format_dims(size.shape)}")
    if offsets.ndim != 2:
        raise InvalidArgumentError(f"input must be a matrix{format_dims(offsets.shape)}")
    if offsets.shape[0] != images.shape[0]:
        raise InvalidArgumentError(f"first dimension should be batch{format_dims(offsets.shape)}")
    if offsets.shape[1] != 2:
        raise InvalidArgumentError(f"second dimension should be of size 2 (y,x){format_dims(offsets.shape)}")


def _glimpse_start(offset: float, size: int, window: int, attrs: Attrs, version: int) -> int:
    """The first row or column of a glimpse.

    The offset is in pixels, or if `normalized` in units of the image's size (if also `centered`, half the size).  In the op's
    first version the offset is always the glimpse's center, in the second only if normalized and centered.
    """
    normalized, centered = attrs["normalized"], attrs["centered"]
    start = np.float32(offset) * np.float32(size if normalized else 1)
    if centered:
        start = (start / 2 if version == 1 or normalized else start) + np.float32(size / 2)
    if version == 1 or (normalized and centered):
        start -= np.float32(window / 2)
    # numbers that do not fit into 32 bits, and NaN, are outside of any image
    return int(start) if abs(start) < _FAR else -_FAR


def _fill_glimpse(glimpse: Tensor, image: Tensor, starts: Sequence[int], noise: str) -> None:
    """Fill a glimpse with noise, then copy the part that is inside the image."""
    spans = [_overlap(*axis) for axis in zip(starts, glimpse.shape[:2], image.shape[:2], strict=True)]
    axes = zip(starts, glimpse.shape[:2], image.shape[:2], strict=True)
    # TensorFlow also draws noise for a glimpse that ends exactly at the image's end
    if not all(start >= 0 and start + window < size for start, window, size in axes):
        _fill_noise(glimpse, image, noise)
    (rows, image_rows), (columns, image_columns) = spans
    glimpse[rows, columns] = image[image_rows, image_columns]


def _overlap(start: int, window: int, size: int) -> tuple[slice, slice]:
    """The overlap of glimpse and image along an axis, as (range of the glimpse, range of the image)."""
    # like TensorFlow, put the first pixels at the glimpse's end if it begins before the image
    length = max(0, window + start if start < 0 else min(window, size - start))
    base = window - length if start < 0 else 0
    length = min(length, size)
    first = max(start, 0)
    return slice(base, base + length), slice(first, first + length)


def _fill_noise(glimpse: Tensor, image: Tensor, noise: str) -> None:
    """Fill a glimpse with noise, which unlike TensorFlow's is the same in each run, so that runs can be compared."""
    generator = np.random.default_rng(0)
    if noise == "uniform":
        glimpse[...] = image.min() + generator.random(glimpse.shape, np.float32) * (image.max() - image.min())
    elif noise == "gaussian":
        spread = generator.standard_normal(glimpse.shape, np.float32) * image.std((0, 1))
        glimpse[...] = np.clip(image.mean((0, 1)) + spread, image.min((0, 1)), image.max((0, 1)))


# --- shape functions ------------------------------------------------------------------------------------------------


def _infer_patches(context: ShapeContext, rank: int, op: str) -> Sequence[Dims]:
    """Static shape `[batch, windows..., taps * depth]`; all windows are unknown if a spatial size is unknown."""
    attrs = context.attrs
    dims = with_rank(context.shapes[0], rank + 2)
    for name, shown in (("ksizes", "ksizes"), ("strides", "stride"), ("rates", "rates")):
        if name in attrs and len(attrs[name]) != rank + 2:
            raise ShapeError(f"{op} requires the {shown} attribute to contain {rank + 2} values, but got: {len(attrs[name])}")
    sizes, strides = attrs["ksizes"][1:-1], attrs["strides"][1:-1]
    rates = attrs.get("rates", (1,) * (rank + 2))[1:-1]
    depth = multiply_dims(dims[-1], prod(sizes))
    if -1 in dims[1:-1]:
        # TensorFlow's shape has one dimension too few for volumes
        return ((dims[0], -1, -1, depth),)
    windows = [size + (size - 1) * (rate - 1) for size, rate in zip(sizes, rates, strict=True)]
    for stride in strides:
        if stride <= 0:
            raise ShapeError(f"Stride must be > 0, but got {stride}")
    try:
        found = windows_of(dims[1:-1], windows, strides, (1,) * rank, attrs["padding"])
        return ((dims[0], *(window.outputs for window in found), depth),)
    except InvalidArgumentError as error:
        raise ShapeError(error.message) from None


def _infer_glimpses(context: ShapeContext) -> tuple[Dims]:
    images, offsets = with_rank(context.shapes[0], 4), with_rank(context.shapes[2], 2)
    batch = merge_dim(images[0], offsets[0])
    with_value(offsets[1], 2)
    if context.attrs["uniform_noise"] and context.attrs["noise"] not in ("", "uniform"):
        raise ShapeError("The uniform_noise should not be True when noise is not uniform")
    return ((batch, *infer_size(context, 1), images[3]),)


TABLE: Table = {
    "ExtractImagePatches": Kernel(partial(extract_patches, rank=2), partial(_infer_patches, rank=2, op="ExtractImagePatches")),
    "ExtractVolumePatches": Kernel(
        partial(extract_patches, rank=3), partial(_infer_patches, rank=3, op="ExtractVolumePatches")
    ),
    "ExtractGlimpse": Kernel(partial(extract_glimpses, version=1), _infer_glimpses),
    "ExtractGlimpseV2": Kernel(partial(extract_glimpses, version=2), _infer_glimpses),
}
