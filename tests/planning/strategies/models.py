"""Small training graphs, each with five steps on its own batches, and the results of a graph file's steps."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from placesim.formats.sources.loading import LoadedGraph, load
from placesim.graph.session_steps import GraphFile
from placesim.machine.options import make_options
from placesim.runtime.sessions.session import GraphSession
from placesim.studies.simulation.simulation import SimulationStage, simulate

OPTIMIZERS: dict[str, Any] = {
    "gradient descent": {"GradientDescent": {"learning_rate": 0.05}},
    "momentum": {"Momentum": {"learning_rate": 0.01, "momentum": 0.9}},
    "adam": {"Adam": {"learning_rate": 0.01}},
}
STEPS = 5
Document = dict[str, Any]


def variable(name: str, *shape: int, seed: int, kind: str = "ref") -> Document:
    return {
        "variable": name,
        "shape": list(shape),
        "initializer": {"random_normal": {"stddev": 0.3, "seed": seed}},
        "kind": kind,
    }


def node(op: str, name: str, *inputs: Any, **attrs: Any) -> Document:
    return {"op": op, "name": name, "inputs": list(inputs), "attrs": attrs}


def placeholder(name: str, *shape: int, dtype: str = "float") -> Document:
    return {"op": "Placeholder", "name": name, "dtype": dtype, "shape": list(shape)}


def training(nodes: Sequence[Document], optimizer: str, feeds: Callable[[np.random.RandomState], Document]) -> Document:
    """Return a graph file that trains to lower the node `loss`, and then fetches all variables."""
    random = np.random.RandomState(len(nodes))
    ends = [{"train": {"minimize": "loss", "optimizer": OPTIMIZERS[optimizer]}, "name": "train"}, {"initializer": "init"}]
    steps = [{"fetch": ["loss", "train"], "feed": feeds(random)} for _ in range(STEPS)]
    variables = [entry["variable"] for entry in nodes if "variable" in entry]
    return {
        "devices": {"cpu": 1, "gpu": 4},
        "nodes": [*nodes, *ends],
        "run": [{"fetch": ["init"]}, *steps, {"fetch": variables}],
    }


def dense(optimizer: str, declared: int = 8, kind: str = "ref", examples: int = 8) -> Document:
    """A classifier with a regularizer; `declared` is the first dimension of the placeholders, -1 for an unknown one."""
    nodes = [
        *(placeholder("x", declared, 6), placeholder("y", declared, dtype="int32")),
        *(variable("w", 6, 5, seed=1, kind=kind), variable("b", 5, seed=2, kind=kind), variable("v", 5, 3, seed=3, kind=kind)),
        *(node("MatMul", "xw", "x", "w"), node("AddV2", "z", "xw", "b"), node("Tanh", "h", "z")),
        node("MatMul", "logits", "h", "v"),
        node("SparseSoftmaxCrossEntropyWithLogits", "errors", "logits", "y"),
        *(node("Mean", "mean", "errors", [0]), node("L2Loss", "size", "w"), node("Mul", "decay", "size", 0.01)),
        node("AddV2", "loss", "mean", "decay"),
    ]
    return training(nodes, optimizer, lambda random: {"x": random.randn(examples, 6), "y": random.randint(0, 3, examples)})


def convolutional(optimizer: str) -> Document:
    nodes = [
        *(placeholder("x", 4, 8, 8, 2), placeholder("y", 4, 3)),
        *(variable("k", 3, 3, 2, 4, seed=1), variable("b", 4, seed=2), variable("w", 64, 3, seed=3)),
        node("Conv2D", "c", "x", "k", strides=[1, 1, 1, 1], padding="SAME"),
        *(node("BiasAdd", "biased", "c", "b"), node("Relu", "r", "biased")),
        node("MaxPool", "p", "r", ksize=[1, 2, 2, 1], strides=[1, 2, 2, 1], padding="SAME"),
        *(node("Reshape", "flat", "p", [4, 64]), node("MatMul", "out", "flat", "w")),
        *(node("SquaredDifference", "errors", "out", "y"), node("Mean", "loss", "errors", [0, 1])),
    ]
    return training(nodes, optimizer, lambda random: {"x": random.randn(4, 8, 8, 2), "y": random.randn(4, 3)})


def recurrent(optimizer: str) -> Document:
    """Three unrolled steps from a state of zeros; the loss is a sum over the batch, times a constant."""
    nodes = [
        *(placeholder("x", 4, 3, 3), placeholder("y", 4, 2)),
        *(variable("u", 3, 5, seed=1), variable("s", 5, 5, seed=2), variable("o", 5, 2, seed=3)),
        node("Fill", "h0", [4, 5], 0.0),
    ]
    for i in range(3):
        nodes += [
            *(node("Slice", f"slice{i}", "x", [0, i, 0], [4, 1, 3]), node("Reshape", f"x{i}", f"slice{i}", [4, 3])),
            *(node("MatMul", f"xu{i}", f"x{i}", "u"), node("MatMul", f"hs{i}", f"h{i}", "s")),
            *(node("AddV2", f"z{i}", f"xu{i}", f"hs{i}"), node("Tanh", f"h{i + 1}", f"z{i}")),
        ]
    nodes += [
        *(node("MatMul", "out", "h3", "o"), node("SquaredDifference", "errors", "out", "y")),
        *(node("Sum", "each", "errors", [1]), node("Sum", "total", "each", [0]), node("Mul", "loss", "total", 0.25)),
    ]
    return training(nodes, optimizer, lambda random: {"x": random.randn(4, 3, 3), "y": random.randn(4, 2)})


def attention(optimizer: str, biases: str = "") -> Document:
    """Self-attention with two heads of three units; 4 is the batch and the length of a sequence, so shapes are ambiguous.

    `biases` names the projections with a bias, among `q`, `k` and `v`.
    """
    nodes = [
        *(placeholder("x", 4, 4, 6), placeholder("y", 4, 4, 6)),
        *(variable(name, 6, 6, seed=seed) for seed, name in enumerate("qkvo")),
        *(variable(f"{name}_bias", 6, seed=seed + 4) for seed, name in enumerate(biases)),
        *(variable("gain", 6, seed=9), node("Reshape", "rows", "x", [16, 6])),
    ]
    for name in "qkv":
        nodes += [
            node("MatMul", f"{name}m", "rows", name),
            *([node("BiasAdd", f"{name}b", f"{name}m", f"{name}_bias")] if name in biases else []),
            node("Reshape", f"{name}r", f"{name}b" if name in biases else f"{name}m", [4, 4, 2, 3]),
            node("Transpose", f"{name}t", f"{name}r", [0, 2, 1, 3]),
        ]
    nodes += [
        *(node("BatchMatMulV2", "scores", "qt", "kt", adj_y=True), node("Mul", "scaled", "scores", 0.57)),
        *(node("Softmax", "p", "scaled"), node("BatchMatMulV2", "mixed", "p", "vt")),
        *(node("Transpose", "back", "mixed", [0, 2, 1, 3]), node("Reshape", "joined", "back", [16, 6])),
        *(node("MatMul", "om", "joined", "o"), node("Mul", "gained", "om", "gain")),
        *(node("Reshape", "out", "gained", [4, 4, 6]), node("AddV2", "residual", "out", "x")),
        *(node("SquaredDifference", "errors", "residual", "y"), node("Mean", "loss", "errors", [0, 1, 2])),
    ]
    return training(nodes, optimizer, lambda random: {"x": random.randn(4, 4, 6), "y": random.randn(4, 4, 6)})


def queued(optimizer: str) -> Document:
    """A linear model of examples from a queue, which an own step fills before each step of training."""
    types = {"component_types": ["float", "float"]}
    nodes = [
        *(placeholder("inputs", 8, 3), placeholder("targets", 8, 1), variable("w", 3, 1, seed=1)),
        node("FIFOQueueV2", "queue", **types, shapes=[[3], [1]], capacity=64),
        node("QueueEnqueueManyV2", "fill", "queue", "inputs", "targets"),
        *(node("QueueDequeueManyV2", "batch", "queue", 8, **types), node("MatMul", "y", "batch", "w")),
        *(node("SquaredDifference", "errors", "y", "batch:1"), node("Mean", "loss", "errors", [0, 1])),
    ]
    found = training(nodes, optimizer, lambda random: {"inputs": random.randn(8, 3), "targets": random.randn(8, 1)})
    first, *steps, last = found["run"]
    filled = [step for train in steps for step in ({"fetch": ["fill"], "feed": train["feed"]}, {"fetch": train["fetch"]})]
    return found | {"run": [first, *filled, last]}


MODELS: dict[str, Callable[[str], Document]] = {
    "dense": dense,
    "unknown batch": lambda optimizer: dense(optimizer, -1),
    "resource variables": lambda optimizer: dense(optimizer, kind="resource"),
    "convolutional": convolutional,
    "recurrent": recurrent,
    "attention": attention,
    "queued": queued,
}
CASES = [(model, "adam") for model in MODELS]
CASES += [(model, optimizer) for model in ("dense", "resource variables") for optimizer in OPTIMIZERS if optimizer != "adam"]
"""Every model, and every optimizer with both kinds of variables: its ops read a gradient, however the model makes it."""


def loaded(document: Document) -> LoadedGraph:
    found = load(document, None, make_options({}))
    if found.error is not None:
        raise found.error
    return found


def results(graph: LoadedGraph, file: GraphFile | None = None, *, is_soft: bool = True) -> list[tuple[str, Any]]:
    """Return the names and values that the steps of a graph fetch, or those of a `file` in its place.

    No device's memory is accounted for, which halves the time.
    """
    graph = graph if file is None else replace(graph, file=file, text=None)

    def opened(*given: Any, **settings: Any) -> GraphSession:
        return GraphSession(*given, **settings | {"ledger": None})

    outcome = simulate(graph, make_options({"soft_placement": is_soft}), SimulationStage.EXECUTED, opened=opened)
    if outcome.error is not None:
        raise outcome.error
    return [(row.name, row.array) for row in outcome.results]
