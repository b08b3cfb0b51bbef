"""Graphs of a calibration, as a script for TensorFlow's Python.

An argument of the script is the name of a function and the sizes that it is called with, such as `images 1 48 64 80`. The nodes
of each graph are in a name scope of their own; a step of the graph waits for its node `all`, after the node `init` if there is
one.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from typing import Any

import tensorflow.compat.v1 as tf

POOLING = {"ksize": [1, 2, 2, 1], "strides": [1, 2, 2, 1], "padding": "SAME"}
LRN = {"depth_radius": 2, "alpha": 1e-4, "beta": 0.75, "bias": 1.0}


def given(*dims: int) -> Any:
    return tf.placeholder(tf.float32, dims)


def scaled(x: Any, activation: Callable[[Any], Any] = tf.nn.relu) -> Any:
    """Add a bias, a scale for each channel, and an activation."""
    channels = int(x.shape[-1])
    return activation(tf.nn.bias_add(x, given(channels)) * given(channels) + given(channels))


def convolution(x: Any, size: int, channels: int, stride: int = 1) -> Any:
    return tf.nn.conv2d(x, given(size, size, int(x.shape[-1]), channels), stride, "SAME")


def images(batch: int, size: int, *widths: int) -> None:
    """Add residual and separable blocks over images."""
    x = scaled(convolution(given(batch, size, size, 3), 5, 48, 2))
    x = tf.nn.max_pool2d(x, 3, 2, "SAME")
    for wide in widths:
        x = scaled(convolution(x, 1, wide))
        for _ in range(3):
            y = scaled(convolution(x, 1, wide // 2))
            y = scaled(convolution(y, 3, wide // 2))
            x = tf.nn.relu(scaled(convolution(y, 1, wide)) + x)
            y = scaled(convolution(x, 1, 2 * wide), tf.nn.relu6)
            y = scaled(tf.nn.depthwise_conv2d_native(y, given(3, 3, 2 * wide, 1), [1, 1, 1, 1], "SAME"), tf.nn.relu6)
            x = convolution(y, 1, wide) + x
        x = tf.nn.avg_pool2d(tf.pad(x, [[0, 0], [0, 1], [0, 1], [0, 0]]), 2, 2, "VALID")
    means = tf.reduce_mean(x, [1, 2])
    logits = tf.nn.bias_add(tf.matmul(means, given(means.shape[-1], 1500)), given(1500))
    wait_for(tf.nn.softmax(logits))


def training(batch: int, size: int, outputs: int) -> None:
    """Add a few wide layers with their gradients, and the updates of their variables."""
    x = given(batch, size, size, 3)
    layers: list[Any] = []
    for window, channels, stride in ((7, 64, 2), (5, 128, 1), (3, 192, 1)):
        weights = given(window, window, x.shape[-1], channels)
        made = tf.nn.conv2d(x, weights, stride, "SAME")
        active = tf.nn.relu(tf.nn.bias_add(made, given(channels)))
        normal = active if layers else tf.nn.lrn(active, **LRN)
        pooled = tf.nn.max_pool2d(normal, 2, 2, "SAME")
        layers.append((x, weights, stride, active, normal, pooled))
        x = pooled
    flat = tf.reshape(x, [batch, x.shape[1:].num_elements()])
    dense = given(flat.shape[-1], outputs)
    active = tf.nn.relu(tf.matmul(flat, dense))
    back = tf.raw_ops.ReluGrad(gradients=active, features=active)
    gradients = [tf.matmul(flat, back, transpose_a=True)]
    back = tf.reshape(tf.matmul(back, dense, transpose_b=True), x.shape)
    targets = []
    for x, weights, stride, active, normal, pooled in reversed(layers):
        back = tf.raw_ops.MaxPoolGrad(orig_input=normal, orig_output=pooled, grad=back, **POOLING)
        if normal is not active:
            back = tf.raw_ops.LRNGrad(input_grads=back, input_image=active, output_image=normal, **LRN)
        back = tf.raw_ops.ReluGrad(gradients=back, features=active)
        targets.append(tf.raw_ops.BiasAddGrad(out_backprop=back))
        strides = [1, stride, stride, 1]
        gradients.append(tf.nn.conv2d_backprop_filter(x, weights.shape, back, strides, "SAME"))
        back = tf.nn.conv2d_backprop_input(x.shape, weights, back, strides, "SAME")
    wait_for(*targets, back, *momentum_updates(gradients))


def momentum_updates(gradients: Sequence[Any]) -> list[Any]:
    """Add an update of a variable by each gradient, and `init` for the initial values of the variables."""
    updates, initialized = [], []
    for number, gradient in enumerate(gradients):
        zeros = tf.fill(gradient.shape, 0.0)
        pair = []
        for name in (f"v{number}", f"m{number}"):
            pair.append(tf.raw_ops.VarHandleOp(dtype=tf.float32, shape=gradient.shape, shared_name=name, name=name))
            initialized.append(tf.raw_ops.AssignVariableOp(resource=pair[-1], value=zeros))
        inputs = {"var": pair[0], "accum": pair[1], "lr": 0.01, "grad": gradient, "momentum": 0.9}
        updates.append(tf.raw_ops.ResourceApplyMomentum(**inputs))
    tf.group(*initialized, name="init")
    return updates


def sequence(steps: int, batch: int, units: int, length: int, width: int) -> None:
    """Add an unrolled gated recurrent cell, and attention over its outputs."""
    weights, hidden, cell = given(2 * units, 4 * units), given(batch, units), given(batch, units)
    x = given(batch, units)
    for _ in range(steps):
        gates = tf.split(tf.matmul(tf.concat([x, hidden], 1), weights), 4, 1)
        opened = [tf.sigmoid(gate) for gate in gates[:3]]
        new = opened[0] * tf.tanh(gates[3])
        cell = cell * opened[1] + new
        hidden = tf.tanh(cell) * opened[2]
    heads = 6
    rows = given(4 * length, width)
    parts = []
    for _ in range(3):
        part = tf.reshape(tf.matmul(rows, given(width, width)), [4, length, heads, width // heads])
        parts.append(tf.transpose(part, [0, 2, 1, 3]))
    scores = tf.matmul(parts[0], parts[1], transpose_b=True) * 0.125
    mixed = tf.transpose(tf.matmul(tf.nn.softmax(scores), parts[2]), [0, 2, 1, 3])
    joined = rows + tf.matmul(tf.reshape(mixed, [4 * length, width]), given(width, width))
    wide = tf.nn.relu(tf.matmul(joined, given(width, 3 * width)))
    wait_for(hidden, joined + tf.matmul(wide, given(3 * width, width)))


def branches(batch: int, size: int, channels: int, rounds: int) -> None:
    """Add rounds of branches that may run at once: convolutions, a pooling, sums, and products of gathered rows."""
    x = convolution(given(batch, size, size, 3), 3, channels)
    rows = given(channels, 4 * channels)
    ends = []
    for _ in range(rounds):
        found = [scaled(convolution(x, window, channels // 2)) for window in (1, 3, 5)]
        found.append(tf.nn.avg_pool2d(x, 3, 1, "SAME"))
        ends += [tf.reduce_max(x, axes) for axes in ([1, 2], [0, 3])]
        ends.append(tf.reduce_sum(tf.square(x), [1, 2, 3]))
        indices = tf.argmax(tf.matmul(tf.reduce_mean(x, [1, 2]), rows), 1)
        ends.append(tf.gather(tf.transpose(rows), indices))
        x = convolution(tf.concat(found, 3), 1, channels)
    wait_for(x, *ends)


def chain(function: Callable[..., Any], count: int) -> None:
    """Add a chain of nodes, and two matrix products, which a threaded session runs in a pool."""
    x = tf.placeholder(tf.float32, [4, 4])
    x, product = tf.matmul(x, x), tf.matmul(x, x)
    for number in range(count):
        x = function(x, name=f"n{number}")
    wait_for(product, x)


def identities(count: int) -> None:
    chain(tf.identity, count)


def negations(count: int) -> None:
    chain(tf.negative, count)


def softmaxes(count: int) -> None:
    chain(tf.nn.softmax, count)


def placeholders(count: int) -> None:
    wait_for(*(tf.placeholder(tf.float32, [4], name=f"n{number}") for number in range(count)))


def variables(count: int) -> None:
    """Add variables that the step reads."""
    zeros = tf.fill([4], 0.0)
    made, initialized = [], []
    for number in range(count):
        made.append(tf.raw_ops.VariableV2(shape=[4], dtype=tf.float32, name=f"n{number}"))
        initialized.append(tf.assign(made[-1], zeros))
    tf.group(*initialized, name="init")
    wait_for(*made)


def wait_for(*nodes: Any) -> None:
    tf.group(*nodes, name="all")


if __name__ == "__main__":
    for number, argument in enumerate(sys.argv[1:]):
        function, *sizes = argument.split()
        with tf.name_scope(f"graph{number}"):
            globals()[function](*map(int, sizes))
