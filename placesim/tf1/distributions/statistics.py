"""Functions of `tf.contrib.distributions`: percentiles of samples, and the inverse of softplus."""

from __future__ import annotations

from typing import Any

import numpy as np

import placesim.tf1 as tf
from placesim.tf1.distributions.distribution import refuse_checks
from placesim.tf1.graphs.tensor_likes import TensorLike
from placesim.tf1.importing.missing_names import not_there


def softplus_inverse(x: TensorLike, name: str | None = None) -> Any:
    """The value whose softplus is `x`, which is `log(exp(x) - 1)`."""
    with tf.name_scope(name, "softplus_inverse", values=[x]):
        value = tf.convert_to_tensor(x, name="x")
        threshold = np.log(np.finfo(value.dtype.as_numpy_dtype).eps) + 2.0
        is_small, is_large = tf.less(value, np.exp(threshold)), tf.greater(value, -threshold)
        logarithm = tf.log(value)
        # ones in place of values of which the result is not used, so that their gradients are finite
        safe = tf.where_v2(tf.logical_or(is_small, is_large), tf.ones_like(value), value)
        inverse = safe + tf.log(-tf.expm1(-safe))
        return tf.where_v2(is_small, logarithm, tf.where_v2(is_large, value, inverse))


def percentile(
    x: TensorLike,
    q: TensorLike,
    axis: Any = None,
    interpolation: str | None = None,
    keep_dims: bool = False,
    validate_args: bool = False,
    name: str | None = None,
) -> Any:
    """The element of `x` along `axis` below which are `q` percent of the others.  Raises ValueError for a wrong argument."""
    if interpolation not in {None, "lower", "higher", "nearest"}:
        raise ValueError(f"Argument 'interpolation' must be 'lower', 'higher' or 'nearest', but it is {interpolation!r}")
    if validate_args:
        raise refuse_checks("percentile")
    with tf.name_scope(name or "percentile", values=[x, q]):
        values = tf.convert_to_tensor(x, name="x")
        share = tf.cast(q, tf.float64, name="q")
        axes: list[int] | None = None
        if axis is None:
            flat = tf.reshape(values, [-1])
        else:
            axes = _axes(axis, values.shape.ndims)
            flat = _flat_at_end(values, axes)
        above = 1.0 - share / 100.0
        count = tf.cast(tf.shape(flat)[-1], tf.float64)
        round_up = {"lower": tf.ceil, "higher": tf.floor, "nearest": tf.round}[interpolation or "nearest"]
        index = round_up((count - 1) * above)
        size = tf.shape(flat)[-1]
        index = tf.clip_by_value(tf.cast(index, tf.int32), 0, size - 1)
        ordered, _ = tf.nn.top_k(flat, k=tf.shape(flat)[-1])
        found = ordered[..., index]
        found.set_shape(flat.shape[:-1])
        if keep_dims and axes is None:
            found *= tf.ones(tf.ones(shape=[values.shape.ndims], dtype=tf.int32), dtype=values.dtype)
        for own in sorted(axes or ()) if keep_dims else ():
            found = tf.expand_dims(found, axis=own)
        return found


def _axes(axis: Any, rank: int | None) -> list[int]:
    """The axes as positive numbers.  Raises ValueError for numbers out of range and NotImplementedError for an unknown rank."""
    if rank is None:
        raise not_there("contrib.distributions.percentile of a tensor of unknown rank", "set its shape")
    given = tf.convert_to_tensor(axis, name="axis")
    tf.debugging.assert_integer(given)
    found = np.atleast_1d(tf.get_static_value(given)).tolist()
    for one in found:
        if one >= rank:
            raise ValueError(f"dim {one} not in the interval [0, {rank - 1}].")
        if one < -rank:
            raise ValueError(f"Negatively indexed dim {one} not in the interval [-{rank}, -1]")
    return [one % rank for one in found]


def _flat_at_end(values: Any, axes: list[int]) -> Any:
    """The tensor with these axes merged to one, which is the last."""
    rank = values.shape.ndims
    front = [axis for axis in range(rank) if axis not in axes]
    turned = tf.transpose(values, perm=front + axes)
    if values.shape.is_fully_defined():
        sizes = values.shape.as_list()
        return tf.reshape(turned, shape=[sizes[axis] for axis in front] + [np.prod([sizes[axis] for axis in axes])])
    return tf.reshape(turned, shape=tf.concat([tf.shape(turned)[: rank - len(axes)], [-1]], axis=0))
