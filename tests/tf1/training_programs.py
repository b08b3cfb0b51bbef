"""Small trainings that draw seeded numbers: what the losses of ten steps are, in TensorFlow and here.

`python tests/tf1/training_programs.py` under TensorFlow (with tf_keras, TF_USE_LEGACY_KERAS=1, TF_ENABLE_ONEDNN_OPTS=0) prints
what `tests/data/tf1/losses.json` holds.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import numpy as np
import tensorflow.compat.v1 as tf

STEPS = 10
Program = Callable[[np.random.RandomState], list[Any]]
PROGRAMS: dict[str, Program] = {}


def program(name: str, *arguments: Any) -> Callable[[Callable[..., list[Any]]], Callable[..., list[Any]]]:
    """Enter a function of a generator and arguments, which gives the loss and the training op."""

    def enter(function: Callable[..., list[Any]]) -> Callable[..., list[Any]]:
        PROGRAMS[name] = lambda rng: function(rng, *arguments)
        return function

    return enter


def losses(name: str) -> list[float]:
    """The losses of a program's first steps."""
    with tf.Graph().as_default():
        tf.set_random_seed(7)
        fetched = PROGRAMS[name](np.random.RandomState(3))
        with tf.Session() as session:
            session.run(tf.global_variables_initializer())
            return [float(session.run(fetched)[0]) for _ in range(STEPS)]


def _perceptron(rng: np.random.RandomState, optimizer: Callable[[], Any], resource: bool, dropout: float = 0.0) -> list[Any]:
    x, y = rng.randn(16, 6).astype("f"), rng.randint(0, 3, 16)
    with tf.variable_scope("m", use_resource=resource, regularizer=lambda w: 1e-2 * tf.nn.l2_loss(w)):
        w1, b1 = tf.get_variable("w1", [6, 8]), tf.get_variable("b1", [8], initializer=tf.zeros_initializer())
        w2, b2 = tf.get_variable("w2", [8, 3]), tf.get_variable("b2", [3], initializer=tf.constant_initializer(0.1))
    hidden = tf.nn.relu(tf.matmul(x, w1) + b1)
    if dropout:
        hidden = tf.nn.dropout(hidden, keep_prob=1 - dropout)
    logits = tf.matmul(hidden, w2) + b2
    loss = tf.reduce_mean(tf.nn.sparse_softmax_cross_entropy_with_logits(labels=y, logits=logits))
    loss += tf.add_n(tf.get_collection(tf.GraphKeys.REGULARIZATION_LOSSES))
    made = optimizer()
    pairs = made.compute_gradients(loss)
    clipped, _ = tf.clip_by_global_norm([gradient for gradient, _ in pairs], 2.0)
    return [loss, made.apply_gradients(zip(clipped, [variable for _, variable in pairs], strict=True))]


_OPTIMIZERS: dict[str, Callable[[], Any]] = {
    "gradient descent": lambda: tf.train.GradientDescentOptimizer(0.1),
    "adam": lambda: tf.train.AdamOptimizer(0.1),
    "momentum": lambda: tf.train.MomentumOptimizer(0.1, 0.9),
    "nesterov": lambda: tf.train.MomentumOptimizer(0.1, 0.9, use_nesterov=True),
    "rmsprop": lambda: tf.train.RMSPropOptimizer(0.1, momentum=0.5),
    "centered rmsprop": lambda: tf.train.RMSPropOptimizer(0.1, centered=True),
    "adagrad": lambda: tf.train.AdagradOptimizer(0.1),
    "adadelta": lambda: tf.train.AdadeltaOptimizer(0.1),
    "ftrl": lambda: tf.train.FtrlOptimizer(0.1, l1_regularization_strength=0.01),
    "proximal adagrad": lambda: tf.train.ProximalAdagradOptimizer(0.1, l2_regularization_strength=0.01),
}
for _name, _optimizer in _OPTIMIZERS.items():
    for _kind, _resource in (("reference", False), ("resource", True)):
        program(f"{_name}, {_kind} variables", _optimizer, _resource)(_perceptron)
program("dropout", _OPTIMIZERS["adam"], False, 0.4)(_perceptron)


@program("convolutions", False)
@program("batch normalization", True)
def _convolutions(rng: np.random.RandomState, normalized: bool) -> list[Any]:
    images, labels = tf.constant(rng.randn(4, 8, 8, 2).astype("f")), rng.randint(0, 3, 4)
    hidden = tf.layers.conv2d(images, 4, 3, padding="same", activation=None if normalized else tf.nn.relu)
    if normalized:
        hidden = tf.nn.relu(tf.layers.batch_normalization(hidden, training=True))
    hidden = tf.layers.conv2d(tf.layers.max_pooling2d(hidden, 2, 2), 4, 3, strides=2, activation=tf.nn.relu)
    hidden = tf.layers.dropout(tf.layers.dense(tf.layers.flatten(hidden), 5, activation=tf.tanh), 0.3, training=True)
    loss = tf.losses.sparse_softmax_cross_entropy(labels, tf.layers.dense(hidden, 3))
    with tf.control_dependencies(tf.get_collection(tf.GraphKeys.UPDATE_OPS)):
        return [loss, tf.train.MomentumOptimizer(0.05, 0.9).minimize(loss)]


@program("basic cell, unrolled", "BasicRNNCell", False)
@program("lstm, unrolled", "BasicLSTMCell", False)
@program("lstm, in a loop", "LSTMCell", True)
@program("gru, in a loop", "GRUCell", True)
def _recurrent(rng: np.random.RandomState, cell_name: str, in_loop: bool) -> list[Any]:
    words, wanted = rng.randn(4, 5, 3).astype("f"), rng.randn(4, 2).astype("f")
    cell = getattr(tf.nn.rnn_cell, cell_name)(4)
    if in_loop:
        outputs, _ = tf.nn.dynamic_rnn(cell, tf.constant(words), dtype=tf.float32, sequence_length=[5, 3, 2, 4])
        last = outputs[:, -1] + tf.reduce_sum(outputs, 1)
    else:
        last = tf.nn.static_rnn(cell, tf.unstack(tf.constant(words), axis=1), dtype=tf.float32)[0][-1]
    loss = tf.reduce_mean(tf.squared_difference(tf.layers.dense(last, 2), wanted))
    return [loss, tf.train.AdamOptimizer(0.05).minimize(loss)]


@program("embeddings, gradient descent", lambda: tf.train.GradientDescentOptimizer(0.5), False)
@program("embeddings, adam", lambda: tf.train.AdamOptimizer(0.05), False)
@program("embeddings in parts, adagrad", lambda: tf.train.AdagradOptimizer(0.5), False, 2)
@program("embeddings, momentum, resource variables", lambda: tf.train.MomentumOptimizer(0.5, 0.9), True)
@program("noise contrastive estimation", lambda: tf.train.GradientDescentOptimizer(0.5), False, 0, "nce_loss")
def _embeddings(
    rng: np.random.RandomState, optimizer: Callable[[], Any], resource: bool, parts: int = 0, sampled: str = ""
) -> list[Any]:
    words, targets = rng.randint(0, 20, (8,)), rng.randint(0, 20, (8, 1))
    with tf.variable_scope("e", use_resource=resource, partitioner=tf.fixed_size_partitioner(parts) if parts else None):
        table = tf.get_variable("table", [20, 4], initializer=tf.random_uniform_initializer(-1, 1))
        weights = tf.get_variable("weights", [20, 4])
        biases = tf.get_variable("biases", [20], initializer=tf.zeros_initializer())
    hidden = tf.nn.embedding_lookup(table, words)
    if sampled:
        loss = tf.reduce_mean(getattr(tf.nn, sampled)(weights, biases, targets, hidden, 5, 20))
    else:
        logits = tf.matmul(hidden, tf.convert_to_tensor(weights), transpose_b=True) + biases
        loss = tf.reduce_mean(tf.nn.sparse_softmax_cross_entropy_with_logits(labels=targets[:, 0], logits=logits))
    return [loss, optimizer().minimize(loss)]


@program("policy and value")
def _policy(rng: np.random.RandomState) -> list[Any]:
    states, rewards = tf.constant(rng.randn(6, 4).astype("f")), tf.constant(rng.randn(6).astype("f"))
    logits = tf.layers.dense(tf.layers.dense(states, 8, tf.nn.elu), 3)
    policy, value = tf.nn.softmax(logits), tf.layers.dense(states, 1)[:, 0]
    action = tf.reshape(tf.multinomial(logits, 1), [-1])
    likelihood = tf.reduce_sum(tf.one_hot(action, 3) * tf.log(policy + 1e-8), 1)
    loss = 0.5 * tf.reduce_mean((rewards - value) ** 2) - tf.reduce_mean(likelihood * tf.stop_gradient(rewards - value))
    return [loss, tf.train.RMSPropOptimizer(0.01).minimize(loss)]


@program("loop and branch")
def _loop(rng: np.random.RandomState) -> list[Any]:
    w, x = tf.get_variable("w", [3, 3]), tf.constant(rng.randn(2, 3).astype("f"))
    _, state = tf.while_loop(lambda i, h: i < 4, lambda i, h: (i + 1, tf.tanh(tf.matmul(h, w)) + x), (0, x))
    loss = tf.reduce_sum(tf.cond(tf.reduce_sum(state) > 0, lambda: state**2, lambda: tf.abs(state)))
    return [loss, tf.train.GradientDescentOptimizer(0.05).minimize(loss)]


if __name__ == "__main__":
    tf.disable_v2_behavior()
    print(json.dumps({name: losses(name) for name in PROGRAMS}, indent=1))
