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

    def test_devices(self) -> None:
        with tf.device("/gpu:0"):
            placed = tf.constant(1)
        with self.cached_session() as session:
            assert session.run(placed) == 1  # another device is allowed
        with self.session(use_gpu=False):
            assert tf.constant(2).device == "/device:CPU:0"
        with self.session(force_gpu=True) as session:
            assert tf.constant(3).device == "/device:GPU:0"
            session.run(placed)

    def test_fails(self) -> None:
        self.assertAllClose([1.0], tf.constant([1.1]))


def _run(name: str) -> Any:
    result = unittest.TestResult()
    _Case(name).run(result)
    return [text for _, text in result.failures + result.errors]


def test_a_case_holds_or_fails() -> None:
    assert _run("test_holds") == []
    (failure,) = _run("test_devices")
    assert "Cannot assign a device for operation" in failure
    (failure,) = _run("test_fails")
    assert "AssertionError" in failure


def test_a_local_cluster_has_its_servers() -> None:
    workers, servers = tf.test.create_local_cluster(2, 1)
    assert (len(workers), len(servers)) == (2, 1)
    with tf.Graph().as_default(), tf.Session(workers[1].target) as session:
        names = [device.name for device in session.list_devices()]
        assert {name.split("/device")[0] for name in names} == {
            f"/job:{job}/replica:0/task:{task}" for job, task in (("worker", 0), ("worker", 1), ("ps", 0))
        }
    (alone,), none = tf.test.create_local_cluster(1, 0)
    assert none == []
    with tf.Graph().as_default(), tf.Session(alone.target) as session:
        assert session.run(tf.constant(1)) == 1
