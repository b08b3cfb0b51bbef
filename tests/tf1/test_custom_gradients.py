"""`tf.custom_gradient` of functions that read variables: nodes, values and errors as in TensorFlow 2.21."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import placesim.tf1 as tf


@pytest.fixture(autouse=True)
def _graph() -> Iterator[Any]:
    with tf.Graph().as_default() as graph:
        yield graph


def _product(x: Any) -> Any:
    w = tf.get_variable("w", [2], initializer=tf.ones_initializer(), use_resource=True)

    def grad(dy: Any, variables: Any = None) -> Any:
        return dy * 3.0, [tf.ones_like(v) * tf.reduce_sum(dy) for v in variables]

    return x * w, grad


def test_variables_that_the_function_reads_have_gradients() -> None:
    x = tf.constant([1.0, 2.0])
    with tf.variable_scope("s"):
        y = tf.custom_gradient(_product)(x)
    (w,) = tf.trainable_variables()
    assert [(t.op.type, t.name) for t in y.op.inputs] == [
        *(("Mul", "s/mul:0"), ("Const", "Const:0"), ("ReadVariableOp", "s/IdentityN/ReadVariableOp:0"))
    ]
    with tf.Session() as session:
        session.run(w.initializer)
        of_x, of_w = session.run(tf.gradients(y, [x, w]))
    assert np.array_equal(of_x, [3.0, 3.0])
    assert np.array_equal(of_w, [2.0, 2.0])


def test_variables_need_a_parameter() -> None:
    v = tf.get_variable("v", [2], use_resource=True)
    with pytest.raises(TypeError, match="must accept keyword argument 'variables', since function uses variables: "):
        tf.custom_gradient(lambda x: (x * v, lambda dy: dy))(tf.ones([2]))


def test_new_variables_must_be_resources() -> None:
    def function(x: Any) -> Any:
        return x * tf.get_variable("v", [2]), lambda dy, variables: (dy, [dy])

    with pytest.raises(TypeError, match="must be `ResourceVariable`s"):
        tf.custom_gradient(function)(tf.ones([2]))


def test_each_variable_needs_a_gradient() -> None:
    v = tf.get_variable("v", [2], use_resource=True)
    y = tf.custom_gradient(lambda x: (x * v, lambda dy, variables: (dy, [])))(tf.ones([2]))
    with pytest.raises(ValueError, match="Must return gradient for each variable from @custom_gradient grad_fn"):
        tf.gradients(y, v)
