"""Projective transforms of images: a transform of eight numbers gives the input position of each output pixel.

Source: TensorFlow's `image_ops.cc`, `image_ops.h`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from placesim.core.errors import InvalidArgumentError
from placesim.ops.attributes import Attrs
from placesim.ops.kernels.image.resizing import infer_size, read_size
from placesim.ops.kernels.kernel import Kernel, Table, Tensor, elements
from placesim.ops.kernels.shapes import Dims, ShapeContext, format_dims, with_rank

FLOAT = np.float32


def compute_projection(inputs: Sequence[Tensor], attrs: Attrs) -> tuple[Tensor]:
    """(images `[batch, height, width, channels]`, transforms `[batch or 1, 8]`, size `[2]`) -> images of this size.

    Raises InvalidArgumentError for other shapes, a size that is not positive, and a fill value that is not a scalar.
    """
    images, transforms = inputs[:2]
    height, width = _check(images, transforms, inputs[2])
    fill = _read_fill(inputs[3] if len(inputs) > 3 else np.zeros((), FLOAT), images.dtype)
    output = np.full((images.shape[0], height, width, images.shape[3]), fill, images.dtype)
    interpolate = INTERPOLATIONS.get(attrs["interpolation"])
    # for an unknown interpolation TensorFlow also fills the whole output
    if not output.size or interpolate is None:
        return (output,)
    x, y, somewhere = _project(transforms, height, width)
    place = FILL_MODES.get(attrs["fill_mode"], _keep)
    # a pixel has no position if the projection divides by zero; it keeps the fill value in each mode
    somewhere = np.broadcast_to(somewhere & np.isfinite(x) & np.isfinite(y), output.shape[:3])
    x, y = (np.where(somewhere, place(axis, size), FLOAT(-2)) for axis, size in ((x, images.shape[2]), (y, images.shape[1])))
    return (np.where(somewhere[..., None], interpolate(images, y, x, fill).astype(images.dtype), output),)


def _check(images: Tensor, transforms: Tensor, size: Tensor) -> tuple[int, int]:
    if images.ndim != 4:
        raise InvalidArgumentError("Input images must have rank 4")
    if transforms.ndim != 2 or transforms.shape[0] not in (1, images.shape[0]) or transforms.shape[1] != 8:
        raise InvalidArgumentError("Input transform should be num_images x 8 or 1 x 8")
    return read_size(size, "output shape")


def _read_fill(fill: Tensor, dtype: np.dtype[np.generic]) -> Tensor:
    if fill.ndim:
        raise InvalidArgumentError(f"fill_value must be a scalar{format_dims(fill.shape)}")
    return fill.astype(dtype)


def _project(transforms: Tensor, height: int, width: int) -> tuple[Tensor, Tensor, Tensor]:
    """(x, y, whether the position exists) of each output pixel in the input, all `[batch, height, width]`."""
    rows = np.arange(height, dtype=FLOAT)[None, :, None]
    columns = np.arange(width, dtype=FLOAT)[None, None, :]
    a0, a1, a2, b0, b1, b2, c0, c1 = (transforms[:, index, None, None] for index in range(8))
    depth = c0 * columns + c1 * rows + FLOAT(1)
    x = (a0 * columns + a1 * rows + a2) / depth
    # dividing by a depth of 0 gives infinity or NaN; the third result marks these
    return x, (b0 * columns + b1 * rows + b2) / depth, depth != 0


# --- outside the image ----------------------------------------------------------------------------------------------


def _keep(where: Tensor, size: int) -> Tensor:
    return where


def _clamp(where: Tensor, size: int) -> Tensor:
    return np.clip(where, FLOAT(0), FLOAT(size - 1))


def _reflect(where: Tensor, size: int) -> Tensor:
    """Mirror coordinates at the edges: dcba|abcd|dcba."""
    # a single row or column mirrors to itself
    if size <= 1:
        return _clamp(where, size)
    period = 2 * size
    below = np.where(where < period, period * np.trunc(-where / period) + where, where)
    below = np.where(below < -size, below + period, -below - 1)
    above = where - period * np.trunc(where / period)
    above = np.where(above >= size, period - above - 1, above)
    return _clamp(np.where(where < 0, below, np.where(where > size - 1, above, where)), size)


def _wrap(where: Tensor, size: int) -> Tensor:
    """Repeat coordinates periodically: abcd|abcd|abcd."""
    # TensorFlow divides by `size - 1`, so far outside the result is not exactly periodic
    if size <= 1:
        return _clamp(where, size)
    below = where + size * (np.trunc(-where / (size - 1)) + 1)
    above = where - size * np.trunc(where / (size - 1))
    return _clamp(np.where(where < 0, below, np.where(where > size - 1, above, where)), size)


FILL_MODES: dict[str, Callable[[Tensor, int], Tensor]] = {
    "CONSTANT": _keep,
    "NEAREST": _clamp,
    "REFLECT": _reflect,
    "WRAP": _wrap,
}

# --- between pixels -------------------------------------------------------------------------------------------------


def _read(images: Tensor, y: Tensor, x: Tensor, fill: Tensor) -> Tensor:
    """The pixels at integer positions, `fill` outside of the image."""
    rows, columns = y.astype(np.int64), x.astype(np.int64)
    inside = (rows >= 0) & (rows < images.shape[1]) & (columns >= 0) & (columns < images.shape[2])
    batch = np.arange(images.shape[0])[:, None, None]
    found = images[batch, rows.clip(0, images.shape[1] - 1), columns.clip(0, images.shape[2] - 1)]
    return np.where(inside[..., None], found, fill)


def _nearest(images: Tensor, y: Tensor, x: Tensor, fill: Tensor) -> Tensor:
    return _read(images, _round(y), _round(x), fill)


def _round(where: Tensor) -> Tensor:
    """Round to the nearest integer, halves away from zero."""
    size = np.abs(where)
    whole = np.floor(size)
    rounded: Tensor = np.copysign(whole + (size - whole >= 0.5), where)
    return rounded


def _bilinear(images: Tensor, y: Tensor, x: Tensor, fill: Tensor) -> Tensor:
    # neighbours outside of the image have the fill value, so the edges fade into it
    top, left = np.floor(y), np.floor(x)
    right_share, bottom_share = (x - left)[..., None], (y - top)[..., None]
    left_share, top_share = (left + 1 - x)[..., None], (top + 1 - y)[..., None]
    rows = [
        left_share * _read(images, row, left, fill).astype(FLOAT)
        + right_share * _read(images, row, left + 1, fill).astype(FLOAT)
        for row in (top, top + 1)
    ]
    blended: Tensor = top_share * rows[0] + bottom_share * rows[1]
    return blended


INTERPOLATIONS: dict[str, Callable[[Tensor, Tensor, Tensor, Tensor], Tensor]] = {"NEAREST": _nearest, "BILINEAR": _bilinear}


# --- shape functions and costs --------------------------------------------------------------------------------------


def _infer_projection(context: ShapeContext) -> tuple[Dims]:
    images = with_rank(context.shapes[0], 4)
    return ((images[0], *infer_size(context, 2), images[3]),)


def _projection_flops(inputs: Sequence[Dims], outputs: Sequence[Dims], attrs: Attrs) -> int:
    """Fourteen operations for each pixel's position, and nine for each value interpolated between four pixels."""
    pixels = elements((outputs[0] or ())[:3])
    return 14 * pixels + (9 * elements(outputs[0]) if attrs["interpolation"] == "BILINEAR" else 0)


_PROJECTION = Kernel(compute_projection, _infer_projection, _projection_flops)

TABLE: Table = {"ImageProjectiveTransformV2": _PROJECTION, "ImageProjectiveTransformV3": _PROJECTION}
