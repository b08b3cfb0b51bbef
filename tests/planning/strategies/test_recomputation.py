"""Recomputed forward nodes give the same losses and variables bit for bit, and a deep network needs less memory."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import placesim
from placesim.core.errors import UsageError
from placesim.formats.sources.loading import LoadedGraph
from placesim.planning.strategies.rewriting import Strategy, TrainingRewrite, rewrite_training
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
from tests.planning.strategies.test_replication import NORMALIZED, script


def deep(layers: int = 16) -> Document:
    """Layers of equal size, each in its scope."""
    nodes = [placeholder("x", 256, 8), node("Identity", "h0", "x")]
    for i in range(layers):
        scope, before = f"block{i // 4}/layer{i}", f"block{(i - 1) // 4}/layer{i - 1}/h" if i else "h0"
        nodes += [variable(f"w{i}", 8, 8, seed=i + 1), node("MatMul", f"{scope}/z", before, f"w{i}")]
        nodes += [node("Tanh", f"{scope}/h", f"{scope}/z")]
    nodes += [node("Mean", "loss", nodes[-1]["name"], [0, 1])]
    return training(nodes, "gradient descent", lambda random: {"x": random.randn(256, 8)})


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


@pytest.mark.parametrize("model", MODELS)
@pytest.mark.parametrize("optimizer", ["gradient descent", "adam"])
def test_the_losses_and_variables_are_equal_bit_for_bit(model: str, optimizer: str) -> None:
    assert copied(check(loaded(MODELS[model](optimizer)), "sqrt"))


def test_random_numbers_and_updates_of_statistics_are_not_repeated(tmp_path: Path) -> None:
    found = check(script(tmp_path / "normalized.py", NORMALIZED), "sqrt")
    again = [new for new in found.file.graph.nodes if new.name.startswith("recompute/")]
    assert again
    assert not any(new.signature.is_stateful or new.op.startswith("Assign") for new in again)


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


def test_what_cannot_be_recomputed_is_refused() -> None:
    graph = loaded(deep(4))
    with pytest.raises(UsageError, match=r"no such scope: got 'blok0' in --recompute, .*did you mean 'block0/'"):
        rewrite(graph, "blok0/")
    with pytest.raises(UsageError, match="wrong recompute: got sqrt, block0, expected sqrt alone, or scopes"):
        rewrite(graph, "sqrt", "block0")
    with pytest.raises(UsageError, match="nothing to recompute: got 10 forward nodes"):
        rewrite(loaded(deep(4)), "block0/layer1")
    assert copied(rewrite(loaded(dense("adam")), "sqrt")) == {"logits", "errors"}
