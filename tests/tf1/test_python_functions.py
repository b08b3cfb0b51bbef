"""`tf.py_func`: what its function gets, and what becomes of its results, as in TensorFlow 2.21."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import placesim.tf1 as tf


def _type(value: Any) -> str:
    return type(value).__name__


@pytest.mark.parametrize(
    ("given", "expected"), [(1.0, b"float32"), (True, b"bool"), ("a", b"bytes"), (["a"], b"ndarray"), ([1], b"ndarray")]
)
def test_the_function_gets_scalars_and_arrays(given: Any, expected: bytes) -> None:
    with tf.Graph().as_default(), tf.Session() as session:
        assert session.run(tf.py_func(_type, [tf.constant(given)], tf.string)) == expected


def test_texts_in_an_array_of_objects_become_bytes() -> None:
    with tf.Graph().as_default(), tf.Session() as session:
        found = session.run(tf.py_func(lambda: np.array(["é", b"b"], object), [], tf.string))
    assert found.tolist() == ["é".encode(), b"b"]


def test_one_gathered_string_is_compared() -> None:
    with tf.Graph().as_default(), tf.Session() as session:
        gathered = tf.gather(tf.constant(["a", "b"]), tf.placeholder_with_default(1, []))
        assert session.run([gathered, tf.equal(gathered, "b")]) == [b"b", True]
