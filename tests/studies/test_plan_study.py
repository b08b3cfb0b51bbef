"""The searches of a study of plans: their efforts, and the law that a longer study finds no worse plan."""

from __future__ import annotations

import time

import pytest

from placesim.formats.sources.loading import load
from placesim.machine.options import make_options
from placesim.planning.bounds import Bound
from placesim.planning.graphs.multilevel_search import Candidate
from placesim.planning.graphs.plan_comparison import Aim
from placesim.planning.portfolio import Effort, PlanResult
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
