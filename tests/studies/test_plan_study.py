"""The searches of a study of plans: their efforts, and the law that a longer study finds no worse plan."""

from __future__ import annotations

import io
import time

import pytest

from placesim.formats.sources.loading import load
from placesim.machine.options import make_options
from placesim.planning.bounds import Bound
from placesim.planning.graphs.multilevel_search import Candidate
from placesim.planning.graphs.plan_comparison import BY_NODE, BY_SCOPE, Aim, PlanMeasure
from placesim.planning.portfolio import AUTO, EXHAUSTIVE, Effort, PlanResult
from placesim.report.terminal.planning import styled_plan
from placesim.report.text.planning import plan_document, plan_lines
from placesim.studies import plan_study
from placesim.studies.plan_study import _Found, _Planner, study_plan
from tests.planning.graphs.test_all_placements import random_graph

OPTIONS = make_options({})


@pytest.mark.slow
def test_a_longer_study_begins_with_the_searches_of_a_shorter_one_and_its_plan_is_no_worse(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    searches: list[tuple[int | None, int]] = []
    search = _Planner._search

    def recorded(self: _Planner, found: _Found, bound: Bound) -> tuple[list[Candidate], PlanResult]:
        searches.append((found.effort.evaluations, found.effort.seed))
        return search(self, found, bound)

    monkeypatch.setattr(_Planner, "_search", recorded)
    monkeypatch.setattr(plan_study, "FIRST_EVALUATIONS", 8)
    loaded = load(random_graph(5, most=40), None, OPTIONS)
    values = [study_plan(loaded, OPTIONS, "g", Effort(evaluations=count, jobs=1)).value for count in (8, 24, 60)]
    assert searches == [(8, 0), *((8, 0), (16, 1)), *((8, 0), (16, 1), (32, 2), (4, 3))]
    assert values[0] > values[1] > values[2]


@pytest.mark.parametrize("seconds", [0.1, 1.0, 5.0, 10.0, 25.0])
def test_a_search_takes_twice_the_time_of_the_one_before_and_the_last_takes_the_rest(seconds: float) -> None:
    planner = _Planner(load(random_graph(5), None, OPTIONS), OPTIONS, "g", Effort(seconds), (), lambda planned: None, Aim())
    planner._began, planner._simulation_seconds = time.monotonic(), 0.001
    found = _Found(planner._problem, PlanResult(None, Bound(0.0, ""), "", 0.0), planner._effort, fits=True)
    taken = []
    for effort in planner._rounds(found):
        taken.append(effort.seconds)
        planner._began -= effort.seconds
    assert taken[:-1] == [plan_study.FIRST_SECONDS * 2**number for number in range(len(taken) - 1)]
    assert 0.5 * seconds <= sum(taken) <= seconds


@pytest.mark.parametrize(
    ("effort", "said"),
    [
        (
            Effort(seconds=1e-4),
            "the search ended after 0.0001 seconds, before it found a better placement: a larger `--seconds` ",
        ),
        (Effort(evaluations=1, jobs=1), "the search ended after 1 evaluation, before it found a better placement: a larger `"),
        (Effort(evaluations=2, method=EXHAUSTIVE), "the search ended after 2 evaluations, before it tried all placements: a "),
        (Effort(evaluations=20, jobs=1), ""),
    ],
)
def test_a_limit_that_is_too_low_for_a_first_search_is_told(monkeypatch: pytest.MonkeyPatch, effort: Effort, said: str) -> None:
    monkeypatch.setattr(plan_study, "FIRST_EVALUATIONS", 20)
    # no other placement is faster, since a transfer takes as long as several products, and the bound is far lower
    names = [f"y{n}" for n in range(6 if effort.method == EXHAUSTIVE else 12)]
    x = {"op": "Placeholder", "name": "x", "dtype": "float32", "shape": [64, 64]}
    products = [{"op": "MatMul", "name": name, "inputs": ["x", "x"]} for name in names]
    nodes = [x, *products, {"op": "AddN", "name": "sum", "inputs": names}]
    graph = {"devices": {"cpu": 1, "gpu": 2}, "nodes": nodes, "fetch": ["sum"]}
    study = study_plan(load(graph, None, OPTIONS), OPTIONS, "g", effort)
    assert not study.is_optimal
    assert study.ended_early.startswith(said)
    assert bool(study.ended_early) == bool(said)
    ended = [line for line in "".join(plan_lines(study, 0).text()).splitlines() if line.startswith("ended")]
    assert ended == ([f"ended\t{study.ended_early}"] if said else [])
    assert plan_document(study)["ended_early"] == (study.ended_early or None)
    shown = styled_plan(study, io.TextIOWrapper(io.BytesIO(), encoding="utf-8"), 0)
    assert study.ended_early in " ".join(shown.split())


HALVES = {
    "devices": {"cpu": 1, "gpu": {"count": 2, "model": "Tesla V100-SXM2-16GB", "memory": "1GiB"}},
    "nodes": [
        {"op": "Placeholder", "name": "x", "dtype": "float32", "shape": [8, 4096]},
        {"variable": "v", "shape": [4096, 32768], "initializer": "zeros"},
        {"variable": "w", "shape": [4096, 32768], "initializer": "zeros"},
        {"op": "MatMul", "name": "a", "inputs": ["x", "v"]},
        {"op": "MatMul", "name": "b", "inputs": ["x", "w"]},
        {"op": "Add", "name": "sum", "inputs": ["a", "b"]},
    ],
    "fetch": ["sum"],
}
"""Each variable fits on one GPU."""


@pytest.mark.parametrize(("gpus", "fitting"), [(2, 0), (3, 3), (4, 4)])
def test_what_takes_least_memory_is_sought_on_the_devices_that_are_not_avoided(gpus: int, fitting: int) -> None:
    options, aim = make_options({"gpu": gpus}), Aim(without=("CPU", "GPU:1"))
    loaded, effort = load(HALVES, None, options), Effort(evaluations=5, jobs=1)
    assert _Planner(loaded, options, "g", effort, (), lambda planned: None, aim).count_fitting_gpus() == fitting
    study = study_plan(loaded, options, "g", effort, aim=aim)
    assert (study.plan is not None) == bool(fitting)
    assert ("a plan fits on 4 GPUs" in study.ways_out) == (not fitting)


@pytest.mark.parametrize("by", [BY_NODE, BY_SCOPE])
@pytest.mark.parametrize("method", [AUTO, "anneal"])
def test_of_plans_with_the_same_peak_the_faster_is_taken(by: str, method: str) -> None:
    nodes: list[dict[str, object]] = [
        {"op": "Placeholder", "name": "x", "dtype": "float32", "shape": [8, 4096]},
        {"op": "Add", "name": "sum", "inputs": ["a/m", "b/m"]},
    ]
    for scope in "ab":
        own = [
            {"variable": "w", "shape": [4096, 32768], "initializer": "zeros"},
            {"op": "MatMul", "name": "y", "inputs": ["x", "w"]},
            {"op": "Mean", "name": "m", "inputs": ["y", [0, 1]]},
        ]
        nodes.insert(-1, {"scope": scope, "nodes": own})
    loaded, effort = load(HALVES | {"nodes": nodes}, None, OPTIONS), Effort(evaluations=20, jobs=1, method=method)
    study = study_plan(loaded, OPTIONS, "g", effort, aim=Aim(PlanMeasure.MEMORY, by=by))
    assert study.plan is not None
    # on two GPUs; a scope on the CPU has the same peak and takes 23 ms
    assert (study.value, round(1e3 * study.plan.seconds, 1)) == (538_051_840, 1.1)


def test_a_chosen_method_is_not_used_for_the_placements_of_least_memory() -> None:
    products = {"a1": "x", "a2": "a1", "b1": "x", "b2": "b1"}
    nodes = [
        {"op": "Placeholder", "name": "x", "dtype": "float32", "shape": [8192, 8192]},
        *({"op": "MatMul", "name": name, "inputs": [before, "x"]} for name, before in products.items()),
        {"op": "Add", "name": "sum", "inputs": ["a2", "b2"]},
    ]
    gpus = {"count": 2, "model": "Tesla V100-SXM2-16GB", "memory": "700MiB"}
    loaded = load({"devices": {"cpu": 1, "gpu": gpus}, "nodes": nodes, "fetch": ["sum"]}, None, OPTIONS)
    assert study_plan(loaded, OPTIONS, "g", Effort(evaluations=5, jobs=1, method="list")).plan is not None
