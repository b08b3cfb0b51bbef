"""Twenty small networks, of which a step takes from a fraction of a millisecond to some tenths of a second.

No calibration runs them: `calibration_bench` predicts their steps and runs them.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from itertools import pairwise
from typing import Any

import numpy as np

from tests.benchmarks.models_bench import Model


class _Layers:
    """A graph file in the making: each method adds an entry, and returns the name of its tensor."""

    def __init__(self, name: str) -> None:
        self.name = name
        self._nodes: list[dict[str, Any]] = []
        self._feeds: dict[str, Any] = {}
        self._rng = np.random.default_rng(0)

    def op(self, op: str, *inputs: Any, **attrs: Any) -> str:
        name = f"{op.lower()}{len(self._nodes)}"
        self._nodes.append({"op": op, "name": name, "inputs": list(inputs), "attrs": attrs})
        return name

    def fed(self, *dims: int, below: int = 0) -> str:
        """A fed tensor of random numbers; with `below`, of integers below that."""
        name = f"fed{len(self._feeds)}"
        dtype = "int32" if below else "float32"
        self._nodes.append({"op": "Placeholder", "name": name, "dtype": dtype, "shape": list(dims)})
        given = self._rng.integers(below, size=dims, dtype=np.int32) if below else self._rng.standard_normal(dims, np.float32)
        self._feeds[name] = given
        return name

    def weights(self, *dims: int) -> str:
        name = f"weights{len(self._nodes)}"
        self._nodes.append({"variable": name, "shape": list(dims)})
        return name

    def dense(self, x: str, inside: int, outside: int, activation: str = "Relu") -> str:
        x = self.op("BiasAdd", self.op("MatMul", x, self.weights(inside, outside)), self.weights(outside))
        return self.op(activation, x) if activation else x

    def layers(self, x: str, widths: Sequence[int], activation: str = "Relu") -> str:
        """Dense layers, the last of which has no activation."""
        pairs = list(pairwise(widths))
        for number, (inside, outside) in enumerate(pairs, 1):
            x = self.dense(x, inside, outside, activation if number < len(pairs) else "")
        return x

    def convolution(self, x: str, size: int, inside: int, outside: int, stride: int = 1, padding: str = "SAME") -> str:
        strides = [1, stride, stride, 1]
        x = self.op("Conv2D", x, self.weights(size, size, inside, outside), strides=strides, padding=padding)
        return self.op("BiasAdd", x, self.weights(outside))

    def pool(self, x: str, op: str = "MaxPool") -> str:
        return self.op(op, x, ksize=[1, 2, 2, 1], strides=[1, 2, 2, 1], padding="VALID")

    def trained(self, logits: str, batch: int, classes: int, optimizer: Any) -> Model:
        """A step that trains with labels, and fetches the loss."""
        labels = self.fed(batch, below=classes)
        loss = self.op("Mean", self.op("SparseSoftmaxCrossEntropyWithLogits", logits, labels), [0])
        self._nodes.append({"train": {"minimize": loss, "optimizer": optimizer}, "name": "train"})
        return self.model(f"{loss}:0", "train")

    def model(self, *fetches: str) -> Model:
        """The graph with a step that fetches `fetches`; a name without an output is a target."""
        variables = any("variable" in node for node in self._nodes)
        nodes = [*self._nodes, {"initializer": "init"}] if variables else self._nodes
        return Model(self.name, {"nodes": nodes}, ["init"] if variables else [], fetches, self._feeds)


def _perceptron(batch: int, widths: Sequence[int], activation: str = "Relu") -> Model:
    net = _Layers(f"layers {'-'.join(map(str, widths))}, batch {batch}")
    return net.model(net.op("Softmax", net.layers(net.fed(batch, widths[0]), widths, activation)) + ":0")


def _trained_perceptron(batch: int, widths: Sequence[int], optimizer: Any) -> Model:
    net = _Layers(f"layers {'-'.join(map(str, widths))}, trained, batch {batch}")
    return net.trained(net.layers(net.fed(batch, widths[0]), widths), batch, widths[-1], optimizer)


def _digits(batch: int, optimizer: Any = None) -> Model:
    """Two convolutions and two dense layers over images of digits."""
    net = _Layers(f"convolutions of 28x28, {'trained, ' if optimizer else ''}batch {batch}")
    x = net.pool(net.op("Relu", net.convolution(net.fed(batch, 28, 28, 1), 5, 1, 20)))
    x = net.pool(net.op("Relu", net.convolution(x, 5, 20, 50)))
    logits = net.layers(net.op("Reshape", x, [batch, 7 * 7 * 50]), (7 * 7 * 50, 300, 10))
    return net.trained(logits, batch, 10, optimizer) if optimizer else net.model(f"{logits}:0")


def _colours(batch: int) -> Model:
    """Pairs of 3x3 convolutions over coloured images."""
    net = _Layers(f"pairs of convolutions of 32x32, batch {batch}")
    x, inside = net.fed(batch, 32, 32, 3), 3
    for outside in (24, 48, 80):
        for _ in range(2):
            x, inside = net.op("Relu", net.convolution(x, 3, inside, outside)), outside
        x = net.pool(x)
    return net.model(net.layers(net.op("Mean", x, [1, 2]), (inside, 10)) + ":0")


def _bottlenecks(batch: int) -> Model:
    """Residual blocks that narrow and widen by pointwise convolutions, with normalized batches."""
    net = _Layers(f"residual blocks of 24x24, batch {batch}")
    x = net.fed(batch, 24, 24, 120)
    for _ in range(3):
        y = x
        for size, inside, outside in ((1, 120, 30), (3, 30, 30), (1, 30, 120)):
            given = [net.weights(outside) for _ in range(4)]
            y = net.op("FusedBatchNormV3", net.convolution(y, size, inside, outside), *given, is_training=False)
            y = net.op("Relu", y)
        x = net.op("AddV2", x, y)
    return net.model(net.op("Mean", x, [1, 2]) + ":0")


def _separable(batch: int) -> Model:
    net = _Layers(f"separable convolutions of 40x40, batch {batch}")
    x = net.op("Relu6", net.convolution(net.fed(batch, 80, 80, 3), 3, 3, 24, 2))
    for inside, outside, stride in ((24, 40, 1), (40, 72, 2), (72, 72, 1), (72, 136, 2)):
        filters = net.weights(3, 3, inside, 1)
        x = net.op("DepthwiseConv2dNative", x, filters, strides=[1, stride, stride, 1], padding="SAME")
        x = net.op("Relu6", net.convolution(net.op("Relu6", x), 1, inside, outside))
    return net.model(net.layers(net.op("Mean", x, [1, 2]), (136, 50)) + ":0")


def _sentences(batch: int, length: int, width: int) -> Model:
    """Gathered rows of words, convolutions over them of three lengths, and the largest of each."""
    net = _Layers(f"convolutions over {length} words, batch {batch}")
    words = net.op("GatherV2", net.weights(20_000, width), net.fed(batch, length, below=20_000), 0)
    x = net.op("Reshape", words, [batch, length, width, 1])
    found = []
    for size in (3, 4, 5):
        filters = net.weights(size, width, 1, 60)
        made = net.op("Conv2D", x, filters, strides=[1, 1, 1, 1], padding="VALID")
        found.append(net.op("Max", net.op("Relu", net.op("BiasAdd", made, net.weights(60))), [1, 2]))
    return net.model(net.layers(net.op("ConcatV2", *found, 1), (180, 5)) + ":0")


def _long_memory(steps: int, batch: int, inside: int, units: int) -> Model:
    net = _Layers(f"LSTM of {units}, {steps} steps, batch {batch}")
    x = net.op("Unpack", net.fed(steps, batch, inside), num=steps)
    weights, bias = net.weights(inside + units, 4 * units), net.weights(4 * units)
    hidden = cell = net.op("Fill", [batch, units], 0.0)
    for step in range(steps):
        gates = net.op("BiasAdd", net.op("MatMul", net.op("ConcatV2", f"{x}:{step}", hidden, 1), weights), bias)
        gates = net.op("Split", 1, gates, num_split=4)
        kept = net.op("Mul", cell, net.op("Sigmoid", net.op("AddV2", f"{gates}:2", 1.0)))
        cell = net.op("AddV2", kept, net.op("Mul", net.op("Sigmoid", gates), net.op("Tanh", f"{gates}:1")))
        hidden = net.op("Mul", net.op("Tanh", cell), net.op("Sigmoid", f"{gates}:3"))
    return net.model(net.layers(hidden, (units, 10)) + ":0")


def _gated(steps: int, batch: int, units: int) -> Model:
    net = _Layers(f"GRU of {units}, {steps} steps, batch {batch}")
    x = net.op("Unpack", net.fed(steps, batch, units), num=steps)
    both, new, state = net.weights(2 * units, 2 * units), net.weights(2 * units, units), net.fed(batch, units)
    for step in range(steps):
        gates = net.op("Sigmoid", net.op("MatMul", net.op("ConcatV2", f"{x}:{step}", state, 1), both))
        gates = net.op("Split", 1, gates, num_split=2)
        reset = net.op("Mul", gates, state)
        other = net.op("Tanh", net.op("MatMul", net.op("ConcatV2", f"{x}:{step}", reset, 1), new))
        share = net.op("Sub", 1.0, f"{gates}:1")
        state = net.op("AddV2", net.op("Mul", f"{gates}:1", state), net.op("Mul", share, other))
    return net.model(f"{state}:0")


def _elementwise(rounds: int, *dims: int) -> Model:
    """Rounds of a normal density and a bounded sum."""
    net = _Layers(f"{rounds * 8} elementwise ops on {'x'.join(map(str, dims))}")
    x, y = net.fed(*dims), net.fed(*dims)
    for _ in range(rounds):
        density = net.op("Exp", net.op("Neg", net.op("Square", x)))
        total = net.op("Minimum", net.op("Maximum", net.op("AddV2", density, y), -1.0), 1.0)
        x, y = net.op("Sub", total, x), net.op("Mul", total, 0.5)
    return net.model(net.op("AddV2", x, y) + ":0")


def _normalized(rounds: int, rows: int, columns: int) -> Model:
    """Rows that are normalized by their mean and variance, scaled and shifted."""
    net = _Layers(f"{rounds} normalizations of {rows}x{columns}")
    x = net.fed(rows, columns)
    for _ in range(rounds):
        centred = net.op("Sub", x, net.op("Mean", x, [1], keep_dims=True))
        variance = net.op("Mean", net.op("Square", centred), [1], keep_dims=True)
        x = net.op("Mul", centred, net.op("Rsqrt", net.op("AddV2", variance, 1e-3)))
        x = net.op("AddV2", net.op("Mul", x, net.weights(columns)), net.weights(columns))
    return net.model(f"{x}:0")


def _statistics(rows: int, columns: int) -> Model:
    """Sums, means and extremes of a table along each axis and over all of it."""
    net = _Layers(f"statistics of {rows}x{columns}")
    x = net.fed(rows, columns)
    found = [f"{net.op(op, x, axes)}:0" for op in ("Sum", "Max", "Min", "Mean") for axes in ([0], [1], [0, 1])]
    scaled = net.op("Sub", x, net.op("Mean", x, [0]))
    found.append(net.op("Sum", net.op("Square", scaled), [0]) + ":0")
    return net.model(*found, net.op("ArgMax", scaled, 1) + ":0")


def _ratings(batch: int, users: int, items: int, width: int) -> Model:
    """Products of gathered rows, as a recommendation has them, beside layers over the rows."""
    net = _Layers(f"ratings of {users} users, batch {batch}")
    user = net.op("GatherV2", net.weights(users, width), net.fed(batch, below=users), 0)
    item = net.op("GatherV2", net.weights(items, width), net.fed(batch, below=items), 0)
    near = net.op("Sum", net.op("Mul", user, item), [1], keep_dims=True)
    deep = net.layers(net.op("ConcatV2", user, item, 1), (2 * width, 64, 1))
    return net.model(net.op("Sigmoid", net.op("AddV2", near, deep)) + ":0")


def _attention(batch: int, length: int, width: int, heads: int) -> Model:
    """An encoder's layer over gathered words."""
    net = _Layers(f"attention over {length} words, batch {batch}")
    x = net.op("GatherV2", net.weights(8_000, width), net.fed(batch * length, below=8_000), 0)
    parts = []
    for _ in range(3):
        part = net.op("Reshape", net.dense(x, width, width, ""), [batch, length, heads, width // heads])
        parts.append(net.op("Transpose", part, [0, 2, 1, 3]))
    scores = net.op("Mul", net.op("BatchMatMulV2", parts[0], parts[1], adj_y=True), (width // heads) ** -0.5)
    mixed = net.op("Transpose", net.op("BatchMatMulV2", net.op("Softmax", scores), parts[2]), [0, 2, 1, 3])
    x = net.op("AddV2", x, net.dense(net.op("Reshape", mixed, [batch * length, width]), width, width, ""))
    return net.model(net.op("AddV2", x, net.layers(x, (width, 4 * width, width))) + ":0")


_SGD = {"GradientDescent": {"learning_rate": 0.01}}
_MOMENTUM = {"Momentum": {"learning_rate": 0.01, "momentum": 0.9}}
_ADAM = {"Adam": {"learning_rate": 0.001}}

SMALL: dict[str, Callable[[], Model]] = {
    "row": partial(_perceptron, 1, (256, 256, 256, 256, 10)),
    "layers": partial(_perceptron, 64, (784, 500, 300, 10)),
    "wide-layers": partial(_perceptron, 400, (1200, 1800, 900, 100), "Tanh"),
    "trained-layers": partial(_trained_perceptron, 100, (784, 300, 100, 10), _SGD),
    "trained-row": partial(_trained_perceptron, 8, (60, 120, 120, 6), _ADAM),
    "digits": partial(_digits, 10),
    "trained-digits": partial(_digits, 32, _MOMENTUM),
    "colours": partial(_colours, 6),
    "bottlenecks": partial(_bottlenecks, 3),
    "separable": partial(_separable, 2),
    "sentences": partial(_sentences, 12, 50, 100),
    "short-lstm": partial(_long_memory, 12, 1, 40, 72),
    "lstm-20": partial(_long_memory, 20, 32, 100, 200),
    "gru": partial(_gated, 15, 16, 300),
    "few-elements": partial(_elementwise, 5, 900),
    "many-elements": partial(_elementwise, 2, 1500, 700),
    "normalized": partial(_normalized, 4, 300, 640),
    "statistics": partial(_statistics, 2000, 450),
    "ratings": partial(_ratings, 2500, 30_000, 8_000, 48),
    "attention": partial(_attention, 4, 40, 160, 5),
}
"""The networks, by the names that `calibration_bench --model` takes."""
