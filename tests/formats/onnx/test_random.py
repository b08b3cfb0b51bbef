"""Random numbers of ONNX: what holds of them whatever they are."""

from __future__ import annotations

import numpy as np
import pytest

from tests.formats.onnx.models import info, model, node, run


def test_a_seed_gives_the_same_numbers_in_their_range() -> None:
    draw = node("RandomUniform", "", "y", shape=[50], low=2.0, high=3.0, seed=1.5)
    first, again = (run(model([draw], [], [info("y", [50])]))["y"] for _ in range(2))
    np.testing.assert_array_equal(first, again)
    assert 2 <= first.min() < first.max() < 3


def test_normal_numbers_are_scaled_and_moved() -> None:
    draw = node("RandomNormalLike", "x", "y", mean=100.0, scale=0.5, dtype=11, seed=3.0)
    found = run(model([draw], [info("x", [400])], [info("y", [400], "DOUBLE")]), {"x": np.zeros(400, np.float32)})["y"]
    assert found.dtype == np.float64
    assert abs(found.mean() - 100) < 0.2
    assert 0.4 < found.std() < 0.6


@pytest.mark.parametrize("likely", [0, 1])
def test_what_is_certain_is_drawn(likely: int) -> None:
    draw = node("Bernoulli", "x", "y", dtype=7)
    found = run(model([draw], [info("x", [9])], [info("y", [9], "INT64")]), {"x": np.full(9, likely, np.float32)})["y"]
    np.testing.assert_array_equal(found, np.full(9, likely))


def test_a_class_that_alone_is_likely_is_drawn() -> None:
    scores = np.array([[-100, 50, -100]], np.float32)
    draw = node("Multinomial", "x", "y", sample_size=6)
    found = run(model([draw], [info("x", [1, 3])], [info("y", [1, 6], "INT32")]), {"x": scores})["y"]
    np.testing.assert_array_equal(found, np.ones((1, 6), np.int32))
