"""Recomputed forward nodes give the same losses and variables bit for bit, and a deep network needs less memory."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import placesim
from placesim.core.errors import UsageError
from placesim.formats.sources.loading import LoadedGraph
from placesim.planning.strategies.rewriting import Strategy, TrainingRewrite, rewrite_training
from placesim.planning.strategies.segment_cuts import cut_segments
from tests.planning.strategies.models import (
    MODELS,
    Document,
    dense,
    loaded,
    node,
    placeholder,
    recurrent,
    results,
    training,
    variable,
)
from tests.planning.strategies.test_mixed_precision import RESIDUAL
from tests.planning.strategies.test_replication import BRANCHES, script


def deep(layers: int = 16, optimizer: str = "gradient descent", declared: int = 256, kind: str = "ref") -> Document:
    """Layers of equal size, each in its scope."""
    nodes = [placeholder("x", declared, 8), node("Identity", "h0", "x")]
    for i in range(layers):
        scope, before = f"block{i // 4}/layer{i}", f"block{(i - 1) // 4}/layer{i - 1}/h" if i else "h0"
        nodes += [variable(f"w{i}", 8, 8, seed=i + 1, kind=kind), node("MatMul", f"{scope}/z", before, f"w{i}")]
        nodes += [node("Tanh", f"{scope}/h", f"{scope}/z")]
    nodes += [node("Mean", "loss", nodes[-1]["name"], [0, 1])]
    return training(nodes, optimizer, lambda random: {"x": random.randn(256, 8)})


def deep_convolutional(optimizer: str) -> Document:
    """Convolutions, of which the first ones have the largest tensors."""
    nodes, before = [placeholder("x", 2, 16, 16, 4)], "x"
    for i in range(8):
        stride = 1 + i % 2
        nodes += [variable(f"k{i}", 3, 3, 4, 4, seed=i), variable(f"b{i}", 4, seed=i + 9)]
        nodes += [node("Conv2D", f"c{i}", before, f"k{i}", strides=[1, stride, stride, 1], padding="SAME")]
        nodes += [node("BiasAdd", f"z{i}", f"c{i}", f"b{i}"), node("Relu", f"h{i}", f"z{i}")]
        before = f"h{i}"
    nodes += [node("Mean", "loss", before, [0, 1, 2, 3])]
    return training(nodes, optimizer, lambda random: {"x": random.randn(2, 16, 16, 4)})


DEEP: dict[str, Callable[[str], Document]] = {
    "dense": lambda optimizer: deep(8, optimizer),
    "unknown batch": lambda optimizer: deep(8, optimizer, declared=-1),
    "resource variables": lambda optimizer: deep(8, optimizer, kind="resource"),
    "convolutional": deep_convolutional,
    "recurrent": MODELS["recurrent"],
    "attention": MODELS["attention"],
}


def rewrite(graph: LoadedGraph, *chosen: str, replicas: int = 1) -> TrainingRewrite:
    assert graph.file is not None
    return rewrite_training(graph.file, Strategy(replicas, recompute=chosen))


def copied(found: TrainingRewrite) -> set[str]:
    assert found.recomputation is not None
    return {found.recomputation.graph.nodes[number].name for number in found.recomputation.copies}


def check(graph: LoadedGraph, *chosen: str) -> TrainingRewrite:
    """Compare the results of the steps of a graph with those of its recomputed form."""
    found = rewrite(graph, *chosen)
    expected = results(graph)
    for (name, array), (other_name, other) in zip(expected, results(graph, found.file), strict=True):
        assert name == other_name
        np.testing.assert_array_equal(other, array, err_msg=name)
    return found


@pytest.mark.parametrize(("model", "optimizer"), [*product(DEEP, ["adam"]), ("dense", "gradient descent")])
def test_the_losses_and_variables_are_equal_bit_for_bit(model: str, optimizer: str) -> None:
    assert copied(check(loaded(DEEP[model](optimizer)), "sqrt"))


def test_segments_have_about_the_same_bytes_and_leave_few() -> None:
    found = rewrite(loaded(deep(12)), "3")
    assert found.recomputation is not None
    assert found.recomputation.segments == 2
    assert len(copied(found)) == 12
    # the largest tensor is recomputed, from a small one
    assert copied(rewrite(loaded(deep_convolutional("momentum")), "2")) == {"c0", "z0", "h0"}


def test_cuts_leave_few_bytes_and_respect_the_share_of_a_segment() -> None:
    held = [4] * 12
    leaving = [0, 4, 1, 4, 4, 1, 4, 4, 1, 4, 4, 4, 0]
    assert cut_segments(held, leaving, 1) == [0]
    assert cut_segments(held, leaving, 3) == [0, 2, 5, 8]
    assert cut_segments(held, [4] * 12 + [0], 3) == [0, 4, 8]
    assert cut_segments(held, [4] * 12 + [0], None) == [0, 4, 8]
    assert cut_segments([0, 100, 0, 1, 1], [0, 50, 100, 1, 1, 0], 4) == [0, 3]
    assert cut_segments([], [0], 2) == [0]


def test_sizes_are_those_of_fed_tensors_or_their_unknown_dimensions_are_told() -> None:
    graph = loaded(deep(8, declared=-1))
    found = rewrite(graph, "sqrt")
    assert copied(found) == copied(rewrite(loaded(deep(8)), "sqrt"))
    assert found.notes == ()
    assert graph.file is not None
    unfed = rewrite_training(replace(graph.file, steps=None), Strategy(recompute=("sqrt",)))
    assert unfed.notes == (
        "unknown dimensions count as 1 for the bytes of segments: "
        "block0/layer0/z, block0/layer0/h, block0/layer1/z, block0/layer1/h and 12 more",
    )


@pytest.mark.slow
def test_random_numbers_and_updates_of_statistics_are_not_repeated(tmp_path: Path) -> None:
    found = check(script(tmp_path / "residual.py", RESIDUAL), "4")
    again = [new for new in found.file.graph.nodes if new.name.startswith("recompute/")]
    assert again
    assert not any(new.signature.is_stateful or new.op.startswith("Assign") for new in again)


@pytest.mark.slow
def test_nodes_of_branches_are_not_recomputed_and_no_copy_waits_for_them(tmp_path: Path) -> None:
    graph = script(tmp_path / "branches.py", BRANCHES)
    for count in ("2", "5"):
        found = check(graph, count)
        assert copied(found) >= {"dense/MatMul", "dense/BiasAdd", "dense/Tanh"}
        assert not any(name.startswith("cond/dense") for name in copied(found))


LOOP = """
import tensorflow.compat.v1 as tf

tf.disable_v2_behavior()
tf.disable_control_flow_v2()
tf.set_random_seed(1)
x, w = tf.placeholder(tf.float32, [4, 3], name="x"), tf.get_variable("w", [3, 3])
h = tf.tanh(tf.matmul(tf.tanh(tf.matmul(x, w)), w))
_, h = tf.while_loop(lambda i, h: i < 2, lambda i, h: (i + 1, tf.tanh(tf.matmul(h, w))), (0, h))
h = tf.tanh(tf.matmul(tf.tanh(tf.matmul(h, w)), w))
loss = tf.reduce_mean(tf.matmul(h, w))
train = tf.train.MomentumOptimizer(1e-2, 9e-1).minimize(loss)
with tf.Session() as session:
    session.run(tf.global_variables_initializer())
    session.run([loss, train], {x: [[1, 2, 3], [2, 3, 1], [3, 1, 2], [0, 1, 2]]})
"""


@pytest.mark.slow
def test_nodes_of_loops_are_not_recomputed(tmp_path: Path) -> None:
    graph = script(tmp_path / "loop.py", LOOP)
    for count in ("2", "sqrt", "6"):
        assert copied(check(graph, count)) == {"MatMul", "Tanh"}


def test_a_deep_network_needs_less_memory() -> None:
    document = deep()
    sources = (document, placesim.parallelize(document, recompute="sqrt"))
    before, after = (placesim.memory(source, soft_placement=True).memory[1].peak for source in sources)
    assert after < 0.7 * before


def test_a_copy_waits_for_the_gradient_of_its_segment_and_an_update_for_the_copy() -> None:
    found = check(loaded(deep()), "block1", "block2/")
    graph = found.file.graph
    assert copied(found) == {f"block{i // 4}/layer{i}/{name}" for i in (*range(4, 7), *range(8, 11)) for name in "zh"}
    first = graph.node("recompute/block1/layer4/z")
    assert graph.input_texts(first)[0] == "block0/layer3/h"
    (start,) = (graph.nodes[number].name for number in first.control_inputs)
    assert start.startswith("gradients/block2/layer8/z_grad/")
    update = next(new for new in graph.nodes if new.op == "ApplyGradientDescent" and new.input_nodes[0] == graph.ids["w4"])
    assert first.id in update.control_inputs
    assert rewrite(loaded(deep()), "block1/layer4", "block2").notes == ("nothing to recompute in block1/layer4/",)


def test_replicas_recompute_their_parts() -> None:
    graph = loaded(recurrent("momentum"))
    found = rewrite(graph, "sqrt", replicas=2)
    assert "tower_1/recompute/h1" in found.file.graph.ids
    for (name, array), (_, other) in zip(results(graph), results(graph, found.file), strict=True):
        np.testing.assert_allclose(other, array, rtol=1e-5, atol=1e-7, err_msg=name)


MEANS = """
import numpy as np
import tensorflow.compat.v1 as tf

tf.disable_v2_behavior()
tf.set_random_seed(1)
x, y = tf.placeholder(tf.float32, [8, 3], name="x"), tf.placeholder(tf.float32, [8, 2], name="y")
hidden = tf.layers.dense(x, 4, tf.tanh)
squares = tf.losses.mean_squared_error(y, tf.layers.dense(hidden, 2))
loss = squares + 0.3 * tf.losses.huber_loss(y, tf.layers.dense(hidden, 2))
train = tf.train.AdamOptimizer(1e-2).minimize(loss)
random = np.random.RandomState(1)
with tf.Session() as session:
    session.run(tf.global_variables_initializer())
    session.run([loss, squares, train], {x: random.randn(8, 3), y: random.randn(8, 2)})
"""
"""Two losses, each a sum that is divided by a number of elements that the graph makes of constants."""


@pytest.mark.slow
def test_recomputed_numbers_of_elements_are_those_of_a_part(tmp_path: Path) -> None:
    graph = script(tmp_path / "means.py", MEANS)
    assert graph.file is not None
    expected = results(graph)
    divided: list[dict[str, Any]] = [{"replicas": 2}, {"accumulate": 4}, {"stages": 2, "micro_batches": 2}]
    for settings in divided:
        found = rewrite_training(graph.file, Strategy(**settings, recompute=("2",)))
        assert any("num_present" in name for name in copied(found))
        # a file that recomputes already is divided in the same way
        again = rewrite_training(rewrite(graph, "2").file, Strategy(**settings))
        for file in (found.file, again.file):
            for (name, array), (_, other) in zip(expected, results(graph, file), strict=True):
                np.testing.assert_allclose(other, array, rtol=1e-5, atol=1e-7, err_msg=f"{name} with {settings}")


def test_what_cannot_be_recomputed_is_refused() -> None:
    graph = loaded(deep(4))
    with pytest.raises(UsageError, match=r"no such scope: got 'blok0' in --recompute, .*did you mean 'block0/'"):
        rewrite(graph, "blok0/")
    with pytest.raises(UsageError, match="wrong recompute: got 0, expected a number of segments of 1 or more"):
        Strategy(recompute=("0",))
    with pytest.raises(UsageError, match="wrong recompute: got sqrt, block0, expected sqrt alone, or scopes"):
        rewrite(graph, "sqrt", "block0")
    with pytest.raises(UsageError, match="wrong recompute: got 4, 0, expected 4 alone, or scopes"):
        Strategy(recompute=("4", "0"))
    with pytest.raises(UsageError, match="nothing to recompute: got 10 forward nodes") as caught:
        rewrite(loaded(deep(4)), "block0/layer1")
    assert caught.value.type_name == "UsageError"
    assert copied(rewrite(loaded(dense("adam")), "sqrt")) == {"xw", "z", "h"}
    with pytest.raises(UsageError, match="nothing to recompute: got 3 forward nodes"):
        rewrite(loaded(MODELS["queued"]("adam")), "sqrt")
