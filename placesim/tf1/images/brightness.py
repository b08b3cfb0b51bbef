"""`tf.image`: brightness, contrast, standardization, and conversion of pixel types."""

from __future__ import annotations

from typing import Any

from placesim.tf1.array.shaping import shape as array_shape
from placesim.tf1.graphs.default_graph_scopes import name_scope
from placesim.tf1.graphs.grouping import with_dependencies
from placesim.tf1.graphs.tensor import Tensor
from placesim.tf1.graphs.tensor_likes import DTypeLike, TensorLike
from placesim.tf1.images.inputs import checked
from placesim.tf1.math.casting import cast, saturate_cast
from placesim.tf1.math.reductions import reduce_mean, reduce_prod, reduce_std
from placesim.tf1.ops.conversion import convert_to_tensor
from placesim.tf1.ops.generated_functions import gen
from placesim.tf1.random.drawing import random_uniform
from placesim.tf1.types import dtypes


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


def adjust_brightness(image: TensorLike, delta: TensorLike) -> Any:
    """`tf.image.adjust_brightness`."""
    with name_scope(None, "adjust_brightness", [image, delta]) as scope:
        image = convert_to_tensor(image, name="image")
        plain = as_floats(image)
        found = gen("AddV2")(plain, cast(delta, plain.dtype), name=scope)
        return convert_image_dtype(found, image.dtype, saturate=True)


def random_brightness(image: TensorLike, max_delta: float, seed: int | None = None) -> Any:
    """`tf.image.random_brightness`."""
    if max_delta < 0:
        raise ValueError("max_delta must be non-negative.")
    return adjust_brightness(image, random_uniform([], -max_delta, max_delta, seed=seed))


def adjust_contrast(images: TensorLike, contrast_factor: TensorLike) -> Any:
    """`tf.image.adjust_contrast`."""
    with name_scope(None, "adjust_contrast", [images, contrast_factor]) as scope:
        images = convert_to_tensor(images, name="images")
        found = gen("AdjustContrastv2")(as_floats(images), contrast_factor=contrast_factor, name=scope)
        return convert_image_dtype(found, images.dtype, saturate=True)


def random_contrast(image: TensorLike, lower: float, upper: float, seed: int | None = None) -> Any:
    """`tf.image.random_contrast`."""
    return adjust_contrast(image, random_factor(lower, upper, seed))


def random_factor(lower: float, upper: float, seed: int | None) -> Any:
    """A random number between bounds.  Raises ValueError if they are negative or not increasing."""
    if upper <= lower:
        raise ValueError("upper must be > lower.")
    if lower < 0:
        raise ValueError("lower must be non-negative.")
    return random_uniform([], lower, upper, seed=seed)


def as_floats(image: Tensor) -> Any:
    """Convert an image to float32, unless its type is float16."""
    return image if image.dtype in (dtypes.float16, dtypes.float32) else convert_image_dtype(image, dtypes.float32)


def convert_image_dtype(image: TensorLike, dtype: DTypeLike, saturate: bool = False, name: str | None = None) -> Any:
    """`tf.image.convert_image_dtype`: convert and rescale to the new type's range."""
    convert = saturate_cast if saturate else cast
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
                scaled = image // ((one + 1) // (two + 1))
                return convert(scaled, wanted, scope)
            return gen("Mul")(convert(image, wanted), (two + 1) // (one + 1), name=scope)
        if image.dtype.is_floating and wanted.is_floating:
            return cast(image, wanted, scope)
        if image.dtype.is_integer:
            return gen("Mul")(cast(image, wanted), 1.0 / image.dtype.max, name=scope)
        scaled = gen("Mul")(image, wanted.max + 0.5)
        return convert(scaled, wanted, scope)
