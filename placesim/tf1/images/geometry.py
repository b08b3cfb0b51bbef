"""`tf.image`: crop the centre, rotate, resize with padding, and compute gradients of pixels."""

from __future__ import annotations

from typing import Any

import numpy as np

from placesim.tf1.array.shaping import size_along
from placesim.tf1.graphs.default_graph_scopes import name_scope
from placesim.tf1.graphs.grouping import with_dependencies
from placesim.tf1.graphs.tensor import Tensor
from placesim.tf1.graphs.tensor_likes import TensorLike
from placesim.tf1.images.inputs import as_batch, checked, sizes_of
from placesim.tf1.images.resizing import pad_to_bounding_box, resize_images
from placesim.tf1.importing.namespaces import namespace
from placesim.tf1.ops.conversion import convert_to_tensor
from placesim.tf1.ops.generated_functions import gen
from placesim.tf1.types import dtypes

tf = namespace("")


def central_crop(image: TensorLike, central_fraction: float) -> Any:
    """`tf.image.central_crop`: the middle part along height and width.  Raises ValueError for an invalid fraction."""
    error = "central_fraction must be within (0, 1]"
    with name_scope(None, "central_crop", [image]):
        image = convert_to_tensor(image, name="image")
        if isinstance(central_fraction, Tensor):
            is_fraction = tf.logical_or(tf.greater(central_fraction, 0), tf.less_equal(central_fraction, 1))
            image = with_dependencies([tf.Assert(is_fraction, [error])], image)
        else:
            if central_fraction <= 0.0 or central_fraction > 1.0:
                raise ValueError(error)
            if central_fraction == 1.0:
                return image
        with_dependencies(checked(image), image)
        rank = image.shape.rank
        if rank not in (3, 4):
            raise ValueError(f"`image` should either be a Tensor with rank = 3 or rank = 4. Had rank = {rank}.")
        first = rank - 3
        measured = [size_along(image, axis) for axis in (first, first + 1)]
        begins = [_middle(size, central_fraction) for size in measured]
        sizes = [size - begin * 2 for size, begin in zip(measured, begins, strict=True)]
        begin = [0] * first + begins + [0]
        size = [-1] * first + sizes + [-1]
        found = tf.slice(image, tf.stack(begin), tf.stack(size))
        known = image.shape.as_list()
        inner = [None if isinstance(size, Tensor) else size for size in sizes]
        found.set_shape([*known[:first], *inner, known[-1]])
        return found


def _middle(size: Any, fraction: float) -> Any:
    """Start of the middle part."""
    if isinstance(fraction, Tensor) or isinstance(size, Tensor):
        wide = tf.cast(size, dtypes.float64)
        return tf.cast((wide - wide * tf.cast(fraction, dtypes.float64)) / 2, dtypes.int32)
    return int((float(size) - float(size) * fraction) / 2)


def rot90(image: TensorLike, k: TensorLike = 1, name: str | None = None) -> Any:
    """`tf.image.rot90`: rotate counterclockwise by `k` right angles."""
    with name_scope(name, "rot90", [image, k]) as scope:
        image = convert_to_tensor(image, name="image")
        image = with_dependencies(checked(image), image)
        k = convert_to_tensor(k, dtypes.int32, name="k")
        k.shape.assert_has_rank(0)
        turns = gen("FloorMod")(k, 4, name="mod")
        rank = image.shape.rank
        if rank is None:
            return tf.cond(
                tf.equal(tf.rank(image), 3), lambda: _turned(image, turns, scope, 0), lambda: _turned(image, turns, scope, 1)
            )
        if rank not in (3, 4):
            raise ValueError(f"'image' (shape {image.shape}) must have either 3 or 4 dimensions.")
        return _turned(image, turns, scope, rank - 3)


def _turned(image: Any, turns: object, scope: str, first: int) -> Any:
    across = [first + 1]
    order = [*range(first), first + 1, first, first + 2]
    found = tf.case(
        [
            (tf.equal(turns, 1), lambda: tf.transpose(tf.reverse_v2(image, across), order)),
            (tf.equal(turns, 2), lambda: tf.reverse_v2(image, [first, first + 1])),
            (tf.equal(turns, 3), lambda: tf.reverse_v2(tf.transpose(image, order), across)),
        ],
        default=lambda: image,
        exclusive=True,
        name=scope,
    )
    known = image.shape.as_list() if image.shape.rank is not None else [None] * (first + 3)
    found.set_shape([*known[:first], None, None, known[-1]])
    return found


def resize_image_with_pad(
    image: TensorLike, target_height: int | Tensor, target_width: int | Tensor, method: Any = 0, align_corners: bool = False
) -> Any:
    """`tf.image.resize_image_with_pad`: resize to fit, and pad with zeros.  Raises ValueError for sizes below 1."""
    with name_scope(None, "resize_image_with_pad", [image]):
        image = convert_to_tensor(image, name="image")
        image, is_batch = as_batch(image)
        image = with_dependencies(checked(image), image)
        for word, size in (("target_width", target_width), ("target_height", target_height)):
            if not isinstance(size, Tensor) and size <= 0:
                raise ValueError(f"{word} must be > 0.")
        _, height, width, _ = sizes_of(image, 4)
        have = [tf.cast(size, dtypes.float32) for size in (height, width)]
        wanted = [tf.cast(size, dtypes.float32) for size in (target_height, target_width)]
        ratio = tf.maximum(have[1] / wanted[1], have[0] / wanted[0])
        exact = [size / ratio for size in have]
        new_sizes = [tf.cast(tf.floor(size), dtypes.int32) for size in exact]
        margins = [(limit - size) / 2 for limit, size in zip(wanted, exact, strict=True)]
        margins = [tf.floor(margin) for margin in margins]
        top, left = (tf.maximum(0, tf.cast(margin, dtypes.int32)) for margin in margins)
        resized = resize_images(image, new_sizes, method, align_corners=align_corners)
        padded = pad_to_bounding_box(resized, top, left, target_height, target_width)
        if padded.shape.rank is None:
            raise ValueError("padded contains no shape.")
        return padded if is_batch else tf.squeeze(padded, [0])


def image_gradients(image: Any) -> tuple[Any, Any]:
    """`tf.image.image_gradients`: differences to the pixels in the next row, and in the next column."""
    if image.shape.rank != 4:
        raise ValueError(f"image_gradients expects a 4D tensor [batch_size, h, w, d], not {image.shape}.")
    shape = tf.shape(image)
    batch, height, width, depth = tf.unstack(shape)
    by_row = image[:, 1:, :, :] - image[:, :-1, :, :]
    by_column = image[:, :, 1:, :] - image[:, :, :-1, :]
    by_row = tf.concat([by_row, tf.zeros(tf.stack([batch, 1, width, depth]), image.dtype)], 1)
    by_row = tf.reshape(by_row, shape)
    by_column = tf.concat([by_column, tf.zeros(tf.stack([batch, height, 1, depth]), image.dtype)], 2)
    return by_row, tf.reshape(by_column, shape)


_SOBEL = np.transpose(np.asarray([[[-1, -2, -1], [0, 0, 0], [1, 2, 1]], [[-1, 0, 1], [-2, 0, 2], [-1, 0, 1]]]), (1, 2, 0))
"""Sobel's filters along height and width, in the last dimension."""


def sobel_edges(image: Any) -> Any:
    """`tf.image.sobel_edges`: dy and dx of each channel, in a new last dimension."""
    static, shape = image.shape, tf.shape(image)
    kernels = tf.constant(np.expand_dims(_SOBEL, -2), dtype=dtypes.float32)
    kernels = tf.tile(kernels, [1, 1, shape[-1], 1], name="sobel_filters")
    padded = tf.pad(image, [[0, 0], [1, 1], [1, 1], [0, 0]], mode="REFLECT")
    found = tf.nn.depthwise_conv2d(padded, kernels, [1, 1, 1, 1], "VALID")
    found = tf.reshape(found, shape=tf.concat([shape, [2]], 0))
    found.set_shape(static.concatenate([2]))
    return found
