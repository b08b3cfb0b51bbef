"""Schedules and what a problem derives from its tasks, worked out by hand."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace

import pytest

from placesim.core.errors import UsageError
from placesim.machine.timelines.bandwidth_sharing import Link
from placesim.machine.timelines.workload import Cores, SerialStream
from placesim.planning.problem import (
    UNSURE,
    DeviceLink,
    MachineLayout,
    Objective,
    PlanningProblem,
    ProblemDevice,
    ProblemTask,
    ProblemTensor,
    are_apart,
)
from placesim.planning.schedules import FirstComeSchedule, PrioritySchedules, SimulatedSchedule, heads, tails

TWO = (ProblemDevice("x", 0), ProblemDevice("y", 0))


def problem_of(
    seconds: Sequence[float],
    inputs: Sequence[tuple[int, ...]] = (),
    devices: tuple[ProblemDevice, ...] = TWO,
    makes: float = 0.0,
) -> PlanningProblem:
    tasks = tuple(ProblemTask(f"t{n}", (time,), makes=makes) for n, time in enumerate(seconds))
    groups = tuple((n,) for n in range(len(tasks)))
    return PlanningProblem(Objective.MAKESPAN, tasks, tuple(inputs) or ((),) * len(tasks), groups, devices)


def test_heads_and_tails_are_the_longest_paths_before_and_after() -> None:
    problem = problem_of([1, 2, 3, 4], [(), (0,), (0,), (1, 2)])
    assert heads(problem, [1, 2, 3, 4]) == [0, 1, 1, 4]
    assert tails(problem, [1, 2, 3, 4]) == [7, 4, 4, 0]


def test_the_first_in_rank_that_is_ready_runs_on_the_first_free_device() -> None:
    problem = problem_of([3, 2, 2, 1, 0], [(), (), (), (1,), (3,)])
    lists = PrioritySchedules(problem)
    # 0 and 1 begin; at 2 the third is ahead of the fourth, which waits until 3; the last takes no time
    starts, ends = lists.starts([0, 1, 2, 3, 4])
    assert (starts, ends) == ([0, 0, 2, 3, 4], [4, 4])
    plan = lists.plan(starts)
    assert (plan.value, plan.devices, plan.starts) == (4, (0, 1, 1, 0, 0), (0, 0, 2, 3, 4))
    starts, ends = lists.starts([3, 4, 1, 2, 0])
    assert starts == [2, 0, 0, 2, 3]
    assert ends == [3, 5]
    assert lists.plan(starts).value == 5
    one = PrioritySchedules(problem_of([2, 1], devices=TWO[:1]))
    assert one.starts([1, 0]) == ([1, 0], [3])


def test_tensors_leave_and_arrive_one_at_a_time_and_once_for_each_device() -> None:
    ways = tuple(tuple(DeviceLink(0.5, 0.25) for _ in range(3)) for _ in range(3))
    devices = (*TWO, ProblemDevice("z", 0, slots=2))
    problem = replace(problem_of([1, 2, 3, 4], [(), (0,), (0,), (0,)], devices, makes=4.0), ways=ways)
    first = FirstComeSchedule(problem)
    # one transfer of 0.5 + 1 s for both readers, which two slots run at once
    assert first.plan([0, 2, 2, 0]).starts == (0, 2.5, 2.5, 1)
    assert first.seconds([0, 2, 2, 0]) == 5.5
    # with one slot the second waits for the first; ties go by number
    assert first.plan([0, 1, 1, 0]).starts == (0, 2.5, 4.5, 1)
    # to two devices one after the other: the way's delay does not keep the sender busy
    assert sorted(first.plan([0, 1, 2, 0]).starts) == [0, 1, 2.5, 3.5]
    assert first.plan([0, 0, 0, 0]).starts == (0, 1, 3, 6)
    both = replace(problem_of([1, 1, 3], [(), (), (0, 1)], devices, makes=4.0), ways=ways)
    # a device gets one at a time as well
    assert FirstComeSchedule(both).plan([0, 1, 2]).starts == (0, 0, 1 + 1 + 1 + 0.5)


def test_a_layout_is_simulated_with_launches_streams_and_links() -> None:
    layout = MachineLayout(
        (Cores("host", 2, 2), SerialStream("x", 0), SerialStream("moves")),
        (Link("in", 4.0, 0.5),),
        (0, 1),
        ((((), ()), ((0,), (2,))), (((0,), (2,)), ((), ()))),
    )
    tasks = (
        ProblemTask("a", (2.0, 1.0), makes=8.0, launches=(0.0, 0.25), cores=(2, 1)),
        ProblemTask("b", (4.0, 3.0), launches=(0.0, 0.25), cores=(1, 1)),
        ProblemTask("c", (4.0, 3.0)),
    )
    devices = (ProblemDevice("cpu", 0, pays=False), ProblemDevice("gpu", 1))
    groups = ((0,), (1,), (2,))
    problem = PlanningProblem(Objective.MAKESPAN, tasks, ((), (0,), (0,)), groups, devices, layout=layout)
    found = SimulatedSchedule(problem)
    # one transfer of 0.5 + 8 / 4 s; c needs no launch, so that b, which does, runs behind it
    plan = found.plan([0, 1, 1])
    assert (plan.value, plan.starts) == (10.5, (0, 7.5, 4.5))
    assert found.seconds([0, 1, 1]) == plan.value
    assert found.plan([1, 1, 1]).starts[0] == 0.25
    assert found.seconds([0, 0, 0]) == 2 + 4


# --- problems


def test_what_a_problem_derives_from_its_tasks() -> None:
    devices = (ProblemDevice("x", 0, 4.0), ProblemDevice("y", 1, 2.0), ProblemDevice("z", 0, 1.0))
    tasks = (
        ProblemTask("a", (1.0, 2.0), 1.0),
        ProblemTask("b", (3.0, math.inf), 2.0),
        ProblemTask("c", (math.inf, 5.0), 3.0),
        ProblemTask("d", (7.0, 1.0), 0.5),
    )
    problem = PlanningProblem(Objective.LOAD, tasks, ((), (0,), (0,), (1, 2)), ((0, 1), (2,), (3,)), devices, apart=((0, 2),))
    assert problem.readers == ((1, 2), (3,), (3,), ())
    assert problem.group_of == (0, 0, 1, 2)
    assert problem.order == (0, 1, 2, 3)
    assert problem.held == (3, 3, 0.5)
    assert problem.group_seconds == ((4, math.inf), (math.inf, 5), (7, 1))
    assert problem.kinds == ((0, 2), (1,))
    assert (problem.movable, problem.homeless) == ((2,), (1,))
    assert problem.homes == (frozenset((0,)), frozenset(), frozenset((0, 1, 2)))
    assert problem.rivals == ((2,), (), (0,))
    assert [are_apart(problem, devices) for devices in ((0, 0, 0, 1), (0, 0, 1, 0))] == [True, False]
    assert not problem.are_devices_alike
    assert replace(problem, devices=TWO).are_devices_alike
    assert problem.way(0, 1) == DeviceLink(0.0, 1.0)
    assert replace(problem, inputs=((3,), (0,), (0,), (1, 2))).order == ()
    assert replace(problem, devices=()).kinds == ()


def test_a_task_says_what_bounds_may_count_on() -> None:
    task = ProblemTask("a", (3.0,), makes=2.0)
    assert (task.sent, task.path_seconds, task.work_seconds) == (2.0, (3.0,), (3.0,))
    sure = task._replace(sends=UNSURE, path=(2.0,), work=(1.0,))
    assert (sure.sent, sure.path_seconds, sure.work_seconds) == (UNSURE, (2.0,), (1.0,))
    assert task._replace(sends=0.0).sent == 0.0


FINE = problem_of([1.0, 1.0, 1.0])
HELD = tuple(task._replace(holds=2.0) for task in FINE.tasks)


@pytest.mark.parametrize(
    ("problem", "message"),
    [
        # 0 and 4 hang on the circle of 1, 2 and 3
        (problem_of([1.0] * 5, [(), (0, 3), (1,), (2,), (3,)]), "cycle of tasks: got t2, t3, t1"),
        (problem_of([1.0] * 7, [((n - 1) % 7,) for n in range(7)]), ", and 2 more"),
        (replace(FINE, tasks=(*FINE.tasks[:2], ProblemTask("t", (1.0,), makes=math.inf))), "t: got an infinite size"),
        (replace(FINE, tasks=(ProblemTask("t", (1.0,), holds=-2.0), *FINE.tasks[1:])), "t: got a time or size of -2"),
        (replace(FINE, tasks=(ProblemTask("t", (1.0,), path=(-3.0,)), *FINE.tasks[1:])), "t: got a time or size of -3"),
        (replace(FINE, tasks=(ProblemTask("t", (1.0,), work=(-4.0,)), *FINE.tasks[1:])), "t: got a time or size of -4"),
        (replace(FINE, inputs=((), (3,), ())), "t1: got an unknown input task, expected numbers from 0 to 2"),
        (replace(FINE, inputs=((), (-1,), ())), "t1: got an unknown input task"),
        (replace(FINE, groups=((0, 1), (1,), (2,))), "t1: got 2 groups, expected one"),
        (replace(FINE, tensors=(ProblemTensor(math.inf, 2, 0),)), "t2: got a tensor of size inf"),
        (replace(FINE, tensors=(ProblemTensor(1.0, 3, 0),)), "task 3: got a tensor of size 1"),
        (replace(FINE, tensors=(ProblemTensor(1.0, -1, 0),)), "task -1: got a tensor of size 1"),
        (
            replace(FINE, tasks=HELD, devices=(ProblemDevice("x", 0, 1.0), ProblemDevice("y", 0, 1.5))),
            "no device fits t0: got 2 in total, expected at most 1.5",
        ),
        (replace(FINE, apart=((0, 1, 2),)), r"too few devices to keep groups apart: got 2 for 3 groups \(t0, t1, t2\)"),
        # three devices for three groups, but two of these have the same one alone
        (
            PlanningProblem(
                Objective.LOAD,
                tuple(ProblemTask(f"t{n}", (1.0, math.inf if n < 2 else 1.0)) for n in range(3)),
                ((),) * 3,
                ((0,), (1,), (2,)),
                (ProblemDevice("x", 0), ProblemDevice("y", 1), ProblemDevice("z", 1)),
                apart=((0, 1, 2),),
            ),
            "cannot keep t0, t1, t2 apart: some are allowed on too few devices",
        ),
    ],
)
def test_what_is_no_problem_is_said(problem: PlanningProblem, message: str) -> None:
    with pytest.raises(UsageError, match=message):
        problem.check()


def test_what_is_a_problem_is_left_alone() -> None:
    FINE.check()
    replace(FINE, apart=((0, 1), (1, 2)), tensors=(ProblemTensor(0.0, 0, 0), ProblemTensor(1.0, 2, 0))).check()
    full = replace(FINE, tasks=HELD, devices=(ProblemDevice("x", 0, 2.0), TWO[1]))
    full.check()
    # the one group that can only be on x has it, whatever the others could have
    matched = PlanningProblem(
        Objective.LOAD,
        tuple(ProblemTask(f"t{n}", (1.0, 1.0 if n < 2 else math.inf)) for n in range(3)),
        ((),) * 3,
        ((0,), (1,), (2,)),
        (ProblemDevice("x", 0), ProblemDevice("y", 1), ProblemDevice("z", 1)),
        apart=((0, 1, 2),),
    )
    matched.check()
    PlanningProblem(Objective.LOAD, (), (), (), TWO).check()
