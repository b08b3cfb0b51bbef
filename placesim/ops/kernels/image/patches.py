"""Patches of images and volumes: all that a moving window sees, and glimpses at given places.

Source: TensorFlow's `extract_image_patches_op.cc`, `extract_volume_patches_op.cc`, `eigen_attention.h`.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import product
from math import prod

import numpy as np

from placesim.core.errors import InvalidArgumentError, OutOfRangeError, UnimplementedError
from placesim.ops.attributes import Attrs
from placesim.ops.kernels.image.resizing import infer_size
from placesim.ops.kernels.kernel import Compute, Kernel, Table, Tensor
from placesim.ops.kernels.shapes import (
    Dims,
    ShapeContext,
    ShapeError,
    ShapeFunction,
    format_dims,
    merge_dim,
    multiply_dims,
    with_rank,
    with_value,
)
from placesim.ops.process.memory_limit import check_array

_FAR = 1 << 31
"""From here on a place has no 32 bits."""

# --- windows --------------------------------------------------------------------------------------------------------


def _window_output(size: int, window: int, stride: int, padding: str) -> tuple[int, int]:
    """Number of positions of a window along an axis, and the padding before it; InvalidArgumentError if negative."""
    if padding == "SAME":
        count = -(-size // stride)
        return count, max((count - 1) * stride + window - size, 0) // 2
    # toward zero, as C divides: a window a little too large has no place, and only a larger one is refused
    count = int((size - window + stride) / stride)
    if count < 0:
        raise InvalidArgumentError(
            f"Computed output size would be negative: {count} "
            f"[input_size: {size}, effective_filter_size: {window}, stride: {stride}]"
        )
    return count, 0


def _spatial(attrs: Attrs, rank: int) -> tuple[tuple[int, ...], tuple[int, ...], tuple[int, ...]]:
    """Window sizes, strides and rates along the spatial axes."""
    names = ("ksizes", "strides", "rates") if "rates" in attrs else ("ksizes", "strides")
    for name in names:
        values = attrs[name]
        # attr by attr, in the order of the op's definition
        if values[0] != 1 or values[rank + 1] != 1:
            raise UnimplementedError(f"Only support {name} across space.")
        if min(values[1 : rank + 1]) < 1:
            raise OutOfRangeError(f"{name} is out of range.")
    sizes, strides = (tuple(attrs[name][1 : rank + 1]) for name in names[:2])
    return sizes, strides, tuple(attrs.get("rates", (1,) * (rank + 2))[1 : rank + 1])


def _build_extract_patches(rank: int) -> Compute:
    """A kernel `[batch, spatial..., depth]` -> `[batch, windows..., taps * depth]`: the values of each window side by side.

    Zeros outside the image. Raises InvalidArgumentError for another rank, or windows too large; UnimplementedError for windows,
    strides or rates of batch or depth, OutOfRangeError for one below 1.
    """

    def compute(inputs: Sequence[Tensor], attrs: Attrs) -> tuple[Tensor]:
        (images,) = inputs
        sizes, strides, rates = _spatial(attrs, rank)
        if images.ndim != rank + 2:
            raise InvalidArgumentError(f"input must be {rank + 2}-dimensional{format_dims(images.shape)}")
        windows = [size + (size - 1) * (rate - 1) for size, rate in zip(sizes, rates, strict=True)]
        axes = list(zip(images.shape[1:-1], windows, strides, strict=True))
        counts, before = zip(*(_window_output(*axis, attrs["padding"]) for axis in axes), strict=True)
        dims = (images.shape[0], *counts)
        if not prod((*dims, images.shape[-1])):
            return (np.zeros((*dims, prod(sizes) * images.shape[-1]), images.dtype),)
        padded = _pad(images, counts, before, axes)
        pieces = [padded[_window_slice(offset, rates, strides, counts)] for offset in product(*map(range, sizes))]
        return (np.stack(pieces, -2).reshape(*dims, -1),)

    return compute


def _pad(images: Tensor, counts: Sequence[int], before: Sequence[int], axes: Sequence[tuple[int, int, int]]) -> Tensor:
    """Zero-pad images to the reach of the windows."""
    widths = [(0, 0)]
    for (size, window, stride), count, start in zip(axes, counts, before, strict=True):
        widths.append((start, max((count - 1) * stride + window - size - start, 0)))
    pads = [*widths, (0, 0)]
    check_array([dim + sum(pad) for dim, pad in zip(images.shape, pads, strict=True)], images.dtype)
    return np.pad(images, pads)


def _window_slice(
    offset: Sequence[int], rates: Sequence[int], strides: Sequence[int], counts: Sequence[int]
) -> tuple[slice, ...]:
    """The values that all windows have at one offset."""
    starts = [place * rate for place, rate in zip(offset, rates, strict=True)]
    steps = zip(starts, strides, counts, strict=True)
    return (slice(None), *(slice(start, start + stride * (count - 1) + 1, stride) for start, stride, count in steps))


# --- glimpses -------------------------------------------------------------------------------------------------------


def _build_extract_glimpses(version: int) -> Compute:
    """A kernel (images, size `[2]`, offsets `[batch, 2]`) that cuts a window out of each; noise where there is no image.

    Raises InvalidArgumentError for other shapes, a negative size, and noise that there is not.
    """

    def compute(inputs: Sequence[Tensor], attrs: Attrs) -> tuple[Tensor]:
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

    return compute


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

    The offset is in pixels, or normalized in sizes (halves of them if centered).  The first version always takes it for the
    glimpse's center; the second only where it is normalized and centered.
    """
    normalized, centered = attrs["normalized"], attrs["centered"]
    start = np.float32(offset) * np.float32(size if normalized else 1)
    if centered:
        start = (start / 2 if version == 1 or normalized else start) + np.float32(size / 2)
    if version == 1 or (normalized and centered):
        start -= np.float32(window / 2)
    # what has no place in 32 bits, NaN too, is outside of any image
    return int(start) if abs(start) < _FAR else -_FAR


def _fill_glimpse(glimpse: Tensor, image: Tensor, starts: Sequence[int], noise: str) -> None:
    """Fill with noise, then copy the part inside the image; a glimpse that begins before the image is aligned to its own
    end.
    """
    spans = [_overlap(*axis) for axis in zip(starts, glimpse.shape[:2], image.shape[:2], strict=True)]
    axes = zip(starts, glimpse.shape[:2], image.shape[:2], strict=True)
    # TensorFlow draws noise also for a glimpse that ends with the image, and then writes over it
    if not all(start >= 0 and start + window < size for start, window, size in axes):
        _fill_noise(glimpse, image, noise)
    (rows, image_rows), (columns, image_columns) = spans
    glimpse[rows, columns] = image[image_rows, image_columns]


def _overlap(start: int, window: int, size: int) -> tuple[slice, slice]:
    """Overlap in the glimpse, and in the image."""
    # a glimpse that begins before the image shows its first pixels at its own end
    length = max(0, window + start if start < 0 else min(window, size - start))
    base = window - length if start < 0 else 0
    length = min(length, size)
    first = max(start, 0)
    return slice(base, base + length), slice(first, first + length)


def _fill_noise(glimpse: Tensor, image: Tensor, noise: str) -> None:
    """TensorFlow's noise is different each time; this one is not, so that runs can be compared."""
    generator = np.random.default_rng(0)
    if noise == "uniform":
        glimpse[...] = image.min() + generator.random(glimpse.shape, np.float32) * (image.max() - image.min())
    elif noise == "gaussian":
        spread = generator.standard_normal(glimpse.shape, np.float32) * image.std((0, 1))
        glimpse[...] = np.clip(image.mean((0, 1)) + spread, image.min((0, 1)), image.max((0, 1)))


# --- shape functions ------------------------------------------------------------------------------------------------


def _build_infer_patches(rank: int, op: str) -> ShapeFunction:
    """`[batch, windows..., taps * depth]`; no window is known where a spatial size is not."""

    def infer_patches(context: ShapeContext) -> Sequence[Dims]:
        attrs = context.attrs
        dims = with_rank(context.shapes[0], rank + 2)
        for name, shown in (("ksizes", "ksizes"), ("strides", "stride"), ("rates", "rates")):
            if name in attrs and len(attrs[name]) != rank + 2:
                raise ShapeError(
                    f"{op} requires the {shown} attribute to contain {rank + 2} values, but got: {len(attrs[name])}"
                )
        sizes, strides = attrs["ksizes"][1:-1], attrs["strides"][1:-1]
        rates = attrs.get("rates", (1,) * (rank + 2))[1:-1]
        depth = multiply_dims(dims[-1], prod(sizes))
        if -1 in dims[1:-1]:
            # for volumes too, of which that is one dimension too few
            return ((dims[0], -1, -1, depth),)
        windows = [size + (size - 1) * (rate - 1) for size, rate in zip(sizes, rates, strict=True)]
        for stride in strides:
            if stride <= 0:
                raise ShapeError(f"Stride must be > 0, but got {stride}")
        try:
            axes = zip(dims[1:-1], windows, strides, strict=True)
            return ((dims[0], *(_window_output(*axis, attrs["padding"])[0] for axis in axes), depth),)
        except InvalidArgumentError as error:
            raise ShapeError(error.message) from None

    return infer_patches


def _infer_glimpses(context: ShapeContext) -> tuple[Dims]:
    images, offsets = with_rank(context.shapes[0], 4), with_rank(context.shapes[2], 2)
    batch = merge_dim(images[0], offsets[0])
    with_value(offsets[1], 2)
    if context.attrs["uniform_noise"] and context.attrs["noise"] not in ("", "uniform"):
        raise ShapeError("The uniform_noise should not be True when noise is not uniform")
    return ((batch, *infer_size(context, 1), images[3]),)


TABLE: Table = {
    "ExtractImagePatches": Kernel(_build_extract_patches(2), _build_infer_patches(2, "ExtractImagePatches")),
    "ExtractVolumePatches": Kernel(_build_extract_patches(3), _build_infer_patches(3, "ExtractVolumePatches")),
    "ExtractGlimpse": Kernel(_build_extract_glimpses(1), _infer_glimpses),
    "ExtractGlimpseV2": Kernel(_build_extract_glimpses(2), _infer_glimpses),
}
