"""CropAndResize with its gradients, and DrawBoundingBoxes.

A box is `[y1, x1, y2, x2]`, where 0 and 1 are the centers of the image's first and last pixel.
Source: TensorFlow's `crop_and_resize_op.cc`, `draw_bounding_box_op.cc`.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial
from typing import NamedTuple

import numpy as np

from placesim.core.errors import InvalidArgumentError, OutOfRangeError
from placesim.ops.attributes import Attrs
from placesim.ops.kernels.image.resizing import infer_size
from placesim.ops.kernels.kernel import Kernel, Table, Tensor, elements, per_element
from placesim.ops.kernels.shapes import (
    Dims,
    ShapeContext,
    ShapeError,
    format_dims,
    infer_by,
    infer_from_sizes,
    merge_dim,
    with_rank,
    with_value,
)

FLOAT = np.float32
DEFAULT_COLORS = (
    # yellow, blue, red, lime, purple, olive, maroon, navy, aqua, fuchsia
    *((1, 1, 0, 1), (0, 0, 1, 1), (1, 0, 0, 1), (0, 1, 0, 1), (0.5, 0, 0.5, 1)),
    *((0.5, 0.5, 0, 1), (0.5, 0, 0, 1), (0, 0, 0.5, 1), (0, 1, 1, 1), (1, 0, 1, 1)),
)

# --- crops ----------------------------------------------------------------------------------------------------------


class Places(NamedTuple):
    """Sampling positions of each crop along one axis of the image, each `[boxes, crop size]`.

    `before` and `after` are the neighbouring pixels, `fraction` is the weight of `after`, and `nearest` the nearest pixel;
    `inside` tells whether the position is inside the image.
    """

    before: Tensor
    after: Tensor
    fraction: Tensor
    nearest: Tensor
    inside: Tensor


def _locate(start: Tensor, end: Tensor, image_size: int, crop_size: int) -> Places:
    """Sampling positions of boxes from `start` to `end`, both `[boxes]`; computed in float, as in TensorFlow."""
    last = FLOAT(image_size - 1)
    if crop_size > 1:
        step = (end - start) * last / FLOAT(crop_size - 1)
        where = start[:, None] * last + np.arange(crop_size, dtype=FLOAT) * step[:, None]
    else:
        # a crop of one pixel shows the middle of its box, which TensorFlow computes in double
        where = (0.5 * (start + end).astype(np.float64) * (image_size - 1)).astype(FLOAT)[:, None]
    # positions outside are read at 0, and the result is replaced later
    inside = (where >= 0) & (where <= last)
    safe = np.where(inside, where, FLOAT(0))
    before = np.floor(safe)
    fraction = safe - before
    nearest = before + (fraction >= 0.5)
    whole = (array.astype(np.int64) for array in (before, np.ceil(safe), nearest))
    first, second, third = whole
    return Places(first, second, fraction, third, inside)


def _locate_both(boxes: Tensor, image_size: Sequence[int], crop_size: Sequence[int]) -> tuple[Places, Places]:
    """Sampling positions along the rows and along the columns."""
    rows = _locate(boxes[:, 0], boxes[:, 2], image_size[0], crop_size[0])
    return rows, _locate(boxes[:, 1], boxes[:, 3], image_size[1], crop_size[1])


def compute_crops(inputs: Sequence[Tensor], attrs: Attrs) -> tuple[Tensor]:
    """(images, boxes `[boxes, 4]`, image index of each box `[boxes]`, size `[2]`) -> crops `[boxes, height, width, depth]`.

    Crops are float, with the extrapolation value outside of the image. Raises InvalidArgumentError for shapes that do not fit,
    images without pixels, and boxes that are not finite, and OutOfRangeError for an image index out of range.
    """
    image, boxes, box_index, crop_size = inputs
    _check_image(image)
    if boxes.ndim != 2:
        raise InvalidArgumentError(f"boxes must be 2-D, got: {format_dims(boxes.shape)}")
    if box_index.ndim != 1:
        raise InvalidArgumentError(f"box_indices must be rank 1 but is shape {format_dims(box_index.shape)}")
    _check_boxes(boxes, box_index)
    height, width = _read_crop_size(crop_size)
    if not boxes.size:
        return (np.zeros((0, height, width, image.shape[3]), FLOAT),)
    _check_index(box_index, image.shape[0])
    # the gradients lack this check; for them, all positions of a non-finite box are outside
    if not np.isfinite(boxes).all():
        raise InvalidArgumentError("Boxes contains at least one element that is not finite")
    rows, columns = _locate_both(boxes, image.shape[1:3], (height, width))
    if attrs["method"] == "nearest":
        crops = _read(image, box_index, rows.nearest, columns.nearest)
    else:
        crops = _sample_linear(image, box_index, rows, columns)
    inside = rows.inside[:, :, None, None] & columns.inside[:, None, :, None]
    return (np.where(inside, crops, FLOAT(attrs["extrapolation_value"])),)


def _read(image: Tensor, box_index: Tensor, rows: Tensor, columns: Tensor) -> Tensor:
    """Read the pixels at these rows and columns of each box's image, as floats `[boxes, height, width, depth]`."""
    pixels: Tensor = image[box_index[:, None, None], rows[:, :, None], columns[:, None, :]]
    return pixels.astype(FLOAT, copy=False)


def _sample_linear(image: Tensor, box_index: Tensor, rows: Places, columns: Places) -> Tensor:
    (top_left, top_right), (bottom_left, bottom_right) = _corners(image, box_index, rows, columns)
    right = columns.fraction[:, None, :, None]
    top = top_left + (top_right - top_left) * right
    bottom = bottom_left + (bottom_right - bottom_left) * right
    blended: Tensor = top + (bottom - top) * rows.fraction[:, :, None, None]
    return blended


def _corners(image: Tensor, box_index: Tensor, rows: Places, columns: Places) -> list[list[Tensor]]:
    """The four pixels around each position: [[top left, top right], [bottom left, bottom right]]."""
    return [
        [_read(image, box_index, row, column) for column in (columns.before, columns.after)]
        for row in (rows.before, rows.after)
    ]


def compute_crops_grad_image(inputs: Sequence[Tensor], attrs: Attrs) -> tuple[Tensor]:
    """(gradients, boxes, image index of each box, shape `[4]`) -> the gradient with respect to the images, of that shape.

    Raises InvalidArgumentError for shapes that do not fit, and OutOfRangeError for an image index out of range.
    """
    grads, boxes, box_index, image_size = inputs
    _check_grads(grads)
    _check_boxes(boxes, box_index)
    _check_same_count(grads, boxes, box_index)
    dims = _read_image_size(image_size)
    if grads.shape[3] != dims[3]:
        raise InvalidArgumentError("image_size and grads are incompatible")
    if dims[0] < 0:
        raise InvalidArgumentError(f"Expected a non-negative size, got {dims[0]}")
    images = np.zeros(dims, attrs["T"].numpy)
    if not grads.size:
        return (images,)
    _check_index(box_index, dims[0])
    rows, columns = _locate_both(boxes, dims[1:3], grads.shape[1:3])
    spread = _spread_nearest if attrs["method"] == "nearest" else _spread_linear
    y, x, values = spread(grads, rows, columns)
    inside = rows.inside[:, :, None] & columns.inside[:, None, :]
    batch = np.broadcast_to(box_index[:, None, None, None], y.shape)
    np.add.at(images, (batch[inside], y[inside], x[inside]), values[inside].astype(images.dtype))
    return (images,)


def _spread_nearest(grads: Tensor, rows: Places, columns: Places) -> tuple[Tensor, Tensor, Tensor]:
    """(rows, columns, values): the pixels to which gradients are added, and the added values, `[boxes, ..., pixels, ...]`."""
    shape = (*grads.shape[:3], 1)
    y = np.broadcast_to(rows.nearest[:, :, None, None], shape)
    return y, np.broadcast_to(columns.nearest[:, None, :, None], shape), grads[:, :, :, None]


def _spread_linear(grads: Tensor, rows: Places, columns: Places) -> tuple[Tensor, Tensor, Tensor]:
    shape = (*grads.shape[:3], 4)
    y = np.stack([rows.before, rows.before, rows.after, rows.after], -1)[:, :, None]
    x = np.stack([columns.before, columns.after] * 2, -1)[:, None]
    down, right = rows.fraction[:, :, None, None], columns.fraction[:, None, :, None]
    parts = [across * (along * grads) for along in (1 - down, down) for across in (1 - right, right)]
    return np.broadcast_to(y, shape), np.broadcast_to(x, shape), np.stack(parts, 3)


def compute_crops_grad_boxes(inputs: Sequence[Tensor], attrs: Attrs) -> tuple[Tensor]:
    """(gradients, images, boxes, image index of each box) -> the gradient with respect to the boxes, `[boxes, 4]`.

    Raises InvalidArgumentError for shapes that do not fit, and OutOfRangeError for an image index out of range.
    """
    grads, image, boxes, box_index = inputs
    _check_grads(grads)
    _check_image(image)
    if image.shape[3] != grads.shape[3]:
        raise InvalidArgumentError("image, grads depth differ")
    _check_boxes(boxes, box_index)
    _check_same_count(grads, boxes, box_index)
    if not boxes.size:
        return (np.zeros((grads.shape[0], 4), FLOAT),)
    _check_index(box_index, image.shape[0])
    rows, columns = _locate_both(boxes, image.shape[1:3], grads.shape[1:3])
    (top_left, top_right), (bottom_left, bottom_right) = _corners(image, box_index, rows, columns)
    down, right = rows.fraction[:, :, None, None], columns.fraction[:, None, :, None]
    inside = rows.inside[:, :, None, None] & columns.inside[:, None, :, None]
    wanted = np.where(inside, grads, FLOAT(0))
    by_row = wanted * ((1 - right) * (bottom_left - top_left) + right * (bottom_right - top_right))
    by_column = wanted * ((1 - down) * (top_right - top_left) + down * (bottom_right - bottom_left))
    # a position depends on both ends of its box, and more on the nearer end
    y1, y2 = _grad_ends(by_row.sum((2, 3)), image.shape[1])
    x1, x2 = _grad_ends(by_column.sum((1, 3)), image.shape[2])
    return (np.stack([y1, x1, y2, x2], 1).astype(FLOAT),)


def _grad_ends(by_place: Tensor, image_size: int) -> tuple[Tensor, Tensor]:
    """Gradients of sampling positions `[boxes, size]` -> gradients of the boxes' starts and ends, both `[boxes]`."""
    size = by_place.shape[1]
    last = FLOAT(image_size - 1)
    far = np.arange(size, dtype=FLOAT) * (last / FLOAT(size - 1)) if size > 1 else np.full(1, last / 2, FLOAT)
    return (by_place * (last - far)).sum(1), (by_place * far).sum(1)


# --- checks of crops ------------------------------------------------------------------------------------------------


def _check_image(image: Tensor, name: str = "input image", noun: str = "image") -> None:
    if image.ndim != 4:
        raise InvalidArgumentError(f"{name} must be 4-D{format_dims(image.shape)}")
    if not image.shape[1] or not image.shape[2]:
        raise InvalidArgumentError(f"{noun} dimensions must be positive")


def _check_grads(grads: Tensor) -> None:
    _check_image(grads, "grads image", "grads")


def _check_boxes(boxes: Tensor, box_index: Tensor) -> None:
    # without elements, boxes and image indices may have any shape
    if not boxes.size and not box_index.size:
        return
    if boxes.ndim != 2:
        raise InvalidArgumentError(f"boxes must be 2-D{format_dims(boxes.shape)}")
    if boxes.shape[1] != 4:
        raise InvalidArgumentError("boxes must have 4 columns")
    if box_index.ndim != 1:
        raise InvalidArgumentError(f"box_index must be 1-D{format_dims(box_index.shape)}")
    if box_index.shape[0] != boxes.shape[0]:
        raise InvalidArgumentError("box_index has incompatible shape")


def _check_same_count(grads: Tensor, boxes: Tensor, box_index: Tensor) -> None:
    if grads.shape[0] != (boxes.shape[0] if boxes.size or box_index.size else 0):
        raise InvalidArgumentError("boxes and grads have incompatible shape")


def _check_index(box_index: Tensor, batch_size: int) -> None:
    if ((box_index < 0) | (box_index >= batch_size)).any():
        raise OutOfRangeError("box_index has values outside [0, batch_size)")


def _read_crop_size(crop_size: Tensor) -> tuple[int, int]:
    if crop_size.ndim != 1:
        raise InvalidArgumentError(f"crop_size must be 1-D{format_dims(crop_size.shape)}")
    if crop_size.size != 2:
        raise InvalidArgumentError(f"crop_size must have two elements{format_dims(crop_size.shape)}")
    height, width = (int(dim) for dim in crop_size)
    if height <= 0 or width <= 0:
        raise InvalidArgumentError("crop dimensions must be positive")
    return height, width


def _read_image_size(image_size: Tensor) -> tuple[int, ...]:
    if image_size.ndim != 1:
        raise InvalidArgumentError(f"image_size must be 1-D{format_dims(image_size.shape)}")
    if image_size.size != 4:
        raise InvalidArgumentError(f"image_size must have 4 elements{format_dims(image_size.shape)}")
    dims = tuple(int(dim) for dim in image_size)
    if dims[1] <= 0 or dims[2] <= 0:
        raise InvalidArgumentError("image dimensions must be positive")
    return dims


# --- outlines -------------------------------------------------------------------------------------------------------


def compute_outlines(inputs: Sequence[Tensor], attrs: Attrs) -> tuple[Tensor]:
    """(images `[batch, height, width, depth]`, boxes `[batch, boxes, 4]`, colors) -> images with the boxes' outlines.

    The boxes use the colors `[colors, depth or more]` in turn, by default TensorFlow's ten colors. Raises InvalidArgumentError
    for shapes that do not fit.
    """
    images, boxes = inputs[:2]
    _check_drawable(images, boxes)
    colors = _read_colors(inputs[2] if len(inputs) > 2 else None, images.shape[3]).astype(images.dtype)
    canvas = images.copy()
    for batch, box in np.ndindex(boxes.shape[:2]):
        for rows, columns in _outline(boxes[batch, box], *images.shape[1:3]):
            canvas[batch, rows, columns] = colors[box % len(colors)]
    return (canvas,)


def _check_drawable(images: Tensor, boxes: Tensor) -> None:
    if images.ndim != 4:
        raise InvalidArgumentError("The rank of the images should be 4")
    if boxes.ndim != 3:
        raise InvalidArgumentError("The rank of the boxes tensor should be 3")
    if images.shape[0] != boxes.shape[0]:
        raise InvalidArgumentError("The batch sizes should be the same")
    if images.shape[3] not in (1, 3, 4):
        raise InvalidArgumentError("Channel depth should be either 1 (GRY), 3 (RGB), or 4 (RGBA)")
    if boxes.shape[2] != 4:
        raise InvalidArgumentError(f"The size of the third dimension of the box must be 4. Received: {boxes.shape[2]}")


def _read_colors(colors: Tensor | None, depth: int) -> Tensor:
    """Return the colors, `[colors, depth]`; the default colors if the input is missing or empty."""
    if colors is not None:
        if colors.ndim != 2:
            raise InvalidArgumentError(f"colors must be a 2-D matrix{format_dims(colors.shape)}")
        if colors.shape[1] < depth:
            raise InvalidArgumentError(
                f"colors must have equal or more channels than the image provided: {format_dims(colors.shape)}"
            )
        if colors.size:
            return colors[:, :depth]
    return np.ones((len(DEFAULT_COLORS), 1)) if depth == 1 else np.array(DEFAULT_COLORS)[:, :depth]


def _outline(box: Tensor, height: int, width: int) -> Iterator[tuple[int | slice, int | slice]]:
    """Yield the visible sides of a box as (rows, columns); none if it is inverted or outside the image."""
    # rounded toward zero as by a C cast, so a side slightly before the image is its first row or column
    with np.errstate(invalid="ignore"):  # as in C, a number that is not finite becomes the least integer
        top, left, bottom, right = (box * np.array([height - 1, width - 1] * 2, FLOAT)).astype(np.int64).tolist()
    if top > bottom or left > right or top >= height or bottom < 0 or left >= width or right < 0:
        return
    rows, columns = slice(max(top, 0), bottom + 1), slice(max(left, 0), right + 1)
    yield from ((row, columns) for row in (top, bottom) if 0 <= row < height)
    yield from ((rows, column) for column in (left, right) if 0 <= column < width)


# --- shape functions and costs --------------------------------------------------------------------------------------


def _infer_crops(context: ShapeContext) -> tuple[Dims]:
    image, boxes, box_index = (with_rank(context.shapes[index], rank) for index, rank in ((0, 4), (1, 2), (2, 1)))
    count = merge_dim(boxes[0], box_index[0])
    with_value(boxes[1], 4)
    return ((count, *infer_size(context, 3), image[3]),)


def _infer_outlines(context: ShapeContext) -> tuple[Dims]:
    images = with_rank(context.shapes[0], 4)
    if images[3] >= 0 and images[3] not in (1, 3, 4):
        raise ShapeError("Channel depth should be either 1 (GRY), 3 (RGB), or 4 (RGBA)")
    with_value(with_rank(context.shapes[1], 3)[2], 4)
    return (context.shapes[0],)


def _crop_flops(inputs: Sequence[Dims], outputs: Sequence[Dims], attrs: Attrs) -> int:
    """Nine operations for each value of a crop."""
    return 9 * elements(outputs[0])


TABLE: Table = {
    "CropAndResize": Kernel(compute_crops, _infer_crops, _crop_flops),
    "CropAndResizeGradImage": Kernel(compute_crops_grad_image, partial(infer_from_sizes, index=3, rank=4), per_element(0, 9)),
    "CropAndResizeGradBoxes": Kernel(compute_crops_grad_boxes, infer_by("*, *, x -> x"), per_element(0, 9)),
    "DrawBoundingBoxes": Kernel(compute_outlines, _infer_outlines),
    "DrawBoundingBoxesV2": Kernel(compute_outlines, infer_by("x:3+ -> x")),
}
