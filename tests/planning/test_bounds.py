"""Lower bounds and peaks of small problems, worked out by hand."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from unittest import mock

import numpy as np
import pytest

from placesim.machine.timelines.workload import Cores, SerialStream
from placesim.planning import bounds
from placesim.planning.bounds import Bound, best_bound, interval_bound, lower_bounds, relaxed_work
from placesim.planning.peaks import MemoryPiece, Peaks, least_peak, peak_plan, shared_peak
from placesim.planning.problem import (
    DeviceLink,
    MachineLayout,
    Objective,
    PlanningProblem,
    ProblemDevice,
    ProblemTask,
    ProblemTensor,
)

TWO = (ProblemDevice("x", 0), ProblemDevice("y", 0))
KINDS = (ProblemDevice("x", 0), ProblemDevice("y", 1))
PATH, WORK = "critical path with free transfers", "total work divided among the devices, free transfers"
WITH_TRANSFERS = "critical path incl. unavoidable transfers"
WINDOW, INTERVAL = "work between the longest paths before and after it", "work that must fall in one interval"


def problem_of(
    seconds: Sequence[Sequence[float]],
    inputs: Sequence[tuple[int, ...]] = (),
    objective: Objective = Objective.MAKESPAN,
    devices: tuple[ProblemDevice, ...] = TWO,
    makes: float = 0.0,
    holds: Sequence[float] = (),
) -> PlanningProblem:
    held = holds or [0.0] * len(seconds)
    tasks = tuple(ProblemTask(f"t{n}", tuple(row), held[n], makes) for n, row in enumerate(seconds))
    sources = tuple(inputs) or ((),) * len(tasks)
    return PlanningProblem(objective, tasks, sources, tuple((n,) for n in range(len(tasks))), devices)


def found(problem: PlanningProblem) -> dict[str, float]:
    return {bound.why: bound.value for bound in lower_bounds(problem)}


def test_a_fork_has_its_path_its_work_and_the_work_between_its_ends() -> None:
    problem = problem_of([[1.0], [3.0], [3.0], [3.0], [1.0]], [(), (0,), (0,), (0,), (1, 2, 3)])
    expected = {PATH: 5, WORK: 11 / 2, WITH_TRANSFERS: 5, WINDOW: 1 + 9 / 2 + 1, INTERVAL: 8}
    assert found(problem) == pytest.approx(expected)
    assert best_bound(problem) == (8, INTERVAL)
    halves = problem_of([[0.5], [1.5], [1.5], [1.5], [0.5]], problem.inputs)
    assert found(halves) == pytest.approx({why: value / 2 for why, value in expected.items() if why != INTERVAL})


def test_what_is_read_elsewhere_is_moved_where_that_is_unavoidable() -> None:
    problem = replace(
        problem_of([[1.0, math.inf], [math.inf, 2.0]], [(), (0,)], devices=KINDS, makes=4.0),
        ways=((DeviceLink(0, 0), DeviceLink(0.5, 0.25)), (DeviceLink(0.5, 0.25), DeviceLink(0, 0))),
    )
    assert found(problem) == pytest.approx({PATH: 3, WORK: 2, WITH_TRANSFERS: 1 + 0.5 + 1 + 2, WINDOW: 4.5})


def test_loads_and_calls_have_fewer_bounds() -> None:
    seconds, inputs = [[2.0], [3.0], [9.0]], [(), (0,), (1,)]
    load = problem_of(seconds, inputs, Objective.LOAD)
    assert found(load) == {WORK: 7, "largest group": 9}
    assert found(replace(load, groups=((0, 2), (1,)))) == {WORK: 7, "largest group": 11}
    assert found(problem_of(seconds, inputs, Objective.CALLS)) == {PATH: 14}
    assert list(lower_bounds(problem_of([]))) == []
    assert best_bound(problem_of([])) == Bound(0.0, "nothing to do")


def test_many_tasks_have_no_windows_and_no_intervals(monkeypatch: pytest.MonkeyPatch) -> None:
    problem = problem_of([[2.0], [2.0], [2.0]])
    assert found(problem) == pytest.approx({PATH: 2, WORK: 3, WITH_TRANSFERS: 2, WINDOW: 3, INTERVAL: 3})
    for most, expected in ((3, True), (2, False)):
        monkeypatch.setattr(bounds, "MAX_INTERVAL_TASKS", most)
        assert (INTERVAL in found(problem)) == expected
    for most, expected in ((3, True), (2, False)):
        monkeypatch.setattr(bounds, "MAX_WINDOWS", most)
        assert (WINDOW in found(problem)) == expected


@pytest.mark.parametrize(
    ("before", "seconds", "after", "slots", "floor", "expected"),
    [
        ([0, 0, 0], [2, 2, 2], [0, 0, 0], 2, 3, 3),
        ([0, 0, 0], [2, 2, 2], [0, 0, 0], 3, 2, 2),
        # a task between 1 and 2 where all is over after 3, and a second of each of three others
        ([0, 0, 0, 1], [2, 2, 2, 1], [0, 0, 0, 1], 2, 3, 4),
        ([1, 1, 1], [3, 3, 3], [1, 1, 1], 2, 6, 7),
        ([0, 0], [4, 0], [0, 0], 1, 4, 4),
        # one begins at 2 at the earliest, and both are needed 3 s before the end
        ([2, 2], [2, 2], [3, 3], 1, 7, 9),
        ([0, 0, 0, 0], [5, 5, 5, 5], [0, 0, 0, 0], 1, 5, 20),
    ],
)
def test_no_interval_holds_more_than_its_slots_can_do(
    before: list[float], seconds: list[float], after: list[float], slots: int, floor: int, expected: int
) -> None:
    assert interval_bound(before, seconds, after, slots, floor) == expected


# two kinds: the first group belongs on the first, the second is shared so that both end at 3
SHARED = problem_of([[2.0, 6.0], [4.0, 4.0]], devices=KINDS)
RELAXED: list[tuple[PlanningProblem, float, dict[int, float]]] = [
    (SHARED, 3, {0: 1 / 2, 1: 1 / 2}),
    # a second device of the second kind: 2 + 4x = (1 - x) * 4 / 2, and a second of the first kind is worth as one of the other
    (replace(SHARED, devices=(*KINDS, ProblemDevice("z", 1))), 2, {0: 1 / 3, 1: 1 / 3}),
    (replace(SHARED, devices=(ProblemDevice("x", 0), ProblemDevice("y", 1, slots=2))), 2, {0: 1 / 3, 1: 1 / 3}),
    # the first kind has no room for more than the first group
    (problem_of([[2.0, 6.0], [4.0, 4.0]], devices=(ProblemDevice("x", 0, 1.0), KINDS[1]), holds=[1.0, 1.0]), 4, {0: 0, 1: 1}),
    (problem_of([[2.0, math.inf], [math.inf, 5.0]], devices=KINDS), 5, {0: 0, 1: 1}),
    (problem_of([[2.0], [5.0]]), 3.5, {0: 1 / 2}),
    (problem_of([[2.0], [5.0]], devices=(ProblemDevice("x", 0, slots=3),)), 7 / 3, {0: 1 / 3}),
    (problem_of([[0.0, 0.0]], devices=KINDS), 0, {0: 1 / 2, 1: 1 / 2}),
]


@pytest.mark.parametrize(("problem", "value", "prices"), RELAXED)
def test_groups_are_divided_among_kinds(problem: PlanningProblem, value: float, prices: dict[int, float]) -> None:
    work, worth = relaxed_work(problem)
    assert work == pytest.approx(value, abs=1e-6)
    assert sum(worth[kind] * bounds._slots(problem, kind) for kind in worth) == pytest.approx(1)
    if value not in (0, 2):  # else other prices are as good
        assert worth == pytest.approx(prices, abs=1e-6)


@pytest.mark.parametrize(
    ("seconds", "devices", "value"),
    [
        ([[2.0, 6.0], [4.0, 4.0]], KINDS, 3),
        ([[2.0, 6.0], [6.0, 2.0], [3.0, 3.0]], KINDS, 3.5),
        ([[2.0, math.inf], [math.inf, 5.0], [1.0, 8.0]], KINDS, 5),
        ([[4.0, 8.0, 8.0], [8.0, 4.0, 8.0], [8.0, 8.0, 4.0], [6.0, 6.0, 6.0]], (*KINDS, ProblemDevice("z", 2)), 6),
        ([[2.0, 2.0]], (*KINDS, ProblemDevice("z", 1)), 2 / 3),
    ],
)
def test_prices_alone_give_the_relaxation_of_many_groups(
    seconds: list[list[float]], devices: tuple[ProblemDevice, ...], value: float
) -> None:
    problem = problem_of(seconds, devices=devices)
    assert relaxed_work(problem)[0] == pytest.approx(value, abs=1e-6)
    with mock.patch.object(bounds, "MAX_RELAXED", len(seconds) - 1):
        priced, prices = relaxed_work(problem)
    assert priced == pytest.approx(value, rel=1e-3)
    assert priced <= value
    assert sum(prices[device.kind] for device in devices) == pytest.approx(1)


def test_slots_of_a_layout_are_its_cores_and_streams() -> None:
    routes = ((((), ()),) * 3,) * 3
    layout = MachineLayout((Cores("host", 4, 9), SerialStream("s", 0)), (), (0, 0, 1), routes)
    devices = (ProblemDevice("cpu0", 0), ProblemDevice("cpu1", 0), ProblemDevice("gpu", 1))
    problem = replace(problem_of([[8.0, math.inf], [math.inf, 3.0]], devices=devices), layout=layout)
    assert relaxed_work(problem)[0] == pytest.approx(3)
    assert found(replace(problem, tasks=(problem.tasks[0], problem.tasks[0])))[WORK] == pytest.approx(16 / 4)


# --- peaks


def piece(size: float, *homes: int) -> MemoryPiece:
    return MemoryPiece(size, frozenset(homes))


@pytest.mark.parametrize(
    ("pieces", "expected"),
    [
        ([], 0),
        ([piece(9, 0, 1)], 9 / 2),
        # of three on two devices two are on one, the smaller ones at best
        ([piece(4, 0, 1), piece(3, 0, 1), piece(2, 0, 1)], 3 + 2),
        ([piece(1, 0, 1)] * 4, 2),
        ([piece(1, 0, 1)] * 5, 3),
        ([piece(4, 0), piece(3, 0), piece(1, 0, 1)], 7),
        ([piece(8, 0, 1), piece(8, 0, 1), piece(1, 1)], 8 + 1),
        ([piece(8, 0, 1), piece(8, 0, 1)], 8),
    ],
)
def test_memory_is_shared_out_at_best(pieces: list[MemoryPiece], expected: float) -> None:
    assert shared_peak(2, pieces, [np.ones(1, bool)] * len(pieces)) == expected


def test_pieces_count_while_they_are_there() -> None:
    rows = [np.array(row, bool) for row in ([1, 0, 0], [1, 1, 0], [0, 1, 1])]
    assert shared_peak(1, [piece(1, 0), piece(2, 0), piece(4, 0)], rows) == 6
    assert shared_peak(1, [piece(8, 0), piece(2, 0), piece(4, 0)], rows) == 10


def peaks_of(*tensors: ProblemTensor, holds: Sequence[float] = (0.0, 0.0, 0.0)) -> PlanningProblem:
    problem = problem_of([[0.0]] * 3, [(), (0,), (1,)], Objective.PEAK, holds=holds)
    return replace(problem, tensors=tensors)


def test_a_tensor_is_where_it_is_made_and_where_it_is_read() -> None:
    problem = peaks_of(ProblemTensor(4, 0, 0, ((1, 1), (2, 3))), ProblemTensor(1, 1, 2, ((2, 3),)), holds=(1, 2, 4))
    # on one device both are there from moment 2 on; with the second task elsewhere its copy is gone by then
    assert Peaks(problem, [0, 0, 0]).peaks.tolist() == [7 + 5, 0]
    assert Peaks(problem, [0, 1, 0]).peaks.tolist() == [5 + 5, 2 + 4]
    assert Peaks(problem, [0, 1, 1]).peaks.tolist() == [1 + 4, 6 + 5]
    assert Peaks(problem, [1, 0, 0]).peaks.tolist() == [6 + 5, 1 + 4]
    assert peak_plan(problem, [0, 1, 0]).value == 10
    assert peak_plan(problem, [0, 1, 0]).devices == (0, 1, 0)


def test_of_what_is_kept_only_copies_count() -> None:
    problem = peaks_of(ProblemTensor(4, 0, 0, ((0, 1), (1, 1)), is_kept=True), holds=(4, 0, 0))
    assert Peaks(problem, [0, 0, 0]).peaks.tolist() == [4, 0]
    assert Peaks(problem, [0, 1, 1]).peaks.tolist() == [4, 4]


def test_scratch_is_there_on_some_devices_only() -> None:
    problem = peaks_of(ProblemTensor(4, 1, 0, only_on=frozenset((1,))))
    assert Peaks(problem, [0, 0, 0]).peaks.tolist() == [0, 0]
    assert Peaks(problem, [0, 1, 0]).peaks.tolist() == [0, 4]


def test_a_device_has_room_for_what_it_can_run_and_hold() -> None:
    devices = (ProblemDevice("x", 0, 3.0), ProblemDevice("y", 0, 2.0), ProblemDevice("z", 1))
    problem = replace(
        problem_of([[0.0, math.inf]] * 3, objective=Objective.PEAK, devices=devices, holds=(1.0, 2.0, 1.0)), apart=((0, 2),)
    )
    state = Peaks(problem, [0, 1, 1])
    assert [state.has_room(1, device) for device in (0, 2)] == [True, False]
    assert [state.has_room(0, 1), state.has_room(2, 0)] == [False, False]
    state.move({2: 0})
    assert (state.held.tolist(), state.devices) == ([2, 2, 0], [0, 1, 0])
    assert not state.has_room(1, 0)


@pytest.mark.parametrize(
    ("problem", "expected"),
    [
        (peaks_of(holds=(5, 1, 1)), 5),
        (peaks_of(holds=(3, 3, 3)), 6),
        # what a task reads and makes is on its device, with what its group holds
        (peaks_of(ProblemTensor(4, 0, 0, ((1, 1),)), ProblemTensor(2, 2, 0, ((1, 1),)), holds=(0, 1, 0)), 4 + 2 + 1),
        (peaks_of(ProblemTensor(4, 0, 0, ((1, 1),)), ProblemTensor(2, 0, 0, ((1, 2),)), holds=(0, 1, 0)), 4 + 2),
        # three tensors at once, at moment 2 alone, on two devices: two of them are on one
        (
            peaks_of(
                ProblemTensor(4, 0, 0, ((0, 2),)),
                ProblemTensor(5, 1, 1, ((1, 3),)),
                ProblemTensor(6, 2, 2, ((2, 2),)),
                ProblemTensor(6, 0, 4),
            ),
            4 + 5,
        ),
        # kept: only what is read elsewhere counts, and that is certain of nobody
        (peaks_of(ProblemTensor(4, 0, 0, ((1, 1),), is_kept=True), holds=(4, 0, 0)), 4),
        (peaks_of(ProblemTensor(4, 0, 0, ((0, 1),), is_kept=True), holds=(4, 0, 0)), 4),
        (peaks_of(ProblemTensor(4, 0, 0, only_on=frozenset((0, 1)))), 4),
        (peaks_of(ProblemTensor(4, 0, 0, only_on=frozenset((1,)))), 0),
        (peaks_of(), 0),
    ],
)
def test_no_placement_has_less_at_once(problem: PlanningProblem, expected: float) -> None:
    assert least_peak(problem) == expected
    assert list(lower_bounds(problem)) == [(expected, "tensors alive at one time, divided among the devices")]
