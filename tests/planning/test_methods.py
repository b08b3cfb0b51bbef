"""What methods find on problems so small that all plans can be tried."""

from __future__ import annotations

import itertools
import math
import random
import time
from dataclasses import replace
from unittest import mock

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from placesim.core.errors import UsageError
from placesim.machine.timelines.bandwidth_sharing import Link
from placesim.machine.timelines.workload import Cores, SerialStream
from placesim.planning import bounds
from placesim.planning.bounds import best_bound, lower_bounds
from placesim.planning.call_latency import ALONE, Calls
from placesim.planning.coarsening import coarsen, coarsen_levels
from placesim.planning.loads import Loads, load_plan
from placesim.planning.memory_limits import find_overfull_devices
from placesim.planning.methods.annealing import anneal_loads
from placesim.planning.methods.call_annealing import anneal_calls
from placesim.planning.methods.closed_sets import split_closed_sets
from placesim.planning.methods.contiguous import group_order, split_order, split_orders
from placesim.planning.methods.dispatch_simulation import Dispatcher, Weights, dispatch_ready
from placesim.planning.methods.exact import has_solver, solve_loads, solve_makespan, solve_peaks, solve_schedule
from placesim.planning.methods.list_scheduling import end_first
from placesim.planning.methods.local_search import anneal_moves
from placesim.planning.methods.priorities import anneal_ranks, rank_by_tails
from placesim.planning.problem import (
    DeviceLink,
    MachineLayout,
    Objective,
    Plan,
    PlanningProblem,
    ProblemDevice,
    ProblemTask,
    ProblemTensor,
)
from placesim.planning.schedules import FirstComeSchedule, PrioritySchedules, SimulatedSchedule
from placesim.planning.search_budget import Method, Search
from tests.examples import examples
from tests.planning.problems import (
    assignments,
    is_contiguous,
    least_load,
    least_makespan,
    pipelines,
    schedules,
)

needs_solver = pytest.mark.skipif(not has_solver(), reason="OR-tools is not installed: pip install 'placesim[plan]'")


def naive_loads(problem: PlanningProblem, devices: tuple[int, ...]) -> list[float]:
    """The definition, word by word."""
    loads = [0.0] * len(problem.devices)
    for task, own in enumerate(devices):
        loads[own] += problem.tasks[task].seconds[problem.devices[own].kind]
        others = {devices[reader] for reader in problem.readers[task]} - {own}
        for device in others | ({own} if others else set()):
            if problem.devices[device].pays:
                loads[device] += problem.tasks[task].makes
    return loads


@given(pipelines())
@settings(max_examples=examples(60), deadline=None)
def test_loads_that_are_kept_while_groups_move_are_those_of_the_definition(problem: PlanningProblem) -> None:
    loads = Loads(problem, [0] * len(problem.tasks))
    for number in range(3 * len(problem.groups)):
        loads.move(number % len(problem.groups), number * 7 % len(problem.devices))
        assert loads.loads == pytest.approx(naive_loads(problem, tuple(loads.devices)), abs=1e-9)


def test_a_way_takes_its_delay_and_its_pace() -> None:
    tasks = (ProblemTask("a", (1.0,), makes=10.0), ProblemTask("b", (2.0,)))
    ways = ((DeviceLink(), DeviceLink(0.5, 0.1)), (DeviceLink(0.25, 0.2), DeviceLink()))
    problem = PlanningProblem(
        Objective.LOAD, tasks, ((), (0,)), ((0,), (1,)), (ProblemDevice("x", 0), ProblemDevice("y", 0)), ways
    )
    assert Loads(problem, [0, 1]).loads == [1 + 1.5, 2 + 1.5]
    assert Loads(problem, [1, 0]).loads == [2 + 2.25, 1 + 2.25]
    assert FirstComeSchedule(problem).seconds([0, 1]) == 1 + 1.5 + 2


@pytest.mark.slow
@given(pipelines())
@settings(max_examples=examples(30), deadline=None)
def test_plans_of_pipelines_fit_and_no_bound_is_above_the_best(problem: PlanningProblem) -> None:
    best = least_load(problem)
    assert max((bound.value for bound in lower_bounds(problem)), default=0.0) <= best + 1e-9
    methods: tuple[Method, ...] = (split_orders, anneal_loads)
    for method in methods:
        for plan in method(problem, Search(1, evaluations=4000)):
            assert plan.value == pytest.approx(max(naive_loads(problem, plan.devices)))
            assert not find_overfull_devices(problem, plan.devices)
            assert plan.value >= best - 1e-9


@pytest.mark.slow
@needs_solver
@given(pipelines(5))
@settings(max_examples=examples(25), deadline=None)
def test_the_exact_search_finds_and_proves_the_least_load(problem: PlanningProblem) -> None:
    best = least_load(problem)
    search = Search(1, time.monotonic() + 20)
    found = list(solve_loads(problem, search))
    if math.isinf(best):
        assert not found
        return
    assert found[-1].value == pytest.approx(best)
    assert search.proven <= best + 1e-9
    assert search.proven == pytest.approx(best, rel=1e-6, abs=1e-6)


@needs_solver
@pytest.mark.parametrize(
    ("tensors", "start", "best"),
    [
        # moments far apart, of which the later is the fuller
        ((ProblemTensor(1.0, 0, 3, ((0, 129),)), ProblemTensor(5.0, 1, 128, ((1, 129),))), None, 5.0),
        # from a plan that is the best: all that is larger counts as too large
        (
            (*[ProblemTensor(2.0, 0, 0, only_on=frozenset((0,)))] * 2, ProblemTensor(9.0, 0, 0, only_on=frozenset((1,)))),
            Plan(4.0, (0, 0)),
            4.0,
        ),
    ],
)
def test_the_exact_search_finds_and_proves_the_least_peak(
    tensors: tuple[ProblemTensor, ...], start: Plan | None, best: float
) -> None:
    tasks = (ProblemTask("a", (0.0,)), ProblemTask("b", (0.0,)))
    problem = PlanningProblem(
        Objective.PEAK, tasks, ((), ()), ((0,), (1,)), (ProblemDevice("x", 0), ProblemDevice("y", 0)), tensors=tensors
    )
    search = Search(1, evaluations=10_000, start=start)
    assert [plan.value for plan in solve_peaks(problem, search)] == [best]
    assert search.proven == pytest.approx(best, rel=1e-6)


@needs_solver
def test_the_exact_search_proves_a_bound_with_its_first_evaluation() -> None:
    tasks = tuple(
        ProblemTask(name, (seconds,), makes=2.0) for name, seconds in (("a", 1.0), ("b", 3.0), ("c", 3.0), ("d", 2.0))
    )
    devices = (ProblemDevice("x", 0), ProblemDevice("y", 0))
    problem = PlanningProblem(Objective.MAKESPAN, tasks, ((), (0,), (0,), (1, 2)), ((0,), (1,), (2,), (3,)), devices)
    search = Search(1, evaluations=1, start=Plan(9.0, (0, 0, 0, 0)))
    assert [plan.value for plan in solve_makespan(problem, search)] == [8.0]
    assert search.proven == pytest.approx(8.0, rel=1e-6)


@pytest.mark.slow
@given(pipelines(5, contiguous=True))
@settings(max_examples=examples(40), deadline=None)
def test_closed_sets_give_the_best_contiguous_plan(problem: PlanningProblem) -> None:
    search = Search()
    found = list(split_closed_sets(problem, search))
    # chains of closed sets are the splits in which parts can be put in an order: a path that comes back is no path in them
    ordered = [
        devices
        for devices in assignments(problem)
        if any(
            all(place[devices[s]] <= place[devices[t]] for t in range(len(devices)) for s in problem.inputs[t])
            for place in itertools.permutations(range(len(problem.devices)))
        )
    ]
    best = min((load_plan(problem, devices).value for devices in ordered), default=math.inf)
    assert (found[-1].value if found else math.inf) == pytest.approx(best)
    assert all(is_contiguous(problem, plan.devices) for plan in found)
    # parts that read from each other in turn have no order, and may be better
    assert search.proven <= least_load(problem) + 1e-9


@given(pipelines(6, contiguous=True))
@settings(max_examples=examples(25), deadline=None)
def test_what_is_annealed_stays_contiguous_where_that_is_asked_for(problem: PlanningProblem) -> None:
    for plan in anneal_loads(problem, Search(3, evaluations=3000)):
        assert is_contiguous(problem, plan.devices)


def test_a_start_whose_parts_read_from_each_other_stays_contiguous() -> None:
    inputs = ((), (0,), (), (), (0, 1), (4,), (), (1, 2), (4, 6), (1, 3), (1,), (8,))
    seconds = (8.3, 5.2, 4.5, 4.9, 9.3, 6.3, 3.8, 2.1, 3.6, 6.9, 4.4, 9.0)
    makes = (2.0, 2.3, 2.6, 2.9, 0.5, 0.3, 0.03, 0.6, 2.6, 2.0, 0.7, 1.1)
    problem = PlanningProblem(
        Objective.LOAD,
        tuple(ProblemTask(str(n), (time,), 0.0, size) for n, (time, size) in enumerate(zip(seconds, makes, strict=True))),
        inputs,
        tuple((n,) for n in range(len(inputs))),
        tuple(ProblemDevice(f"d{n}", 0) for n in range(3)),
        needs_contiguous=True,
    )
    start = load_plan(problem, (2, 2, 0, 0, 1, 0, 0, 2, 0, 2, 0, 0))
    assert is_contiguous(problem, start.devices)
    plans = list(anneal_loads(problem, Search(0, evaluations=2000, start=start)))
    assert plans
    assert plans[-1].value < start.value
    assert all(is_contiguous(problem, plan.devices) for plan in plans)


@given(pipelines(6, contiguous=True))
@settings(max_examples=examples(40), deadline=None)
def test_a_cut_of_an_order_is_the_best_of_its_cuts(problem: PlanningProblem) -> None:
    order = group_order(problem)
    assert sorted(order) == list(range(len(problem.groups)))
    cut = split_order(problem, order)
    least = math.inf
    for stages in itertools.combinations_with_replacement(range(len(problem.devices)), len(order)):
        for place in itertools.permutations(range(len(problem.devices))):
            devices = [0] * len(order)
            for group, stage in zip(order, stages, strict=True):
                devices[problem.groups[group][0]] = place[stage]
            if not find_overfull_devices(problem, devices):
                least = min(least, load_plan(problem, devices).value)
    assert (math.inf if cut is None else load_plan(problem, cut).value) == pytest.approx(least)


def check_schedule(problem: PlanningProblem, plan: Plan) -> None:
    """Nothing begins before its inputs end, and no processor runs two things at once."""
    seconds = [task.seconds[0] for task in problem.tasks]
    ends = [start + time for start, time in zip(plan.starts, seconds, strict=True)]
    assert plan.value == max(ends)
    for task, sources in enumerate(problem.inputs):
        assert all(ends[source] <= plan.starts[task] for source in sources)
    for device in set(plan.devices):
        spans = sorted((plan.starts[t], ends[t]) for t, own in enumerate(plan.devices) if own == device and seconds[t])
        assert all(before[1] <= after[0] for before, after in itertools.pairwise(spans))


@given(schedules())
@settings(max_examples=examples(40), deadline=None)
def test_schedules_are_such_and_the_bounds_are_below_the_best(problem: PlanningProblem) -> None:
    best = least_makespan(problem)
    assert best_bound(problem).value <= best
    methods: tuple[Method, ...] = (rank_by_tails, anneal_ranks)
    for method in methods:
        plans = list(method(problem, Search(1, evaluations=300, target=best_bound(problem).value)))
        for plan in plans:
            check_schedule(problem, plan)
            assert plan.value >= best


@needs_solver
@given(schedules(5))
@settings(max_examples=examples(15), deadline=None)
def test_the_exact_search_finds_and_proves_the_shortest_schedule(problem: PlanningProblem) -> None:
    search = Search(1, time.monotonic() + 20)
    (plan,) = solve_schedule(problem, search)
    check_schedule(problem, plan)
    assert plan.value == least_makespan(problem) == search.proven


@pytest.mark.slow
@given(pipelines(6))
@settings(max_examples=examples(25), deadline=None)
def test_plans_of_makespans_hold_their_memory_and_what_the_executor_makes_of_them(problem: PlanningProblem) -> None:
    problem = PlanningProblem(Objective.MAKESPAN, problem.tasks, problem.inputs, problem.groups, problem.devices)
    measured, bound = FirstComeSchedule(problem), best_bound(problem).value
    methods: tuple[Method, ...] = (end_first, anneal_moves, dispatch_ready)
    for method in methods:
        for plan in method(problem, Search(1, evaluations=300)):
            assert plan.value == measured.seconds(plan.devices)
            assert plan.value >= bound - 1e-9
            assert not find_overfull_devices(problem, plan.devices)


@pytest.mark.slow
@given(pipelines(8))
@settings(max_examples=examples(40), deadline=None)
def test_prices_give_no_more_than_the_relaxation_and_at_the_best_as_much(problem: PlanningProblem) -> None:
    roomy = replace(problem, devices=tuple(device._replace(capacity=math.inf) for device in problem.devices))
    whole = bounds.relaxed_work(roomy)[0]
    with mock.patch.object(bounds, "MAX_RELAXED", 0):
        priced = bounds.relaxed_work(roomy)[0]
    assert priced <= whole + 1e-6
    assert priced == pytest.approx(whole, rel=1e-3, abs=1e-6)


MACHINE = MachineLayout(
    (Cores("host", 4, 4), SerialStream("x", 0), SerialStream("x moves"), SerialStream("y", 0), SerialStream("y moves")),
    (Link("between", 1.0, 0.25),),
    (1, 3, 0),
    (
        (((), ()), ((0,), (2, 4)), ((0,), (2,))),
        (((0,), (4, 2)), ((), ()), ((0,), (4,))),
        (((0,), (2,)), ((0,), (4,)), ((), ())),
    ),
)
"""Two devices with streams that a host launches, and the host."""


def machine(drawn: random.Random) -> PlanningProblem:
    """Tasks on that machine, so that no two things end at once."""
    count = drawn.randint(1, 12)
    inputs = tuple(tuple(sorted(drawn.sample(range(n), min(n, drawn.randint(0, 2))))) for n in range(count))
    tasks = tuple(
        ProblemTask(
            f"t{n}",
            (drawn.uniform(1, 5), drawn.uniform(2, 9)),
            makes=drawn.uniform(0, 2),
            launches=(drawn.uniform(0.1, 0.9), 0.0),
            cores=(1, 1),
        )
        for n in range(count)
    )
    devices = (ProblemDevice("x", 0), ProblemDevice("y", 0), ProblemDevice("host", 1, pays=False))
    groups = tuple((n,) for n in range(count))
    return PlanningProblem(Objective.MAKESPAN, tasks, inputs, groups, devices, layout=MACHINE)


def test_a_pass_over_what_is_decided_takes_about_what_the_machine_takes() -> None:
    errors = []
    for seed in range(300):
        problem = machine(random.Random(seed))
        dispatcher = Dispatcher(problem)
        units = dispatcher.units(range(len(problem.tasks)))
        assert units is not None
        devices = [random.Random(seed + n).randrange(3) for n in range(len(problem.tasks))]
        pinned = [0] * len(devices)
        for task, unit in enumerate(units.of_task):
            pinned[unit] = devices[task]
        found = dispatcher.run(units, Weights(), random.Random(0), pinned=pinned)
        assert found is not None
        assert found[1] == devices
        errors.append(abs(found[0] / SimulatedSchedule(problem).seconds(devices) - 1))
    # the host's crowd is only counted as it is when something begins, and links are not shared
    errors.sort()
    assert errors[len(errors) // 2] < 1e-9
    assert errors[len(errors) * 9 // 10] < 0.05
    assert errors[-1] < 0.3


@given(st.randoms(use_true_random=False).map(machine))
@settings(max_examples=examples(20), deadline=None)
def test_what_is_dispatched_is_a_plan_of_the_machine_and_counted_work_gives_one(problem: PlanningProblem) -> None:
    simulated, bound = SimulatedSchedule(problem), best_bound(problem).value
    plans = [list(dispatch_ready(problem, Search(3, evaluations=40))) for _ in range(2)]
    assert plans[0] == plans[1]
    values = [plan.value for plan in plans[0]]
    assert values == sorted(values, reverse=True)
    for plan in plans[0]:
        assert plan.value == simulated.seconds(plan.devices) >= bound - 1e-9


def test_two_chains_are_dispatched_to_two_streams() -> None:
    tasks = tuple(ProblemTask(f"t{n}", (1.0, 50.0), makes=4.0, launches=(0.01, 0.0), cores=(1, 1)) for n in range(40))
    inputs = tuple((n - 2,) if n > 1 else () for n in range(40))
    devices = (ProblemDevice("x", 0), ProblemDevice("y", 0), ProblemDevice("host", 1, pays=False))
    problem = PlanningProblem(Objective.MAKESPAN, tasks, inputs, tuple((n,) for n in range(40)), devices, layout=MACHINE)
    plan = list(dispatch_ready(problem, Search(1, evaluations=4)))[-1]
    assert plan.value == pytest.approx(20.01, rel=0.01)
    assert {plan.devices[n] for n in range(0, 40, 2)} != {plan.devices[n] for n in range(1, 40, 2)}


def test_a_device_that_is_busy_leaves_the_next_task_to_a_free_one() -> None:
    tasks = tuple(ProblemTask(f"t{n}", (1.0,)) for n in range(6))
    devices = (ProblemDevice("x", 0), ProblemDevice("y", 0, slots=2))
    problem = PlanningProblem(Objective.MAKESPAN, tasks, ((),) * 6, tuple((n,) for n in range(6)), devices)
    plan = next(end_first(problem, Search(1, evaluations=4)))
    assert [plan.devices.count(device) for device in (0, 1)] == [2, 4]
    assert plan.value == 2


def test_groups_stay_together_and_capacities_hold_while_tasks_are_dispatched() -> None:
    tasks = tuple(ProblemTask(f"t{n}", (1.0, 50.0), 1.0, launches=(0.01, 0.0), cores=(1, 1)) for n in range(12))
    groups = ((0, 1, 2), (3, 4), (5,), (6, 7, 8, 9), (10, 11))
    devices = (ProblemDevice("x", 0, 7.0), ProblemDevice("y", 0, 5.0), ProblemDevice("host", 1, 12.0, pays=False))
    problem = PlanningProblem(Objective.MAKESPAN, tasks, ((),) * 12, groups, devices, layout=MACHINE)
    plans = list(dispatch_ready(problem, Search(1, evaluations=40)))
    assert plans
    for plan in plans:
        assert not find_overfull_devices(problem, plan.devices)
        assert all(len({plan.devices[task] for task in group}) == 1 for group in groups)


def test_a_call_takes_what_goes_in_what_it_runs_and_what_goes_out() -> None:
    tasks = tuple(
        ProblemTask(name, (1.0, 10.0), makes=makes) for name, makes in (("a", 0.5), ("b", 0.25), ("c", 0.125), ("d", 0.0))
    )
    devices = (ProblemDevice("acc0", 0), ProblemDevice("acc1", 0), ProblemDevice("cpu", 1, pays=False))
    problem = PlanningProblem(Objective.CALLS, tasks, ((), (0,), (1,), (1, 2)), tuple((n,) for n in range(4)), devices)
    calls = Calls(problem)
    assert calls.seconds([ALONE] * 4) == 40
    # b and c in a call of the first device: in 0.5, b and c, out what d reads of each
    assert calls.seconds([ALONE, 0, 0, ALONE]) == 10 + 0.5 + 2 + 0.25 + 0.125 + 10
    # a call that leaves and comes back waits for itself
    assert calls.seconds([ALONE, 0, ALONE, 0]) == math.inf
    # calls 0 and 2 are on one device, the second begins when the first has ended
    assert calls.seconds([0, 2, 2, 2]) == (1 + 0.5) + (0.5 + 3)
    plan = list(anneal_calls(problem, Search(1, evaluations=500)))[-1]
    assert plan.value == calls.seconds([ALONE if d == 2 else c * 2 + d for d, c in zip(plan.devices, plan.calls, strict=True)])
    assert plan.value == pytest.approx(4.0)


@given(pipelines(6))
@settings(max_examples=examples(40), deadline=None)
def test_a_coarse_problem_has_no_circle_and_keeps_groups_together(problem: PlanningProblem) -> None:
    for most in (1, 2, 4):
        coarse = coarsen(problem, most)
        assert coarse.problem.order or not coarse.problem.tasks
        devices = coarse.expand([cluster % 3 for cluster in range(len(coarse.problem.tasks))])
        del devices
        for members in coarse.problem.groups:
            assert members
        assert sum(map(sum, (t.seconds for t in coarse.problem.tasks))) == pytest.approx(
            sum(map(sum, (t.seconds for t in problem.tasks)))
        )
        group_of = coarse.problem.group_of
        for group in problem.groups:
            assert len({group_of[coarse.cluster_of[task]] for task in group}) == 1


def problem_of(*tasks: ProblemTask, inputs: tuple[tuple[int, ...], ...] = ((), ()), capacity: float = 8.0) -> PlanningProblem:
    groups = tuple((n,) for n in range(len(tasks)))
    return PlanningProblem(Objective.LOAD, tasks, inputs, groups, (ProblemDevice("x", 0, capacity),))


@pytest.mark.parametrize(
    ("problem", "words"),
    [
        (problem_of(ProblemTask("a", (math.nan,)), ProblemTask("b", (1.0,))), "a: got a time or size of nan"),
        (problem_of(ProblemTask("a", (1.0,)), ProblemTask("b", (-1.0,))), "b: got a time or size of -1"),
        (problem_of(ProblemTask("a", (1.0, 2.0)), ProblemTask("b", (1.0,))), "a: got 2 times, expected 1"),
        (problem_of(ProblemTask("a", (1.0,)), ProblemTask("b", (1.0,)), inputs=((1,), (0,))), "cycle of tasks: got "),
        (problem_of(ProblemTask("a", (1.0,), 9.0), ProblemTask("b", (1.0,))), "no device fits a"),
        (problem_of(ProblemTask("a", (math.inf,)), ProblemTask("b", (1.0,))), "no device fits a"),
        (problem_of(ProblemTask("a", (1.0,), math.inf), ProblemTask("b", (1.0,))), "a: got an infinite size"),
        (problem_of(ProblemTask("a", (1.0,), launches=(math.nan,)), ProblemTask("b", (1.0,))), "a: got a time or size of nan"),
        (
            problem_of(ProblemTask("a", (1.0,)), ProblemTask("b", (1.0,)), inputs=((), (7,))),
            "b: got an unknown input task",
        ),
        (
            replace(problem_of(ProblemTask("a", (1.0,)), ProblemTask("b", (1.0,))), groups=((0,),)),
            "b: got 0 groups, expected one",
        ),
        (
            replace(problem_of(ProblemTask("a", (1.0,)), ProblemTask("b", (1.0,))), tensors=(ProblemTensor(-1.0, 1, 0),)),
            "b: got a tensor of size -1",
        ),
        (
            replace(problem_of(ProblemTask("a", (1.0,)), ProblemTask("b", (1.0,))), apart=((0, 1),)),
            r"too few devices to keep groups apart: got 1 for 2 groups \(a, b\)",
        ),
    ],
)
def test_what_is_no_problem_is_said_with_names(problem: PlanningProblem, words: str) -> None:
    with pytest.raises(UsageError, match=words):
        problem.check()


def test_what_takes_no_time_has_a_processor_too() -> None:
    problem = PlanningProblem(
        Objective.MAKESPAN,
        (ProblemTask("a", (0.0,)), ProblemTask("b", (3.0,)), ProblemTask("c", (0.0,))),
        ((), (0,), (1,)),
        ((0,), (1,), (2,)),
        (ProblemDevice("p", 0),),
    )
    lists = PrioritySchedules(problem)
    plan = lists.plan(lists.starts([0, 1, 2])[0])
    check_schedule(problem, plan)
    assert plan.value == 3


@given(pipelines(8))
@settings(max_examples=examples(40), deadline=None)
def test_levels_bring_plans_from_coarse_to_fine(problem: PlanningProblem) -> None:
    with mock.patch("placesim.planning.coarsening.FEW", 1):
        found = coarsen_levels(problem, 4, 8)
    assert found[-1].problem is problem
    for level in found:
        count = len(level.problem.groups)
        of_group = [group % 3 for group in range(count)]
        devices = tuple(of_group[group] for group in level.problem.group_of)
        # what belongs together stays so on the way down and back
        assert level.contract(level.expand(devices)) == devices
        group_of = level.problem.group_of
        assert all(len({group_of[level.cluster_of[task]] for task in members}) == 1 for members in problem.groups)


def test_chains_join_only_where_nothing_waits_for_it() -> None:
    # a0 - a1 - a2 reads b1 as well, c is a source that only a1 reads
    tasks = tuple(ProblemTask(name, (1.0,)) for name in ("a0", "a1", "b0", "b1", "a2", "c"))
    problem = PlanningProblem(
        Objective.MAKESPAN, tasks, ((), (0, 5), (), (2,), (1, 3), ()), tuple((n,) for n in range(6)), (ProblemDevice("x", 0),)
    )
    with mock.patch("placesim.planning.coarsening.FEW", 1):
        chains = coarsen_levels(problem, 3, 6)[0]
    named = {frozenset(tasks[t].name for t in range(6) if chains.cluster_of[t] == c) for c in set(chains.cluster_of)}
    assert named == {frozenset(("a0", "a1", "c")), frozenset(("b0", "b1")), frozenset(("a2",))}


def test_a_search_without_moves_ends() -> None:
    tasks = (ProblemTask("a", (1.0, math.inf)), ProblemTask("b", (math.inf, 1.0)))
    devices = (ProblemDevice("x", 0), ProblemDevice("y", 1))
    for objective in (Objective.MAKESPAN, Objective.LOAD):
        problem = PlanningProblem(objective, tasks, ((), (0,)), ((0,), (1,)), devices)
        method = anneal_moves if objective is Objective.MAKESPAN else anneal_loads
        assert len(list(method(problem, Search(evaluations=1 << 40)))) == 1
    # movable, but nowhere is room for a move
    full = tuple(device._replace(capacity=1.0) for device in devices)
    tasks = (ProblemTask("a", (1.0, 1.0), 1.0), ProblemTask("b", (1.0, 1.0), 1.0))
    problem = PlanningProblem(Objective.MAKESPAN, tasks, ((), (0,)), ((0,), (1,)), full)
    assert len(list(anneal_moves(problem, Search(evaluations=1 << 40)))) == 1


def test_calls_are_cut_so_that_each_device_has_room_for_its_own() -> None:
    tasks = tuple(ProblemTask(f"t{n}", (1.0, 9.0), holds=1.0, makes=0.1) for n in range(6))
    inputs = tuple((n - 1,) if n else () for n in range(6))
    devices = (ProblemDevice("a", 0, 4.0), ProblemDevice("b", 0, 1.0), ProblemDevice("cpu", 1, pays=False))
    problem = PlanningProblem(Objective.CALLS, tasks, inputs, tuple((n,) for n in range(6)), devices)
    for plan in anneal_calls(problem, Search(1, evaluations=200)):
        assert not find_overfull_devices(problem, plan.devices)
