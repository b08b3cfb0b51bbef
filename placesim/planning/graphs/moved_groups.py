"""Groups that a plan moves, and the loss if one of them stayed in place."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence

from placesim.inspection.short_device_names import short_names
from placesim.planning.graphs.plan_comparison import PlanMeasure, PlanMove, SimulatedPlacement
from placesim.planning.graphs.problem_building import GraphProblem
from placesim.planning.objectives import measure

MEASURED_TASKS, EXPLAINED_TASKS = 100_000, 10_000
"""Limits of groups * tasks: for the groups whose loss is estimated, and for the groups whose loss is simulated."""


def find_moves(
    drawn: GraphProblem,
    before: Sequence[int],
    devices: Sequence[int],
    value: float,
    sought: PlanMeasure,
    simulate: Callable[[tuple[int, ...]], SimulatedPlacement] | None,
) -> list[PlanMove]:
    """Return the groups that the plan moves, the largest gain first, then by size.

    `before` and `devices` are the assignments without and with the plan, and `value` is the plan's value. With `simulate`, the
    most important moves get a loss: the increase of the value if only this group stays in place.
    """
    names = short_names([device.name for device in drawn.devices])
    moved = [
        number
        for number, (group, tasks) in enumerate(zip(drawn.groups, drawn.problem.groups, strict=True))
        if group.nodes and before[tasks[0]] != devices[tasks[0]]
    ]
    losses = {} if simulate is None else dict(_losses(drawn, devices, before, moved, value, sought, simulate))
    found = []
    for number in moved:
        task = drawn.problem.groups[number][0]
        places = names[before[task]], names[devices[task]]
        found.append(PlanMove(drawn.groups[number].nodes, *places, losses.get(number)))
    return sorted(found, key=lambda move: (-(-math.inf if move.loss is None else move.loss), -len(move.nodes)))


def _losses(
    drawn: GraphProblem,
    devices: Sequence[int],
    before: Sequence[int],
    moved: Sequence[int],
    value: float,
    sought: PlanMeasure,
    simulate: Callable[[tuple[int, ...]], SimulatedPlacement],
) -> Iterator[tuple[int, float]]:
    """Yield groups, each with the simulated increase of the plan's value if only this group stays in place.

    Only the groups with the largest expected increase are simulated.
    """
    problem, measured = drawn.problem, measure(drawn.problem)

    def put_back(group: int) -> tuple[int, ...]:
        stays = list(devices)
        for task in problem.groups[group]:
            stays[task] = before[task]
        return tuple(stays)

    def work(group: int) -> float:
        times = (seconds for task in problem.groups[group] for seconds in problem.tasks[task].seconds)
        return sum(seconds for seconds in times if math.isfinite(seconds))

    # a group cannot stay on a device that is no longer among its choices
    able = [group for group in moved if before[problem.groups[group][0]] in drawn.groups[group].choices]
    size = max(1, len(problem.tasks))
    able = sorted(able, key=work, reverse=True)[: MEASURED_TASKS // size]
    likely = {group: measured.plan(put_back(group)).value for group in able}
    for group in sorted(able, key=lambda group: likely[group], reverse=True)[: EXPLAINED_TASKS // size]:
        placed = simulate(put_back(group))
        if placed.fits:
            yield group, placed.value(sought) - value
