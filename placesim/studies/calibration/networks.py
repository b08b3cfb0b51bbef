"""Network-like steps that mix kernels of all families, with cold caches and idle helper threads as in practice.

They consist of common layers of medium size; none is a network in actual use.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import Any

Node = dict[str, Any]
_WINDOW = {"padding": "SAME"}


class _Network:
    """Builder of a graph; each method adds a node and returns its name."""

    def __init__(self) -> None:
        self.nodes: list[Node] = []
        self.targets: list[str] = []

    def add(self, op: str, *inputs: Any, **attrs: Any) -> str:
        name = f"n{len(self.nodes)}"
        self.nodes.append({"op": op, "name": name, "inputs": list(inputs), "attrs": attrs})
        return name

    def given(self, *dims: int) -> str:
        name = f"x{len(self.nodes)}"
        self.nodes.append({"op": "Placeholder", "name": name, "dtype": "float32", "shape": list(dims)})
        return name

    def scaled(self, x: str, channels: int, *, is_bounded: bool = False) -> str:
        """Add a bias, a scale for each channel, and an activation."""
        x = self.add("BiasAdd", x, self.given(channels))
        x = self.add("AddV2", self.add("Mul", x, self.given(channels)), self.given(channels))
        return self.add("Relu6" if is_bounded else "Relu", x)

    def convolution(self, x: str, size: int, inside: int, outside: int, stride: int = 1) -> str:
        return self.add("Conv2D", x, self.given(size, size, inside, outside), strides=[1, stride, stride, 1], **_WINDOW)

    def graph(self) -> dict[str, Any]:
        ends = [f"^{name}" for name in self.targets]
        return {"devices": {"cpu": 1}, "nodes": [*self.nodes, {"op": "NoOp", "name": "all", "inputs": ends}]}


def _images(batch: int, size: int = 112, widths: Sequence[int] = (96, 160, 320)) -> dict[str, Any]:
    """Return residual and separable blocks over images."""
    net = _Network()
    x = net.scaled(net.convolution(net.given(batch, size, size, 3), 5, 3, 48, 2), 48)
    x = net.add("MaxPool", x, ksize=[1, 3, 3, 1], strides=[1, 2, 2, 1], **_WINDOW)
    channels = 48
    for wide in widths:
        before = x = net.scaled(net.convolution(x, 1, channels, wide), wide)
        for _ in range(3):
            x = net.scaled(net.convolution(before, 1, wide, wide // 2), wide // 2)
            x = net.scaled(net.convolution(x, 3, wide // 2, wide // 2), wide // 2)
            x = net.scaled(net.convolution(x, 1, wide // 2, wide), wide)
            before = net.add("Relu", net.add("AddV2", x, before))
            inner = net.scaled(net.convolution(before, 1, wide, 2 * wide), 2 * wide, is_bounded=True)
            filters = net.given(3, 3, 2 * wide, 1)
            inner = net.add("DepthwiseConv2dNative", inner, filters, strides=[1, 1, 1, 1], **_WINDOW)
            inner = net.scaled(inner, 2 * wide, is_bounded=True)
            before = net.add("AddV2", net.convolution(inner, 1, 2 * wide, wide), before)
        x, channels = before, wide
        x = net.add("Pad", x, [[0, 0], [0, 1], [0, 1], [0, 0]])
        x = net.add("AvgPool", x, ksize=[1, 2, 2, 1], strides=[1, 2, 2, 1], padding="VALID")
    means = net.add("Mean", x, [1, 2])
    net.targets.append(
        net.add("Softmax", net.add("BiasAdd", net.add("MatMul", means, net.given(channels, 1500)), net.given(1500)))
    )
    return net.graph()


def _training(batch: int, size: int = 64, outputs: int = 1000) -> dict[str, Any]:
    """Return a few wide layers with their gradients, and the updates of their variables."""
    net = _Network()
    images = net.given(batch, size, size, 3)
    sizes = ((7, 3, 64, 2), (5, 64, 128, 1), (3, 128, 192, 1))
    x, kept, dims = images, [], (batch, size, size, 3)
    for size, inside, outside, stride in sizes:
        filters = (size, size, inside, outside)
        weights = net.given(*filters)
        made = net.add("Conv2D", x, weights, strides=[1, stride, stride, 1], **_WINDOW)
        side = dims[1] // stride
        active = net.add("Relu", net.add("BiasAdd", made, net.given(outside)))
        normal = net.add("LRN", active, depth_radius=2, alpha=1e-4, beta=0.75, bias=1.0) if inside == 3 else active
        pooled = net.add("MaxPool", normal, ksize=[1, 2, 2, 1], strides=[1, 2, 2, 1], **_WINDOW)
        kept.append((x, dims, weights, filters, stride, active, normal, pooled))
        x, dims = pooled, (batch, side // 2, side // 2, outside)
    length = prod(dims[1:])
    flat = net.add("Reshape", x, [batch, length])
    dense = net.given(length, outputs)
    grads = net.add("ReluGrad", *(net.add("Relu", net.add("MatMul", flat, dense)),) * 2)
    updates: list[tuple[Sequence[int], str]] = [((length, outputs), net.add("MatMul", flat, grads, transpose_a=True))]
    back = net.add("Reshape", net.add("MatMul", grads, dense, transpose_b=True), list(dims))
    for x, dims, weights, filters, stride, active, normal, pooled in reversed(kept):
        back = net.add("MaxPoolGrad", normal, pooled, back, ksize=[1, 2, 2, 1], strides=[1, 2, 2, 1], **_WINDOW)
        if normal != active:
            back = net.add("LRNGrad", back, active, normal, depth_radius=2, alpha=1e-4, beta=0.75, bias=1.0)
        back = net.add("ReluGrad", back, active)
        net.targets.append(net.add("BiasAddGrad", back))
        steps = {"strides": [1, stride, stride, 1], **_WINDOW}
        updates.append((filters, net.add("Conv2DBackpropFilter", x, list(filters), back, **steps)))
        back = net.add("Conv2DBackpropInput", list(dims), weights, back, **steps)
    net.targets.append(back)
    _update(net, updates)
    return net.graph()


def _update(net: _Network, updates: Sequence[tuple[Sequence[int], str]]) -> None:
    """Add updates of variables by their gradients, and `init` for their initial values."""
    initialized = []
    for number, (dims, gradient) in enumerate(updates):
        names = [f"v{number}", f"m{number}"]
        zeros = net.add("Fill", list(dims), 0.0)
        for name in names:
            attrs = {"dtype": "float32", "shape": list(dims), "shared_name": name}
            net.nodes.append({"op": "VarHandleOp", "name": name, "attrs": attrs})
            initialized.append(net.add("AssignVariableOp", name, zeros))
        net.targets.append(net.add("ResourceApplyMomentum", *names, 0.01, gradient, 0.9))
    net.nodes.append({"op": "NoOp", "name": "init", "inputs": [f"^{name}" for name in initialized]})


def _sequence(steps: int, batch: int, units: int, length: int = 96, width: int = 384) -> dict[str, Any]:
    """Return an unrolled gated recurrent cell, with attention over its outputs."""
    net = _Network()
    weights, hidden, cell = net.given(2 * units, 4 * units), net.given(batch, units), net.given(batch, units)
    x = net.given(batch, units)
    for _ in range(steps):
        gates = net.add("MatMul", net.add("ConcatV2", x, hidden, 1), weights)
        gates = net.add("Split", 1, gates, num_split=4)
        opened = [net.add("Sigmoid", f"{gates}:{number}") for number in range(3)]
        new = net.add("Mul", opened[0], net.add("Tanh", f"{gates}:3"))
        cell = net.add("AddV2", net.add("Mul", cell, opened[1]), new)
        hidden = net.add("Mul", net.add("Tanh", cell), opened[2])
    net.targets.append(hidden)
    heads = 6
    rows = net.given(4 * length, width)
    parts = []
    for _ in range(3):
        part = net.add("Reshape", net.add("MatMul", rows, net.given(width, width)), [4, length, heads, width // heads])
        parts.append(net.add("Transpose", part, [0, 2, 1, 3]))
    scores = net.add("Mul", net.add("BatchMatMulV2", parts[0], parts[1], adj_y=True), 0.125)
    mixed = net.add("Transpose", net.add("BatchMatMulV2", net.add("Softmax", scores), parts[2]), [0, 2, 1, 3])
    joined = net.add("AddV2", rows, net.add("MatMul", net.add("Reshape", mixed, [4 * length, width]), net.given(width, width)))
    wide = net.add("Relu", net.add("MatMul", joined, net.given(width, 3 * width)))
    net.targets.append(net.add("AddV2", joined, net.add("MatMul", wide, net.given(3 * width, width))))
    return net.graph()


def networks(*, is_quick: bool = False) -> list[dict[str, Any]]:
    """Return graphs with a node `all` and, if they have variables, a node `init`: large ones, and ones that caches hold."""
    if is_quick:
        return [_sequence(2, 4, 32)]
    large = [_images(1), _images(2), _training(8), _sequence(12, 24, 384)]
    return [*large, _images(1, 48, (64, 80)), _training(2, 32, 200), _sequence(12, 12, 96, 24, 96)]
