"""`tf.image`: what TensorFlow writes in Python around its image ops."""

from __future__ import annotations

from typing import Any

from placesim.tf1 import dtypes
from placesim.tf1.array.shaping import expand_dims, reshape, squeeze, stack
from placesim.tf1.array.shaping import shape as array_shape
from placesim.tf1.conversion import convert_to_tensor
from placesim.tf1.generated import gen
from placesim.tf1.grouping import with_dependencies
from placesim.tf1.math.elementwise import cast
from placesim.tf1.math.reductions import reduce_mean, reduce_prod, reduce_std
from placesim.tf1.random.drawing import random_uniform
from placesim.tf1.scopes import name_scope
from placesim.tf1.tensor import Tensor


def checked(image: Tensor, least_rank: int = 3) -> list[Any]:
    """The assertions that a shape not fully known costs; ValueError for one that is no image's."""
    shape = image.shape
    if shape.rank is not None and shape.rank < least_rank:
        raise ValueError(f"'image' (shape {shape}) must be at least three-dimensional.")
    last = shape[-3:] if shape.rank is not None else None
    if last is not None and any(dim.value == 0 for dim in last):
        raise ValueError(f"inner 3 dims of 'image.shape' must be > 0: {shape}")
    if shape.rank is not None and shape[-3:].is_fully_defined():
        return []
    from placesim.tf1.assertions.conditions import assert_greater_equal, assert_positive

    checks = [assert_positive(array_shape(image)[-3:], ["inner 3 dims of 'image.shape' must be > 0."])]
    from placesim.tf1.array.shaping import rank

    checks.append(assert_greater_equal(rank(image), 3, message="'image' must be at least three-dimensional."))
    return checks


def sizes_of(image: Tensor, rank: int) -> list[Any]:
    """The size of each dimension: a number where it is known, else a tensor."""
    if image.shape.is_fully_defined():
        return list(image.shape.as_list())
    static = image.shape.with_rank(rank).as_list()
    dynamic = [None] * rank
    from placesim.tf1.array.shaping import unstack

    dynamic = unstack(array_shape(image), rank)
    return [size if size is not None else found for size, found in zip(static, dynamic, strict=True)]


# --- flips ----------------------------------------------------------------------------------------------------------


def _random_flip(image: Any, axis: int, seed: Any, word: str) -> Any:
    from placesim.tf1.control_flow.conditionals import cond

    with name_scope(None, word, [image]) as scope:
        image = convert_to_tensor(image, name="image")
        image = with_dependencies(checked(image), image)
        known = image.shape.rank
        if known not in (None, 3):
            raise NotImplementedError(f"tf.image.{word} of a batch is not there; flip its images one at a time")
        drawn = random_uniform([], 0, 1.0, seed=seed)
        is_flipped = drawn < 0.5  # type: ignore[operator]
        found = cond(is_flipped, lambda: gen("ReverseV2")(image, [axis]), lambda: image, name=scope)
        return _keep_shape(image, found)


def random_flip_left_right(image: Any, seed: Any = None) -> Any:
    """`tf.image.random_flip_left_right`."""
    return _random_flip(image, 1, seed, "random_flip_left_right")


def random_flip_up_down(image: Any, seed: Any = None) -> Any:
    """`tf.image.random_flip_up_down`."""
    return _random_flip(image, 0, seed, "random_flip_up_down")


def _keep_shape(image: Tensor, found: Any) -> Any:
    if image.shape.rank is None:
        found.set_shape([None, None, None])
    else:
        found.set_shape(image.shape)
    return found


def _flip(image: Any, axis: int, word: str) -> Any:
    with name_scope(None, word, [image]):
        image = convert_to_tensor(image, name="image")
        image = with_dependencies(checked(image), image)
        known = image.shape.rank
        if known in (None, 3):
            return _keep_shape(image, gen("ReverseV2")(image, [axis]))
        return gen("ReverseV2")(image, [axis + 1])


def flip_left_right(image: Any) -> Any:
    """`tf.image.flip_left_right`."""
    return _flip(image, 1, "flip_left_right")


def flip_up_down(image: Any) -> Any:
    """`tf.image.flip_up_down`."""
    return _flip(image, 0, "flip_up_down")


# --- brightness, contrast, standardization --------------------------------------------------------------------------


def per_image_standardization(image: Any) -> Any:
    """`tf.image.per_image_standardization`."""
    with name_scope(None, "per_image_standardization", [image]) as scope:
        image = convert_to_tensor(image, name="image")
        image = with_dependencies(checked(image), image)
        original = image.dtype
        if original not in (dtypes.float16, dtypes.float32):
            image = cast(image, dtypes.float32)
        count = reduce_prod(array_shape(image)[-3:])
        mean = reduce_mean(image, [-1, -2, -3], True)
        deviation = reduce_std(image, [-1, -2, -3], True)
        least = gen("Rsqrt")(cast(count, image.dtype))
        scale = gen("Maximum")(deviation, least)
        return gen("RealDiv")(image - mean, scale, name=scope)


def adjust_brightness(image: Any, delta: Any) -> Any:
    """`tf.image.adjust_brightness`."""
    with name_scope(None, "adjust_brightness", [image, delta]) as scope:
        image = convert_to_tensor(image, name="image")
        original = image.dtype
        plain = image if original in (dtypes.float16, dtypes.float32) else convert_image_dtype(image, dtypes.float32)
        found = gen("AddV2")(plain, cast(delta, plain.dtype), name=scope)
        return convert_image_dtype(found, original, saturate=True)


def random_brightness(image: Any, max_delta: Any, seed: Any = None) -> Any:
    """`tf.image.random_brightness`."""
    if max_delta < 0:
        raise ValueError("max_delta must be non-negative.")
    return adjust_brightness(image, random_uniform([], -max_delta, max_delta, seed=seed))


def adjust_contrast(images: Any, contrast_factor: Any) -> Any:
    """`tf.image.adjust_contrast`."""
    with name_scope(None, "adjust_contrast", [images, contrast_factor]) as scope:
        images = convert_to_tensor(images, name="images")
        original = images.dtype
        plain = images if original in (dtypes.float16, dtypes.float32) else convert_image_dtype(images, dtypes.float32)
        found = gen("AdjustContrastv2")(plain, contrast_factor=contrast_factor, name=scope)
        return convert_image_dtype(found, original, saturate=True)


def random_contrast(image: Any, lower: Any, upper: Any, seed: Any = None) -> Any:
    """`tf.image.random_contrast`."""
    if upper <= lower:
        raise ValueError("upper must be > lower.")
    if lower < 0:
        raise ValueError("lower must be non-negative.")
    return adjust_contrast(image, random_uniform([], lower, upper, seed=seed))


def convert_image_dtype(image: Any, dtype: Any, saturate: bool = False, name: str | None = None) -> Any:
    """`tf.image.convert_image_dtype`: the range of the type is kept."""
    from placesim.tf1.math.elementwise import saturate_cast

    image = convert_to_tensor(image, name="image")
    wanted = dtypes.as_dtype(dtype)
    if not wanted.is_floating and not wanted.is_integer:
        raise AttributeError("dtype must be either floating point or integer")
    if wanted is image.dtype:
        return gen("Identity")(image, name=name)
    with name_scope(name, "convert_image", [image]) as scope:
        if image.dtype.is_integer and wanted.is_integer:
            one, two = image.dtype.max, wanted.max
            if one > two:
                scaled = gen("FloorDiv")(image, (one + 1) // (two + 1))
                return (saturate_cast if saturate else cast)(scaled, wanted, scope)
            wide = (saturate_cast if saturate else cast)(image, wanted)
            return gen("Mul")(wide, (two + 1) // (one + 1), name=scope)
        if image.dtype.is_floating and wanted.is_floating:
            return cast(image, wanted, scope)
        if image.dtype.is_integer:
            return gen("Mul")(cast(image, wanted), 1.0 / image.dtype.max, name=scope)
        scaled = gen("Mul")(image, wanted.max + 0.5)
        return (saturate_cast if saturate else cast)(scaled, wanted, scope)


# --- cropping, padding, resizing ------------------------------------------------------------------------------------


def crop_to_bounding_box(image: Any, offset_height: Any, offset_width: Any, target_height: Any, target_width: Any) -> Any:
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


def pad_to_bounding_box(image: Any, offset_height: Any, offset_width: Any, target_height: Any, target_width: Any) -> Any:
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


def as_batch(image: Tensor) -> tuple[Tensor, bool]:
    known = image.shape.rank
    if known is None:
        image = expand_dims(image, 0)
        image.set_shape([None] * 4)
        return image, False
    if known == 3:
        return expand_dims(image, 0), False
    if known != 4:
        raise ValueError(f"'image' (shape {image.shape}) must have either 3 or 4 dimensions.")
    return image, True


def _require(checks: list[Any], condition: Any, message: str) -> None:
    if isinstance(condition, Tensor):
        from placesim.tf1.control_flow.conditionals import Assert

        checks.append(Assert(condition, [message]))
    elif not condition:
        raise ValueError(message)


def resize_image_with_crop_or_pad(image: Any, target_height: Any, target_width: Any) -> Any:
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


def _most(x: Any, y: Any) -> Any:
    return gen("Maximum")(x, y) if isinstance(x, Tensor) or isinstance(y, Tensor) else max(x, y)


def _least(x: Any, y: Any) -> Any:
    return gen("Minimum")(x, y) if isinstance(x, Tensor) or isinstance(y, Tensor) else min(x, y)


class ResizeMethod:
    """How `tf.image.resize_images` finds the values between."""

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
    size: Any,
    method: Any = 0,
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
        from placesim.tf1.constant_values import constant_value

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
        images: Any, size: Any, align_corners: bool = False, name: str | None = None, half_pixel_centers: bool = False
    ) -> Any:
        return gen(op)(images, size, align_corners=align_corners, half_pixel_centers=half_pixel_centers, name=name)

    return call


resize_bilinear, resize_nearest_neighbor = _resizer("ResizeBilinear"), _resizer("ResizeNearestNeighbor")
resize_bicubic = _resizer("ResizeBicubic")


def encode_png(image: Any, compression: int = -1, name: str | None = None) -> Any:
    """`tf.image.encode_png`."""
    return gen("EncodePng")(convert_to_tensor(image), compression, name)


def transpose_image(image: Any, name: str | None = None) -> Any:
    """`tf.image.transpose_image`: height and width change places."""
    from placesim.tf1.array.shaping import transpose

    with name_scope(name, "transpose", [image]):
        image = convert_to_tensor(image, name="image")
        image = with_dependencies(checked(image), image)
        if image.shape.rank == 4:
            return transpose(image, [0, 2, 1, 3], name="transpose" if name is None else name)
        return transpose(image, [1, 0, 2], name="transpose" if name is None else name)
