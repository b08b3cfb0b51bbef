"""Time windows, worked out by hand."""

from __future__ import annotations

from placesim.planning.problem import DeviceLink, Objective, PlanningProblem, ProblemDevice, ProblemTask
from placesim.planning.time_windows import Windows

STILL = DeviceLink(0.0, 0.0)


def chain(*tasks: ProblemTask, devices: int = 1, pace: float = 1.0, joined: bool = False) -> PlanningProblem:
    """Each task reads the one before it; device `n` is of kind `n`, half a second from every other."""
    count = len(tasks)
    groups = (tuple(range(count)),) if joined else tuple((n,) for n in range(count))
    machines = tuple(ProblemDevice(f"d{n}", n) for n in range(devices))
    ways = tuple(tuple(STILL if a == b else DeviceLink(0.5, pace) for b in range(devices)) for a in range(devices))
    inputs = tuple((n - 1,) if n else () for n in range(count))
    return PlanningProblem(Objective.MAKESPAN, tasks, inputs, groups, machines, ways)


def test_a_task_begins_no_sooner_than_the_host_has_launched_all_before_it() -> None:
    windows = Windows(chain(*(ProblemTask(name, (1.0,), launches=(5.0,)) for name in "abc")))
    assert windows.begins.tolist() == [[5], [10], [15]]
    assert windows.after.tolist() == [[2], [1], [0]]
    assert windows.seconds().tolist() == [[8], [12], [16]]


def test_what_a_task_reads_comes_from_wherever_it_would_be_first() -> None:
    problem = chain(ProblemTask("a", (1.0, 9.0), makes=2.0), ProblemTask("b", (9.0, 1.0)), devices=2)
    windows = Windows(problem)
    assert windows.begins.tolist() == [[0, 0], [1, 3.5]]
    assert windows.after.tolist() == [[3.5, 1], [0, 0]]
    assert windows.seconds().tolist() == [[4.5, 10], [10, 4.5]]


def test_tasks_of_one_group_are_never_moved_to_each_other() -> None:
    problem = chain(ProblemTask("a", (1.0, 9.0), makes=2.0), ProblemTask("b", (9.0, 1.0)), devices=2, joined=True)
    windows = Windows(problem)
    assert windows.begins.tolist() == [[0, 0], [1, 9]]
    assert windows.seconds().tolist() == [[10, 10]]


def test_what_comes_from_elsewhere_is_there_before_it_is_launched_for() -> None:
    first = ProblemTask("a", (1.0, 50.0), makes=2.0)
    second = ProblemTask("b", (50.0, 1.0), launches=(0.0, 3.0))
    windows = Windows(chain(first, second, devices=2))
    assert windows.begins[1].tolist() == [1, 1 + 2.5 + 3]
    assert windows.after[0].tolist() == [2.5 + 3 + 1, 1]


def test_an_output_that_may_not_be_moved_takes_no_time_to_move() -> None:
    problem = chain(ProblemTask("a", (1.0, 9.0), makes=2.0, sends=-1.0), ProblemTask("b", (9.0, 1.0)), devices=2)
    assert Windows(problem).begins[1].tolist() == [1, 1]
