"""First plans and the pieces that searches are made of: fits, orders, segments, cuts and loads, against their definitions."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from placesim.planning import loads as plan_loads
from placesim.planning.call_latency import ALONE, Calls
from placesim.planning.loads import Loads
from placesim.planning.memory_limits import find_overfull_devices
from placesim.planning.methods import annealing, call_annealing, contiguous, local_search, peak_annealing
from placesim.planning.methods.annealing import anneal_loads, neighbours
from placesim.planning.methods.call_annealing import anneal_calls, cut_calls
from placesim.planning.methods.closed_sets import closed_sets, split_closed_sets
from placesim.planning.methods.contiguous import Segment, group_order, split_order, split_orders
from placesim.planning.methods.first_fit import first_fit
from placesim.planning.methods.list_scheduling import end_first
from placesim.planning.methods.local_search import anneal_moves
from placesim.planning.methods.peak_annealing import anneal_peaks
from placesim.planning.methods.priorities import anneal_ranks, rank_by_tails
from placesim.planning.objectives import measure
from placesim.planning.peaks import Peaks
from placesim.planning.problem import (
    DeviceLink,
    Objective,
    Plan,
    PlanningProblem,
    ProblemDevice,
    ProblemTask,
    ProblemTensor,
    can_run_all,
)
from placesim.planning.search_budget import MAX_IDLE, Method, Search
from tests.examples import examples
from tests.planning.problems import assignments, is_contiguous, least_load, pipelines

XY = (ProblemDevice("x", 0, 9.0), ProblemDevice("y", 0, 9.0))
ROOMY = (ProblemDevice("x", 0), ProblemDevice("y", 0))


def problem_of(
    objective: Objective,
    tasks: Sequence[ProblemTask],
    inputs: Sequence[tuple[int, ...]] = (),
    devices: tuple[ProblemDevice, ...] = XY,
    groups: tuple[tuple[int, ...], ...] = (),
) -> PlanningProblem:
    alone = tuple((n,) for n in range(len(tasks)))
    return PlanningProblem(objective, tuple(tasks), tuple(inputs) or ((),) * len(tasks), groups or alone, devices)


def task(seconds: float, holds: float = 0.0, makes: float = 0.0, *, is_backward: bool = False) -> ProblemTask:
    return ProblemTask("t", (seconds,), holds, makes, is_backward)


# --- first fits


def test_what_must_be_apart_comes_first_and_then_what_holds_most() -> None:
    devices = (ProblemDevice("x", 0, 8.0), ProblemDevice("y", 0, 8.0), ProblemDevice("z", 1, 8.0))
    tasks = [
        ProblemTask("a", (1.0, math.inf), 5.0),
        ProblemTask("b", (1.0, 1.0), 1.0),
        ProblemTask("c", (1.0, 1.0), 4.0),
        ProblemTask("d", (1.0, math.inf), 2.0),
        ProblemTask("e", (math.inf, 1.0), 0.0),
    ]
    problem = replace(problem_of(Objective.PEAK, tasks, devices=devices), apart=((1, 3, 4),))
    # e has z alone, d one of x and y, b the other; a goes to y, where less is held than with d, and c to z
    assert first_fit(problem) == [1, 1, 2, 0, 2]
    assert first_fit(replace(problem, apart=())) == [0, 2, 1, 1, 2]
    full = (devices[0]._replace(capacity=5.0), devices[1]._replace(capacity=1.0), devices[2])
    assert first_fit(replace(problem, devices=full, apart=())) is None


def test_an_order_too_long_for_its_time_is_filled_by_what_is_held(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(contiguous, "MAX_WHOLE", 0)
    tasks = [task(2.0, 1.0), task(3.0, 4.0), task(5.0, 3.0), task(1.0, 0.0)]
    problem = problem_of(Objective.LOAD, tasks)
    late = Search(1, deadline=0.0)
    assert [plan.devices for plan in anneal_loads(problem, late)] == [(0, 0, 1, 0)]
    tight = (ProblemDevice("x", 0, 4.0), ProblemDevice("y", 0, 3.0))
    assert list(anneal_loads(replace(problem, devices=tight), Search(1, deadline=0.0))) == []
    exact = (ProblemDevice("x", 0, 4.0), ProblemDevice("y", 0, 4.0))
    assert [plan.devices for plan in anneal_loads(replace(problem, devices=exact), Search(1, deadline=0.0))] == [(1, 0, 1, 0)]
    # where parts are to be contiguous all is on the one device that has room
    whole = replace(problem, devices=(ProblemDevice("x", 0, 7.0), ProblemDevice("y", 0, 8.0)), needs_contiguous=True)
    assert [plan.devices for plan in anneal_loads(whole, Search(1, deadline=0.0))] == [(1, 1, 1, 1)]
    kinds = (ProblemDevice("x", 0, 9.0), ProblemDevice("y", 1, 9.0))
    timed = [ProblemTask("a", (2.0, 1.0)), ProblemTask("b", (2.0, 1.0)), ProblemTask("c", (math.inf, 7.0))]
    slow = replace(problem_of(Objective.LOAD, timed, devices=kinds), needs_contiguous=True)
    assert [plan.devices for plan in anneal_loads(slow, Search(1, deadline=0.0))] == [(1, 1, 1)]
    assert list(anneal_loads(replace(whole, devices=exact), Search(1, deadline=0.0))) == []


def test_a_device_s_part_has_gaps_unless_it_must_be_contiguous() -> None:
    chain = problem_of(Objective.LOAD, [task(1.0), task(2.0), task(1.0)], [(), (0,), (1,)])
    *_, free = anneal_loads(chain, Search(1, evaluations=5000))
    *_, whole = anneal_loads(replace(chain, needs_contiguous=True), Search(1, evaluations=5000))
    assert (free.value, whole.value) == (2, 3)


def test_a_list_takes_the_longest_path_first_and_ends_each_task_as_early_as_it_can() -> None:
    ways = tuple(tuple(DeviceLink(0.5, 0.25) if a != b else DeviceLink(0, 0) for b in range(2)) for a in range(2))
    tasks = [task(1.0), task(2.0, makes=2.0), task(4.0), task(3.0, makes=2.0)]
    problem = replace(problem_of(Objective.MAKESPAN, tasks, [(), (), (1,), (1,)]), ways=ways)
    # b, then c there, and d elsewhere, which waits a second for the way; a comes last, and ends as early on either
    plan = next(end_first(problem, Search(1, evaluations=1)))
    assert (plan.devices, plan.value) == ((0, 0, 0, 1), 7.0)
    assert list(end_first(problem, Search(1, evaluations=1))) == [plan]
    # nothing has room by itself, so that the groups are fitted by what they hold
    tight = (ProblemDevice("x", 0, 5.0), ProblemDevice("y", 0, 4.0))
    held = [task(4.0, 1.0), task(3.0, 3.0), task(2.0, 5.0)]
    only = list(end_first(problem_of(Objective.MAKESPAN, held, devices=tight), Search(1, evaluations=9)))
    assert [plan.devices for plan in only] == [(1, 1, 0)]
    assert list(end_first(problem_of(Objective.MAKESPAN, [*held, task(1.0, 1.0)], devices=tight), Search(evaluations=9))) == []


def test_a_list_keeps_groups_apart() -> None:
    problem = replace(problem_of(Objective.MAKESPAN, [task(1.0), task(1.0), task(9.0)]), apart=((0, 2),))
    for plan in end_first(problem, Search(1, evaluations=9)):
        assert plan.devices[0] != plan.devices[2]


# --- orders and segments


def test_groups_are_ordered_as_late_as_their_readers_allow() -> None:
    # c and d read a; b is read by e alone, which reads d as well; f is backward and reads e and a
    tasks = [task(1.0) for _ in range(5)] + [task(1.0, is_backward=True)]
    problem = problem_of(Objective.LOAD, tasks, [(), (), (0,), (0,), (1, 3), (0, 4)])
    assert group_order(problem) == [0, 2, 3, 1, 4, 5]
    lonely = problem_of(Objective.LOAD, [*tasks, task(1.0, is_backward=True)], [*problem.inputs, ()])
    assert group_order(lonely) == [0, 2, 3, 1, 4, 5, 6]
    drawn = [group_order(problem, Search(seed)) for seed in range(20)]
    assert {tuple(order) for order in drawn} >= {(0, 2, 3, 1, 4, 5), (0, 2, 1, 3, 4, 5)}


def test_a_group_of_backward_tasks_stands_behind_the_median_of_those_it_is_connected_with() -> None:
    tasks = [task(1.0) for _ in range(4)] + [task(1.0, is_backward=True), task(1.0, is_backward=True)]
    inputs = [(), (0,), (1,), (2,), (0, 1, 3), (4,)]
    assert group_order(problem_of(Objective.LOAD, tasks, inputs)) == [0, 1, 4, 5, 2, 3]


@given(pipelines(6), st.data())
@settings(max_examples=examples(40), deadline=None)
def test_a_segment_is_what_a_device_with_its_groups_does(problem: PlanningProblem, data: st.DataObject) -> None:
    order = data.draw(st.permutations(range(len(problem.groups))))
    segment = Segment(problem, order)
    for first in range(len(order)):
        segment.begin(first)
        for at in range(first, len(order)):
            segment.grow(at, order[at])
            inside = {t for group in order[first : at + 1] for t in problem.groups[group]}
            leaving = {t for t in inside if not set(problem.readers[t]) <= inside}
            coming = {s for t in inside for s in problem.inputs[t]} - inside
            assert segment.moved == pytest.approx(sum(problem.tasks[t].makes for t in leaving | coming), abs=1e-9)
            assert segment.held == pytest.approx(sum(problem.tasks[t].holds for t in inside))
            for kind in (0, 1):
                assert segment.seconds[kind] == pytest.approx(sum(problem.tasks[t].seconds[kind] for t in inside))


def test_a_segment_moves_at_the_mean_pace_between_paying_devices() -> None:
    devices = (*XY, ProblemDevice("z", 0, pays=False))
    paces = [[0, 1, 9], [3, 0, 9], [9, 9, 0]]
    ways = tuple(tuple(DeviceLink(0.0, float(pace)) for pace in row) for row in paces)
    problem = problem_of(Objective.LOAD, [task(1.0, makes=5.0), task(1.0)], [(), (0,)], devices)
    for given_ways, moved in ((ways, 5 * 2), (None, 5)):
        segment = Segment(replace(problem, ways=given_ways), [0, 1])
        segment.begin(0)
        segment.grow(0, 0)
        assert segment.moved == moved
        segment.grow(1, 1)
        assert segment.moved == 0
    one = problem_of(Objective.LOAD, problem.tasks, problem.inputs, (XY[0],))
    segment = Segment(replace(one, ways=((DeviceLink(0.0, 7.0),),)), [0, 1])
    segment.begin(0)
    segment.grow(0, 0)
    assert segment.moved == 0


def test_a_cut_that_takes_too_long_is_given_up_where_there_are_many_groups(monkeypatch: pytest.MonkeyPatch) -> None:
    problem = problem_of(Objective.LOAD, [task(1.0) for _ in range(4)])
    late = Search(deadline=0.0)
    assert split_order(problem, range(4), late) is not None
    monkeypatch.setattr(contiguous, "MAX_WHOLE", 3)
    assert split_order(problem, range(4), late) is None
    assert split_order(problem, range(4), Search(evaluations=0)) is not None
    assert split_order(problem, range(4)) is not None


def test_orders_are_cut_until_one_can_not_be_better() -> None:
    problem = problem_of(Objective.LOAD, [task(2.0), task(1.0), task(1.0)], [(), (), ()])
    assert [plan.value for plan in split_orders(problem, Search(1, evaluations=9))] == [2.0]
    search = Search(1, evaluations=10**9, target=2.0)
    assert [plan.value for plan in split_orders(problem, search)] == [2.0]
    assert search.evaluations_left == 10**9 - 9
    assert list(split_orders(problem_of(Objective.LOAD, [task(1.0, 99.0)]), Search(evaluations=5))) == []


@given(pipelines(6), st.data())
@settings(max_examples=examples(40), deadline=None)
def test_parts_are_contiguous_where_no_path_comes_back(problem: PlanningProblem, data: st.DataObject) -> None:
    devices = data.draw(st.lists(st.integers(0, 2), min_size=len(problem.tasks), max_size=len(problem.tasks)))
    assert plan_loads.is_contiguous(problem, devices) == is_contiguous(problem, devices)


def test_closed_sets_hold_what_their_blocks_read() -> None:
    blocks, inputs = [[0], [1], [2]], [set(), {0}, {0}]
    assert closed_sets(blocks, inputs, Search()) == [0b000, 0b001, 0b011, 0b101, 0b111]
    assert closed_sets(blocks, inputs, Search(deadline=0.0)) == []


def test_too_many_closed_sets_are_none(monkeypatch: pytest.MonkeyPatch) -> None:
    for most, expected in ((5, 5), (4, 0)):
        monkeypatch.setattr("placesim.planning.methods.closed_sets.MAX_SETS", most)
        assert len(closed_sets([[0], [1], [2]], [set(), {0}, {0}], Search())) == expected


def test_the_best_chain_of_closed_sets_is_proven_where_there_is_one_order() -> None:
    devices = (ProblemDevice("x", 0, 3.0), ProblemDevice("y", 0, 3.0), ProblemDevice("z", 1, pays=False))
    tasks = [ProblemTask("t", (s, 9.0), 1.0, m) for s, m in ((2.0, 1.0), (3.0, 0.5), (1.0, 4.0), (2.0, 0.25))]
    chain = replace(problem_of(Objective.LOAD, tasks, [(), (0,), (1,), (2,)], devices), needs_contiguous=True)
    search = Search()
    (plan,) = split_closed_sets(chain, search)
    assert plan.value == search.proven == least_load(chain) == 2 + 3 + 0.5
    fork = replace(chain, inputs=((), (0,), (0,), (2,)))
    free = Search()
    (plan,) = split_closed_sets(fork, free)
    assert plan.value == least_load(fork)
    assert free.proven == 0
    assert list(split_closed_sets(replace(chain, ways=((DeviceLink(),) * 3,) * 3), Search())) == []
    assert list(split_closed_sets(problem_of(Objective.LOAD, []), Search())) == []
    far = [ProblemTask("t", (math.inf, 9.0)), ProblemTask("t", (1.0, math.inf))]
    (plan,) = split_closed_sets(problem_of(Objective.LOAD, far, devices=devices), Search())
    assert plan.devices[0] == 2
    assert plan.value == 9
    full = problem_of(Objective.LOAD, [task(1.0, 2.0)] * 2, devices=(ProblemDevice("x", 0, 3.0),))
    assert list(split_closed_sets(full, Search())) == []


# --- calls


@pytest.mark.parametrize("makes", [0.5, 4.0])
def test_calls_of_a_chain_are_its_best_cut(makes: float) -> None:
    """One after another: of all ways to run each task alone or in a call of the next device, by trying them."""
    devices = (ProblemDevice("a", 0, 3.0), ProblemDevice("b", 0, 2.0), ProblemDevice("cpu", 1, pays=False))
    tasks = [ProblemTask(f"t{n}", (1.0, 4.0), 1.0, makes) for n in range(6)]
    problem = problem_of(Objective.CALLS, tasks, [(n - 1,) if n else () for n in range(6)], devices)
    calls = Calls(problem)
    best = math.inf
    for found in itertools.product((ALONE, 0, 1), repeat=6):
        used = [call for call in found if call != ALONE]
        if used == sorted(used) and used.count(0) <= 3 and used.count(1) <= 2:
            best = min(best, calls.seconds(found))
    assert calls.seconds(cut_calls(problem, calls, range(6))) == best
    for plan in anneal_calls(problem, Search(1, evaluations=300)):
        assert not find_overfull_devices(problem, plan.devices)
        assert (
            plan.value
            == calls.plan([ALONE if d == 2 else c * 2 + d for d, c in zip(plan.devices, plan.calls, strict=True)]).value
        )


def test_without_paying_devices_or_others_calls_are_all_of_one_sort() -> None:
    tasks = [ProblemTask(f"t{n}", (2.0,), makes=1.0) for n in range(3)]
    inputs = [(), (0,), (1,)]
    alone = problem_of(Objective.CALLS, tasks, inputs, (ProblemDevice("cpu", 0, pays=False),))
    assert [plan.value for plan in anneal_calls(alone, Search(1, evaluations=20))] == [6.0]
    called = problem_of(Objective.CALLS, tasks, inputs, (ProblemDevice("gpu", 0),))
    calls = Calls(called)
    assert calls.seconds([ALONE, 0, 0]) == math.inf
    assert cut_calls(called, calls, range(3)) == [0, 0, 0]
    assert [(plan.value, plan.devices, plan.calls) for plan in anneal_calls(called, Search(1, evaluations=20))] == [
        (6.0, (0, 0, 0), (0, 0, 0))
    ]
    assert list(anneal_calls(problem_of(Objective.CALLS, []), Search(evaluations=9)))[-1].value == 0
    small = problem_of(Objective.CALLS, [tasks[0]._replace(holds=2.0)], devices=(ProblemDevice("gpu", 0, 1.0),))
    assert cut_calls(small, Calls(small), [0]) == [ALONE]


def test_calls_of_one_device_follow_each_other() -> None:
    calls = Calls(problem_of(Objective.CALLS, [task(2.0), task(3.0)], devices=ROOMY))
    assert [calls.seconds(found) for found in ([0, 2], [1, 3], [1, 2], [3, 3])] == [5, 5, 3, 5]


# --- searches


def test_neighbours_are_what_a_group_reads_and_what_reads_it() -> None:
    problem = problem_of(Objective.LOAD, [task(1.0)] * 5, [(), (0,), (1,), (2,), (0,)], groups=((0,), (1, 2), (3,), (4,)))
    assert [list(neighbours(problem, group)) for group in range(4)] == [[1, 3], [0, 2], [1], [0]]


@pytest.mark.parametrize("seed", range(3))
def test_annealing_finds_the_least_load(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(annealing, "FIRST_ROUND", 2000)
    draw = Search(seed).random
    tasks = [ProblemTask(f"t{n}", (draw.uniform(1, 5), draw.uniform(4, 20)), 1.0, draw.uniform(0, 1)) for n in range(6)]
    inputs = [tuple(sorted({draw.randrange(n), draw.randrange(n)})) if n else () for n in range(6)]
    devices = (ProblemDevice("a", 0, 3.0), ProblemDevice("b", 0, 4.0), ProblemDevice("cpu", 1, 2.0, pays=False))
    problem = problem_of(Objective.LOAD, tasks, inputs, devices)
    worst = max(assignments(problem), key=lambda devices: max(Loads(problem, devices).loads))
    start = Plan(max(Loads(problem, worst).loads), worst)
    plans = list(anneal_loads(problem, Search(seed, evaluations=6000, start=start)))
    assert plans[-1].value == pytest.approx(least_load(problem))
    assert [plan.value for plan in plans] == sorted((plan.value for plan in plans), reverse=True)
    (met,) = anneal_loads(problem, Search(seed, evaluations=10**9, start=start, target=plans[-1].value))
    assert met.value == pytest.approx(plans[-1].value)
    assert list(anneal_loads(problem, Search(seed, evaluations=511, start=start))) == []


def small(objective: Objective, seed: int) -> PlanningProblem:
    """Six random tasks on three devices that differ; of peaks each makes a tensor for its readers."""
    draw = Search(seed).random
    tasks = [ProblemTask(f"t{n}", (draw.uniform(1, 5), draw.uniform(2, 9)), 1.0, draw.uniform(0, 2)) for n in range(6)]
    inputs = [tuple(sorted({draw.randrange(n), draw.randrange(n)})) if n else () for n in range(6)]
    devices = (ProblemDevice("a", 0, 4.0), ProblemDevice("b", 0, 5.0), ProblemDevice("c", 1, 3.0))
    problem = problem_of(objective, tasks, inputs, devices)
    if objective is not Objective.PEAK:
        return problem
    reads = [tuple((reader, reader) for reader in readers) for readers in problem.readers]
    return replace(problem, tensors=tuple(ProblemTensor(draw.uniform(1, 5), n, n, reads[n]) for n in range(6)))


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize(
    ("objective", "search"), [(Objective.MAKESPAN, anneal_moves), (Objective.PEAK, anneal_peaks)], ids=["moves", "peaks"]
)
def test_local_searches_find_the_best_of_all_placements(
    objective: Objective, search: Method, seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    for module in (local_search, peak_annealing):
        monkeypatch.setattr(module, "FIRST_ROUND", 100)
    problem = small(objective, seed)
    measured = measure(problem)
    values = {devices: measured.plan(devices).value for devices in assignments(problem)}
    worst = max(values, key=values.__getitem__)
    start = Plan(values[worst], worst)
    plans = list(search(problem, Search(seed, evaluations=600, start=start)))
    assert plans[-1].value == pytest.approx(min(values.values()))
    assert all(values[plan.devices] == plan.value for plan in plans)
    assert [plan.value for plan in plans] == sorted({plan.value for plan in plans}, reverse=True)
    # what is apart stays so, and a start that is met is not searched from
    apart = replace(problem, apart=((0, 1),))
    assert all(plan.devices[0] != plan.devices[1] for plan in search(apart, Search(seed, evaluations=200)))
    assert list(search(problem, Search(seed, evaluations=600, start=start, target=start.value))) == []


def test_each_round_of_annealing_is_longer_and_leaves_what_no_one_move_improves(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of [2, 2, 2, 2] and [5, 5] a move and a swap raise the highest peak, and two swaps make it least."""
    rounds: list[Peaks] = []

    def begin(problem: PlanningProblem, devices: Sequence[int]) -> Peaks:
        rounds.append(Peaks(problem, devices))
        return rounds[-1]

    monkeypatch.setattr(peak_annealing, "FIRST_ROUND", 100)
    monkeypatch.setattr(peak_annealing, "Peaks", begin)
    problem = problem_of(Objective.PEAK, [task(0.0, holds) for holds in (2, 2, 2, 2, 5, 5)], devices=ROOMY)
    start = Plan(10.0, (0, 0, 0, 0, 1, 1))
    plans = list(anneal_peaks(problem, Search(1, evaluations=3000, start=start)))
    assert [plan.value for plan in plans] == [9.0]
    # half of the moves go nowhere: rounds of 100 each would be 60
    assert len(rounds) < 30


def test_ranks_are_drawn_until_the_schedule_can_not_be_shorter() -> None:
    """The longest path first takes 11 s on two processors, and the best order 10 s."""
    tasks = [task(float(seconds)) for seconds in (5, 4, 3, 3, 3, 2)]
    problem = problem_of(Objective.MAKESPAN, tasks)
    for method in (rank_by_tails, anneal_ranks):
        plans = list(method(problem, Search(1, evaluations=400, target=10.0)))
        assert plans[-1].value == 10.0
    search = Search(1, evaluations=400, target=10.0)
    list(rank_by_tails(problem, search))
    assert search.evaluations_left > 0
    assert list(anneal_ranks(problem_of(Objective.MAKESPAN, [task(1.0)]), Search(evaluations=9))) == []
    assert list(anneal_ranks(problem, Search(1, evaluations=9, start=Plan(10.0, (0,) * 6), target=10.0))) == []


def test_a_search_without_a_choice_yields_the_one_plan_or_none() -> None:
    alone = problem_of(Objective.PEAK, [task(1.5)], devices=(ProblemDevice("x", 0, 2.0),))
    assert [plan.devices for plan in anneal_peaks(alone, Search(1, evaluations=9))] == [(0,)]
    assert list(anneal_peaks(alone, Search(1, evaluations=9, start=Plan(0.0, (0,))))) == []
    assert list(anneal_peaks(problem_of(Objective.PEAK, [task(1.0, 10.0)]), Search(1, evaluations=9))) == []


# --- budgets


def test_a_budget_is_spent_and_shared() -> None:
    search = Search(1, evaluations=10)
    search.spend(4)
    assert (search.evaluations_left, search.is_over) == (6, False)
    assert search.share(0.5).evaluations_left == 3
    assert search.share(1.0).deadline == math.inf
    search.spend(6)
    assert (search.evaluations_left, search.is_over) == (0, True)
    search.spend(6)
    assert search.evaluations_left == 0
    assert Search().evaluations_left == 1 << 62
    timed = Search(deadline=0.0)
    assert (timed.is_over, timed.seconds_left, timed.share(0.5).is_over) == (True, 0.0, True)
    start = Plan(3.0, (0,))
    shared = Search(1, target=2.0, start=start, evaluations=9).share(0.5)
    assert (shared.target, shared.start, shared.evaluations) == (2.0, start, 4)


def test_a_search_that_can_make_no_move_is_over() -> None:
    search = Search(evaluations=1)
    for _ in range(MAX_IDLE - 1):
        search.skip()
    assert not search.is_over
    search.skip()
    assert search.is_over
    search = Search(evaluations=9)
    search.skip()
    search.spend(1)
    for _ in range(MAX_IDLE - 1):
        search.skip()
    assert not search.is_over


def test_what_is_proven_is_a_target() -> None:
    search = Search(target=2.0)
    search.prove(1.0)
    assert (search.proven, search.target) == (1.0, 2.0)
    search.prove(3.0)
    search.prove(2.5)
    assert (search.proven, search.target) == (3.0, 3.0)
    assert [search.is_met(value) for value in (2.0, 3.0, 3.0 * (1 + 5e-10), 3.0 * (1 + 2e-9))] == [True, True, True, False]


def test_kinds_and_capacities_tell_what_fits() -> None:
    devices = (ProblemDevice("x", 0, 2.0), ProblemDevice("y", 1, 3.0))
    tasks = [ProblemTask("a", (1.0, math.inf), 2.0), ProblemTask("b", (1.0, 1.0), 1.0)]
    problem = problem_of(Objective.LOAD, tasks, devices=devices)
    assert [can_run_all(problem, where) for where in ([0, 0], [0, 1], [1, 1])] == [True, True, False]
    assert [find_overfull_devices(problem, where) for where in ([0, 0], [0, 1], [1, 1])] == [[0], [], []]
    loads = Loads(replace(problem, apart=((0, 1),)), [0, 1])
    assert [loads.has_room(0, 1), loads.has_room(1, 0)] == [False, False]
    roomy = Loads(replace(problem, devices=(devices[0]._replace(capacity=3.0), devices[1])), [0, 1])
    assert [roomy.has_room(0, 1), roomy.has_room(1, 0)] == [False, True]
    assert Loads(problem, [0, 1]).has_room(1, 0) is False


@pytest.mark.parametrize(
    ("method", "objective", "spent"),
    [
        # four lists; two hundred ranks; an order of six groups at a time; all that there is, in whole rounds
        (end_first, Objective.MAKESPAN, 4),
        (rank_by_tails, Objective.MAKESPAN, 200),
        (split_orders, Objective.LOAD, 36 * 14),
        (anneal_moves, Objective.MAKESPAN, 500),
        (anneal_peaks, Objective.PEAK, 500),
        (anneal_ranks, Objective.MAKESPAN, 500),
        (anneal_calls, Objective.CALLS, 500),
    ],
)
def test_a_method_spends_what_it_evaluates(method: Method, objective: Objective, spent: int) -> None:
    problem = small(objective, 1)
    if method in (rank_by_tails, anneal_ranks):
        problem = problem_of(Objective.MAKESPAN, [task(float(n)) for n in (5, 4, 3, 3, 3, 2)])
    search = Search(1, evaluations=500)
    list(method(problem, search))
    assert search._spent == spent


@pytest.mark.parametrize("seed", [2, 3, 4])
def test_annealing_finds_the_best_calls_of_all(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(call_annealing, "FIRST_ROUND", 200)
    draw = Search(seed).random
    tasks = [ProblemTask(f"t{n}", (draw.uniform(1, 3), draw.uniform(2, 9)), 1.0, draw.uniform(0, 2)) for n in range(5)]
    inputs = [tuple(sorted({draw.randrange(n), draw.randrange(n)})) if n else () for n in range(5)]
    devices = (ProblemDevice("a", 0, 4.0), ProblemDevice("b", 0, 3.0), ProblemDevice("cpu", 1, pays=False))
    problem = problem_of(Objective.CALLS, tasks, inputs, devices)
    calls = Calls(problem)
    options = [calls.plan(found) for found in itertools.product((ALONE, *range(4)), repeat=5)]
    best = min(plan.value for plan in options if not find_overfull_devices(problem, plan.devices))
    plans = list(anneal_calls(problem, Search(seed, evaluations=1500)))
    values = [plan.value for plan in plans]
    assert values == sorted(set(values), reverse=True)
    assert values[-1] == pytest.approx(best)
    search = Search(seed, evaluations=10**9, target=best)
    assert list(anneal_calls(problem, search))[-1].value == pytest.approx(best)
