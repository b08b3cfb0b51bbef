"""`tf.image`: flip, crop, pad and resize images."""

from __future__ import annotations

from typing import Any

from placesim.tf1.array.shaping import expand_dims, reshape, squeeze, stack
from placesim.tf1.array.shaping import shape as array_shape
from placesim.tf1.graphs.default_graph_scopes import name_scope
from placesim.tf1.graphs.grouping import with_dependencies
from placesim.tf1.graphs.tensor import Tensor
from placesim.tf1.graphs.tensor_likes import TensorLike
from placesim.tf1.images.inputs import as_batch, checked, sizes_of
from placesim.tf1.ops.conversion import convert_to_tensor
from placesim.tf1.ops.generated_functions import gen
from placesim.tf1.random.drawing import random_uniform
from placesim.tf1.types import dtypes

# --- flips ----------------------------------------------------------------------------------------------------------


def _random_flip(image: TensorLike, axis: int, seed: int | None, word: str) -> Any:
    from placesim.tf1.control_flow.conditionals import cond

    with name_scope(None, word, [image]) as scope:
        image = convert_to_tensor(image, name="image")
        image = with_dependencies(checked(image), image)
        known = image.shape.rank
        if known not in (None, 3):
            raise NotImplementedError(f"tf.image.{word} of a batch is not there; flip its images one at a time")
        drawn = random_uniform([], 0, 1.0, seed=seed)
        is_flipped = drawn < 0.5
        found = cond(is_flipped, lambda: gen("ReverseV2")(image, [axis]), lambda: image, name=scope)
        return _keep_shape(image, found)


def random_flip_left_right(image: TensorLike, seed: int | None = None) -> Any:
    """`tf.image.random_flip_left_right`."""
    return _random_flip(image, 1, seed, "random_flip_left_right")


def random_flip_up_down(image: TensorLike, seed: int | None = None) -> Any:
    """`tf.image.random_flip_up_down`."""
    return _random_flip(image, 0, seed, "random_flip_up_down")


def _keep_shape(image: Tensor, found: Tensor) -> Any:
    found.set_shape([None, None, None] if image.shape.rank is None else image.shape)
    return found


def _flip(image: TensorLike, axis: int, word: str) -> Any:
    with name_scope(None, word, [image]):
        image = convert_to_tensor(image, name="image")
        image = with_dependencies(checked(image), image)
        known = image.shape.rank
        if known in (None, 3):
            return _keep_shape(image, gen("ReverseV2")(image, [axis]))
        return gen("ReverseV2")(image, [axis + 1])


def flip_left_right(image: TensorLike) -> Any:
    """`tf.image.flip_left_right`."""
    return _flip(image, 1, "flip_left_right")


def flip_up_down(image: TensorLike) -> Any:
    """`tf.image.flip_up_down`."""
    return _flip(image, 0, "flip_up_down")


# --- cropping, padding, resizing ------------------------------------------------------------------------------------


def crop_to_bounding_box(
    image: TensorLike,
    offset_height: int | Tensor,
    offset_width: int | Tensor,
    target_height: int | Tensor,
    target_width: int | Tensor,
) -> Any:
    """`tf.image.crop_to_bounding_box`."""
    with name_scope(None, "crop_to_bounding_box", [image]):
        image = convert_to_tensor(image, name="image")
        image, is_batch = as_batch(image)
        checks = checked(image)
        _, height, width, depth = sizes_of(image, 4)
        _require(checks, offset_width >= 0, "offset_width must be >= 0.")
        _require(checks, offset_height >= 0, "offset_height must be >= 0.")
        _require(checks, target_width > 0, "target_width must be > 0.")
        _require(checks, target_height > 0, "target_height must be > 0.")
        _require(checks, width >= (target_width + offset_width), "width must be >= target + offset.")
        _require(checks, height >= (target_height + offset_height), "height must be >= target + offset.")
        image = with_dependencies(checks, image)
        begin = stack([0, offset_height, offset_width, 0])
        size = stack([array_shape(image)[0], target_height, target_width, array_shape(image)[3]])
        found = gen("Slice")(image, begin, size)
        static = [None if isinstance(dim, Tensor) else dim for dim in (target_height, target_width)]
        found.set_shape([image.shape.as_list()[0], *static, None if isinstance(depth, Tensor) else depth])
        return found if is_batch else squeeze(found, [0])


def pad_to_bounding_box(
    image: TensorLike,
    offset_height: int | Tensor,
    offset_width: int | Tensor,
    target_height: int | Tensor,
    target_width: int | Tensor,
) -> Any:
    """`tf.image.pad_to_bounding_box`."""
    with name_scope(None, "pad_to_bounding_box", [image]):
        image = convert_to_tensor(image, name="image")
        image, is_batch = as_batch(image)
        batch, height, width, depth = sizes_of(image, 4)
        after_width = target_width - offset_width - width
        after_height = target_height - offset_height - height
        checks = checked(image)
        _require(checks, offset_height >= 0, "offset_height must be >= 0")
        _require(checks, offset_width >= 0, "offset_width must be >= 0")
        _require(checks, after_width >= 0, "width must be <= target - offset")
        _require(checks, after_height >= 0, "height must be <= target - offset")
        image = with_dependencies(checks, image)
        paddings = reshape(stack([0, 0, offset_height, after_height, offset_width, after_width, 0, 0]), [4, 2])
        found = gen("Pad")(image, paddings)
        sizes = [batch, target_height, target_width, depth]
        found.set_shape([None if isinstance(dim, Tensor) else dim for dim in sizes])
        return found if is_batch else squeeze(found, [0])


def _require(checks: list[Any], condition: TensorLike, message: str) -> None:
    if isinstance(condition, Tensor):
        from placesim.tf1.control_flow.conditionals import Assert

        checks.append(Assert(condition, [message]))
    elif not condition:
        raise ValueError(message)


def resize_image_with_crop_or_pad(image: TensorLike, target_height: int | Tensor, target_width: int | Tensor) -> Any:
    """`tf.image.resize_image_with_crop_or_pad`."""
    with name_scope(None, "resize_image_with_crop_or_pad", [image]):
        image = convert_to_tensor(image, name="image")
        image, is_batch = as_batch(image)
        image = with_dependencies(checked(image), image)
        _, height, width, _ = sizes_of(image, 4)
        by_width = target_width - width
        crop_width, pad_width = _most(-by_width // 2, 0), _most(by_width // 2, 0)
        by_height = target_height - height
        crop_height, pad_height = _most(-by_height // 2, 0), _most(by_height // 2, 0)
        least_height, least_width = _least(target_height, height), _least(target_width, width)
        image = crop_to_bounding_box(image, crop_height, crop_width, least_height, least_width)
        found = pad_to_bounding_box(image, pad_height, pad_width, target_height, target_width)
        found = with_dependencies([], found)
        return found if is_batch else squeeze(found, [0])


def _most(x: int | Tensor, y: int | Tensor) -> Any:
    return gen("Maximum")(x, y) if isinstance(x, Tensor) or isinstance(y, Tensor) else max(x, y)


def _least(x: int | Tensor, y: int | Tensor) -> Any:
    return gen("Minimum")(x, y) if isinstance(x, Tensor) or isinstance(y, Tensor) else min(x, y)


class ResizeMethod:
    """Interpolation method of `tf.image.resize_images`."""

    BILINEAR = 0
    NEAREST_NEIGHBOR = 1
    BICUBIC = 2
    AREA = 3


_RESIZERS: dict[Any, str] = {0: "ResizeBilinear", 1: "ResizeNearestNeighbor", 2: "ResizeBicubic", 3: "ResizeArea"}
_RESIZERS |= {
    "bilinear": "ResizeBilinear",
    "nearest": "ResizeNearestNeighbor",
    "bicubic": "ResizeBicubic",
    "area": "ResizeArea",
}


def resize_images(
    images: Any,
    size: TensorLike,
    method: object = 0,
    align_corners: bool = False,
    preserve_aspect_ratio: bool = False,
    name: str | None = None,
) -> Any:
    """`tf.image.resize_images`."""
    if preserve_aspect_ratio:
        raise NotImplementedError(
            "tf.image.resize_images with preserve_aspect_ratio is not there; give the size that it would have"
        )
    with name_scope(name, "resize", [images, size]):
        images = convert_to_tensor(images, name="images")
        if images.shape.rank is None:
            raise ValueError("'images' contains no shape.")
        is_batch = images.shape.rank == 4
        if images.shape.rank == 3:
            images = expand_dims(images, 0)
        elif images.shape.rank != 4:
            raise ValueError("'images' must have either 3 or 4 dimensions.")
        _, height, width, _ = images.shape.as_list()
        size = convert_to_tensor(size, dtypes.int32, name="size")
        if not size.shape.is_compatible_with([2]):
            raise ValueError("'size' must be a 1-D Tensor of 2 elements: new_height, new_width")
        from placesim.tf1.ops.constant_values import constant_value

        known = constant_value(size)
        new_height, new_width = (None, None) if known is None else (int(known[0]), int(known[1]))
        if new_height is not None and (new_height, new_width) == (height, width):
            return images if is_batch else squeeze(images, [0])
        if method not in _RESIZERS:
            raise ValueError("Resize method is not implemented: " + str(method))
        found = gen(_RESIZERS[method])(images, size, align_corners=align_corners)
        found.set_shape([None, new_height, new_width, None])
        return found if is_batch else squeeze(found, [0])


def _resizer(op: str) -> Any:
    def call(
        images: TensorLike,
        size: TensorLike,
        align_corners: bool = False,
        name: str | None = None,
        half_pixel_centers: bool = False,
    ) -> Any:
        return gen(op)(images, size, align_corners=align_corners, half_pixel_centers=half_pixel_centers, name=name)

    return call


resize_bilinear, resize_nearest_neighbor = _resizer("ResizeBilinear"), _resizer("ResizeNearestNeighbor")
resize_bicubic = _resizer("ResizeBicubic")


def encode_png(image: TensorLike, compression: int = -1, name: str | None = None) -> Any:
    """`tf.image.encode_png`."""
    return gen("EncodePng")(convert_to_tensor(image), compression, name)


def transpose_image(image: TensorLike, name: str | None = None) -> Any:
    """`tf.image.transpose_image`: swap height and width."""
    from placesim.tf1.array.shaping import transpose

    with name_scope(name, "transpose", [image]):
        image = convert_to_tensor(image, name="image")
        image = with_dependencies(checked(image), image)
        order = [0, 2, 1, 3] if image.shape.rank == 4 else [1, 0, 2]
        return transpose(image, order, name="transpose" if name is None else name)
