"""Predictions for rewritten training graphs, and the number of segments with the least peak."""

from __future__ import annotations

from dataclasses import replace
from functools import cache

import pytest

from placesim.core.errors import UsageError
from placesim.machine.options import make_options
from placesim.planning.strategies.rewriting import Strategy, TrainingRewrite
from placesim.studies.rewrite_study import study_rewrite
from tests.planning.strategies.models import Document, dense, loaded, node, placeholder, training, variable
from tests.planning.strategies.test_recomputation import deep


def study(document: Document, batch: int | None = None, **settings: object) -> TrainingRewrite:
    options = make_options({"soft_placement": True, "batch": batch})
    return study_rewrite(loaded(document), options, "model", Strategy(**settings))  # type: ignore[arg-type]


def few_steps(layers: int) -> Document:
    """A deep network whose variables are initialized, and then trained once."""
    network = deep(layers)
    return network | {"run": network["run"][:2]}


@cache
def automatic() -> TrainingRewrite:
    return study(few_steps(12), recompute=("auto",))


def segments(found: TrainingRewrite) -> int:
    assert found.recomputation is not None
    return found.recomputation.segments


@pytest.mark.slow
def test_the_number_of_segments_with_the_least_peak_is_chosen() -> None:
    best = automatic()
    assert best.effect is not None
    assert best.strategy.recompute[0].isdecimal()
    for count in ("2", "5", "sqrt"):
        other = study(few_steps(12), recompute=(count,))
        assert other.effect is not None
        assert other.effect.peak_before == best.effect.peak_before
        assert other.effect.peak_after >= best.effect.peak_after
    assert best.effect.device == "GPU:0"
    assert best.effect.peak_after < 0.7 * best.effect.peak_before
    assert best.effect.seconds_after > best.effect.seconds_before


@pytest.mark.slow
def test_the_prediction_compares_with_the_other_strategies_alone() -> None:
    alone, divided = automatic(), study(few_steps(12), recompute=("auto",), replicas=2)
    assert alone.effect is not None
    assert divided.effect is not None
    assert divided.effect.peak_before < 0.6 * alone.effect.peak_before
    assert study(few_steps(12), replicas=2).effect is None


@pytest.mark.parametrize(
    ("tables", "reason"),
    [(1, ", whose inputs and outputs take 2.0 MiB, recomputed or not"), (4, ", with 0 B of tensors of the forward pass")],
)
def test_a_rewrite_that_saves_no_memory_is_told_with_the_reason(tables: int, reason: str) -> None:
    large = deep(4)  # the initialization of the tables needs the most memory
    large["nodes"] = [*(variable(f"table{i}", 512, 512, seed=1) for i in range(tables)), *large["nodes"]]
    (note,) = study(large, recompute=("sqrt",)).notes
    assert note.startswith("recomputation saves no memory: the peak of ")
    assert f"/Assign{reason}" in note
    assert note.endswith(reason)
    with pytest.raises(UsageError, match=r"recomputation saves no memory: the peak of .* MiB on GPU:0 is at "):
        study(large, recompute=("auto",))


POOLED: Document = {
    "devices": {"cpu": 1, "gpu": 1},
    "nodes": [
        {"op": "Placeholder", "name": "x", "dtype": "float32", "shape": [None, 32, 32, 3]},
        variable("k", 3, 3, 3, 16, seed=1),
        {"op": "Conv2D", "name": "c", "inputs": ["x", "k"], "attrs": {"strides": [1, 1, 1, 1], "padding": "SAME"}},
        {"op": "Relu", "name": "r", "inputs": ["c"]},
        {
            "op": "MaxPool",
            "name": "p",
            "inputs": ["r"],
            "attrs": {"ksize": [1, 2, 2, 1], "strides": [1, 2, 2, 1], "padding": "SAME"},
        },
        {"op": "Mean", "name": "loss", "inputs": ["p", [0, 1, 2, 3]]},
        {"name": "train", "train": {"minimize": "loss", "optimizer": {"GradientDescent": {"learning_rate": 0.1}}}},
        {"initializer": "init"},
    ],
    "run": [{"fetch": ["init"]}, {"fetch": ["train"]}],
}


def test_a_peak_at_one_node_is_told_as_that() -> None:
    # a segment cannot free the inputs of the node at the peak, which it computes for this node
    why = r"at gradients/p_grad/MaxPoolGrad, whose inputs and outputs take .* MiB, recomputed or not$"
    with pytest.raises(UsageError, match=why):
        study(POOLED, batch=64, recompute=("auto",))


def test_without_sizes_there_is_no_prediction() -> None:
    graph = loaded(dense("adam", declared=-1))
    assert graph.file is not None
    unfed = tuple(replace(step, feeds=()) for step in graph.file.steps or ())
    graph = replace(graph, file=replace(graph.file, steps=unfed), text=None)
    options = make_options({"soft_placement": True})
    found = study_rewrite(graph, options, "model", Strategy(precision="float16"))
    assert found.effect is None
    assert found.notes == ("no prediction of memory and time: placeholders have unknown shapes: x [?,6], y [?]",)
    with pytest.raises(UsageError, match="placeholders have unknown shapes"):
        study_rewrite(graph, options, "model", Strategy(recompute=("auto",)))
    sized = make_options({"soft_placement": True, "batch": 8})
    assert study_rewrite(graph, sized, "model", Strategy(precision="float16")).effect is not None


def test_half_precision_needs_less_memory_and_time_where_a_gpu_has_units_for_it() -> None:
    def effect(model: str) -> tuple[float, float]:
        nodes = [placeholder("x", 4096, 1024), *(variable(f"w{i}", 1024, 1024, seed=i) for i in range(3))]
        for i in range(3):
            nodes += [node("MatMul", f"z{i}", f"h{i - 1}" if i else "x", f"w{i}"), node("Relu", f"h{i}", f"z{i}")]
        document = training(
            [*nodes, node("Mean", "loss", "h2", [0, 1])], "momentum", lambda random: {"x": {"zeros": [4096, 1024]}}
        )
        options = make_options({"soft_placement": True, "gpu": 1, "gpu_model": model})
        found = study_rewrite(loaded(document), options, "model", Strategy(precision="float16")).effect
        assert found is not None
        return found.peak_after / found.peak_before, found.seconds_after / found.seconds_before

    memory, time = effect("Tesla V100-SXM2-16GB")
    assert memory < 0.85
    assert time < 0.5
    memory, time = effect("Tesla K80")
    assert memory < 0.85
    assert time > 0.9


def test_a_fed_batch_without_equal_parts_is_refused() -> None:
    unknown = dense("momentum", declared=-1)
    for settings in ({"replicas": 3}, {"stages": 2, "micro_batches": 3}, {"accumulate": 3, "recompute": ("auto",)}):
        with pytest.raises(
            UsageError,
            match="cannot divide the batch into equal parts: got a batch of 8 in a feed of x, expected a multiple of 3",
        ):
            study(unknown, **settings)
    assert study(unknown, batch=24, replicas=3).batch == {"x": 24, "y": 24}
    with pytest.raises(
        UsageError, match="cannot divide the batch into equal parts: got a batch of 20 for x, expected a multiple of 3"
    ):
        study(unknown, batch=20, replicas=3)


def test_replicas_are_on_the_gpus_of_all_tasks() -> None:
    hosts = {"devices": [{"job": "worker", "tasks": 2, "cpu": 1, "gpu": 2}]}
    document = dense("momentum") | hosts
    for settings in ({"replicas": 4}, {"replicas": 2, "stages": 2, "variables": "mirrored", "reduce": "ring"}):
        found = study(document, **settings)
        gpus = {node.device for node in found.file.graph.nodes if "GPU" in node.device}
        assert gpus == {f"/job:worker/replica:0/task:{task}/device:GPU:{gpu}" for task in range(2) for gpu in range(2)}
        assert [task.gpu for task in found.file.inventory or ()] == [2]
    # those of the first task are enough, or all are too few
    two, eight = study(document, replicas=2), study(document, replicas=8)
    assert {node.device for node in two.file.graph.nodes if "GPU:1" in node.device} == {
        "/job:worker/replica:0/task:0/device:GPU:1"
    }
    assert [task.gpu for task in eight.file.inventory or ()] == [8]
    with pytest.raises(UsageError, match="cannot use NcclAllReduce between tasks: got GPUs of 2 tasks"):
        study(document, replicas=4, reduce="nccl")
    # the first task is the first of the file
    more = [{"job": "worker", "tasks": 1, "cpu": 1, "gpu": 2}, {"job": "other", "tasks": 1, "cpu": 1, "gpu": 1}]
    two = study(document | {"devices": more}, replicas=2, reduce="nccl", variables="mirrored")
    assert {node.device for node in two.file.graph.nodes if "GPU" in node.device} == {
        f"/job:worker/replica:0/task:0/device:GPU:{gpu}" for gpu in range(2)
    }


def test_a_machine_with_fewer_gpus_than_replicas_is_noted() -> None:
    graph = dense("adam", declared=-1) | {"devices": {"cpu": 1, "gpu": 1}}
    assert study(graph, replicas=2).notes == ("the machine has 1 GPU, and the new graph's machine has 2",)
    graph["devices"] = {"cpu": 1, "gpu": 2}
    assert study(graph, replicas=2).notes == ()


def test_the_batch_of_an_option_replaces_an_unknown_one() -> None:
    assert {*study(dense("adam", declared=-1), replicas=2).batch.values()} == {None}
    assert {*study(dense("adam", declared=-1), 64, replicas=2).batch.values()} == {64}
