"""Variables that are read beside an update, without an edge between the two: TensorFlow's values where they are not chance.

Each of 76 graphs ran in 50 sessions of TensorFlow 2.21 and of 1.15.5, four steps each.  The recording has those that gave the
same values in all sessions of a release.
"""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import placesim
import placesim.tf1 as tf

_PATH = Path(__file__).parent.parent / "data" / "tf1" / "reads-beside-updates.jsonl.gz"


def _variable(value: Any) -> Any:
    return tf.get_variable(f"v{len(tf.global_variables())}", initializer=tf.constant(value))


def _step() -> Any:
    return tf.get_variable("step", [], tf.int64, initializer=tf.zeros_initializer(), trainable=False)


def test_values_that_are_not_chance_are_tensorflows(subtests: pytest.Subtests) -> None:
    records = [json.loads(line) for line in gzip.decompress(_PATH.read_bytes()).splitlines()]
    assert sum(len(record["steps"]) for record in records) == 40
    for record in records:
        with subtests.test(record["graph"], resource=record["resource"]), tf.Graph().as_default(), tf.Session() as session:
            scope: dict[str, Any] = {"tf": tf, "np": np, "var": _variable, "step_": _step}
            with tf.variable_scope("", use_resource=record["resource"]):
                exec(record["graph"], scope)
            session.run(tf.global_variables_initializer())
            found = [session.run(scope["fetches"]) for _ in range(4)]
            for steps in record["steps"].values():
                for step, values in zip(steps, found, strict=True):
                    for expected, value in zip(step, values, strict=True):
                        if expected is None:
                            assert value is None
                        else:
                            np.testing.assert_allclose(value, expected, rtol=1e-4, atol=1e-5)


def test_a_rate_has_the_step_after_its_update_as_in_most_runs_of_berts_optimizer() -> None:
    with tf.Graph().as_default(), tf.Session() as session:
        step = _step()
        rate = tf.train.polynomial_decay(tf.constant(0.1), step, 10, end_learning_rate=0.0)
        done, limit = tf.cast(step, tf.int32), tf.constant(2, tf.int32)
        begins = tf.cast(done < limit, tf.float32)
        rate = (1.0 - begins) * rate + begins * 0.1 * (tf.cast(done, tf.float32) / tf.cast(limit, tf.float32))
        weights = _variable([1.0, 2.0])
        train = tf.group(weights.assign(weights - rate * weights), [step.assign(step + 1)])
        session.run(tf.global_variables_initializer())
        assert [session.run([rate, train])[0] for _ in range(4)] == pytest.approx([0.05, 0.08, 0.07, 0.06])


def test_another_cpu_reads_a_variable_after_its_update() -> None:
    with placesim.machine(cpu=2), tf.Graph().as_default(), tf.Session() as session:
        with tf.device("/cpu:0"):
            weights = _variable([1.0, 2.0])
            assign, add = weights.assign([5.0, 6.0]), weights.assign_add([1.0, 1.0])
        with tf.device("/cpu:1"), tf.control_dependencies([assign]):
            far = weights * 2.0
        with tf.device("/cpu:1"), tf.control_dependencies([add]):
            there = tf.no_op()
        with tf.device("/cpu:0"), tf.control_dependencies([there]):
            back = weights + 0.0
        session.run(tf.global_variables_initializer())
        assert session.run(far).tolist() == [10.0, 12.0]
        assert session.run(back).tolist() == [6.0, 7.0]
