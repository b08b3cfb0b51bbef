"""What a walk held, as a problem of peaks: near the allocators' own, and never below what no placement could have less of."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from placesim.formats.sources.loading import load
from placesim.machine.memory.buffer_sources import JournalEntry
from placesim.machine.memory.buffers import Buffer
from placesim.machine.options import make_options
from placesim.planning.bounds import best_bound
from placesim.planning.graphs.memory_lifetimes import (
    MemoryLifetimes,
    StepOrder,
    StepTasks,
    add_scratch,
    bound_peak,
    scratch_sizes,
)
from placesim.planning.graphs.plan_comparison import Aim, PlanMeasure
from placesim.planning.graphs.problem_building import GraphProblem, ProblemRequest, build_problem
from placesim.planning.peaks import peak_plan
from placesim.planning.portfolio import Effort
from placesim.planning.problem import ProblemTensor
from placesim.runtime.recording.recorder import BufferRead, ExecutionRecorder
from placesim.studies.plan_study import study_plan
from placesim.studies.time_study import dry_run_steps

GRAPHS = Path(__file__).parents[3] / "graphs"
NEAR = 0.03
"""An allocator's chunks are larger than what was asked for, by as much as that in these graphs."""


def drawn_of(source: object, **options: object) -> tuple[GraphProblem, int]:
    """The problem of a graph's peaks, and the highest one of the walk that it was drawn from."""
    made = make_options({"soft_placement": True, **options})
    loaded = load(source, None, made)  # type: ignore[arg-type]
    assert loaded.file is not None
    walked = dry_run_steps(load(source, None, made), made)  # type: ignore[arg-type]
    wanted = ProblemRequest(PlanMeasure.MEMORY, recorder=walked.recorder)
    drawn = build_problem(loaded.file.graph, walked.prepared[-1], walked.steps[-1], walked.machine, wanted)
    return drawn, max(peak or 0 for peak in walked.peaks.values())


@pytest.mark.slow
@pytest.mark.parametrize("name", ["cifar10-towers.yaml", "alexnet.yaml"])
def test_the_peak_of_the_placement_that_was_walked_is_foreseen(name: str) -> None:
    drawn, peak = drawn_of(GRAPHS / name, gpu=2, gpu_model="Tesla V100-SXM2-16GB")
    assert peak_plan(drawn.problem, drawn.start).value == pytest.approx(peak, rel=NEAR)
    assert 0 < drawn.least_peak.value <= peak
    assert best_bound(drawn.problem).value <= peak_plan(drawn.problem, drawn.start).value


SIZE = 1024 * 1024 * 4


def test_what_a_node_reads_and_makes_is_all_on_its_device() -> None:
    graph = {
        "devices": {"cpu": 1, "gpu": {"count": 2, "model": "Tesla V100-SXM2-16GB"}},
        "nodes": [
            {"op": "Placeholder", "name": "x", "dtype": "float32", "shape": [1024, 1024]},
            {"op": "Exp", "name": "a", "inputs": ["x"]},
            {"op": "Log", "name": "b", "inputs": ["a"]},
            {"op": "MatMul", "name": "c", "inputs": ["a", "b"]},
            {"op": "MatMul", "name": "d", "inputs": ["c", "b"]},
        ],
        "fetch": ["d"],
    }
    drawn, peak = drawn_of(graph)
    # c reads a and b; what it makes could lie in neither as far as the bound knows sizes
    assert 2 * SIZE <= drawn.least_peak.value <= peak
    study = study_plan(
        load(graph, None, make_options({})),
        make_options({}),
        "g",
        Effort(evaluations=500, jobs=1),
        ("*",),
        aim=Aim(PlanMeasure.MEMORY),
    )
    assert study.plan is not None
    assert study.bound.value <= study.value <= 3 * SIZE * (1 + NEAR)


@pytest.mark.parametrize("kind", ["ref", "resource"])
def test_variables_that_no_step_initializes_take_their_place(kind: str) -> None:
    graph = {
        "devices": {"cpu": 1, "gpu": {"count": 2, "model": "Tesla V100-SXM2-16GB"}},
        "nodes": [
            {"op": "Placeholder", "name": "x", "dtype": "float32", "shape": [8, 1024]},
            {"variable": "v", "shape": [1024, 1024], "initializer": "zeros", "kind": kind},
            {"variable": "w", "shape": [1024, 1024], "initializer": "zeros", "kind": kind},
            {"op": "MatMul", "name": "a", "inputs": ["x", "v"]},
            {"op": "MatMul", "name": "b", "inputs": ["a", "w"]},
        ],
        "fetch": ["b"],
    }
    drawn, peak = drawn_of(graph)
    assert 2 * SIZE < peak < 2 * SIZE * (1 + NEAR)
    assert peak_plan(drawn.problem, drawn.start).value == pytest.approx(peak, rel=NEAR)
    # at best each is on its own device
    assert SIZE <= drawn.least_peak.value <= SIZE * (1 + NEAR)


@pytest.mark.slow
def test_alexnet_has_a_plan_of_least_memory_that_is_proven() -> None:
    """Its largest variable is given a value of its own size, which lies beside it: no placement can have less at once."""
    made = make_options({"gpu": 2, "gpu_model": "Tesla V100-SXM2-16GB", "soft_placement": True})
    effort = Effort(evaluations=300, jobs=1)
    study = study_plan(load(GRAPHS / "alexnet.yaml", None, made), made, "g", effort, ("*",), aim=Aim(PlanMeasure.MEMORY))
    assert study.bound.value >= 2 * 4096 * 4096 * 4
    assert study.gap < NEAR
    others = [placed.value(PlanMeasure.MEMORY) for placed in study.placements if not placed.label.startswith("the plan")]
    assert study.value < min(others)


# --- by hand

STEP: dict[str, Any] = {
    "devices": {"cpu": 1, "gpu": {"count": 2, "model": "Tesla V100-SXM2-16GB"}},
    "nodes": [
        {"op": "Placeholder", "name": "x", "dtype": "float32", "shape": [64, 64]},
        {"op": "Const", "name": "c", "dtype": "float32", "shape": [65, 3], "value": 0.5, "device": "/gpu:0"},
        {"variable": "v", "shape": [64, 64], "initializer": "zeros", "device": "/gpu:0"},
        {"initializer": "init"},
        {"op": "MatMul", "name": "a", "inputs": ["x", "v"], "device": "/gpu:0"},
        {"op": "Exp", "name": "b", "inputs": ["a"], "device": "/gpu:1"},
        {"op": "Mul", "name": "d", "inputs": ["b", "a"], "device": "/gpu:1"},
        {"op": "Exp", "name": "e", "inputs": ["c"], "device": "/gpu:1"},
        {"op": "Assign", "name": "set", "inputs": ["v", "a"], "device": "/gpu:0"},
    ],
    "run": [{"fetch": ["init"]}, {"fetch": ["d", "e", "set"]}],
}


def test_tensors_are_those_that_a_walk_made_with_their_makers_and_readers() -> None:
    problem = drawn_of(STEP)[0].problem
    names = [task.name for task in problem.tasks]
    assert {task.name: task.holds for task in problem.tasks if task.holds} == {
        "v/Initializer/zeros/shape_as_tensor": 256, "v/Initializer/zeros/Const": 256
    }  # fmt: skip
    made = [(t.size, names[t.task], [names[reader] for reader, _ in t.reads], t.is_kept) for t in problem.tensors]
    size = 64 * 64 * 4
    assert sorted(made) == sorted([
        # copies of the initializer's constants, which are held on the host
        (256, "v/Initializer/zeros/shape_as_tensor", ["v/Initializer/zeros"], True),
        (256, "v/Initializer/zeros/Const", ["v/Initializer/zeros"], True),
        # a GPU's scratch buffer stays with the task that is the first there; 65 x 3 floats are 780 bytes
        (1280, "v", ["v"], False),
        (1280, "e", ["e"], False),
        (1024, "c", ["c"], False),
        (size, "v/Initializer/zeros", ["v/Assign"], False),
        # the variable's memory, from its first value on, and its readers elsewhere
        (size, "v/Assign", ["v/Assign"], False),
        (size, "v/Assign", ["v/read", "a"], True),
        (size, "_arg_x_0_0", ["a"], True),
        (size, "a", ["set", "b", "d"], False),
        # d lies where b lay
        (size, "b", [], False),
    ])  # fmt: skip
    assert all(at >= tensor.made for tensor in problem.tensors for _, at in tensor.reads)
    end = max(at for tensor in problem.tensors for _, at in tensor.reads)
    assert {names[t.task] for t in problem.tensors if end in dict(t.reads).values()} == {"v", "v/Assign", "c", "e"}


FIRST = 10
CHAIN = {0: set[int](), 1: {0}, 2: {1}, 3: {2}}
ALL = [True] * 4
HOME, BOTH = frozenset((0,)), frozenset((0, 1))


def bound_of(
    *tensors: tuple[float, int, tuple[int, ...]],
    kept: Sequence[tuple[int, int, int]] = (),
    homes: Sequence[frozenset[int]] = (HOME,) * 4,
    reads: Sequence[bool] = ALL,
    makes: Sequence[bool] = ALL,
    is_kept: bool = False,
) -> float:
    """Of a chain of four tasks that are groups of their own: sizes, makers and readers; -1 reads when the step has ended."""
    held = MemoryLifetimes(kept_since=list(kept))
    for size, maker, readers in tensors:
        moments = [(reader, FIRST + reader) if reader >= 0 else (maker, FIRST + 4) for reader in readers]
        held.tensors.append(ProblemTensor(1024.0, maker, FIRST + maker, tuple(moments), is_kept))
        held.asked.append(int(size))
    executions: list[Any] = [None] * 4
    step = StepTasks(FIRST, executions, [(n,) for n in range(4)])
    later = StepOrder(StepTasks(FIRST + 4, executions, step.tasks), CHAIN, reads, makes)
    return bound_peak(held, [StepOrder(step, CHAIN, reads, makes), later], range(4), homes)


LONG, SHORT, LAST = (100, 0, (3,)), (60, 1, (2,)), (50, 2, (3,))


def test_while_a_task_runs_all_is_there_that_it_or_one_behind_it_reads() -> None:
    # at the third task the first output waits for the fourth, and the second is read
    assert bound_of(LONG, SHORT, LAST) == 160
    # on two devices half of it: the fourth task alone has more
    assert bound_of(LONG, SHORT, LAST, homes=[BOTH] * 4) == 150
    assert bound_of(LONG, SHORT) == 160
    assert bound_of(SHORT, LAST) == 110
    # what is made where something of its size was read may lie there
    assert bound_of(SHORT, (60, 2, (3,))) == 60
    assert bound_of(SHORT, (61, 2, (3,))) == 121
    assert bound_of() == 0


def test_what_a_task_reads_or_makes_elsewhere_does_not_count() -> None:
    assert bound_of(SHORT, LAST, makes=[True, True, False, True]) == 60
    assert bound_of(SHORT, LAST, reads=[True, True, False, True]) == 60
    assert bound_of((60, 1, (-1,)), LAST) == 50
    assert bound_of((60, 1, (1,)), LAST) == 50  # nobody else reads it
    assert bound_of((60, 1, (-1,)), LONG, SHORT, LAST) == 160
    assert bound_of((60, 0, (1,)), is_kept=True) == 60


def test_what_was_kept_before_the_step_is_there_all_the_time() -> None:
    assert bound_of(LONG, SHORT, LAST, kept=[(1, FIRST - 1, 30)]) == 190
    assert bound_of(LONG, SHORT, LAST, kept=[(1, FIRST, 30)]) == 160
    assert bound_of(kept=[(1, 0, 30), (1, 1, 4), (2, 2, 20)], homes=[BOTH] * 4) == 34
    assert bound_of(SHORT, kept=[(2, 0, 30), (3, 0, 300)], homes=[HOME, HOME, HOME, BOTH]) == 300
    assert bound_of(SHORT, kept=[(2, 0, 30)], homes=[BOTH] * 4) == 90


def test_the_order_of_many_tasks_is_not_found_out(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("placesim.planning.graphs.memory_lifetimes.MAX_ORDERED", 4)
    assert bound_of(LONG, SHORT, LAST) == 160
    monkeypatch.setattr("placesim.planning.graphs.memory_lifetimes.MAX_ORDERED", 3)
    assert bound_of(LONG, SHORT, LAST) == 150


def test_scratch_is_what_a_node_makes_and_frees_as_it_runs_and_nobody_reads() -> None:
    scratch, other, read, later = (Buffer(None, size) for size in (100, 300, 500, 700))
    recorder = ExecutionRecorder()
    recorder.reads.append(BufferRead(read, "a", 1))
    recorder.journals = {
        "d": [
            JournalEntry(scratch, True, "a", 1), JournalEntry(scratch, False, "a", 1),
            JournalEntry(other, True, "a", 2), JournalEntry(other, False, "a", 2),
            JournalEntry(read, True, "a", 1), JournalEntry(read, False, "a", 1),
            JournalEntry(later, True, "a", 1), JournalEntry(later, False, "b", 2),
            JournalEntry(Buffer(None, 900), True, "c", 3),
        ],
        "e": [JournalEntry(Buffer(None, 100), True, "a", 5)],
    }  # fmt: skip
    assert scratch_sizes(recorder) == {"a": Counter({100: 1, 300: 1})}
    recorder.journals["e"] = [JournalEntry(scratch, True, "a", 5), JournalEntry(scratch, False, "a", 5)]
    assert scratch_sizes(recorder) == {"a": Counter({100: 2, 300: 1})}


def test_scratch_counts_beyond_what_is_known_for_every_device() -> None:
    held = MemoryLifetimes()
    executions: list[Any] = [None] * 3
    steps = [StepTasks(4, executions, [(0,), (1, 2), (0,)])]
    sizes = {0: Counter({300: 2, 100: 1}), 1: Counter({256: 1}), 2: Counter({50: 1}), 3: Counter({8: 1})}
    add_scratch(held, steps, sizes, {0: Counter({300: 1}), 2: Counter({50: 1})}, HOME)
    # 400 bytes are two pieces of 256; what runs again has its first run's moment
    assert held.tensors == [ProblemTensor(512.0, 0, 4, only_on=HOME), ProblemTensor(256.0, 1, 5, only_on=HOME)]
    assert held.asked == [400, 256]
