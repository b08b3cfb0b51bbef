"""`tf.image`: similarity of images, and total variation."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import log
from typing import Any

from placesim.tf1.graphs.default_graph_scopes import control_dependencies, name_scope
from placesim.tf1.graphs.tensor import Tensor
from placesim.tf1.graphs.tensor_likes import TensorLike
from placesim.tf1.images.brightness import convert_image_dtype
from placesim.tf1.importing.namespaces import namespace
from placesim.tf1.ops.conversion import convert_to_tensor
from placesim.tf1.types import dtypes

tf = namespace("")


def total_variation(images: Any, name: str | None = None) -> Any:
    """`tf.image.total_variation`: sum of absolute differences of neighbours.  Raises ValueError for a rank other than 3, 4."""
    with name_scope(name, "total_variation"):
        rank = images.shape.rank
        if rank == 3:
            down = images[1:, :, :] - images[:-1, :, :]
            across = images[:, 1:, :] - images[:, :-1, :]
            axes = None
        elif rank == 4:
            down = images[:, 1:, :, :] - images[:, :-1, :, :]
            across = images[:, :, 1:, :] - images[:, :, :-1, :]
            axes = [1, 2, 3]
        else:
            raise ValueError("'images' must be either 3 or 4-dimensional.")
        return tf.reduce_sum(tf.abs(down), axis=axes) + tf.reduce_sum(tf.abs(across), axis=axes)


def psnr(a: Any, b: TensorLike, max_val: TensorLike, name: str | None = None) -> Any:
    """`tf.image.psnr`: the peak signal-to-noise ratio in dB."""
    with name_scope(name, "PSNR", [a, b]):
        peak = convert_image_dtype(tf.cast(max_val, a.dtype), dtypes.float32)
        a, b = convert_image_dtype(a, dtypes.float32), convert_image_dtype(b, dtypes.float32)
        error = tf.reduce_mean(tf.squared_difference(a, b), [-3, -2, -1])
        scale = 20 * tf.log(peak) / tf.log(10.0)
        found = tf.subtract(scale, float(10 / log(10)) * tf.log(error), name="psnr")
        with control_dependencies(_shape_checks(a, b)[2]):
            return tf.identity(found)


def _shape_checks(one: Any, two: Any) -> tuple[Any, Any, list[Any]]:
    """Both shapes, and assertions that the last three dimensions are equal.  Raises ValueError for unequal static shapes."""
    one.shape.with_rank_at_least(3)[-3:].assert_is_compatible_with(two.shape.with_rank_at_least(3)[-3:])
    if one.shape.rank is not None and two.shape.rank is not None:
        for left, right in zip(reversed(one.shape.dims[:-3]), reversed(two.shape.dims[:-3]), strict=False):
            if not (left == 1 or right == 1 or left.is_compatible_with(right)):
                raise ValueError(f"Two images are not compatible: {one.shape} and {two.shape}")
    shapes = tf.shape_n([one, two])
    checks = [tf.Assert(tf.greater_equal(tf.size(shapes[0]), 3), [shapes[0], shapes[1]], summarize=10)]
    is_same = tf.reduce_all(tf.equal(shapes[0][-3:], shapes[1][-3:]))
    return shapes[0], shapes[1], [*checks, tf.Assert(is_same, [shapes[0], shapes[1]], summarize=10)]


# --- structural similarity (Wang et al. 2004, 2003) -----------------------------------------------------------------

_POWERS = (0.0448, 0.2856, 0.3001, 0.2363, 0.1333)
"""Weight of each scale, from Wang et al. 2003."""


def ssim(
    img1: Any,
    img2: Any,
    max_val: TensorLike,
    filter_size: int = 11,
    filter_sigma: float = 1.5,
    k1: float = 0.01,
    k2: float = 0.03,
    return_index_map: bool = False,
) -> Any:
    """`tf.image.ssim`: structural similarity of each image, or with `return_index_map` of each pixel."""
    with name_scope(None, "SSIM", [img1, img2]):
        img1, img2 = convert_to_tensor(img1, name="img1"), convert_to_tensor(img2, name="img2")
        with control_dependencies(_shape_checks(img1, img2)[2]):
            img1 = tf.identity(img1)
        peak = convert_image_dtype(tf.cast(max_val, img1.dtype), dtypes.float32)
        img1, img2 = convert_image_dtype(img1, dtypes.float32), convert_image_dtype(img2, dtypes.float32)
        by_channel, _ = _similarity(img1, img2, peak, filter_size, filter_sigma, k1, k2, return_index_map)
        return tf.reduce_mean(by_channel, [-1])


def ssim_multiscale(
    img1: Any,
    img2: TensorLike,
    max_val: TensorLike,
    power_factors: Sequence[float] = _POWERS,
    filter_size: int = 11,
    filter_sigma: float = 1.5,
    k1: float = 0.01,
    k2: float = 0.03,
) -> Any:
    """`tf.image.ssim_multiscale`: product of the similarities at several scales, each half the size of the previous one."""
    with name_scope(None, "MS-SSIM", [img1, img2]):
        img1, img2 = convert_to_tensor(img1, name="img1"), convert_to_tensor(img2, name="img2")
        *shapes, checks = _shape_checks(img1, img2)
        with control_dependencies(checks):
            img1 = tf.identity(img1)
        peak = convert_image_dtype(tf.cast(max_val, img1.dtype), dtypes.float32)
        images = [convert_image_dtype(image, dtypes.float32) for image in (img1, img2)]
        outer = [shape[:-3] for shape in shapes]
        inner = [shape[-3:] for shape in shapes]
        halves = tf.constant([2, 2, 1], dtypes.int32)
        contrasts: list[Any] = []
        by_channel: Any = None
        for scale in range(len(power_factors)):
            with name_scope(None, f"Scale{scale}", images):
                if scale:
                    images, inner = _halved(images, outer, inner, halves)
                by_channel, contrast = _similarity(images[0], images[1], peak, filter_size, filter_sigma, k1, k2, False)
                contrasts.append(tf.nn.relu(contrast))
        factors = tf.stack([*contrasts[:-1], tf.nn.relu(by_channel)], axis=-1)
        return tf.reduce_mean(tf.reduce_prod(tf.pow(factors, power_factors), [-1]), [-1])


def _halved(images: list[Any], outer: list[Any], inner: list[Any], halves: object) -> tuple[list[Any], list[Any]]:
    """Halve images; return them, and their inner shapes.  Odd sizes are first padded by a copy of the last row or column."""
    flat = [tf.reshape(image, tf.concat([[-1], shape], 0)) for image, shape in zip(images, inner, strict=True)]
    rest = inner[0] % halves
    is_odd = tf.reduce_any(tf.not_equal(rest, 0))

    def padded() -> list[Any]:
        paddings = tf.pad(tf.expand_dims(rest, -1), [[1, 0], [1, 0]])
        return [tf.pad(image, paddings, mode="SYMMETRIC") for image in flat]

    even = tf.cond(is_odd, padded, lambda: flat)
    small = [tf.nn.avg_pool(image, ksize=[1, 2, 2, 1], strides=[1, 2, 2, 1], padding="VALID") for image in even]
    shapes = [shape[1:] for shape in tf.shape_n(small)]
    parts = zip(small, outer, shapes, strict=True)
    return [tf.reshape(image, tf.concat([first, last], 0)) for image, first, last in parts], shapes


def _similarity(
    one: Tensor, two: Tensor, peak: Tensor, filter_size: int, filter_sigma: float, k1: float, k2: float, keeps_places: bool
) -> tuple[Any, Any]:
    """The similarity of each channel, or with `keeps_places` of each pixel; and its factor for contrast and structure."""
    size = tf.constant(filter_size, dtypes.int32)
    sigma = tf.constant(filter_sigma, one.dtype)
    shapes = tf.shape_n([one, two])
    checks = [tf.Assert(tf.reduce_all(tf.greater_equal(shape[-3:-1], size)), [shape, size], summarize=8) for shape in shapes]
    with control_dependencies(checks):
        one = tf.identity(one)
    kernel = tf.tile(_bell(size, sigma), multiples=[1, 1, shapes[0][-1], 1])

    def blurred(image: TensorLike) -> Any:
        shape = tf.shape(image)
        flat = tf.reshape(image, tf.concat([[-1], shape[-3:]], 0))
        found = tf.nn.depthwise_conv2d(flat, kernel, strides=[1, 1, 1, 1], padding="VALID")
        return tf.reshape(found, tf.concat([shape[:-3], tf.shape(found)[1:]], 0))

    luminance, contrast = _terms(one, two, blurred, peak, k1, k2)
    if keeps_places:
        return luminance * contrast, contrast
    axes = tf.constant([-3, -2], dtypes.int32)
    return tf.reduce_mean(luminance * contrast, axes), tf.reduce_mean(contrast, axes)


def _terms(one: Tensor, two: Tensor, blurred: Callable[[Any], Any], peak: Tensor, k1: float, k2: float) -> tuple[Any, Any]:
    """Two factors of each pixel's similarity: one for luminance, and one for contrast and structure."""
    least_light, least_contrast = (k1 * peak) ** 2, (k2 * peak) ** 2
    means = blurred(one), blurred(two)
    product = means[0] * means[1] * 2.0
    squares = tf.square(means[0]) + tf.square(means[1])
    luminance = (product + least_light) / (squares + least_light)
    both = blurred(one * two) * 2.0
    each = blurred(tf.square(one) + tf.square(two))
    least_contrast *= 1.0  # TensorFlow's compensation, which makes an op
    return luminance, (both - product + least_contrast) / (each - squares + least_contrast)


def _bell(size: int, sigma: Any) -> Any:
    """Gaussian filter with sum 1."""
    places = tf.cast(tf.range(size), sigma.dtype)
    places -= tf.cast(size - 1, sigma.dtype) / 2.0
    logs = tf.square(places)
    logs *= -0.5 / tf.square(sigma)
    logs = tf.reshape(logs, [1, -1]) + tf.reshape(logs, [-1, 1])
    weights = tf.nn.softmax(tf.reshape(logs, [1, -1]))
    return tf.reshape(weights, shape=[size, size, 1, 1])
