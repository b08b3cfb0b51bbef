"""`tf.test.TestCase` in a script's own tests."""

from __future__ import annotations

import unittest
from typing import Any

import placesim.tf1 as tf


class _Case(tf.test.TestCase):  # type: ignore[misc]
    def test_holds(self) -> None:
        assert not tf.get_default_graph().get_operations()
        x = tf.constant([1.0, 2.0])
        with self.test_session() as session:
            assert session.run(x).tolist() == x.eval().tolist()
        self.assertAllEqual(self.evaluate(x), [1, 2])
        self.assertAllClose({"a": x}, {"a": [1.0, 2.0 + 1e-7]})
        self.assertShapeEqual(self.evaluate(x), x)
        with self.assertRaisesOpError("zero"), self.session() as session:
            session.run(tf.constant(1) // tf.constant(0))

    def test_fails(self) -> None:
        self.assertAllClose([1.0], tf.constant([1.1]))


def _run(name: str) -> Any:
    result = unittest.TestResult()
    _Case(name).run(result)
    return [text for _, text in result.failures + result.errors]


def test_a_case_holds_or_fails() -> None:
    assert _run("test_holds") == []
    (failure,) = _run("test_fails")
    assert "AssertionError" in failure
