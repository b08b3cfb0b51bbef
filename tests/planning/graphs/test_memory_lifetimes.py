"""What a walk held, as a problem of peaks: near the allocators' own, and never below what no placement could have less of."""

from __future__ import annotations

from pathlib import Path

import pytest

from placesim.formats.sources.loading import load
from placesim.machine.options import make_options
from placesim.planning.bounds import best_bound
from placesim.planning.graphs.plan_comparison import Aim, PlanMeasure
from placesim.planning.graphs.problem_building import GraphProblem, ProblemRequest, build_problem
from placesim.planning.peaks import peak_plan
from placesim.planning.portfolio import Effort
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


@pytest.mark.slow
def test_alexnet_has_a_plan_of_least_memory_that_is_proven() -> None:
    """Its largest variable is given a value of its own size, which lies beside it: no placement can have less at once."""
    made = make_options({"gpu": 2, "gpu_model": "Tesla V100-SXM2-16GB", "soft_placement": True})
    effort = Effort(evaluations=6000, jobs=1)
    study = study_plan(load(GRAPHS / "alexnet.yaml", None, made), made, "g", effort, ("*",), aim=Aim(PlanMeasure.MEMORY))
    assert study.bound.value >= 2 * 4096 * 4096 * 4
    assert study.gap < NEAR
    others = [placed.value(PlanMeasure.MEMORY) for placed in study.placements if not placed.label.startswith("the plan")]
    assert study.value < min(others)
