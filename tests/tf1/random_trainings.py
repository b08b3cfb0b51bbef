"""Random training programs, and a record of each: its graph, its placement, and the losses and variables of its steps.

Both TensorFlow (with tf_keras) and placesim run this module: `python tests/tf1/random_trainings.py FILE SEED ...` writes a line
of JSON for each seed.  `tests.tf1.trainings_beside_tensorflow` starts both, and compares.
"""

from __future__ import annotations

import json
import os
import re
import sys
import tempfile
from collections.abc import Callable
from contextlib import ExitStack, contextmanager, nullcontext
from random import Random
from typing import Any

import numpy as np
import tensorflow.compat.v1 as tf

STEPS = 3
DEVICES = 3
"""CPUs of the machine."""
BATCH = 4
CLASSES = 3
Layer = Callable[[Random, Any], Any]
_CELLS = ("BasicRNNCell", "BasicLSTMCell", "LSTMCell", "GRUCell")
_ACTIVATIONS = ("relu", "tanh", "sigmoid", "elu", "selu", "softplus", "leaky_relu", "relu6", "softsign", "swish")
_SINGLE = 3
"""The number of optimizers at the end of the list that take float32 alone."""
_PLACED = re.compile(r"(\S+): \((\w+)\): ?(/job:\S+)")


# --- layers ---------------------------------------------------------------------------------------------------------


def _activation(rng: Random) -> Any:
    return getattr(tf.nn, rng.choice(_ACTIVATIONS))


def _regularizer(rng: Random) -> Any:
    scale = rng.choice((0.1, 0.01))
    return rng.choice((None, lambda w: scale * tf.nn.l2_loss(w), lambda w: scale * tf.reduce_sum(tf.abs(w))))


def _initializer(rng: Random, dtype: Any) -> Any:
    seed = rng.randrange(100)
    return rng.choice(
        (
            None,
            tf.random_normal_initializer(stddev=0.3, seed=seed, dtype=dtype),
            tf.truncated_normal_initializer(stddev=0.3, seed=seed, dtype=dtype),
            tf.random_uniform_initializer(-0.5, 0.5, seed=seed, dtype=dtype),
            tf.glorot_normal_initializer(seed=seed, dtype=dtype),
            tf.variance_scaling_initializer(mode="fan_avg", distribution="uniform", seed=seed, dtype=dtype),
            tf.variance_scaling_initializer(2.0, distribution="untruncated_normal", seed=seed, dtype=dtype),
        )
    )


def _dense(rng: Random, x: Any) -> Any:
    settings = {"use_bias": rng.random() < 0.7, "kernel_regularizer": _regularizer(rng)}
    return tf.layers.dense(x, rng.randint(2, 6), _activation(rng), kernel_initializer=_initializer(rng, x.dtype), **settings)


def _product(rng: Random, x: Any) -> Any:
    units = rng.randint(2, 6)
    with tf.variable_scope(None, "product", regularizer=_regularizer(rng)):
        partitioner = tf.fixed_size_partitioner(2) if rng.random() < 0.2 else None
        shape = [int(x.shape[-1]), units]
        w = tf.get_variable("w", shape, x.dtype, _initializer(rng, x.dtype), partitioner=partitioner)
        b = tf.get_variable("b", [units], x.dtype, tf.constant_initializer(0.1))
    w = tf.convert_to_tensor(w)
    kind = rng.randrange(5)
    if kind == 0:
        return _activation(rng)(tf.nn.xw_plus_b(x, w, b))
    if kind == 1:
        return _activation(rng)(tf.nn.bias_add(tf.einsum("bi,io->bo", x, w), b))
    if kind == 2:
        return tf.tensordot(x, w, [[1], [0]]) + b
    if kind == 3:
        return tf.matmul(w, x, transpose_a=True, transpose_b=True, name="turned")[0:1] * tf.ones([units, 1], x.dtype) + b
    return tf.squeeze(tf.matmul(tf.expand_dims(x, 1), tf.tile(w[None], [BATCH, 1, 1])), [1]) * b


def _batch_norm(rng: Random, x: Any) -> Any:
    settings = {"momentum": rng.choice((0.9, 0.5)), "scale": rng.random() < 0.7, "center": rng.random() < 0.7}
    if len(x.shape) == 4 and rng.random() < 0.3:
        settings["fused"] = False
    return tf.layers.batch_normalization(x, training=rng.random() < 0.7, **settings)


def _dropout(rng: Random, x: Any) -> Any:
    seed = rng.randrange(100)
    if rng.random() < 0.5:
        return tf.layers.dropout(x, rng.choice((0.2, 0.5)), seed=seed, training=rng.random() < 0.8)
    return tf.nn.dropout(x, keep_prob=rng.choice((0.6, 0.9)), seed=seed)


def _residual(rng: Random, x: Any) -> Any:
    width = int(x.shape[-1])
    hidden = tf.layers.dense(x, width, _activation(rng))
    return rng.choice((lambda: x + hidden, lambda: tf.add_n([x, hidden, x]), lambda: tf.accumulate_n([x, hidden])))()


def _highway(rng: Random, x: Any) -> Any:
    width = int(x.shape[-1])
    gate = tf.layers.dense(x, width, tf.sigmoid)
    return gate * tf.layers.dense(x, width, _activation(rng)) + (1 - gate) * x


def _layer_norm(rng: Random, x: Any) -> Any:
    mean, variance = tf.nn.moments(x, [-1], keep_dims=True)
    with tf.variable_scope(None, "norm"):
        gain = tf.get_variable("gain", [int(x.shape[-1])], x.dtype, tf.ones_initializer())
    if rng.random() < 0.5:
        return tf.nn.batch_normalization(x, mean, variance, None, gain, 1e-3)
    return (x - mean) * tf.rsqrt(variance + 1e-3) * gain


def _branches(rng: Random, x: Any) -> Any:
    sides = [tf.layers.dense(x, 2, _activation(rng)) for _ in range(rng.randint(2, 3))]
    joined = tf.concat(sides, 1)
    kind = rng.randrange(6)
    if kind == 0:
        return tf.reduce_max(tf.reshape(joined, [BATCH, len(sides), 2]), 1)
    if kind == 1:
        first, *_ = tf.split(joined, len(sides), 1)
        return first * joined[:, -1:]
    if kind == 2:
        return tf.reduce_mean(tf.stack(sides), 0) + tf.unstack(tf.stack(sides, 1), axis=1)[0]
    if kind == 3:
        return tf.gather(joined, [0, 3, 1, 1], axis=1)
    if kind == 4:
        return tf.where(sides[0] > sides[1], sides[0], tf.square(sides[1]))
    return tf.pad(joined, [[0, 0], [1, 0]]) + tf.reverse(tf.pad(joined, [[0, 0], [0, 1]]), [1])


def _conditional(rng: Random, x: Any) -> Any:
    is_large = tf.reduce_sum(x) > rng.choice((-1.0, 0.0, 1.0))
    width = int(x.shape[-1])
    with tf.variable_scope(None, "branch"):
        w = tf.get_variable("w", [width], x.dtype, tf.constant_initializer(0.5))
    if rng.random() < 0.3:
        cases = [(is_large, lambda: x * w), (tf.reduce_max(x) > 0, lambda: tf.tanh(x))]
        return tf.case(cases, default=lambda: x - w)
    return tf.cond(is_large, lambda: tf.layers.dense(x, width, tf.tanh), lambda: x * w)


def _loop(rng: Random, x: Any) -> Any:
    width = int(x.shape[-1])
    with tf.variable_scope(None, "loop"):
        w = tf.get_variable("w", [width, width], x.dtype, tf.random_normal_initializer(stddev=0.3, seed=5))
    count, activation = rng.randint(1, 4), _activation(rng)
    if rng.random() < 0.3:
        return tf.scan(lambda state, one: activation(one + state), x, initializer=tf.zeros([width], x.dtype))
    if rng.random() < 0.3:
        return tf.map_fn(lambda row: activation(tf.reduce_sum(row * w, 1)), x)
    settings = {"parallel_iterations": rng.choice((1, 10)), "swap_memory": rng.random() < 0.2}
    _, found = tf.while_loop(lambda i, _: i < count, lambda i, h: (i + 1, activation(tf.matmul(h, w)) + x), (0, x), **settings)
    return found


def _elementwise(rng: Random, x: Any) -> Any:
    functions: tuple[Callable[[Any], Any], ...] = (
        lambda x: tf.clip_by_value(x, -0.7, 0.7),
        lambda x: tf.nn.l2_normalize(x, -1),
        lambda x: tf.nn.softmax(x),
        lambda x: tf.nn.log_softmax(x),
        lambda x: tf.exp(-tf.abs(x)),
        lambda x: tf.log1p(tf.square(x)) / 2,
        lambda x: tf.sqrt(tf.square(x) + 1.0),
        lambda x: tf.maximum(x, 0.1) - tf.minimum(x, 0.3),
        lambda x: x / (1.0 + tf.reduce_sum(tf.abs(x), -1, keepdims=True)),
        lambda x: tf.pow(tf.abs(x) + 0.5, 1.5),
        lambda x: tf.cumsum(x, -1) - tf.reduce_mean(x),
        lambda x: tf.squared_difference(x, tf.stop_gradient(x) + 0.5),
        lambda x: tf.clip_by_norm(x, 1.0),
        lambda x: tf.transpose(tf.transpose(x)) * tf.cast(x > 0, x.dtype),
        lambda x: tf.identity(x) + tf.norm(x + 0.1),
        lambda x: tf.atan(x) * tf.erf(x) - tf.sin(x) * tf.cos(x),
        lambda x: tf.nn.crelu(x),
        lambda x: tf.reduce_logsumexp(x, -1, keepdims=True) - x,
        lambda x: tf.floor(x + 0.43) * x + tf.mod(x + 0.13, 0.7),
        lambda x: tf.reduce_prod(tf.abs(x) + 0.5, -1, keepdims=True) * x,
        lambda x: tf.unsorted_segment_sum(x, [0, 1, 0, 2], BATCH) + x,
        lambda x: tf.segment_mean(x, [0, 0, 1, 2])[:1] + x,
        lambda x: tf.scatter_nd([[1], [3], [0], [1]], x, tf.shape(x, out_type=tf.int32)) + x,
        lambda x: tf.matrix_band_part(tf.matmul(x, x, transpose_b=True), 1, 0) @ x,
    )
    return rng.choice(functions)(x)


VECTOR: tuple[Layer, ...] = (
    *(_dense, _product, _batch_norm, _dropout, _residual, _highway, _layer_norm, _branches, _conditional, _loop),
    *(_elementwise, _elementwise, _dense),
)


def _convolution(rng: Random, x: Any) -> Any:
    filters, size, padding = rng.randint(2, 4), rng.randint(1, 3), rng.choice(("same", "valid", "SAME"))
    kind = rng.randrange(7)
    if min(map(int, x.shape[1:3])) < 3:
        size, padding = 1, "same"
    if kind == 0:
        return tf.layers.separable_conv2d(x, filters, size, padding=padding, activation=_activation(rng))
    if kind == 1:
        return tf.layers.conv2d_transpose(x, filters, size, strides=rng.choice((1, 2)), padding=padding)
    if kind == 2:
        with tf.variable_scope(None, "depthwise"):
            w = tf.get_variable("w", [size, size, int(x.shape[-1]), 2], x.dtype)
        return tf.nn.depthwise_conv2d(x, w, [1, 1, 1, 1], padding.upper())
    if kind == 3:
        with tf.variable_scope(None, "filters"):
            w = tf.get_variable("w", [size, size, int(x.shape[-1]), filters], x.dtype)
        return tf.nn.conv2d(x, w, strides=[1, rng.choice((1, 2)), 1, 1], padding=padding.upper())
    settings = {"strides": rng.choice((1, 2, (2, 1))), "use_bias": rng.random() < 0.7}
    if rng.random() < 0.2:
        settings["strides"], settings["dilation_rate"] = 1, 2
        padding = "same"
    return tf.layers.conv2d(
        x, filters, size, padding=padding, activation=_activation(rng), kernel_regularizer=_regularizer(rng), **settings
    )


def _pooling(rng: Random, x: Any) -> Any:
    if min(map(int, x.shape[1:3])) < 2:
        return x
    padding = rng.choice(("SAME", "VALID"))
    kind = rng.randrange(5)
    if kind == 0:
        return tf.layers.average_pooling2d(x, 2, rng.choice((1, 2)), padding=padding.lower())
    if kind == 1:
        return tf.layers.max_pooling2d(x, 2, rng.choice((1, 2)), padding=padding.lower())
    if kind == 2:
        return tf.nn.max_pool(x, ksize=[1, 2, 2, 1], strides=[1, 2, 1, 1], padding=padding)
    if kind == 3:
        return tf.nn.avg_pool(x, [1, 2, 1, 1], [1, 1, 1, 1], padding)
    return tf.nn.pool(x, [2, 2], rng.choice(("MAX", "AVG")), padding)


def _image_function(rng: Random, x: Any) -> Any:
    functions: tuple[Callable[[Any], Any], ...] = (
        lambda x: tf.nn.lrn(tf.cast(x, tf.float32), 2, 1.0, 0.1, 0.5),
        lambda x: tf.image.resize_bilinear(x, [4, 5]),
        lambda x: tf.image.resize_nearest_neighbor(x, [4, 4]),
        lambda x: tf.pad(x, [[0, 0], [1, 1], [0, 1], [0, 0]], rng.choice(("CONSTANT", "SYMMETRIC"))),
        lambda x: tf.space_to_depth(tf.image.resize_image_with_crop_or_pad(x, 4, 4), 2),
        lambda x: x - tf.reduce_mean(x, [1, 2], keepdims=True),
        lambda x: tf.concat([x, tf.reverse(x, [2])], 3),
        lambda x: tf.image.flip_left_right(x)[:, ::-1],
        lambda x: tf.nn.dropout(x, keep_prob=0.8, noise_shape=[BATCH, 1, 1, int(x.shape[-1])], seed=9),
        lambda x: tf.layers.conv2d(x, int(x.shape[-1]), 1) + x,
        lambda x: tf.transpose(x, [0, 2, 1, 3]),
    )
    return tf.cast(rng.choice(functions)(x), x.dtype)


IMAGE: tuple[Layer, ...] = (_convolution, _convolution, _pooling, _batch_norm, _dropout, _image_function)


def _cell(rng: Random, units: int) -> Any:
    name = rng.choice(_CELLS)
    settings = {"use_peepholes": rng.random() < 0.5, "cell_clip": rng.choice((None, 0.5))} if name == "LSTMCell" else {}
    if name == "LSTMCell" and rng.random() < 0.3:
        settings["num_proj"] = units
    cell = getattr(tf.nn.rnn_cell, name)(units, **settings)
    wrapper = rng.random()
    if wrapper < 0.15:
        return tf.nn.rnn_cell.ResidualWrapper(cell)
    if wrapper < 0.3:
        return tf.nn.rnn_cell.DeviceWrapper(cell, "/cpu:1")
    return cell


def _recurrent(rng: Random, words: Any) -> Any:
    """[batch, time, width] -> [batch, width]."""
    units = int(words.shape[-1])
    lengths = rng.choice((None, [3, 1, 4, 2]))
    kind = rng.randrange(5)
    if kind == 0:
        steps = tf.unstack(words, axis=1)
        outputs, _ = tf.nn.static_rnn(_cell(rng, units), steps, dtype=words.dtype, sequence_length=lengths)
        return outputs[-1]
    if kind == 1:
        cells = [_cell(rng, units) for _ in range(2)]
        (left, right), _ = tf.nn.bidirectional_dynamic_rnn(*cells, words, lengths, dtype=words.dtype)
        return tf.reduce_sum(left + right, 1)
    cell = _cell(rng, units)
    if kind == 2:
        cell = tf.nn.rnn_cell.MultiRNNCell([cell, _cell(rng, units)])
    settings = {"sequence_length": lengths, "swap_memory": rng.random() < 0.2}
    if kind == 3:
        words, settings["time_major"] = tf.transpose(words, [1, 0, 2]), True
    outputs, _ = tf.nn.dynamic_rnn(cell, words, dtype=words.dtype, **settings)
    return outputs[-1] if kind == 3 else outputs[:, -1]


def _attention(rng: Random, words: Any) -> Any:
    """[batch, time, width] -> [batch, width]."""
    scores = tf.matmul(words, words, transpose_b=True) / np.sqrt(int(words.shape[-1])).astype(words.dtype.as_numpy_dtype)
    if rng.random() < 0.5:
        scores += (1 - tf.sequence_mask([3, 1, 4, 2], 4, words.dtype)[:, None]) * -10
    return tf.reduce_mean(tf.matmul(tf.nn.softmax(scores), words), 1)


# --- models ---------------------------------------------------------------------------------------------------------


class Model:
    """The dtype and inputs of a program; `features` builds what is before the last layer."""

    def __init__(self, rng: Random) -> None:
        self.rng = rng
        self.dtype = rng.choices((tf.float32, tf.float64, tf.float16), (5, 5, 1))[0]
        self.kind = rng.choice(("vector", "image", "words"))
        shapes: dict[str, list[int]] = {"vector": [BATCH, 5], "image": [BATCH, 6, 7, 2], "words": [BATCH, 4]}
        self.shape = shapes[self.kind]
        is_open = rng.random() < 0.1 and self.kind == "words"
        kind = tf.int32 if self.kind == "words" else self.dtype
        self.x = tf.placeholder(kind, [None, *self.shape[1:]] if is_open else self.shape, "x")
        self.labels = tf.placeholder(tf.int32, [BATCH], "labels")
        self.seed = rng.randrange(1000)
        self.layers = [rng.random() for _ in range(rng.randint(1, 4))]
        self.layer_seed = rng.randrange(10**6)
        self.loss_seed = rng.randrange(10**6)

    def feeds(self, step: int) -> dict[Any, Any]:
        """What a step is fed."""
        random = np.random.RandomState(self.seed + step)
        if self.kind == "words":
            x = random.randint(0, 12, self.shape)
        else:
            x = random.randn(*self.shape).astype(self.dtype.as_numpy_dtype)
        return {self.x: x, self.labels: random.randint(0, CLASSES, BATCH)}

    def loss(self) -> Any:
        """Draws the same layers each time: towers share their variables."""
        rng = Random(self.layer_seed)
        if self.kind == "image":
            hidden = self.x
            for _ in self.layers:
                hidden = rng.choice(IMAGE)(rng, hidden)
            hidden = rng.choice((lambda: tf.layers.flatten(hidden), lambda: tf.reduce_mean(hidden, [1, 2])))()
        else:
            hidden = self._embedded(rng) if self.kind == "words" else self.x
            for _ in self.layers:
                hidden = rng.choice(VECTOR)(rng, hidden)
        return self._loss(Random(self.loss_seed), tf.layers.dense(hidden, CLASSES, name="last"))

    def _embedded(self, rng: Random) -> Any:
        with tf.variable_scope("words", reuse=tf.AUTO_REUSE):
            partitioner = tf.fixed_size_partitioner(rng.randint(2, 3)) if rng.random() < 0.3 else None
            initializer = tf.random_uniform_initializer(-1, 1, seed=3, dtype=self.dtype)
            table = tf.get_variable("table", [12, 3], self.dtype, initializer, partitioner=partitioner)
        kind = rng.randrange(6)
        if kind == 0:
            ids = tf.SparseTensor(
                [[0, 0], [0, 1], [1, 0], [2, 0], [3, 2]], tf.add(tf.cast(self.x[:, 0], tf.int64)[:1], [0, 1, 2, 3, 4]), [4, 3]
            )
            ids = tf.SparseTensor(ids.indices, tf.mod(ids.values, 12), ids.dense_shape)
            return tf.nn.embedding_lookup_sparse(table, ids, None, combiner=rng.choice(("sum", "mean", "sqrtn")))
        settings = {"partition_strategy": rng.choice(("mod", "div")), "max_norm": rng.choice((None, None, 1.0))}
        words = tf.nn.embedding_lookup(table, self.x, **settings)
        if not words.shape.is_fully_defined():
            words = tf.reshape(words, [BATCH, 4, 3])
        if kind == 1:
            return tf.reduce_mean(words, 1)
        if kind == 2:
            return _attention(rng, words)
        if kind == 3:
            return tf.reduce_max(tf.layers.conv1d(words, 3, 2, activation=_activation(rng)), 1)
        return _recurrent(rng, words)

    def _loss(self, rng: Random, logits: Any) -> Any:
        hot = tf.one_hot(self.labels, CLASSES, dtype=logits.dtype)
        rows: tuple[Callable[[], Any], ...] = (
            lambda: tf.losses.sparse_softmax_cross_entropy(self.labels, logits),
            lambda: tf.losses.softmax_cross_entropy(hot, logits, label_smoothing=0.1),
            lambda: tf.losses.sigmoid_cross_entropy(hot, logits, weights=0.5),
            lambda: tf.losses.mean_squared_error(hot, logits),
            lambda: tf.losses.huber_loss(hot, logits, delta=0.5),
            lambda: tf.losses.hinge_loss(hot, logits, reduction=tf.losses.Reduction.SUM),
            lambda: tf.losses.absolute_difference(hot, logits),
            lambda: tf.losses.log_loss(hot, tf.nn.softmax(logits)),
            lambda: tf.losses.cosine_distance(hot, tf.nn.l2_normalize(logits, 1), axis=1),
            lambda: tf.losses.mean_pairwise_squared_error(hot, logits),
            lambda: tf.reduce_mean(tf.nn.softmax_cross_entropy_with_logits(labels=hot, logits=logits)),
            lambda: tf.reduce_mean(tf.nn.softmax_cross_entropy_with_logits_v2(labels=hot, logits=logits)),
            lambda: tf.reduce_mean(tf.nn.weighted_cross_entropy_with_logits(labels=hot, logits=logits, pos_weight=2.0)),
            lambda: tf.reduce_sum(tf.nn.sparse_softmax_cross_entropy_with_logits(labels=self.labels, logits=logits)),
            lambda: -tf.reduce_mean(tf.reduce_sum(hot * tf.log(tf.nn.softmax(logits) + 1e-3), 1)),
            lambda: tf.reduce_mean(tf.nn.log_poisson_loss(hot, logits, compute_full_loss=True)),
        )
        return rng.choice(rows)()


# --- training -------------------------------------------------------------------------------------------------------


def _rate(rng: Random, step: Any) -> Any:
    rate = rng.choice((0.1, 0.02))
    schedules: tuple[Callable[[], Any], ...] = (
        lambda: rate,
        lambda: rate,
        lambda: tf.constant(rate),
        lambda: tf.train.exponential_decay(rate, step, 2, 0.5, staircase=rng.random() < 0.5),
        lambda: tf.train.piecewise_constant(step, [1, 3], [rate, rate / 2, rate / 4]),
        lambda: tf.train.polynomial_decay(rate, step, 3, rate / 10, power=2.0, cycle=rng.random() < 0.5),
        lambda: tf.train.inverse_time_decay(rate, step, 2, 0.5, staircase=rng.random() < 0.5),
        lambda: tf.train.natural_exp_decay(rate, step, 2, 0.5),
        lambda: tf.train.cosine_decay(rate, step, 4, alpha=0.1),
        lambda: tf.train.cosine_decay_restarts(rate, step, 2),
        lambda: tf.train.linear_cosine_decay(rate, step, 4),
    )
    return rng.choice(schedules)()


def _optimizer(rng: Random, rate: Any, dtype: Any) -> Any:
    locking = rng.random() < 0.2
    optimizers: tuple[Callable[[], Any], ...] = (
        lambda: tf.train.GradientDescentOptimizer(rate, use_locking=locking),
        lambda: tf.train.MomentumOptimizer(rate, 0.9, use_nesterov=rng.random() < 0.5, use_locking=locking),
        lambda: tf.train.AdamOptimizer(rate, epsilon=0.01, use_locking=locking),
        lambda: tf.train.RMSPropOptimizer(rate, momentum=rng.choice((0.0, 0.5)), epsilon=0.01, centered=rng.random() < 0.5),
        lambda: tf.train.AdagradOptimizer(rate, initial_accumulator_value=rng.choice((0.1, 0.5))),
        lambda: tf.train.AdadeltaOptimizer(rate, epsilon=1e-2),
        lambda: tf.train.FtrlOptimizer(
            rate,
            learning_rate_power=rng.choice((-0.5, -0.3)),
            l1_regularization_strength=rng.choice((0.0, 0.01)),
            l2_regularization_strength=rng.choice((0.0, 0.1)),
            l2_shrinkage_regularization_strength=rng.choice((0.0, 0.0, 0.1)),
        ),
        lambda: tf.train.ProximalGradientDescentOptimizer(rate, l1_regularization_strength=0.01),
        lambda: tf.train.ProximalAdagradOptimizer(rate, l2_regularization_strength=0.01),
        lambda: tf.train.AdagradDAOptimizer(rate, tf.train.get_or_create_global_step(), l1_regularization_strength=0.01),
    )
    return rng.choice(optimizers if dtype == tf.float32 else optimizers[:-_SINGLE])()


def _clipped(rng: Random, pairs: list[Any]) -> list[Any]:
    kind = rng.randrange(7)
    if kind > 3:
        return pairs
    pairs = [(gradient, variable) for gradient, variable in pairs if gradient is not None]
    gradients, variables = [gradient for gradient, _ in pairs], [variable for _, variable in pairs]
    if kind == 0:
        gradients, _ = tf.clip_by_global_norm(gradients, 0.5)
    elif kind == 1:
        gradients = [tf.clip_by_norm(gradient, 0.3) for gradient in gradients]
    elif kind == 2:
        gradients = [tf.clip_by_value(gradient, -0.1, 0.1) for gradient in gradients]
    else:
        gradients = [tf.clip_by_average_norm(tf.convert_to_tensor(gradient), 0.3) for gradient in gradients]
    return list(zip(gradients, variables, strict=True))


def _averaged(towers: list[list[Any]]) -> list[Any]:
    """The mean gradient of each variable over towers, as the CIFAR-10 tutorial computes it."""
    found = []
    for pairs in zip(*towers, strict=True):
        gradients = [gradient for gradient, _ in pairs]
        if any(gradient is None for gradient in gradients):
            continue
        stacked = tf.concat([tf.expand_dims(gradient, 0) for gradient in gradients], 0)
        found.append((tf.reduce_mean(stacked, 0), pairs[0][1]))
    return found


def _total(rng: Random, loss: Any) -> Any:
    losses = [tf.cast(one, loss.dtype) for one in tf.get_collection(tf.GraphKeys.REGULARIZATION_LOSSES)]
    return tf.add_n([loss, *losses], name="total") if losses else loss


@contextmanager
def _devices(rng: Random) -> Any:
    """Device scopes around a whole program, or none."""
    kind = rng.randrange(6)
    with ExitStack() as stack:
        if kind == 0:
            stack.enter_context(tf.device("/cpu:1"))
        elif kind == 1:
            stack.enter_context(tf.device(lambda op: "/cpu:2" if op.type in ("MatMul", "VarHandleOp") else ""))
        elif kind == 2:
            stack.enter_context(tf.device("/device:GPU:0"))
            stack.enter_context(tf.device("/cpu:*" if rng.random() < 0.3 else None))
        yield


def build(seed: int) -> tuple[Model, Any, Any]:
    """The model, loss and training op of a program, in the default graph."""
    rng = Random(seed)
    tf.set_random_seed(rng.randrange(100))
    resource, towers = rng.random() < 0.5, rng.choice((1, 1, 1, 2, 3))
    with _devices(rng), tf.variable_scope("model", use_resource=resource):
        model = Model(rng)
        step = tf.train.get_or_create_global_step()
        rate = _rate(rng, step)
        optimizer = _optimizer(rng, tf.cast(rate, model.dtype) if isinstance(rate, tf.Tensor) else rate, model.dtype)
        gradients: list[list[Any]] = []
        updates: list[Any] = []
        settings: dict[str, Any] = {"colocate_gradients_with_ops": rng.random() < 0.3}
        if rng.random() < 0.2:
            settings["gate_gradients"] = optimizer.GATE_GRAPH
        settings["aggregation_method"] = rng.choice((None, None, 0, 1, 2))
        for tower in range(towers):
            place = tf.device(f"/cpu:{tower}") if towers > 1 else nullcontext()
            with place, tf.name_scope(f"tower_{tower}"), tf.variable_scope("net", reuse=tower > 0):
                loss = _total(rng, model.loss())
            # of the first tower alone: the others' would race with them
            updates = updates or tf.get_collection(tf.GraphKeys.UPDATE_OPS)
            gradients.append(optimizer.compute_gradients(loss, **settings))
        pairs = _clipped(rng, _averaged(gradients) if towers > 1 else gradients[0])
        with tf.control_dependencies(updates if rng.random() < 0.8 else []):
            train = optimizer.apply_gradients(pairs, global_step=step)
        is_together = resource or towers == len({variable.device for variable in tf.trainable_variables()}) == 1
        train = _followed(rng, train, step, loss, is_together)
    return model, loss, train


def _followed(rng: Random, train: Any, step: Any, loss: Any, is_together: bool) -> Any:
    """The training op with what comes after it: moving averages, a count, an assertion.

    Of reference variables, reads after the update are beside the variable: from elsewhere placesim gives the value before it.
    """
    kind = rng.randrange(8)
    if kind in (0, 1, 2, 4) and not is_together:
        return train
    if kind < 3:
        average = tf.train.ExponentialMovingAverage(0.9, *([step] if kind else []), zero_debias=kind == 2)
        with tf.control_dependencies([train]):
            return average.apply(tf.trainable_variables())
    if kind == 3:
        with tf.control_dependencies([train]):
            return tf.group(tf.identity(loss), tf.no_op("after"))
    if kind == 4:
        first = tf.trainable_variables()[0]
        with tf.control_dependencies([train]):
            return tf.group(tf.assign(first, tf.clip_by_value(first, -1.0, 1.0)))
    if kind == 5:
        return tf.group(train, tf.Assert(step >= 0, [step]))
    return train


# --- records --------------------------------------------------------------------------------------------------------


def record(seed: int) -> dict[str, Any]:
    """The graph of a program, where its ops are placed, and the loss and variables of each step; or the error."""
    found: dict[str, Any] = {"seed": seed, "nodes": [], "steps": []}
    with tf.Graph().as_default() as graph:
        try:
            model, loss, train = build(seed)
            variables, initializer = tf.global_variables(), tf.global_variables_initializer()
        except Exception as error:
            found["error"] = _told(error)
            return found | {"nodes": [_node(operation) for operation in graph.get_operations()]}
        found["nodes"] = [_node(operation) for operation in graph.get_operations()]
        try:
            with _stream() as log, _session() as session:
                session.run(initializer)
                found["placed"] = list(dict.fromkeys(_PLACED.findall(log())))
                names = [variable.name for variable in variables]
                values = dict(zip(names, session.run(variables), strict=True))
                found["steps"].append([None, {name: _value(values[name]) for name in names}])
                for step in range(STEPS):
                    feeds = model.feeds(step)
                    lost = session.run(loss, feeds)
                    session.run(train, feeds)
                    values = dict(zip(names, session.run(variables), strict=True))
                    found["steps"].append([_value(lost), {name: _value(values[name]) for name in names}])
        except Exception as error:
            found["error"] = _told(error)
    return found


def _session() -> Any:
    config = tf.ConfigProto(
        device_count={"CPU": DEVICES},
        allow_soft_placement=True,
        log_device_placement=True,
        inter_op_parallelism_threads=1,
        intra_op_parallelism_threads=1,
    )
    config.graph_options.rewrite_options.disable_meta_optimizer = True
    config.graph_options.optimizer_options.opt_level = tf.OptimizerOptions.L0
    return tf.Session(config=config)


@contextmanager
def _stream() -> Any:
    """Keeps standard output and error away, and gives the one with the placement: TensorFlow logs it in both, from C++."""
    with ExitStack() as stack:
        sys.stdout.flush()
        files = {stream: stack.enter_context(tempfile.TemporaryFile("w+")) for stream in (1, 2)}
        kept = {stream: os.dup(stream) for stream in files}
        try:
            for stream, file in files.items():
                os.dup2(file.fileno(), stream)

            def log() -> str:
                sys.stdout.flush()
                for file in files.values():
                    file.seek(0)
                errors, output = files[2].read(), files[1].read()
                return errors if _PLACED.search(errors) else output

            yield log
        finally:
            sys.stdout.flush()
            for stream, copy in kept.items():
                os.dup2(copy, stream)
                os.close(copy)


def _told(error: Exception) -> str:
    text = str(getattr(error, "message", error))
    text = re.sub(r"Graph execution error:\s*Detected at node .*?Node: '[^\n]*\n", "", text, flags=re.DOTALL)
    text = re.sub(r"\n\s*\nOriginal stack trace.*", "", text, flags=re.DOTALL)
    return f"{type(error).__name__}: {text.strip()}"


def _node(operation: Any) -> list[Any]:
    definition = operation.node_def
    attrs = {key: _attr(definition.attr[key]) for key in sorted(definition.attr) if key != "_output_shapes"}
    inputs = [name.removesuffix(":0") for name in definition.input if not name.startswith("^")]
    inputs += sorted(name for name in definition.input if name.startswith("^"))
    shapes = [f"{tensor.dtype.name}{tensor.shape}" for tensor in operation.outputs]
    return [operation.name, operation.type, inputs, definition.device, attrs, shapes]


def _attr(value: Any) -> Any:
    if value.WhichOneof("value") == "tensor":
        array = tf.make_ndarray(value.tensor)
        return [array.dtype.name, list(array.shape), str(array.ravel().tolist())]
    return re.sub(r"CustomGradient-\d+", "CustomGradient", " ".join(str(value).split()))


def _value(value: Any) -> list[Any]:
    array = np.asarray(value)
    return [array.dtype.name, list(array.shape), array.ravel().tolist()]


def main(path: str, *seeds: str) -> None:
    """Writes the records of some seeds to a file, a line each."""
    with open(path, "w") as lines:
        for seed in seeds:
            lines.write(json.dumps(record(int(seed))) + "\n")
            lines.flush()


if __name__ == "__main__":
    tf.disable_v2_behavior()
    main(*sys.argv[1:])
