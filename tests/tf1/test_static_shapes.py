"""What is known of shapes while a graph is built: as much as TensorFlow 2.21 knows, and no more."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

import placesim.tf1 as tf


@pytest.mark.parametrize(
    ("size", "expected"),
    [
        (lambda shape, rank: shape[2], [None, 3]),
        (lambda shape, rank: shape[-1], [None, 3]),
        (lambda shape, rank: shape[2] * 2, [None, 6]),
        # where a slice begins must be a constant, not follow from one
        (lambda shape, rank: shape[rank - 1], [None, None]),
        (lambda shape, rank: shape[tf.constant(2)], [None, None]),
    ],
)
def test_a_dimension_of_a_shape_that_is_put_into_another_one(
    size: Callable[[Any, Any], Any], expected: list[int | None]
) -> None:
    with tf.Graph().as_default():
        x = tf.placeholder(tf.float32, [None, None, 3])
        found = tf.reshape(x, tf.stack([-1, size(tf.shape(x), tf.rank(x))]))
        assert found.shape.as_list() == expected


@pytest.mark.parametrize(
    ("shape", "expected"),
    [
        (lambda: tf.where([True, False], [1, 2], [3, 4]), [1, 4]),
        (lambda: tf.gather_nd([3, 4], [[1], [0]]), [4, 3]),
        (lambda: tf.add_n([tf.constant([1, 2]), tf.constant([3, 4])]), [4, 6]),
        (lambda: tf.stack([2, tf.shape_n([tf.ones([4, 3])])[0][1]]), [2, 3]),
        (lambda: tf.stack([2, tf.shape_n([tf.placeholder(tf.float32, [4, 3])])[0][1]]), [2, None]),
    ],
)
def test_a_shape_that_is_computed_from_constants(shape: Callable[[], Any], expected: list[int | None]) -> None:
    with tf.Graph().as_default():
        assert tf.reshape(tf.placeholder(tf.float32), shape()).shape.as_list() == expected
