"""Triangular matrices of vectors, and back."""

from __future__ import annotations

import math
from typing import Any

import placesim.tf1 as tf
from placesim.tf1.graphs.tensor_likes import TensorLike
from placesim.tf1.types.shapes import TensorShape


def fill_triangular(x: TensorLike, upper: bool = False, name: str | None = None) -> Any:
    """Triangular matrices `[..., n, n]` of vectors `[..., n * (n + 1) / 2]`.  Raises ValueError for another length."""
    with tf.name_scope(name, "fill_triangular", values=[x]):
        value = tf.convert_to_tensor(x, name="x")
        length = value.shape.with_rank_at_least(1)[-1:].as_list()[0]
        if length is None:
            doubled = tf.cast(2 * tf.shape(value)[-1], dtype=tf.float32)
            size: Any = tf.cast(tf.sqrt(0.25 + doubled), dtype=tf.int32)
            known = value.shape[:-1].concatenate([None, None])
        else:
            size = (math.isqrt(8 * length + 1) - 1) // 2
            if size * (size + 1) // 2 != length:
                raise ValueError(f"Input right-most shape ({length}) does not correspond to a triangular matrix.")
            known = value.shape[:-1].concatenate([size, size])
        axis = _rank(value) - 1
        tail = [value, value[..., size:]] if upper else [value[..., size:], value]
        turned = tf.reverse(tail[1], axis=[axis])
        known_sizes = known.as_list() if known.is_fully_defined() else None
        shape = known_sizes or tf.concat([tf.shape(value)[:-1], [size, size]], axis=0)
        matrix = tf.reshape(tf.concat([tail[0], turned], axis=-1), shape)
        found = tf.matrix_band_part(matrix, num_lower=0 if upper else -1, num_upper=-1 if upper else 0)
        found.set_shape(known)
        return found


def fill_triangular_inverse(x: TensorLike, upper: bool = False, name: str | None = None) -> Any:
    """The vectors of triangular matrices, in the order of `fill_triangular`."""
    with tf.name_scope(name, "fill_triangular_inverse", values=[x]):
        value = tf.convert_to_tensor(x, name="x")
        size: Any = value.shape.with_rank_at_least(2)[-1:].as_list()[0]
        outer: TensorShape = value.shape[:-2]
        if size is None:
            size = tf.shape(value)[-1]
        length = size * (size + 1) // 2
        known = outer.concatenate([length if isinstance(length, int) else None])
        rank = _rank(value)
        if upper:
            first, rest = value[..., 0, :], value[..., 1:, :]
        else:
            first, rest = tf.reverse(value[..., -1, :], axis=[rank - 2]), value[..., :-1, :]
        turned = tf.reverse(tf.reverse(rest, axis=[rank - 1]), axis=[rank - 2])
        both = rest + turned
        last = tf.reshape(both, tf.concat([tf.shape(value)[:-2], [size * (size - 1)]], axis=0))
        found = tf.concat([first, last[..., : length - size]], axis=-1)
        found.set_shape(known)
        return found


def _rank(value: Any) -> Any:
    rank = tf.rank(value)
    known = tf.get_static_value(rank)
    return rank if known is None else int(known)
