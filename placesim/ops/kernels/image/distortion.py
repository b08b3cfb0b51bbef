"""RandomCrop, and SampleDistortedBoundingBox: boxes of random size and aspect ratio that contain enough of an object.

Source: TensorFlow's `random_crop_op.cc` and `sample_distorted_bounding_box_op.cc`; like there, arithmetic is in float32.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

from placesim.core.errors import FailedPreconditionError, InvalidArgumentError
from placesim.ops.attributes import Attrs
from placesim.ops.kernels.image.resizing import read_pair
from placesim.ops.kernels.kernel import Kernel, KernelContext, Table, Tensor
from placesim.ops.kernels.philox import WordStream, reserve
from placesim.ops.kernels.random.shapes import check_seed_pair, philox_of_seeds
from placesim.ops.kernels.shape_operands import shape_text
from placesim.ops.kernels.shapes import Dims, ShapeContext, merge, with_rank, with_value

MAX_INT32 = (1 << 31) - 1
LARGEST_BELOW_HALF = 0.5 - 1e-7
"""Added to a maximum width before it is divided by the aspect ratio: widths up to this sum are rounded to the maximum."""


class Box(NamedTuple):
    """A box of whole pixels; `right` and `bottom` are exclusive."""

    left: int
    top: int
    right: int
    bottom: int

    @property
    def area(self) -> np.float32:
        return np.float32((self.right - self.left) * (self.bottom - self.top))


# --- crops of a given size ------------------------------------------------------------------------------------------


def crop_randomly(inputs: Sequence[Tensor], attrs: Attrs, context: KernelContext) -> Sequence[Tensor]:
    """(image `[rows, columns, channels]`, size `[2]`) -> a random crop of this size.

    Raises InvalidArgumentError for other ranks and sizes, and FailedPreconditionError if the image is smaller.
    """
    image, size = inputs
    if image.ndim != 3:
        raise InvalidArgumentError(f"input must be 3-dimensional{shape_text(image)}")
    wanted = [int(dim) for dim in read_pair(size, "shape_t")]
    for dim in wanted:
        if dim < 0:
            raise InvalidArgumentError(f"Dimension {dim} must be >= 0")
    for name, given, target in reversed(list(zip(("height", "width"), image.shape, wanted, strict=False))):
        if given < target:
            raise FailedPreconditionError(f"{name} must be >= target_{name}: {name} = {given}, target_{name} = {target}")
    words = WordStream(reserve(context, attrs, 1))
    # the column is drawn first; an axis without a choice draws nothing
    left, top = (
        words.word() % (image.shape[axis] - wanted[axis] + 1) if image.shape[axis] > wanted[axis] else 0 for axis in (1, 0)
    )
    return (image[top : top + wanted[0], left : left + wanted[1]],)


# --- boxes of random size ---------------------------------------------------------------------------------------------


def sample_box(inputs: Sequence[Tensor], attrs: Attrs, context: KernelContext) -> Sequence[Tensor]:
    """(image size `[3]`, boxes `[batch, n, 4]`, the minimum share of a box) -> begin `[3]`, size `[3]`, box `[1, 1, 4]`.

    The share of a box that the result must contain is a third input or an attr. Raises InvalidArgumentError for attrs and boxes
    out of range, and shapes that do not fit.
    """
    _check_attrs(attrs)
    return _find_box(inputs, attrs, lambda: WordStream(reserve(context, attrs, attrs["max_attempts"])))


def sample_box_of_seed(inputs: Sequence[Tensor], attrs: Attrs) -> Sequence[Tensor]:
    """Like `sample_box`, with a seed `[2]` as fourth input."""
    _check_attrs(attrs)
    check_seed_pair(inputs[3])
    words = WordStream(philox_of_seeds(inputs[3]))
    return _find_box(inputs[:3], attrs, lambda: words)


def _check_attrs(attrs: Attrs) -> None:
    covered, aspects, areas = attrs.get("min_object_covered", 0.0), attrs["aspect_ratio_range"], attrs["area_range"]
    if covered < 0:
        raise InvalidArgumentError(f"Min object covered must be non-negative: {covered:g}")
    if len(aspects) != 2:
        raise InvalidArgumentError("Aspect ratio range field must specify 2 dimensions")
    if not all(aspect > 0 for aspect in aspects):
        raise InvalidArgumentError(f"Aspect ratio range must be non-negative: {_range_text(aspects)}")
    if len(areas) != 2:
        raise InvalidArgumentError("Area range field must specify 2 dimensions")
    if not all(area > 0 for area in areas):
        raise InvalidArgumentError(f"Area range must be non-negative: {_range_text(areas)}")
    if max(areas) > 1:
        raise InvalidArgumentError(f"Area range must be less then or equal to 1.0: {_range_text(areas)}")
    if attrs["max_attempts"] <= 0:
        raise InvalidArgumentError(f"Max attempts must be non-negative: {attrs['max_attempts']}")


def _range_text(ends: Sequence[float]) -> str:
    return f"[{ends[0]:g}, {ends[1]:g}]"


def _find_box(inputs: Sequence[Tensor], attrs: Attrs, draw: Callable[[], WordStream]) -> Sequence[Tensor]:
    height, width = _image_size(inputs[0])
    _check_boxes(inputs[1])
    covered = _least_share(inputs[2]) if len(inputs) > 2 else np.float32(attrs["min_object_covered"])
    objects = [_pixel_box(row, height, width) for row in inputs[1].reshape(-1, 4)]
    image = Box(0, 0, width, height)
    if not objects and not attrs["use_image_if_no_bounding_boxes"]:
        raise InvalidArgumentError(
            "No bounding boxes provided as input. One must enable use_image_if_no_bounding_boxes if you wish to not provide "
            "any bounding boxes."
        )
    crop = _draw_crop(draw(), image, objects or [image], covered, attrs) or image
    dtype = inputs[0].dtype
    with np.errstate(invalid="ignore"):
        ends = np.array([crop.top, crop.left, crop.bottom, crop.right], np.float32)
        relative = ends / np.array([height, width, height, width], np.float32)
    begin = np.array([crop.top, crop.left, 0]).astype(dtype)
    # all channels
    size = np.array([crop.bottom - crop.top, crop.right - crop.left, -1]).astype(dtype)
    return begin, size, relative.reshape(1, 1, 4)


def _image_size(tensor: Tensor) -> tuple[int, int]:
    if tensor.ndim != 1:
        raise InvalidArgumentError(f"image_size must be 1-dimensional{shape_text(tensor)}")
    if tensor.size != 3:
        raise InvalidArgumentError(f"image_size must contain 3 elements{shape_text(tensor)}")
    for name, dim in zip(("height", "width"), tensor.tolist(), strict=False):
        if not 0 <= dim < MAX_INT32:
            raise InvalidArgumentError(f"image {name} cannot be >= int32 max")
    return int(tensor[0]), int(tensor[1])


def _check_boxes(boxes: Tensor) -> None:
    if boxes.ndim != 3:
        raise InvalidArgumentError(f"input boxes must be 3-dimensional [batch, num_boxes, coords]: {shape_text(boxes)}")
    if boxes.shape[2] != 4:
        raise InvalidArgumentError(f"bounding boxes must have shape [4] or [*, 4], got {shape_text(boxes)}")


def _least_share(tensor: Tensor) -> np.float32:
    if tensor.ndim:
        raise InvalidArgumentError(f"min_object_covered must be 0-D, got shape {shape_text(tensor)}")
    if not tensor >= 0:
        raise InvalidArgumentError(f"Min object covered must be non-negative: {float(tensor):g}")
    return np.float32(tensor)


def _pixel_box(row: Tensor, height: int, width: int) -> Box:
    for number in row:
        if not 0 <= number <= 1:
            raise InvalidArgumentError(f"All bounding box coordinates must be in [0.0, 1.0]: {float(number):g}")
    top, left, bottom, right = row
    tall, wide = np.float32(height), np.float32(width)
    return Box(int(left * wide), int(top * tall), int(right * wide), int(bottom * tall))


def _draw_crop(words: WordStream, image: Box, objects: Sequence[Box], covered: np.float32, attrs: Attrs) -> Box | None:
    """The first of `max_attempts` random crops that covers enough of an object, or None."""
    low, high = map(np.float32, attrs["aspect_ratio_range"])
    for _ in range(attrs["max_attempts"]):
        aspect = np.float32(words.float32()) * (high - low) + low
        crop = _random_crop(words, image, attrs["area_range"], aspect)
        if crop is not None and _covers(crop, covered, objects):
            return crop
    return None


def _random_crop(words: WordStream, image: Box, areas: Sequence[float], aspect: np.float32) -> Box | None:
    """A random box with this aspect ratio and an area within `areas`, or None if no box of whole pixels fits."""
    height, width = image.bottom, image.right
    if not height or not width or areas[0] > areas[1] or aspect <= 0:
        return None
    least, most = (np.float32(area) * np.float32(width) * np.float32(height) for area in areas)
    tall = _round(np.sqrt(least / aspect))
    tallest = min(_tallest(most, aspect, width), height)
    tall = min(tall, tallest)
    if tall < tallest:
        tall += words.below(tallest - tall + 1)
    wide = _width_of(tall, aspect)
    # rounding may exceed the range by a row
    if wide * tall < least:
        tall += 1
        wide = _width_of(tall, aspect)
    if wide * tall > most:
        tall -= 1
        wide = _width_of(tall, aspect)
    if not least <= np.float32(wide * tall) <= most or not 0 < wide <= width or not 0 < tall <= height:
        return None
    top = words.below(height - tall) if tall < height else 0
    left = words.below(width - wide) if wide < width else 0
    return Box(left, top, left + wide, top + tall)


def _tallest(most: np.float32, aspect: np.float32, width: int) -> int:
    """The height of the largest box with an area of at most `most` that is no wider than the image."""
    tallest = _round(np.sqrt(most / aspect))
    if _width_of(tallest, aspect) > width:
        tallest = int((width + LARGEST_BELOW_HALF) / float(aspect))
        tallest -= _width_of(tallest, aspect) > width
    return tallest


def _width_of(height: int, aspect: np.float32) -> int:
    return _round(np.float32(height) * aspect)


def _round(number: Any) -> int:
    # C++ converts numbers that are too large for its integers to 0
    return int(np.rint(number)) if np.isfinite(number) else 0


def _covers(crop: Box, share: np.float32, objects: Sequence[Box]) -> bool:
    """Whether a crop contains at least this share of an object that has pixels."""
    if crop.area < 1:
        return False
    return any(_intersect(crop, box).area / box.area >= share for box in objects if box.area >= 1)


def _intersect(one: Box, two: Box) -> Box:
    found = Box(max(one.left, two.left), max(one.top, two.top), min(one.right, two.right), min(one.bottom, two.bottom))
    return Box(0, 0, 0, 0) if found.left > found.right or found.top > found.bottom else found


# --- shape functions --------------------------------------------------------------------------------------------------


def _infer_crop(context: ShapeContext) -> Sequence[Dims]:
    image, size = with_rank(context.shapes[0], 3), context.value(1)
    merge(context.shapes[1], (2,))
    rows, columns = (-1, -1) if size is None else map(int, size)
    return ((rows, columns, image[2]),)


def _infer_box(context: ShapeContext) -> Sequence[Dims]:
    for share in context.shapes[2:3]:
        with_rank(share, 0)
    for seed in context.shapes[3:]:
        with_value(with_rank(seed, 1)[0], 2)
    with_value(with_rank(context.shapes[0], 1)[0], 3)
    with_value(with_rank(context.shapes[1], 3)[2], 4)
    return (3,), (3,), (1, 1, 4)


TABLE: Table = {
    "RandomCrop": Kernel(crop_randomly, _infer_crop, needs_context=True),
    "SampleDistortedBoundingBox": Kernel(sample_box, _infer_box, needs_context=True),
    "SampleDistortedBoundingBoxV2": Kernel(sample_box, _infer_box, needs_context=True),
    "StatelessSampleDistortedBoundingBox": Kernel(sample_box_of_seed, _infer_box),
}
