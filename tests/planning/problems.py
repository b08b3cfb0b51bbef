"""Small random problems, and their best plans by trying all."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from functools import cache

from hypothesis import strategies as st

from placesim.planning.loads import load_plan
from placesim.planning.memory_limits import find_overfull_devices
from placesim.planning.problem import Objective, PlanningProblem, ProblemDevice, ProblemTask, are_apart

TIMES = st.integers(0, 9).map(float)
BOOLEANS = st.booleans()
# hypothesis checks each strategy that is new to it, which takes longer than to draw from it: these are made once
integers = cache(st.integers)


@cache
def some_below(count: int, most: int) -> st.SearchStrategy[set[int]]:
    """A few of the first so many numbers."""
    return st.sets(integers(0, count - 1), max_size=most)


@st.composite
def pipelines(draw: st.DrawFn, most: int = 6, *, contiguous: bool = False) -> PlanningProblem:
    """Up to so many tasks on two accelerators and a CPU, some of them in groups, some backward."""
    count = draw(integers(1, most))
    inputs = [draw(some_below(task, 3)) if task else set() for task in range(count)]
    tasks = tuple(
        ProblemTask(
            f"t{n}",
            (draw(TIMES), draw(TIMES)),
            float(draw(integers(0, 3))),
            draw(TIMES),
            not contiguous and draw(BOOLEANS),
        )
        for n in range(count)
    )
    labels = [draw(integers(0, count - 1)) for _ in range(count)]
    groups = [tuple(n for n in range(count) if labels[n] == label) for label in dict.fromkeys(labels)]
    if contiguous:
        groups = [(n,) for n in range(count)]
    devices = (ProblemDevice("acc0", 0, 9.0), ProblemDevice("acc1", 0, 9.0), ProblemDevice("cpu", 1, pays=False))
    sources = tuple(tuple(sorted(row)) for row in inputs)
    return PlanningProblem(Objective.LOAD, tasks, sources, tuple(groups), devices, needs_contiguous=contiguous)


@st.composite
def schedules(draw: st.DrawFn, most: int = 6) -> PlanningProblem:
    """Up to so many tasks on equal processors, where only the order counts."""
    count, processors = draw(integers(1, most)), draw(integers(1, 3))
    tasks = tuple(ProblemTask(f"t{n}", (draw(TIMES),)) for n in range(count))
    inputs = tuple(tuple(sorted(draw(some_below(n, 2)))) if n else () for n in range(count))
    devices = tuple(ProblemDevice(f"p{n}", 0) for n in range(processors))
    return PlanningProblem(Objective.MAKESPAN, tasks, inputs, tuple((n,) for n in range(count)), devices)


def assignments(problem: PlanningProblem) -> list[tuple[int, ...]]:
    """Every assignment of groups that fits."""
    found = []
    for choice in itertools.product(range(len(problem.devices)), repeat=len(problem.groups)):
        devices = tuple(choice[group] for group in problem.group_of)
        runs = all(problem.tasks[t].seconds[problem.devices[d].kind] < math.inf for t, d in enumerate(devices))
        if runs and not find_overfull_devices(problem, devices) and are_apart(problem, devices):
            found.append(devices)
    return found


def least_load(problem: PlanningProblem) -> float:
    """Of all assignments; of contiguous ones where the problem needs them."""
    wanted = [a for a in assignments(problem) if not problem.needs_contiguous or is_contiguous(problem, a)]
    return min((load_plan(problem, devices).value for devices in wanted), default=math.inf)


def is_contiguous(problem: PlanningProblem, devices: Sequence[int]) -> bool:
    """Whether no path of forward tasks leaves a device and comes back to it."""
    for device in set(devices):
        members = {t for t, own in enumerate(devices) if own == device and not problem.tasks[t].is_backward}
        outside: set[int] = set()
        for task in problem.order:
            if problem.tasks[task].is_backward:
                continue
            sources = [s for s in problem.inputs[task] if not problem.tasks[s].is_backward]
            if any(s in outside for s in sources) and task in members:
                return False
            if task not in members and any(s in members or s in outside for s in sources):
                outside.add(task)
    return True


def least_makespan(problem: PlanningProblem) -> float:
    """By trying all orders: some list schedule is the best where nothing is moved."""
    from placesim.planning.schedules import PrioritySchedules

    lists = PrioritySchedules(problem)
    orders = itertools.permutations(range(len(problem.tasks)))
    return min(lists.plan(lists.starts(order)[0]).value for order in orders)
