"""Ragged tensors: values of a session; their graphs are in the recorded calls."""

from __future__ import annotations

import subprocess
import sys
from typing import Any

import pytest

import placesim.tf1 as tf


@pytest.fixture(autouse=True)
def _session() -> Any:
    with tf.Graph().as_default(), tf.Session() as session:
        yield session


def run(fetches: Any, feeds: Any = None) -> Any:
    return tf.get_default_session().run(fetches, feeds)


def test_rows_are_made_filled_and_reduced() -> None:
    rows: Any = tf.ragged.constant([[1.0, 2.0], [], [3.0]])
    tensor, total, mean, most, doubled, part = run(
        [
            rows.to_tensor(-1.0),
            tf.reduce_sum(rows, axis=1),
            tf.reduce_mean(rows, axis=1),
            tf.reduce_max(rows, axis=0),
            tf.ragged.map_flat_values(tf.square, rows * 2.0),
            rows[1:],
        ]
    )
    assert tensor.tolist() == [[1, 2], [-1, -1], [3, -1]]
    assert (total.tolist(), mean.tolist()[::2], most.tolist()) == ([3, 0, 3], [1.5, 3], [3, 2])
    assert (doubled.to_list(), part.to_list()) == ([[4, 16], [], [36]], [[], [3]])


def test_operators_are_there_without_another_module() -> None:
    program = "import placesim.tf1 as tf; tf.ragged.constant([[1.0], []]) + 1.0"
    subprocess.run([sys.executable, "-c", program], check=True)


def test_rows_are_chosen_and_fed() -> None:
    rows: Any = tf.ragged.placeholder(tf.float32, 1)
    value: Any = tf.ragged.constant_value([[1.0], [2.0, 3.0]], dtype="float32")
    chosen, sparse = run([tf.gather(rows, [1, 1]), rows.to_sparse()], {rows: value})
    assert chosen.to_list() == [[2, 3], [2, 3]]
    assert (sparse.indices.tolist(), sparse.values.tolist()) == ([[0, 0], [1, 0], [1, 1]], [1, 2, 3])
    assert (value.shape, value.ragged_rank, str(value)) == ((2, None), 1, "<tf.RaggedTensorValue [[1.0], [2.0, 3.0]]>")


def test_a_table_is_trained_through_rows() -> None:
    table = tf.get_variable("table", initializer=[[1.0], [2.0], [3.0]])
    found: Any = tf.nn.embedding_lookup(table, tf.ragged.constant([[0, 1], [1]]))
    loss = tf.reduce_sum(found.to_tensor() * [[[1.0]], [[5.0]]])
    train = tf.train.GradientDescentOptimizer(0.1).minimize(loss)
    run(tf.global_variables_initializer())
    run(train)
    assert run(table).ravel().tolist() == pytest.approx([0.9, 1.4, 3.0])


def test_wrong_rows_are_refused() -> None:
    wrong: Any = tf.RaggedTensor.from_row_splits(tf.constant([1, 2, 3]), tf.placeholder_with_default([0, 2, 1, 3], [4]))
    with pytest.raises(tf.errors.InvalidArgumentError, match="do not form a valid RaggedTensor:monotonic"):
        run(wrong.values + tf.cast(wrong.row_splits[-1], tf.int32))
