"""Variables that are found to have no influence on the loss have gradients of zero, up to rounding."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from placesim.formats.sources.loading import LoadedGraph
from placesim.planning.strategies.batch_shapes import BatchShapes
from placesim.planning.strategies.rewriting import Strategy, rewrite_training
from placesim.planning.strategies.training_graph import find_training
from placesim.planning.strategies.zero_gradients import find_ignored_variables
from tests.planning.strategies.accuracy import GRAPHS, in_float64, with_gradients
from tests.planning.strategies.models import Document, attention, loaded, node, placeholder, results, training, variable


def ignored(graph: LoadedGraph) -> dict[str, str]:
    assert graph.file is not None
    parts = find_training(graph.file.graph)
    return {own.variable.name: own.by.name for own in find_ignored_variables(parts, BatchShapes(parts, 2).full)}


def gradient_norms(graph: LoadedGraph) -> dict[str, float]:
    found = results(with_gradients(graph))
    label = "gradient of "
    return {name.removeprefix(label): float(np.linalg.norm(array)) for name, array in found if name.startswith(label)}


@pytest.mark.slow
@pytest.mark.parametrize("model", ["attention, key bias", "transformer, key bias", "attention, biases"])
def test_exactly_the_biases_of_keys_are_ignored(model: str) -> None:
    graph = GRAPHS[model]("gradient descent")
    norms = gradient_norms(in_float64(graph))
    zero = {name for name, norm in norms.items() if norm < 1e-14 * max(norms.values())}
    assert zero == ignored(graph).keys() == {name for name in norms if "k_bias" in name or ("key" in name and "bias" in name)}


def normalized(*more: Document, loss: str = "mean", **attrs: Any) -> LoadedGraph:
    """Return a convolution with a bias and a normalization."""
    norm = {"is_training": True, **attrs}
    scales = [variable(name, 3, seed=seed) for seed, name in enumerate(("scale", "offset"), 3)]
    nodes = [
        *(placeholder("x", 4, 5, 5, 2), variable("k", 3, 3, 2, 3, seed=1), variable("b", 3, seed=2), *scales),
        {"op": "Const", "name": "none", "value": [] if norm["is_training"] else [0.5, 1.0, 1.5], "dtype": "float32"},
        node("Conv2D", "c", "x", "k", strides=[1, 1, 1, 1], padding="SAME"),
        node("BiasAdd", "z", "c", "b"),
        node("FusedBatchNormV3", "n", "z", "scale", "offset", "none", "none", **norm),
        *(node("Relu", "r", "n"), node("Square", "squares", "r"), node("Mean", "mean", "squares", [0, 1, 2, 3]), *more),
    ]
    if loss != "loss":
        nodes.append(node("Identity", "loss", loss))
    return loaded(training(nodes, "gradient descent", lambda random: {"x": random.randn(4, 5, 5, 2)}))


def test_a_bias_before_batch_normalization_is_ignored_and_named() -> None:
    graph = normalized()
    norms = gradient_norms(graph)
    assert norms["b"] < 1e-5 * norms["k"]
    assert ignored(graph) == {"b": "n"}
    assert graph.file is not None
    (note,) = (note for note in rewrite_training(graph.file, Strategy(accumulate=2)).notes if "gradient" in note)
    assert note == "the exact gradient is 0, so rounding decides the updates: b (what they add is ignored by n)"


@pytest.mark.parametrize(
    "graph",
    [
        lambda: normalized(is_training=False),
        lambda: normalized(node("L2Loss", "size", "b"), node("AddV2", "loss", "mean", "size"), loss="loss"),
        lambda: normalized(
            *(node("Square", "far", "n:1"), node("Sum", "apart", "far", [0]), node("AddV2", "loss", "mean", "apart")),
            loss="loss",
        ),
        lambda: loaded(attention("gradient descent", "qv")),
    ],
    ids=["averages", "regularizer", "statistics read", "other biases"],
)
def test_a_variable_with_influence_is_not_named(graph: Any) -> None:
    assert ignored(graph()) == {}
