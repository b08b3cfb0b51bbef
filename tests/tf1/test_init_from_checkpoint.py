"""`tf.train.init_from_checkpoint`, with names and messages taken from TensorFlow."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from placesim.tf1.importing.namespaces import namespace

tf: Any = namespace("")


@pytest.fixture
def checkpoint(tmp_path: Path) -> str:
    with tf.Graph().as_default(), tf.variable_scope("old"):
        tf.get_variable("a", [2], initializer=tf.ones_initializer())
        tf.get_variable("b/c", [3, 2], initializer=tf.ones_initializer())
        with tf.Session() as session:
            session.run(tf.global_variables_initializer())
            path: str = tf.train.Saver().save(session, str(tmp_path / "saved"))
            return path


def test_a_scope_is_read_into_another(checkpoint: str) -> None:
    with tf.Graph().as_default() as graph:
        with tf.variable_scope("new"):
            a, b = tf.get_variable("a", [2]), tf.get_variable("b/c", [3, 2], use_resource=True)
        before = len(graph.get_operations())
        tf.train.init_from_checkpoint(checkpoint, {"old/": "new/"})
        made = [operation.name for operation in graph.get_operations()[before:] if "/" not in operation.name]
        assert made == ["checkpoint_initializer", "Assign", "checkpoint_initializer_1", "Identity", "AssignVariableOp"]
        assert a.initial_value.name == "checkpoint_initializer:0"
        with tf.Session() as session:
            session.run(tf.global_variables_initializer())
            assert all(np.all(value == 1) for value in session.run([a, b]))


@pytest.mark.parametrize(
    ("name", "target", "message"),
    [
        ("old/x", "a", "Tensor old/x is not found in"),
        ("old/b/c", "a", r"Shape of variable a:0 \(\(2,\)\) doesn't match with shape of tensor old/b/c \(\[3, 2\]\)"),
        ("old", "new/", "Assignment map with scope only name new should map to scope only old. Should be 'scope/'"),
    ],
)
def test_what_is_refused(checkpoint: str, name: str, target: str, message: str) -> None:
    with tf.Graph().as_default():
        tf.get_variable("a", [2])
        with pytest.raises(ValueError, match=message):
            tf.train.init_from_checkpoint(checkpoint, {name: target})
