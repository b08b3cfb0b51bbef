"""The network of TensorFlow's MNIST tutorial, two layers of ReLUs, with its loss, training and evaluation."""

from __future__ import annotations

import math
from typing import Any

import placesim.tf1 as tf
from placesim.tf1.graphs.tensor_likes import TensorLike

NUM_CLASSES = 10
IMAGE_SIZE = 28
IMAGE_PIXELS = IMAGE_SIZE * IMAGE_SIZE


def _layer(scope: str, inputs: TensorLike, size: int, units: int) -> Any:
    with tf.name_scope(scope):
        spread = 1.0 / math.sqrt(float(size))
        weights = tf.Variable(tf.truncated_normal([size, units], stddev=spread), name="weights")
        biases = tf.Variable(tf.zeros([units]), name="biases")
        outputs = tf.matmul(inputs, weights) + biases
        return outputs if scope == "softmax_linear" else tf.nn.relu(outputs)


def inference(images: TensorLike, hidden1_units: int, hidden2_units: int) -> Any:
    """The logits of images of 784 pixels each."""
    hidden = _layer("hidden1", images, IMAGE_PIXELS, hidden1_units)
    hidden = _layer("hidden2", hidden, hidden1_units, hidden2_units)
    return _layer("softmax_linear", hidden, hidden2_units, NUM_CLASSES)


def loss(logits: TensorLike, labels: TensorLike) -> Any:
    """The mean cross entropy."""
    return tf.losses.sparse_softmax_cross_entropy(labels=tf.to_int64(labels), logits=logits)


def training(loss: TensorLike, learning_rate: TensorLike) -> Any:
    """Make the op of a step of gradient descent, and a summary of the loss."""
    tf.summary.scalar("loss", loss)
    optimizer = tf.train.GradientDescentOptimizer(learning_rate)
    global_step = tf.Variable(0, name="global_step", trainable=False)
    return optimizer.minimize(loss, global_step=global_step)


def evaluation(logits: TensorLike, labels: TensorLike) -> Any:
    """Number of correct predictions in a batch."""
    return tf.reduce_sum(tf.cast(tf.nn.in_top_k(logits, labels, 1), tf.int32))
