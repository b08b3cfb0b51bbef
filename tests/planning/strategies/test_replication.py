"""Replicas and micro-batches compute the same losses and variables as the whole batch."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest

from placesim.planning.strategies.gradient_reduction import REDUCTIONS
from placesim.planning.strategies.replication import ReplicatedGraph, Replication
from placesim.planning.strategies.training_graph import find_training
from tests.planning.strategies.models import MODELS, OPTIMIZERS, dense, loaded, recurrent, results


def check(document: dict[str, object], *replications: Replication) -> None:
    """Compare the results of the steps of a graph with those of its replicated forms."""
    graph = loaded(document)
    assert graph.file is not None
    training = find_training(graph.file.graph)
    expected = results(graph)
    for replication in replications:
        found = results(graph, ReplicatedGraph(graph.file, training, replication).file())
        assert [name for name, _ in found] == [name for name, _ in expected]
        for (name, array), (_, other) in zip(expected, found, strict=True):
            np.testing.assert_allclose(other, array, rtol=1e-5, atol=1e-7, err_msg=f"{name} with {replication}")


@pytest.mark.parametrize("model", MODELS)
@pytest.mark.parametrize("optimizer", OPTIMIZERS)
def test_parts_of_the_batch_give_the_losses_and_variables_of_the_whole(model: str, optimizer: str) -> None:
    check(MODELS[model](optimizer), Replication(2, 1), Replication(1, 2), Replication(2, 2))


def test_all_reductions_with_shared_and_mirrored_variables_give_the_same_results() -> None:
    ways = [*product(REDUCTIONS, (False, True))]
    check(dense("adam", declared=-1, examples=9), *(Replication(3, 1, *way) for way in ways))
    check(recurrent("momentum"), *(Replication(4, 1, *way) for way in ways), Replication(2, 2, "ring", is_mirrored=True))
