"""Pipelines compute the same losses and variables as the whole batch on one device, in the order of their schedule."""

from __future__ import annotations

from dataclasses import replace
from itertools import combinations, pairwise
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

import placesim
from placesim.core.errors import UsageError
from placesim.formats.sources.loading import LoadedGraph, load
from placesim.planning.strategies.pipelines.cuts import balanced_cuts
from placesim.planning.strategies.pipelines.schedules import GPIPE, INTERLEAVED, ONE_F_ONE_B, Pass, Schedule
from placesim.planning.strategies.rewriting import Strategy, TrainingRewrite, rewrite_training
from tests.planning.strategies.models import (
    CASES,
    MODELS,
    Document,
    attention,
    dense,
    loaded,
    node,
    placeholder,
    results,
    training,
    variable,
)
from tests.planning.strategies.test_recomputation import deep
from tests.planning.strategies.test_replication import BRANCHES, LOOP, NORMALIZED, WORDS, script
from tests.processes import ROOT


def rewrite(graph: LoadedGraph, **settings: Any) -> TrainingRewrite:
    assert graph.file is not None
    return rewrite_training(graph.file, Strategy(**({"stages": 2} | settings)))


def check(graph: LoadedGraph, *strategies: dict[str, Any]) -> list[TrainingRewrite]:
    """Compare the results of the steps of a graph with those of its pipelines, bit for bit with one micro-batch."""
    expected, found = results(graph), []
    for settings in strategies:
        found.append(rewrite(graph, **settings))
        for (name, array), (other_name, other) in zip(expected, results(graph, found[-1].file), strict=True):
            assert name == other_name
            if found[-1].strategy.parts == 1:
                np.testing.assert_array_equal(other, array, err_msg=f"{name} with {settings}")
            else:
                np.testing.assert_allclose(other, array, rtol=1e-5, atol=1e-7, err_msg=f"{name} with {settings}")
    return found


# --- results --------------------------------------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.parametrize(("model", "optimizer"), CASES)
def test_pipelines_give_the_losses_and_variables_of_one_device(model: str, optimizer: str) -> None:
    check(
        loaded(MODELS[model](optimizer)),
        {"stages": 3},
        {"micro_batches": 4},
        {"stages": 3, "micro_batches": 2, "schedule": GPIPE},
        {"micro_batches": 2, "schedule": INTERLEAVED} if model != "queued" else {"micro_batches": 8},
    )


def test_one_micro_batch_gives_the_same_bits_and_several_the_same_results() -> None:
    check(loaded(attention("adam")), {"stages": 3}, {"micro_batches": 4}, {"micro_batches": 2, "schedule": INTERLEAVED})


def test_pipelines_are_replicated_and_recompute_their_stages() -> None:
    graph = loaded(attention("momentum"))
    mirrored, recomputed = check(
        graph,
        {"replicas": 2, "micro_batches": 2, "variables": "mirrored", "reduce": "ring"},
        {"micro_batches": 2, "recompute": ("sqrt",)},
    )
    devices = {new.device for new in mirrored.file.graph.nodes if new.op == "ApplyMomentum"}
    assert devices == {f"/device:GPU:{i}" for i in range(4)}
    names = recomputed.file.graph.ids
    copies = [name for name in names if "/recompute/" in name]
    assert copies
    assert recomputed.pipeline is not None
    # no copy of a stage reads a copy of another
    new = recomputed.file.graph
    for name in copies:
        for source in new.node(name).input_nodes:
            if "/recompute/" in new.nodes[source].name:
                assert new.nodes[source].device == new.node(name).device


def test_a_graph_that_recomputes_already_gets_stages() -> None:
    (found,) = check(load(ROOT / "graphs/recomputation.yaml"), {"micro_batches": 4, "recompute": ("sqrt",)})
    assert any("recompute/lower/product1_1" in name for name in found.file.graph.ids)


@pytest.mark.slow
def test_scripts_give_the_same_results(tmp_path: Path) -> None:
    (found,) = check(script(tmp_path / "words.py", WORDS.replace("BATCH", "None")), {"micro_batches": 2})
    devices = {new.name: new.device for new in found.file.graph.nodes}
    assert devices["table"] == devices["table/Adam"] == "/device:GPU:0"
    assert devices["dense/kernel"] == devices["dense/kernel/Adam_1"] == "/device:GPU:1"
    assert any(note.startswith("rnn/basic_lstm_cell/kernel is read in stages 0, 1") for note in found.notes)


CONDITIONAL = """
import numpy as np
import tensorflow.compat.v1 as tf

tf.disable_v2_behavior()
tf.disable_control_flow_v2()
x, first = tf.placeholder(tf.float32, [4, 3], name="x"), tf.placeholder(tf.bool, [], name="first")
a, b, c = (tf.get_variable(name, [3, 3], initializer=tf.ones_initializer()) for name in "abc")
h = tf.matmul(x, a)
h = tf.cond(first, lambda: tf.nn.relu(tf.matmul(h, b)) * 2.0, lambda: tf.tanh(tf.matmul(h, c)))
loss = tf.reduce_mean(tf.square(h))
train = tf.train.MomentumOptimizer(1e-2, 9e-1).minimize(loss)
with tf.Session() as session:
    session.run(tf.global_variables_initializer())
    session.run([loss, train], {x: np.random.RandomState(1).randn(4, 3), first: False})
"""


@pytest.mark.slow
def test_a_pass_does_not_wait_for_a_branch_that_is_not_taken(tmp_path: Path) -> None:
    check(script(tmp_path / "conditional.py", CONDITIONAL), {"micro_batches": 4})


@pytest.mark.slow
def test_stages_begin_and_end_within_branches(tmp_path: Path) -> None:
    graph = script(tmp_path / "branches.py", BRANCHES)
    check(
        graph,
        {"stages": 9},
        {"stages": 9, "micro_batches": 4, "schedule": GPIPE},
        {"micro_batches": 8, "schedule": INTERLEAVED, "chunks": 5},
    )


def tied(examples: int = 4) -> Document:
    """A network whose first layer's weights are transposed in the last one."""
    nodes = [
        *(placeholder("x", examples, 5), variable("w", 5, 3, seed=1), variable("v", 3, 3, seed=2)),
        *(node("MatMul", "a", "x", "w"), node("Tanh", "h", "a"), node("MatMul", "b", "h", "v"), node("Tanh", "g", "b")),
        *(node("MatMul", "c", "g", "w", transpose_b=True), node("SquaredDifference", "errors", "c", "x")),
        node("Mean", "loss", "errors", [0, 1]),
    ]
    return training(nodes, "momentum", lambda random: {"x": random.randn(examples, 5)})


def test_a_variable_of_two_stages_is_in_the_first_and_its_gradients_are_added_there() -> None:
    (found,) = check(loaded(tied()), {"micro_batches": 2, "stage": ("c",)})
    assert found.notes == ("w is read in stages 0, 1: it belongs to stage 0, where its gradients are added",)
    graph = found.file.graph
    assert graph.node("w").device == graph.node("w/Momentum").device == "/device:GPU:0"
    assert graph.node("micro_batch_1/c").device == "/device:GPU:1"
    (total,) = (new for new in graph.nodes if new.op == "AddN" and new.name.startswith("micro_batch_0/gradients"))
    assert total.device == "/device:GPU:0"
    assert [graph.nodes[source].device[-1] for source in total.input_nodes] == ["1", "0"]


def large(layers: int) -> Document:
    """Layers of equal size that keep a GPU busy, for dry runs."""
    nodes = [placeholder("x", 4096, 512)]
    for i in range(layers):
        nodes += [variable(f"w{i}", 512, 512, seed=i), node("MatMul", f"z{i}", f"h{i - 1}" if i else "x", f"w{i}")]
        nodes += [node("Tanh", f"h{i}", f"z{i}")]
    nodes += [node("Mean", "loss", f"h{layers - 1}", [0, 1])]
    found = training(nodes, "momentum", lambda random: {"x": {"zeros": [4096, 512]}})
    return found | {"run": found["run"][:2]}


# --- schedules ------------------------------------------------------------------------------------------------------

SCHEDULES = [
    *(Schedule(name, devices, count) for name in (GPIPE, ONE_F_ONE_B) for devices, count in ((1, 3), (2, 2), (4, 3), (4, 8))),
    *(Schedule(INTERLEAVED, *sizes) for sizes in ((2, 4, 3), (3, 6, 2), (4, 4, 2), (4, 16, 4))),
]


@pytest.mark.parametrize("schedule", SCHEDULES, ids=str)
def test_the_simulated_bubble_is_the_closed_form_for_equal_stages(schedule: Schedule) -> None:
    for backward in (0.5, 1.0, 2.0):
        seconds = {False: 1.0, True: backward}
        times = schedule.simulate(lambda own, seconds=seconds: seconds[own.is_backward])  # type: ignore[misc]
        assert times.idle_share == pytest.approx(schedule.ideal_idle_share, abs=1e-12)
    assert schedule.simulate(lambda own: 1.0, lambda stage: 0.1).idle_share >= schedule.ideal_idle_share
    for device in range(schedule.devices):
        most = max(map(sum, schedule.alive(device)))
        if schedule.name == GPIPE:
            assert most == schedule.micro_batches
        if schedule.name == ONE_F_ONE_B:
            assert most == min(schedule.micro_batches, schedule.devices - device)


@pytest.mark.parametrize("schedule", [GPIPE, ONE_F_ONE_B, INTERLEAVED])
def test_each_gpu_runs_its_passes_in_the_order_of_the_schedule(schedule: str) -> None:
    graph = placesim.parallelize(large(8), stages=2, micro_batches=4, schedule=schedule)
    pipeline, nodes = graph.rewrite.pipeline, graph.rewrite.training.graph.nodes
    assert pipeline is not None
    stage_of = {nodes[number].name: stage for number, stage in pipeline.stage_of.items()}
    spans: dict[Pass, list[tuple[float, float]]] = {}
    for run in placesim.simulate(graph).nodes:
        scope, _, name = run.node.partition("/")
        if scope.startswith("micro_batch_") and name in stage_of and run.op != "Const":
            own = Pass(int(scope.removeprefix("micro_batch_")), stage_of[name], name.startswith("gradients/"))
            spans.setdefault(own, []).append((run.start, run.end))
    for device in range(2):
        order = pipeline.schedule.order(device)
        assert set(order) == {own for own in spans if own.stage % 2 == device}
        for one, two in pairwise(order):
            assert max(end for _, end in spans[one]) <= min(start for start, _ in spans[two])


@pytest.mark.slow
def test_the_schedule_keeps_the_memory_that_it_promises() -> None:
    peaks = {}
    for schedule in (GPIPE, ONE_F_ONE_B):
        graph = placesim.parallelize(large(12), stages=4, micro_batches=8, schedule=schedule)
        peaks[schedule] = [usage.peak for usage in placesim.memory(graph).memory[1:]]
        pipeline = graph.rewrite.pipeline
        assert pipeline is not None
        np.testing.assert_allclose(pipeline.memory, peaks[schedule], rtol=0.15)
        alive = [max(map(sum, pipeline.schedule.alive(device))) for device in range(4)]
        assert alive == ([8] * 4 if schedule == GPIPE else [4, 3, 2, 1])
    assert all(one < 0.9 * all_at_once for one, all_at_once in zip(peaks[ONE_F_ONE_B], peaks[GPIPE], strict=True))


# --- cuts -----------------------------------------------------------------------------------------------------------


def test_the_balanced_cut_has_the_fastest_slowest_stage_that_fits_and_sends_the_fewest_bytes() -> None:
    random = np.random.RandomState(1)
    for stages in (2, 3, 4):
        costs: Any = SimpleNamespace(
            **{name: random.randint(1, 5, 9).astype(float) for name in ("forward", "backward", "held", "activations")},
            crossing=random.randint(1, 4, 9).astype(float),
            transfer=np.full(9, 0.5),
        )
        schedule = Schedule(ONE_F_ONE_B, stages, 4)
        room = 54

        def rank(
            cuts: tuple[int, ...], costs: Any = costs, stages: int = stages, room: int = room
        ) -> tuple[float, float] | None:
            bounds = [*pairwise((0, *cuts, 9))]
            held = [
                costs.held[first:end].sum() + (stages - stage) * costs.activations[first:end].sum()
                for stage, (first, end) in enumerate(bounds)
            ]
            seconds = [
                (costs.forward + costs.backward)[first:end].sum() + (2 * costs.transfer[first] if first else 0.0)
                for first, end in bounds
            ]
            return None if max(held) > room else (max(seconds), costs.crossing[list(cuts)].sum())

        ranks = {cuts: value for cuts in combinations(range(1, 9), stages - 1) if (value := rank(cuts)) is not None}
        found = balanced_cuts(costs, schedule, room)
        assert found is not None
        assert ranks[found] == pytest.approx(min(ranks.values()))
        assert balanced_cuts(costs, schedule, 1) is None


def test_equal_layers_make_equal_stages_and_scopes_begin_the_named_ones() -> None:
    graph = loaded(deep())
    pipeline = rewrite(graph, stages=4, micro_batches=2).pipeline
    assert pipeline is not None
    assert all(7 <= stage.nodes <= 10 for stage in pipeline.stages)
    for scopes in (("block2", "block1"), ("block0/", "block1/", "block2/")):
        found = rewrite(graph, stages=3, stage=scopes).pipeline
        assert found is not None
        assert [stage.first for stage in found.stages] == ["block0/layer0/z", "block1/layer4/z", "block2/layer8/z"]


def test_the_stages_fit_the_memory_if_some_cut_does() -> None:
    firsts = []
    for megabytes in (16384, 36, 16):
        document = large(8) | {"devices": {"cpu": 1, "gpu": {"count": 2, "memory": f"{megabytes}MiB"}}}
        pipeline = rewrite(loaded(document), micro_batches=4).pipeline
        assert pipeline is not None
        assert (max(pipeline.memory) > megabytes << 20) == (megabytes == 16)
        assert bool(pipeline.notes) == (megabytes == 16)
        firsts.append(pipeline.stages[0].nodes)
    assert firsts[1] < firsts[0] == firsts[2]


@pytest.mark.slow
def test_a_part_of_the_batch_arrives_during_the_pass_before_the_one_that_reads_it() -> None:
    graph = rewrite(loaded(dense("momentum")), micro_batches=4).file.graph
    for micro_batch, name, released in (
        (2, "stage_0/x", "micro_batch_1/stage_0/forward_done"),
        (3, "stage_0/x", "micro_batch_2/stage_0/forward_done"),
        (1, "stage_1/y", "micro_batch_0/stage_1/forward_done"),
        (3, "stage_1/y", "micro_batch_2/stage_1/forward_done"),
    ):
        arriving = graph.node(f"micro_batch_{micro_batch}/{name}")
        assert graph.input_texts(arriving) == [f"shards/{name[-1]}:{micro_batch}", f"^{released}"]
        assert arriving.device == "/device:CPU:0"
    assert "micro_batch_1/stage_0/x" not in graph.ids


@pytest.mark.slow
def test_a_stage_does_not_hold_the_whole_batch() -> None:
    nodes = [placeholder("x", 4096, 1024), variable("w", 1024, 64, seed=1), variable("v", 64, 64, seed=2)]
    nodes += [
        node("MatMul", "a", "x", "w"),
        node("Tanh", "h", "a"),
        node("MatMul", "b", "h", "v"),
        node("Mean", "loss", "b", [0, 1]),
    ]
    document = training(nodes, "gradient descent", lambda random: {"x": {"zeros": [4096, 1024]}})
    graph = placesim.parallelize(document | {"run": document["run"][:2]}, stages=2, micro_batches=16)
    peak = placesim.memory(graph).memory[1].peak
    assert peak < 0.5 * 4 * 4096 * 1024
    pipeline = graph.rewrite.pipeline
    assert pipeline is not None
    assert pipeline.memory[0] == pytest.approx(peak, rel=0.2)


def test_the_batch_is_assumed_only_if_neither_graph_nor_feed_says_it() -> None:
    for declared, said in ((8, False), (-1, True)):
        graph = loaded(dense("momentum", declared))
        assert graph.file is not None
        pipeline = rewrite_training(replace(graph.file, steps=None), Strategy(stages=2)).pipeline
        assert pipeline is not None
        assert any("an assumed batch" in note for note in pipeline.notes) == said


# --- what is refused ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("settings", "expected"),
    [
        ({"stages": 0}, "wrong stages: got 0"),
        ({"schedule": "pipedream"}, "wrong schedule: got 'pipedream', expected one of gpipe, 1f1b, interleaved"),
        ({"stages": 1, "micro_batches": 2}, "no pipeline: got --micro-batches"),
        ({"accumulate": 2}, "two kinds of micro-batches"),
        (
            {"schedule": INTERLEAVED, "micro_batches": 3},
            "no interleaved schedule: got 3 micro-batches, expected a multiple of 2",
        ),
        ({"chunks": 2}, "no chunks: got --chunks with --schedule 1f1b"),
        ({"micro_batches": 3}, "cannot divide the batch into equal parts: got a batch of 8, expected a multiple of 3"),
        ({"stages": 9}, "too many stages: got 9, expected at most 7"),
        ({"stage": ("logit",)}, r"no such scope: got 'logit' in --stage, .*did you mean 'logits'"),
        ({"stage": ("h", "logits", "errors")}, "wrong stages: got h, logits, errors in --stage, expected 2 scopes"),
        ({"stage": ("xw",)}, "wrong stages: got xw in --stage"),
    ],
)
def test_wrong_settings_are_refused(settings: dict[str, Any], expected: str) -> None:
    with pytest.raises(UsageError, match=expected):
        rewrite(loaded(dense("momentum")), **settings)


@pytest.mark.slow
def test_what_has_no_stages_is_refused_or_said(tmp_path: Path) -> None:
    loop = script(tmp_path / "loop.py", LOOP)
    for count in (1, 2):
        with pytest.raises(UsageError, match=r"cannot rewrite a loop as stages: got while/Enter\w* \(Enter\)"):
            rewrite(loop, micro_batches=count)
    found = rewrite(script(tmp_path / "normalized.py", NORMALIZED), micro_batches=2)
    assert "statistics of a part of the batch, not of the whole: batch_normalization/FusedBatchNormV3" in found.notes
    table = [
        *(placeholder("x", 4, dtype="int32"), variable("w", 4, 3, seed=1, kind="resource"), variable("v", 3, 3, seed=2)),
        *(node("ResourceGather", "a", "w:0", "x", dtype="float"), node("MatMul", "b", "a", "v")),
        *(node("ResourceGather", "c", "w:0", "x", dtype="float"), node("SquaredDifference", "errors", "b", "c")),
        node("Mean", "loss", "errors", [0, 1]),
    ]
    graph = loaded(training(table, "gradient descent", lambda random: {"x": random.randint(0, 4, 4)}))
    check(graph, {}, {"micro_batches": 2}, {"replicas": 2})
    with pytest.raises(
        UsageError, match=r"cannot cut into stages: got c \(ResourceGather\) in stage 1, which needs the variable w of stage 0"
    ):
        rewrite(graph, stage=("b",))
