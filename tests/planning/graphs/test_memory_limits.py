"""Limits of peaks in a search for a fast plan, against simulations of the plans as graphs."""

from __future__ import annotations

import itertools
from dataclasses import replace

import pytest

from placesim.formats.sources.loading import load
from placesim.machine.options import make_options
from placesim.planning.bounds import Bound
from placesim.planning.graphs.memory_repair import limit_peaks
from placesim.planning.graphs.multilevel_search import Candidate
from placesim.planning.graphs.plan_comparison import Aim
from placesim.planning.memory_limits import find_overfull_devices, limited_peaks
from placesim.planning.methods import estimated_moves
from placesim.planning.methods.layer_splits import split_layers
from placesim.planning.methods.limited_memory import FittingMoves, fit_memory
from placesim.planning.portfolio import Effort, _Incumbent, lanes, plan_problem
from placesim.planning.problem import Plan, PlanningProblem
from placesim.planning.schedules import assignments
from placesim.planning.search_budget import Search
from placesim.studies.plan_study import _Planner
from tests.planning.graphs.test_memory_repair import BYTES, LAYERS, chain


def planner(share: float) -> _Planner:
    """A planner of a chain of layers on two GPUs with room for `share` of the variables each."""
    options = make_options({})
    loaded = load(chain(fraction=share * BYTES / 16e9), None, options)
    found = _Planner(loaded, options, "g", Effort(evaluations=20, jobs=1), ("*",), lambda planned: None, Aim())
    found._prepare()
    return found


def limited(found: _Planner) -> PlanningProblem:
    """The problem of the planner with limits of peaks."""
    return limit_peaks(found._problem, found._memory_problem(), 1.0, found._walked.recorder.moments[-1]).problem


def layered(found: _Planner, gpus: tuple[int, ...]) -> tuple[int, ...]:
    """An assignment with the layer of each number, and its variable, on a GPU."""
    devices = list(found._problem.start)
    for tasks, group in zip(found._problem.problem.groups, found._problem.groups, strict=True):
        layers = [int(name[1:]) for name in group.nodes if name[1:].isdigit()]
        for task in tasks if layers else ():
            devices[task] = 1 + gpus[layers[0]]
    return tuple(devices)


@pytest.mark.slow
def test_a_plan_is_overfull_in_the_search_if_and_only_if_it_does_not_fit_as_a_graph() -> None:
    verdicts = set()
    for share in (3.2, 4.6):
        found = planner(share)
        problem = limited(found)
        for gpus in list(itertools.product((0, 1), repeat=LAYERS))[::5]:
            devices = layered(found, gpus)
            fits = found._simulated(Candidate("", devices)).fits
            assert (not find_overfull_devices(problem, devices)) == fits, (share, gpus)
            verdicts.add(fits)
    assert verdicts == {True, False}


def test_the_lanes_of_a_problem_with_limited_peaks_yield_only_plans_that_fit() -> None:
    found = planner(4.6)
    problem = limited(found)
    fitting = [layered(found, gpus) for gpus in ((0, 1, 0, 1, 0, 1), (0, 0, 0, 1, 1, 1))]
    assert not any(find_overfull_devices(problem, devices) for devices in fitting)
    start = max((assignments(problem).plan(devices) for devices in fitting), key=lambda plan: plan.value)
    assert [name for lane in lanes(problem) for name, _ in lane] == ["layers", "fit", "move", "dispatch", "layers", "move"]
    for method in (split_layers, fit_memory):
        plans = list(method(problem, Search(0, evaluations=600, start=start)))
        assert plans
        values = [start.value, *(plan.value for plan in plans)]
        assert values == sorted(values, reverse=True)
        assert not any(find_overfull_devices(problem, plan.devices) for plan in plans)
    best, again = (plan_problem(problem, Effort(evaluations=200, jobs=1), start=start).plan for _ in range(2))
    assert best == again
    assert best is not None
    assert best.value <= start.value
    assert not find_overfull_devices(problem, best.devices)


def test_peaks_after_moves_that_are_taken_are_those_from_scratch() -> None:
    found = planner(4.6)
    problem = limited(found)
    mixed, sorted_ = (layered(found, gpus) for gpus in ((0, 1, 0, 1, 0, 1), (0, 0, 0, 1, 1, 1)))
    peaks, expected = limited_peaks(problem, mixed), limited_peaks(problem, sorted_)
    assert peaks is not None
    assert expected is not None
    peaks.move_to([sorted_[tasks[0]] for tasks in problem.groups])
    assert list(peaks.peaks) == pytest.approx(list(expected.peaks))
    before = list(peaks.of_group)
    assert not peaks.excess
    # all on one GPU is too much, so nothing moves
    assert not peaks.takes(dict.fromkeys(problem.movable, 1))
    assert peaks.of_group == before
    peaks.move_to([layered(found, (0,) * LAYERS)[tasks[0]] for tasks in problem.groups])
    assert peaks.excess > 0


def test_an_equally_fast_plan_that_does_not_fit_replaces_no_plan_that_fits() -> None:
    found = planner(4.6)
    problem = limited(found)
    fitting, overfull = (layered(found, gpus) for gpus in ((1, 0, 1, 0, 1, 0), (0,) * LAYERS))
    assert overfull < fitting
    assert find_overfull_devices(problem, overfull)
    best = _Incumbent(problem, Bound(0.0, ""), 0.0, lambda planned: None)
    best.take(Plan(1.0, fitting), "move")
    best.take(Plan(1.0, overfull), "list")
    assert best.plan == Plan(1.0, fitting)


def test_moves_that_free_memory_keep_groups_apart() -> None:
    found = planner(4.6)
    problem = limited(found)
    start = layered(found, (0,) * LAYERS)
    one, two = [group for group in problem.movable if start[problem.groups[group][0]] == 1][:2]
    moves = FittingMoves(replace(problem, apart=((one, two),)), Search())
    state = moves._state(start)
    assert list(moves._combined(state, [{one: 2}, {two: 2}], may_exceed=True)) == [{one: 2}]


def test_limits_of_peaks_replace_those_of_permanent_memory() -> None:
    found = planner(4.6)
    problem = limited(found)
    full = tuple(device._replace(capacity=0.0) for device in problem.devices)
    moves = FittingMoves(replace(problem, devices=full), Search())
    start = layered(found, (1, 0, 0, 0, 0, 0))  # the first layer has permanent memory
    group = next(group for group in problem.movable if start[problem.groups[group][0]] == 1)
    assert moves._is_possible(moves._state(start), {group: 2})


def test_a_plan_with_high_peaks_is_changed_until_they_are_within_the_limits() -> None:
    found = planner(4.6)
    problem = limited(found)
    moves = FittingMoves(problem, Search())
    state = moves._state(layered(found, (0,) * LAYERS))
    assert moves._order.failing_devices(state.plan.devices)
    moves._peaks.move_to(state.of_group)
    moved = moves._lowering(state)
    assert moved
    assert set(moved.values()) == {2}
    assert not moves._peaks.excess
    assert list(limited_peaks(problem, moves._moved(state.plan, moved)).peaks) == pytest.approx(list(moves._peaks.peaks))  # type: ignore[union-attr]
    assert moves._trimmed(state) == (state, [1])  # the transfers of the changed plan take too long


def test_peaks_of_later_moves_are_below_those_of_a_plan_whose_allocations_fail() -> None:
    found = planner(4.6)
    problem = limited(found)
    moves = FittingMoves(problem, Search())
    fitting, overfull = (layered(found, gpus) for gpus in ((0, 0, 0, 1, 1, 1), (0,) * LAYERS))
    before = list(moves._rooms)
    assert moves._succeeds(fitting)
    assert moves._rooms == before
    assert not moves._succeeds(overfull)
    assert [own < old for own, old in zip(moves._rooms, before, strict=True)] == [False, True, False]
    # the peaks of a plan are never above its limits
    state = moves._state(overfull)
    moves._limit(state)
    assert not moves._peaks.excess


def test_a_cut_between_layers_is_made_to_fit_if_no_plan_fits() -> None:
    found = planner(4.6)
    assert not found._fits_on_gpus()
    found._find_fitting()
    assert [row.method for row in found._candidates if found._shown[row.devices].fits][-1] == "layers"


def test_a_search_without_room_begins_with_lower_peaks_if_that_loses_little_time(monkeypatch: pytest.MonkeyPatch) -> None:
    found = planner(4.6)
    problem = limited(found)
    moves = FittingMoves(problem, Search())
    state = moves._state(layered(found, (0, 0, 0, 1, 1, 1)))
    before = limited_peaks(problem, state.plan.devices).peaks  # type: ignore[union-attr]
    assert moves._roomy(state) == state
    moves._rooms[1] = 0.999 * before[1]
    assert moves._roomy(state) == state  # the transfers of the changed plan take too long
    monkeypatch.setattr(estimated_moves, "MAX_LOSS", 1e3)
    lower = moves._roomy(state).plan.devices
    assert limited_peaks(problem, lower).peaks[1] < before[1]  # type: ignore[union-attr]
    assert not find_overfull_devices(problem, lower)


def test_kinds_of_moves_that_gain_time_are_drawn_more_often() -> None:
    moves = FittingMoves(limited(planner(4.6)), Search())
    moves._gained[0] += 1000 * moves._drawn[0]
    kinds = moves._draw_kinds(100)
    assert kinds.count(0) > 90
    assert moves._drawn[0] == estimated_moves.FIRST_DRAWS + kinds.count(0)


def test_a_move_that_exceeds_the_limits_is_tried_with_others_that_lower_the_peaks() -> None:
    found = planner(4.0)
    problem = limited(found)
    moves = FittingMoves(problem, Search())
    start, target = (layered(found, gpus) for gpus in ((1, 0, 1, 0, 1, 0), (1, 1, 1, 0, 1, 0)))
    state = moves._state(start)
    move = {group: target[tasks[0]] for group, tasks in enumerate(problem.groups) if start[tasks[0]] != target[tasks[0]]}
    assert not moves._fits(state, move)
    repaired = moves._repaired(state, move)
    assert repaired is not None
    assert repaired.items() > move.items()
    # after a failed allocation, later moves have lower peaks
    better = next(filter(None, (moves._best_of(state, [move]) for _ in range(5))))
    assert better.plan.value < state.plan.value
    assert not find_overfull_devices(problem, better.plan.devices)
