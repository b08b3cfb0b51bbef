"""`tf.image`: adjust colours, and convert them between colour spaces."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from placesim.tf1.graphs.default_graph_scopes import name_scope
from placesim.tf1.graphs.grouping import with_dependencies
from placesim.tf1.graphs.tensor import Tensor
from placesim.tf1.graphs.tensor_likes import TensorLike
from placesim.tf1.images.brightness import as_floats, convert_image_dtype, random_factor
from placesim.tf1.importing.namespaces import namespace
from placesim.tf1.ops.conversion import convert_to_tensor
from placesim.tf1.ops.generated_functions import gen
from placesim.tf1.random.drawing import random_uniform
from placesim.tf1.types import dtypes

tf = namespace("")


def adjust_gamma(image: TensorLike, gamma: float | Tensor = 1, gain: TensorLike = 1) -> Any:
    """`tf.image.adjust_gamma`: `gain * image ^ gamma`.  Raises ValueError for a negative gamma."""
    with name_scope(None, "adjust_gamma", [image, gamma, gain]):
        image = convert_to_tensor(image, name="image")
        plain = as_floats(image)
        error = "Gamma should be a non-negative real number."
        if isinstance(gamma, Tensor):
            gamma = with_dependencies([tf.Assert(gamma >= 0, [error])], gamma)
        elif gamma < 0:
            raise ValueError(error)
        return convert_image_dtype(gain * plain**gamma, image.dtype, saturate=True)


def _adjusted(image: TensorLike, factor: object, word: str, op: str, name: str | None) -> Any:
    with name_scope(name, word, [image]):
        image = convert_to_tensor(image, name="image")
        return convert_image_dtype(gen(op)(as_floats(image), factor), image.dtype)


def adjust_hue(image: TensorLike, delta: TensorLike, name: str | None = None) -> Any:
    """`tf.image.adjust_hue`."""
    return _adjusted(image, delta, "adjust_hue", "AdjustHue", name)


def adjust_saturation(image: TensorLike, saturation_factor: object, name: str | None = None) -> Any:
    """`tf.image.adjust_saturation`."""
    return _adjusted(image, saturation_factor, "adjust_saturation", "AdjustSaturation", name)


def random_hue(image: TensorLike, max_delta: float, seed: int | None = None) -> Any:
    """`tf.image.random_hue`.  Raises ValueError for more than a half turn."""
    if max_delta > 0.5:
        raise ValueError("max_delta must be <= 0.5.")
    if max_delta < 0:
        raise ValueError("max_delta must be non-negative.")
    return adjust_hue(image, random_uniform([], -max_delta, max_delta, seed=seed))


def random_saturation(image: TensorLike, lower: float, upper: float, seed: int | None = None) -> Any:
    """`tf.image.random_saturation`."""
    return adjust_saturation(image, random_factor(lower, upper, seed))


# --- JPEG -----------------------------------------------------------------------------------------------------------


def adjust_jpeg_quality(image: TensorLike, jpeg_quality: TensorLike, dct_method: str = "", name: str | None = None) -> Any:
    """`tf.image.adjust_jpeg_quality`: encode an image as JPEG, and decode it."""
    with name_scope(name, "adjust_jpeg_quality", [image]):
        image = convert_to_tensor(image, name="image")
        channels = image.shape.as_list()[-1]
        original = image.dtype
        plain = convert_image_dtype(image, dtypes.uint8, saturate=True)
        if not isinstance(jpeg_quality, Tensor):
            jpeg_quality = convert_to_tensor(jpeg_quality, dtypes.int32)
        found = gen("EncodeJpegVariableQuality")(plain, jpeg_quality)
        return convert_image_dtype(gen("DecodeJpeg")(found, channels=channels, dct_method=dct_method), original, saturate=True)


def random_jpeg_quality(image: TensorLike, min_jpeg_quality: int, max_jpeg_quality: int, seed: int | None = None) -> Any:
    """`tf.image.random_jpeg_quality`."""
    if min_jpeg_quality < 0 or max_jpeg_quality < 0 or min_jpeg_quality > 100 or max_jpeg_quality > 100:
        raise ValueError("jpeg encoding range must be between 0 and 100.")
    if min_jpeg_quality >= max_jpeg_quality:
        raise ValueError("`min_jpeg_quality` must be less than `max_jpeg_quality`.")
    quality = random_uniform([], min_jpeg_quality, max_jpeg_quality, seed=seed, dtype=dtypes.int32)
    return adjust_jpeg_quality(image, quality)


# --- grey -----------------------------------------------------------------------------------------------------------

_GREY = [0.2989, 0.5870, 0.1140]
"""Shares of red, green and blue in grey (ITU-R BT.601)."""


def rgb_to_grayscale(images: TensorLike, name: str | None = None) -> Any:
    """`tf.image.rgb_to_grayscale`."""
    with name_scope(name, "rgb_to_grayscale", [images]) as scope:
        images = convert_to_tensor(images, name="images")
        plain = convert_image_dtype(images, dtypes.float32)
        grey = tf.expand_dims(tf.tensordot(plain, _GREY, [-1, -1]), -1)
        return convert_image_dtype(grey, images.dtype, name=scope)


def grayscale_to_rgb(images: TensorLike, name: str | None = None) -> Any:
    """`tf.image.grayscale_to_rgb`.  Raises ValueError if the last dimension is not 1."""
    with name_scope(name, "grayscale_to_rgb", [images]) as scope:
        images = convert_to_tensor(images, name="images")
        images = with_dependencies(_grey_checks(images), images)
        rank_before = tf.expand_dims(tf.rank(images) - 1, 0)
        times = tf.concat([tf.ones(rank_before, dtypes.int32), tf.expand_dims(3, 0)], 0)
        found = tf.tile(images, times, name=scope)
        found.set_shape(images.shape[:-1].concatenate([3]))
        return found


def _grey_checks(image: Any) -> list[Any]:
    wrong_size = "Last dimension of a grayscale image should be size 1."
    wrong_rank = "A grayscale image must be at least two-dimensional."
    if image.shape.is_fully_defined():
        if image.shape.rank < 2:
            raise ValueError(wrong_rank)
        if image.shape.as_list()[-1] != 1:
            raise ValueError(wrong_size)
        return []
    checks = [tf.assert_equal(tf.shape(image)[-1], 1, message=wrong_size)]
    return [*checks, tf.assert_greater_equal(tf.rank(image), 3, message=wrong_rank)]


# --- YIQ and YUV ----------------------------------------------------------------------------------------------------


def _linear(word: str, kernel: Sequence[Sequence[float]]) -> Any:
    def convert(images: Any) -> Any:
        images = convert_to_tensor(images, name="images")
        weights = convert_to_tensor(kernel, dtype=images.dtype, name="kernel")
        return tf.tensordot(images, weights, axes=[[images.shape.rank - 1], [0]])

    convert.__name__ = convert.__qualname__ = word
    return convert


_YIQ = [[0.299, 0.59590059, 0.2115], [0.587, -0.27455667, -0.52273617], [0.114, -0.32134392, 0.31119955]]
_FROM_YIQ = [[1.0, 1.0, 1.0], [0.95598634, -0.27201283, -1.10674021], [0.6208248, -0.64720424, 1.70423049]]
_YUV = [[0.299, -0.14714119, 0.61497538], [0.587, -0.28886916, -0.51496512], [0.114, 0.43601035, -0.10001026]]
_FROM_YUV = [[1.0, 1.0, 1.0], [0.0, -0.394642334, 2.03206185], [1.13988303, -0.58062185, 0.0]]

rgb_to_yiq, yiq_to_rgb = _linear("rgb_to_yiq", _YIQ), _linear("yiq_to_rgb", _FROM_YIQ)
rgb_to_yuv, yuv_to_rgb = _linear("rgb_to_yuv", _YUV), _linear("yuv_to_rgb", _FROM_YUV)
