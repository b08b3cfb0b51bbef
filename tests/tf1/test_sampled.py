"""Losses over sampled classes, and rows by sparse ids: TensorFlow 2.21's numbers and errors."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import placesim.tf1 as tf
from placesim.tf1.session import sessions


@pytest.fixture(autouse=True)
def _graph() -> Any:
    with tf.Graph().as_default() as graph:
        yield graph


def run(*wanted: Any) -> Any:
    with sessions.Session() as session:
        session.run(tf.global_variables_initializer())
        return session.run(list(wanted))


def ramp(*shape: int) -> Any:
    size = int(np.prod(shape))
    return tf.constant(np.arange(size, dtype=np.float32).reshape(shape) / size)


def test_losses_over_given_samples() -> None:
    weights, biases, inputs = ramp(10, 4), ramp(10), ramp(2, 4)
    labels = tf.constant([[3], [4]], tf.int64)
    sampled = (tf.constant([1, 3, 7], tf.int64), tf.constant([[0.5], [0.25]]), tf.constant([0.1, 0.2, 0.3]))
    options = {"num_sampled": 3, "num_classes": 10, "sampled_values": sampled}
    estimation = tf.nn.nce_loss(weights, biases, labels, inputs, **options)
    softmax = tf.nn.sampled_softmax_loss(weights, biases, labels, inputs, **options)
    found = run(estimation, softmax)
    np.testing.assert_allclose(found[0], [7.687091, 9.780012], rtol=1e-6)
    np.testing.assert_allclose(found[1], [2.064289, 1.6558615], rtol=1e-6)


@pytest.mark.parametrize(
    ("sampler", "unique", "expected"),
    [
        ("uniform", True, [[19, 9, 8, 14], [0.2, 0.2], [0.2, 0.2, 0.2, 0.2]]),
        ("log_uniform", True, [[13, 0, 3, 11], [0.29317, 0.23954], [0.09065, 0.91068, 0.29317, 0.10516]]),
        ("learned_unigram", True, [[7, 5, 14, 0], [0.22622, 0.22622], [0.22622] * 4]),
        ("learned_unigram", False, [[7, 7, 5, 14], [0.2, 0.2], [0.2] * 4]),
    ],
)
def test_samplers_draw_what_tensorflow_draws(sampler: str, unique: bool, expected: list[list[float]]) -> None:
    labels = tf.constant([[3], [4]], tf.int64)
    function = getattr(tf.nn, sampler + "_candidate_sampler")
    found = run(*function(labels, 1, 4, unique, 20, seed=7))
    for part, numbers in zip(found, expected, strict=True):
        np.testing.assert_allclose(part.ravel(), numbers, atol=1e-5)


def test_word_vectors_are_learned_as_tensorflow_learns_them() -> None:
    tf.set_random_seed(5)
    table = tf.Variable(tf.random_uniform([50, 8], -1.0, 1.0))
    weights = tf.Variable(tf.truncated_normal([50, 8], stddev=0.1))
    biases = tf.Variable(tf.zeros([50]))
    rows = tf.nn.embedding_lookup(table, tf.constant([1, 5, 9, 2]))
    labels = tf.constant([[3], [4], [1], [9]])
    loss = tf.reduce_mean(tf.nn.nce_loss(weights, biases, labels, rows, num_sampled=5, num_classes=50))
    train = tf.train.GradientDescentOptimizer(1.0).minimize(loss)
    with sessions.Session() as session:
        session.run(tf.global_variables_initializer())
        losses = [session.run([loss, train])[0] for _ in range(5)]
    np.testing.assert_allclose(losses, [9.4747, 8.0641, 13.1616, 9.5498, 7.1207], atol=1e-4)


IDS = ([[0, 0], [0, 1], [2, 0]], [1, 3, 2], [3, 2])
"""Rows 1 and 3 for the first example, none for the second, row 2 for the third."""


@pytest.mark.parametrize(
    ("combiner", "first", "weighted"), [("mean", 2.0, 2.5), ("sum", 4.0, 10.0), ("sqrtn", 4 / 2**0.5, 10 / 10**0.5)]
)
def test_rows_by_sparse_ids_are_combined(combiner: str, first: float, weighted: float) -> None:
    table = tf.constant([[float(i)] for i in range(5)])
    ids = tf.SparseTensor(tf.constant(IDS[0], tf.int64), tf.constant(IDS[1], tf.int64), tf.constant(IDS[2], tf.int64))
    weights = tf.SparseTensor(ids.indices, tf.constant([1.0, 3.0, 2.0]), ids.dense_shape)
    plain = tf.nn.embedding_lookup_sparse(table, ids, None, combiner=combiner)
    with_weights = tf.nn.embedding_lookup_sparse(table, ids, weights, combiner=combiner)
    safe = tf.nn.safe_embedding_lookup_sparse(table, ids, combiner=combiner)
    found = run(plain, with_weights, safe)
    np.testing.assert_allclose(found[0][0], [first], rtol=1e-6)
    np.testing.assert_allclose(found[1][0], [weighted], rtol=1e-6)
    np.testing.assert_allclose(found[2].ravel(), [first, 0.0, 2.0], rtol=1e-6)


def test_tables_that_are_not_there_are_refused() -> None:
    ids = tf.sparse_placeholder(tf.int64, [3, 5])
    with pytest.raises(ValueError, match=r"^Missing embedding_weights \[\]\.$"):
        tf.nn.safe_embedding_lookup_sparse([], ids)
    with pytest.raises(ValueError, match=r"^combiner must be one of 'mean', 'sqrtn' or 'sum', got max$"):
        tf.nn.embedding_lookup_sparse(tf.zeros([2, 2]), ids, None, combiner="max")
