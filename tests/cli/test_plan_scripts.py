"""Plans of scripts as Python: a device function for `tf.device`."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from tests.cli.warm import run_warm

MODEL = """\
import numpy as np
import tensorflow as tf


def dense(x, units, name):
    with tf.variable_scope(name):
        weights = tf.get_variable("weights", [x.shape[1], units])
        return tf.nn.relu(tf.matmul(x, weights))


def build():
    x = tf.placeholder(tf.float32, [2048, 2048], name="x")
    towers = []
    for i in range(2):
        with tf.name_scope("tower_%d" % i):
            towers.append(tf.matmul(tf.matmul(x, x, name="a"), x, name="b"))
    with tf.device("/gpu:0"):
        joined = tf.add_n(towers, name="joined")
    hidden = dense(joined, 2048, "one")
    hidden = dense(hidden, 2048, "two")
    loss = tf.reduce_mean(hidden, name="loss")
    return x, tf.train.GradientDescentOptimizer(0.1).minimize(loss)


x, train = build()
with tf.Session() as sess:
    sess.run(tf.global_variables_initializer())
    sess.run(train, {x: np.zeros([2048, 2048], np.float32)})
"""
MACHINE = ("--gpu", "2", "--gpu-model", "Tesla V100-SXM2-16GB")
FEW = ("--evaluations", "200", "--jobs", "1", "--format", "json")


def _plan(folder: Path, *arguments: str) -> dict[str, Any]:
    (folder / "model.py").write_text(MODEL)
    ended = run_warm(folder, "plan", "model.py", *MACHINE, *FEW, *arguments)
    assert ended.code == 0, ended.complaint
    assert ended.complaint.count("\n") == 1, ended.complaint  # how far the script ran
    return json.loads(ended.output)


def _step_seconds(folder: Path, script: str) -> float:
    ended = run_warm(folder, "simulate", script, *MACHINE, "--format", "json")
    assert ended.code == 0, ended.complaint
    seconds: float = json.loads(ended.output)["seconds"]
    return seconds


def test_a_device_function_places_a_script_as_planned(tmp_path: Path) -> None:
    calls = MODEL.replace(
        "x, train = build()", "import planned\nwith tf.device(planned.planned_device):\n    x, train = build()"
    )
    (tmp_path / "calls.py").write_text(calls)
    for arguments in ((), ("--free", "joined")):
        told = _plan(tmp_path, *arguments, "--output", "planned.py")
        assert _step_seconds(tmp_path, "calls.py") == told["seconds"]
    assert "placesim" not in (tmp_path / "planned.py").read_text().partition('"""\n\n')[2]  # it needs nothing but Python
