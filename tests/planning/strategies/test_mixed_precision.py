"""Mixed precision: TensorFlow's choice of nodes, its results for the rewritten graphs, and loss scales."""

from __future__ import annotations

import gzip
import json
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from placesim.core.dtypes import HALF, parse_dtype
from placesim.core.errors import UsageError
from placesim.formats.graph_file.reader import graph_file_from_mapping
from placesim.formats.sources.loading import LoadedGraph
from placesim.graph.graph import Graph
from placesim.graph.session_steps import Fetch
from placesim.machine.inventory import TaskInventory
from placesim.planning.strategies import loss_scaling
from placesim.planning.strategies.mixed_precision import PRECISIONS
from placesim.planning.strategies.precision_painting import PrecisionPainting
from placesim.planning.strategies.rewriting import Strategy, TrainingRewrite, rewrite_training
from tests.ops.kernels.kernel_calls import Machine
from tests.planning.strategies.models import (
    MODELS,
    OPTIMIZERS,
    STEPS,
    Document,
    convolutional,
    dense,
    loaded,
    node,
    placeholder,
    results,
    variable,
)
from tests.planning.strategies.test_replication import NORMALIZED, WORDS, script
from tests.processes import ROOT

RESIDUAL = """
import numpy as np
import tensorflow.compat.v1 as tf

tf.disable_v2_behavior()
tf.set_random_seed(1)
images = tf.placeholder(tf.float32, [4, 16, 16, 3], name="images")
h = images
for i in range(3):
    before = h
    h = tf.layers.conv2d(h, 8, 3, padding="same", use_bias=False, name=f"conv{i}")
    h = tf.nn.relu(tf.layers.batch_normalization(h, training=True, name=f"norm{i}"))
    h = h + before if i else h
    h = tf.nn.max_pool(h, 2, 2, "SAME") if i == 1 else tf.nn.dropout(h, rate=0.3)
h = tf.nn.avg_pool(h, 2, 2, "SAME")
h = tf.layers.flatten(tf.concat([tf.sigmoid(h), tf.exp(h * 0.1)], -1))
h = tf.layers.dense(h, 10, tf.nn.elu)
mean, variance = tf.nn.moments(h, [1], keepdims=True)
h = (h - mean) * tf.rsqrt(variance + 1e-3) * tf.get_variable("gain", [10])
labels = tf.one_hot([0, 1, 2, 3], 5)
loss = tf.reduce_mean(tf.nn.softmax_cross_entropy_with_logits_v2(labels=labels, logits=tf.layers.dense(h, 5)))
train = tf.train.AdamOptimizer(1e-3).minimize(loss)
with tf.Session() as session:
    session.run(tf.global_variables_initializer())
    session.run([loss, train], {images: np.random.RandomState(0).randn(4, 16, 16, 3)})
"""
"""A residual network with dropout, batch and layer normalization, and ops of each list."""
SCRIPTS = {"normalized": NORMALIZED, "words": WORDS.replace("BATCH", "4"), "residual": RESIDUAL}


def recorded(kind: str) -> list[dict[str, Any]]:
    with gzip.open(ROOT / "tests/data/mixed-precision.jsonl.gz", "rt", encoding="utf-8") as lines:
        return [case for case in map(json.loads, lines) if case["kind"] == kind]


def model(name: str, directory: Path) -> LoadedGraph:
    if name in SCRIPTS:
        return script(directory / f"{name}.py", SCRIPTS[name])
    return loaded(MODELS[name]("momentum"))


def rewrite(graph: LoadedGraph, precision: str = "float16", loss_scale: Any = None, **settings: Any) -> TrainingRewrite:
    assert graph.file is not None
    strategy = Strategy(precision=precision, loss_scale=loss_scale, **settings)
    return rewrite_training(replace(graph.file, inventory=(TaskInventory(gpu=2),)), strategy)


def half_nodes(graph: Graph) -> set[str]:
    """Return the nodes with a type attr of float16, but for casts and constants."""
    types = PRECISIONS.values()
    return {
        node.name
        for node in graph.nodes
        if node.op not in ("Cast", "Const")
        and any(value in types for value in node.attrs.values() if not isinstance(value, tuple))
    }


@pytest.mark.slow
@pytest.mark.parametrize("case", recorded("half"), ids=lambda case: case["model"])
def test_the_nodes_in_half_precision_are_those_that_tensorflow_chooses(case: dict[str, Any], tmp_path: Path) -> None:
    found = rewrite(model(case["model"], tmp_path))
    assert half_nodes(found.file.graph) == set(case["nodes"])
    assert found.mixed is not None
    assert found.mixed.half == len(case["nodes"])


def test_a_cast_makes_half_precision_if_that_is_the_precision_of_all_its_readers() -> None:
    """The casts that change are those that TensorFlow 2.21 changed in this graph."""
    nodes = [
        {"op": "Placeholder", "name": "x", "dtype": "int32", "shape": [4, 4]},
        {"op": "Placeholder", "name": "w", "dtype": "float32", "shape": [4, 4]},
        *({"op": "Cast", "name": name, "inputs": ["x"], "attrs": {"DstT": "float32"}} for name in ("a", "b", "c", "d")),
        {"op": "MatMul", "name": "aw", "inputs": ["a", "w"]},
        {"op": "MatMul", "name": "bw", "inputs": ["b", "w"]},
        {"op": "Exp", "name": "e", "inputs": ["b"]},
        {"op": "Exp", "name": "f", "inputs": ["c"]},
    ]
    graph = graph_file_from_mapping({"nodes": nodes}).graph
    found = PrecisionPainting(graph, range(len(graph.nodes)), HALF, has_gpus=True)
    assert {(graph.nodes[own.node].name, own.key) for own in found.half} == {("a", "DstT"), ("aw", "T"), ("bw", "T")}


NEARLY = {"float16": 1e-2, "bfloat16": 5e-2}
"""Tolerance for the precision of a type, relative to the largest element."""
EXACT = 1e-6
"""For the last places of float32, in which losses and initial values are computed."""


@pytest.mark.filterwarnings("ignore:invalid value encountered", "ignore:overflow encountered")
@pytest.mark.parametrize(
    "case", recorded("results"), ids=lambda case: f"{case['model']}-{case['precision']}-{case['loss_scale']}"
)
def test_the_rewritten_graph_gives_the_results_of_tensorflow(case: dict[str, Any]) -> None:
    graph = loaded(MODELS[case["model"]]("momentum"))
    found = results(graph, rewrite(graph, case["precision"], case["loss_scale"]).file)
    # TensorFlow's kernels for gradients of convolutions in bfloat16 also add in bfloat16
    tolerance = NEARLY["bfloat16"] if (case["model"], case["precision"]) == ("convolutional", "bfloat16") else EXACT
    for (name, array), value in zip(found, case["values"], strict=True):
        expected = np.array(value, object).astype(np.float64)
        largest = np.abs(expected).max(where=np.isfinite(expected), initial=0)
        np.testing.assert_allclose(array.astype(np.float64), expected, tolerance, tolerance * largest, err_msg=name)


@pytest.mark.parametrize("case", recorded("kernel"), ids=lambda case: f"{case['op']}-{case['dtype']}")
def test_kernels_round_half_precision_as_tensorflow(case: dict[str, Any]) -> None:
    random, dtype = np.random.RandomState(1), parse_dtype(case["dtype"])
    is_gradient = case["op"].endswith("Grad")
    first = random.uniform(0, 1, (4, 40)) if is_gradient else 3 * random.randn(4, 40)
    first, second = (array.astype(dtype.numpy) for array in (first, random.randn(4, 40)))
    if case["op"] in ("SoftplusGrad", "EluGrad"):
        first, second = second, first
    found = Machine().run(case["op"], *((first, second) if is_gradient else (first,)), T=dtype.name)
    assert found.view(np.uint16).ravel().tolist() == case["bits"]


@cache
def trained(name: str, optimizer: str, loss_scale: Any = None) -> tuple[LoadedGraph, list[tuple[str, Any]]]:
    """A model and the results of its steps, in float16 if there is a loss scale."""
    graph = loaded(MODELS[name](optimizer))
    return graph, results(graph, None if loss_scale is None else rewrite(graph, "float16", loss_scale).file)


@pytest.mark.parametrize(("precision", "tolerance"), NEARLY.items())
@pytest.mark.parametrize("name", ["dense", "recurrent", "attention", "convolutional"])
def test_losses_and_variables_are_nearly_those_of_float32(name: str, precision: str, tolerance: float) -> None:
    graph, expected = trained(name, "adam")
    half = results(graph, rewrite(graph, precision, 128).file)
    for (label, array), (_, other) in zip(expected, half, strict=True):
        np.testing.assert_allclose(other, array, tolerance, tolerance * np.abs(array).max(), err_msg=label)
        assert other.dtype == np.float32


def fetched(graph: LoadedGraph, found: TrainingRewrite, *names: str) -> list[tuple[Any, ...]]:
    """Return the values of nodes of the rewritten graph in each step of training."""
    steps = tuple(
        replace(step, fetches=(*step.fetches, *map(Fetch, names)) if step.feeds else ()) for step in found.file.steps or ()
    )
    values = iter(results(graph, replace(found.file, steps=(found.file.steps[0], *steps[1:-1]))))  # type: ignore[index]
    return [tuple(next(values)[1].item() for _ in range(1 + len(names))) for _ in range(STEPS)]


SCALE = "loss_scale/value", "loss_scale/good_steps"


@pytest.mark.filterwarnings("ignore:invalid value encountered", "ignore:overflow encountered")
def test_a_dynamic_loss_scale_is_halved_and_the_update_skipped_if_a_gradient_overflows() -> None:
    graph = loaded(convolutional("adam"))
    found = fetched(graph, rewrite(graph, "float16", "dynamic"), *SCALE, "beta1_power")
    losses, scales, steps, powers = zip(*found, strict=True)
    assert np.isfinite(losses).all()
    assert scales == (2**14, 2**13, 2**12, 2**12, 2**12)
    assert steps == (0, 0, 0, 1, 2)
    np.testing.assert_allclose(powers, [0.9, 0.9, 0.9, 0.9, 0.81], rtol=1e-6)  # read before the update
    first, second, *_ = fetched(graph, rewrite(graph, "float16"))
    assert np.isfinite(first).all()
    assert not np.isfinite(second).any()


def test_a_dynamic_loss_scale_grows_after_some_steps(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(loss_scaling, "GROWTH_STEPS", 2)
    graph = loaded(dense("momentum"))
    found = fetched(graph, rewrite(graph, "float16", "dynamic"), *SCALE)
    assert [row[1:] for row in found] == [(2**15, 1), (2**16, 0), (2**16, 1), (2**17, 0), (2**17, 1)]


def test_a_fetched_gradient_has_no_loss_scale() -> None:
    graph = loaded(dense("momentum"))
    assert graph.file is not None
    first, step, *_ = graph.file.steps or ()
    step = replace(step, fetches=(Fetch("gradients/xw_grad/MatMul_1"), Fetch("gradients/xw_grad/MatMul_1:0")))
    graph = replace(graph, file=replace(graph.file, steps=(first, step)))
    expected, found = results(graph), results(graph, rewrite(graph).file)
    assert [name for name, _ in found] == [name for name, _ in expected]
    for (_, array), (_, other) in zip(expected, found, strict=True):
        np.testing.assert_allclose(other, array, rtol=1e-2, atol=1e-3)


@pytest.mark.parametrize("name", ["dense", "convolutional"])
@pytest.mark.parametrize(
    "settings", [{"replicas": 2}, {"accumulate": 2}, {"recompute": ("sqrt",)}], ids=lambda found: next(iter(found))
)
@pytest.mark.parametrize("loss_scale", [64, "dynamic"])
def test_mixed_precision_composes_with_other_strategies(name: str, settings: dict[str, Any], loss_scale: Any) -> None:
    graph, alone = trained(name, "momentum", loss_scale)
    both = rewrite(graph, "float16", loss_scale, **settings)
    assert len(both.training.variables) == 3
    for (label, array), (_, other) in zip(alone, results(graph, both.file), strict=True):
        if "recompute" in settings:
            np.testing.assert_array_equal(other, array, err_msg=label)
        else:
            np.testing.assert_allclose(other, array, 1e-2, 1e-2 * np.abs(array).max(), err_msg=label)


TRAIN: Document = {"train": {"minimize": "loss", "optimizer": OPTIMIZERS["momentum"]}}


@pytest.mark.parametrize(
    ("settings", "expected"),
    [
        ({"precision": "float8"}, "wrong precision: got 'float8', expected one of float16, bfloat16"),
        ({"loss_scale": 0}, "wrong loss_scale: got 0, expected a number above 0, or dynamic"),
        ({"loss_scale": True}, "wrong loss_scale: got True"),
        ({"precision": None, "loss_scale": 8.0, "accumulate": 2}, "no half precision: got --loss-scale"),
        ({}, "no op can be in half precision: got 22 forward and backward nodes"),
    ],
)
def test_wrong_settings_and_graphs_without_products_are_refused(settings: dict[str, Any], expected: str) -> None:
    nodes = [placeholder("x", 4, 3), variable("w", 3, seed=1), node("Mul", "y", "x", "w"), node("Mean", "loss", "y", [0, 1])]
    with pytest.raises(UsageError) as caught:
        rewrite(loaded({"nodes": [*nodes, TRAIN]}), **({"precision": "float16"} | settings))
    assert expected in str(caught.value)


def test_a_dynamic_loss_scale_needs_an_initializer() -> None:
    nodes = [
        placeholder("x", 4, 3),
        variable("w", 3, 3, seed=1),
        node("MatMul", "y", "x", "w"),
        node("Mean", "loss", "y", [0, 1]),
    ]
    with pytest.raises(UsageError, match="no initializer: got variables that no group of assignments initializes"):
        rewrite(loaded({"nodes": [*nodes, TRAIN]}), "float16", "dynamic")
