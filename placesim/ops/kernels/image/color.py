"""Colors of images `[..., channels]`: conversion between RGB and HSV, adjustment of contrast, hue and saturation.

Source: TensorFlow's `colorspace_op.h`, `adjust_*_op.cc`.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

import numpy as np

from placesim.core.errors import FailedPreconditionError, InvalidArgumentError
from placesim.ops.attributes import Attrs
from placesim.ops.kernels.kernel import Kernel, Table, Tensor, per_element
from placesim.ops.kernels.memory_rules import KernelMemory, forwards, item_size
from placesim.ops.kernels.shapes import (
    Dims,
    ShapeContext,
    format_dims,
    replace_dim,
    with_rank,
    with_rank_at_least,
    with_value,
)

SECTORS = 6
"""Sectors of the circle of hues, between red, yellow, green, cyan, blue and magenta."""

# --- color spaces ---------------------------------------------------------------------------------------------------


def _check_colors(images: Tensor) -> None:
    if not images.ndim:
        raise InvalidArgumentError(f"input must be at least 1D{format_dims(images.shape)}")
    # the conversions raise FailedPrecondition, while the adjustments raise InvalidArgument
    if images.shape[-1] != 3:
        raise FailedPreconditionError(f"input must have 3 channels but input only has {images.shape[-1]} channels.")


def compute_rgb_to_hsv(inputs: Sequence[Tensor], attrs: Attrs) -> tuple[Tensor]:
    """Red, green and blue `[..., 3]` -> hue, saturation and value, computed in the images' type.

    Raises InvalidArgumentError for a scalar, and FailedPreconditionError for another number of channels.
    """
    (images,) = inputs
    _check_colors(images)
    number = images.dtype.type
    red, green, blue = (images[..., channel] for channel in range(3))
    value = images.max(-1)
    spread = value - images.min(-1)
    # black has no saturation
    saturation = np.where(value > 0, spread / value, number(0))
    scale = (number(1) / spread) * (number(1) / number(6))
    from_green = scale * (blue - red) + number(2) / number(6)
    from_blue = scale * (red - green) + number(4) / number(6)
    # of equal largest channels, red counts before green, and green before blue; gray has hue 0
    hue = np.where(red == value, scale * (green - blue), np.where(green == value, from_green, from_blue))
    hue = np.where(spread > 0, hue, number(0))
    hue = np.where(hue < 0, hue + number(1), hue)
    return (np.stack([hue, saturation, value], -1).astype(images.dtype, copy=False),)


def compute_hsv_to_rgb(inputs: Sequence[Tensor], attrs: Attrs) -> tuple[Tensor]:
    """Hue, saturation and value `[..., 3]` -> red, green and blue, computed in the images' type.

    Raises InvalidArgumentError for a scalar, and FailedPreconditionError for another number of channels.
    """
    (images,) = inputs
    _check_colors(images)
    number = images.dtype.type
    hue, saturation, value = (images[..., channel] for channel in range(3))
    sector = hue * number(SECTORS)
    shares = (
        np.abs(sector - number(3)) - number(1),
        -np.abs(sector - number(2)) + number(2),
        -np.abs(sector - number(4)) + number(2),
    )
    gray = -saturation + number(1)
    channels = [(gray + saturation * np.clip(share, number(0), number(1))) * value for share in shares]
    return (np.stack(channels, -1).astype(images.dtype, copy=False),)


# --- adjustments ----------------------------------------------------------------------------------------------------


def _check_images(images: Tensor, **scalars: Tensor) -> None:
    if images.ndim < 3:
        raise InvalidArgumentError(f"input must be at least 3-D, got shape{format_dims(images.shape)}")
    for name, tensor in scalars.items():
        if tensor.ndim:
            raise InvalidArgumentError(f"{name} must be scalar: {format_dims(tensor.shape)}")


def _check_three(images: Tensor) -> None:
    if images.shape[-1] != 3:
        raise InvalidArgumentError(f"input must have 3 channels but instead has {images.shape[-1]} channels.")


def compute_contrast(inputs: Sequence[Tensor], attrs: Attrs) -> tuple[Tensor]:
    """(images `[..., height, width, channels]`, factor) -> mean + (images - mean) * factor, with each channel's mean.

    Raises InvalidArgumentError for fewer than three axes, and a factor that is not a scalar.
    """
    images, factor = inputs
    _check_images(images, contrast_factor=factor)
    return (_contrast(images, factor),)


def _contrast(images: Tensor, factor: Tensor) -> Tensor:
    if not images.size:
        return images
    # half precision is also averaged in float
    mean: Tensor = images.mean((-3, -2), np.float32, keepdims=True)
    stretched: Tensor = mean + (images - mean) * factor
    return stretched


def compute_clipped_contrast(inputs: Sequence[Tensor], attrs: Attrs) -> tuple[Tensor]:
    """AdjustContrast: (images, factor, least, most) -> the images of AdjustContrastv2 as float, limited to [least, most].

    Raises InvalidArgumentError for fewer than three axes, and for other inputs that are not scalars.
    """
    images, factor, least, most = inputs
    _check_images(images, contrast_factor=factor, min_value=least, max_value=most)
    stretched = _contrast(images.astype(np.float32), factor)
    return (np.maximum(np.minimum(stretched, most), least),)


def compute_hue(inputs: Sequence[Tensor], attrs: Attrs) -> tuple[Tensor]:
    """(images `[..., 3]`, delta) -> images with `delta` full turns added to each hue; a pixel keeps its extreme channel values.

    Raises InvalidArgumentError for fewer than three axes, another number of channels, and a delta that is not a scalar.
    """
    images, delta = inputs
    _check_images(images, delta=delta)
    _check_three(images)
    ordered = np.sort(images, axis=-1)
    least, middle, most = (ordered[..., rank] for rank in range(3))
    sector = _find_sector(*(images[..., channel] for channel in range(3)))
    ratio = (middle - least) / np.where(most == least, 1, most - least)
    hue: Tensor = np.where(most == least, 0, sector + np.where(sector % 2 == 0, ratio, 1 - ratio)).astype(np.float32)
    hue = hue + delta * np.float32(SECTORS)
    # the hue is taken modulo the circle; rounding may still give the whole circle
    hue = hue - SECTORS * np.floor(hue / SECTORS)
    return (_from_hue(np.where(hue >= SECTORS, hue - SECTORS, hue), least, most),)


def _find_sector(red: Tensor, green: Tensor, blue: Tensor) -> Tensor:
    """The hue's sector, 0 to 5; for equal channels either neighbouring sector is correct."""
    greener = np.where(blue < red, 1, np.where(blue > green, 3, 2))
    redder = np.where(blue < green, 0, np.where(blue > red, 4, 5))
    return np.where(red < green, greener, redder)


def _from_hue(hue: Tensor, least: Tensor, most: Tensor) -> Tensor:
    sector = hue.astype(np.int64)
    ratio = hue - sector
    middle = least + np.where(sector % 2 == 0, ratio, 1 - ratio) * (most - least)
    return _arrange(sector, most, middle, least).astype(np.float32, copy=False)


def _arrange(sector: Tensor, most: Tensor, middle: Tensor, least: Tensor) -> Tensor:
    """Order the values as red, green and blue by the hue's sector, `[..., 3]`; sectors above 5 count as 5."""
    red = np.choose(sector.clip(0, 5), (most, middle, least, least, middle, most))
    green = np.choose(sector.clip(0, 5), (middle, most, most, middle, least, least))
    blue = np.choose(sector.clip(0, 5), (least, least, middle, most, most, middle))
    return np.stack([red, green, blue], -1)


def compute_saturation(inputs: Sequence[Tensor], attrs: Attrs) -> tuple[Tensor]:
    """(images `[..., 3]`, scale) -> images whose saturation is multiplied by `scale` and limited to [0, 1].

    Raises InvalidArgumentError for fewer than three axes, another number of channels, and a scale that is not a scalar.
    """
    images, scale = inputs
    _check_images(images, scale=scale)
    _check_three(images)
    (hsv,) = compute_rgb_to_hsv([images], attrs)
    hue, saturation, value = (hsv[..., channel] for channel in range(3))
    chroma = np.clip(saturation * scale, np.float32(0), np.float32(1)) * value
    least = value - chroma
    sector = hue * np.float32(SECTORS)
    middle = chroma * (1 - np.abs(sector % 2 - 1))
    colors = _arrange(sector.astype(np.int64), chroma, middle, np.zeros_like(chroma))
    # TensorFlow makes a hue that was rounded up to the whole circle gray
    gray = (sector >= SECTORS)[..., None]
    return ((np.where(gray, 0, colors) + least[..., None]).astype(np.float32, copy=False),)


# --- shape functions and memory -------------------------------------------------------------------------------------


def infer_colors(context: ShapeContext) -> tuple[Dims]:
    """Static shape of the input, which must have three channels."""
    dims = with_rank_at_least(context.shapes[0], 1)
    return (None if dims is None else replace_dim(dims, -1, with_value(dims[-1], 3)),)


def _infer_adjusted(context: ShapeContext, scalars: int) -> tuple[Dims]:
    """Static shape of the images; the next `scalars` inputs must be scalars."""
    for dims in context.shapes[1 : 1 + scalars]:
        with_rank(dims, 0)
    return (with_rank_at_least(context.shapes[0], 3),)


def rgb_to_hsv_memory(memory: KernelMemory) -> None:
    """The output, and as a temporary the range of each pixel's channels."""
    memory.allocate()
    pixels = memory.inputs[0]
    memory.temporary(pixels.elements // 3 * item_size(pixels.dtype), (pixels.elements // 3,), pixels.dtype)


def clipped_contrast_memory(memory: KernelMemory) -> None:
    """The output, and as a temporary the means in float, repeated for each pixel."""
    memory.allocate()
    memory.temporary(4 * memory.inputs[0].elements)


def contrast_memory(memory: KernelMemory) -> None:
    """The output, and as a temporary each image's channel means in float."""
    memory.allocate()
    images = memory.inputs[0]
    if images.elements:
        height, width = images.dims[-3:-1]
        memory.temporary(4 * (images.elements // (height * width)))


TABLE: Table = {
    "RGBToHSV": Kernel(compute_rgb_to_hsv, infer_colors, per_element(0, 5), memory=rgb_to_hsv_memory),
    "HSVToRGB": Kernel(compute_hsv_to_rgb, infer_colors, per_element(0, 7)),
    "AdjustContrast": Kernel(
        compute_clipped_contrast, partial(_infer_adjusted, scalars=3), per_element(0, 6), memory=clipped_contrast_memory
    ),
    "AdjustContrastv2": Kernel(
        compute_contrast, partial(_infer_adjusted, scalars=1), per_element(0, 4), memory=contrast_memory
    ),
    "AdjustHue": Kernel(compute_hue, partial(_infer_adjusted, scalars=0), per_element(0, 6), memory=forwards(0)),
    "AdjustSaturation": Kernel(compute_saturation, partial(_infer_adjusted, scalars=0), per_element(0, 9)),
}
