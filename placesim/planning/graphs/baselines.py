"""Simple placements for comparison with a plan, as assignments of a graph problem."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence

from placesim.planning.graphs.problem_building import GraphProblem
from placesim.planning.schedules import heads, tails


def round_robin(drawn: GraphProblem) -> tuple[int, ...]:
    """Return the assignment of each group, in graph order, to the next GPU in turn or, without GPUs, to the next device."""
    paying = [number for number, device in enumerate(drawn.problem.devices) if device.pays]
    turn = paying or list(range(len(drawn.problem.devices)))
    movable = [number for number, group in enumerate(drawn.groups) if group.nodes]
    of_group = {group: turn[place % len(turn)] for place, group in enumerate(movable)}
    return _by_group(drawn, [of_group.get(number, turn[0]) for number in range(len(drawn.groups))])


def split_by_memory(drawn: GraphProblem, *, by_layers: bool) -> tuple[int, ...]:
    """Return the assignment that fills one GPU after the other, each with an equal share of the memory of all groups.

    Groups come in execution order. With `by_layers`, groups are ordered by layer: a task's position is its distance from the
    start or the end of the step, whichever is less. So the gradients of a layer go to the layer's GPU.
    """
    problem = drawn.problem
    paying = [number for number, device in enumerate(problem.devices) if device.pays]
    turn = heads(problem, [1.0] * len(problem.tasks))
    if by_layers:
        turn = list(map(min, turn, tails(problem, [1.0] * len(problem.tasks))))
    total, filled = math.fsum(problem.held), 0.0
    chosen = [0] * len(drawn.groups)
    for group in sorted(range(len(chosen)), key=lambda group: min(turn[task] for task in problem.groups[group])):
        chosen[group] = paying[min(int(filled / total * len(paying)), len(paying) - 1)]
        filled += problem.held[group]
    return _by_group(drawn, chosen)


def named_baselines(drawn: GraphProblem) -> Iterator[tuple[str, tuple[int, ...]]]:
    """Yield labelled assignments: all groups on one device, for each kind; round robin; and the groups split among GPUs, if
    no GPU has room for all groups. If most nodes have one possible device, labels have the number of the others.
    """
    devices = drawn.problem.devices
    movable = sum(len(group.nodes) for group in drawn.groups if len(group.choices) > 1)
    few = f"{movable} movable node{'s' * (movable != 1)}"
    what = few if 2 * movable < sum(len(group.nodes) for group in drawn.groups) else "all"
    for kind in dict.fromkeys(device.kind for device in devices):
        first = next(number for number, device in enumerate(devices) if device.kind == kind)
        if first in drawn.avoided:
            continue
        yield (
            f"{what} on {drawn.devices[first].spec.type}:{drawn.devices[first].spec.id}",
            _by_group(drawn, [first] * len(drawn.groups)),
        )
    if len(devices) > 1:
        yield "round robin", round_robin(drawn)
    rooms = [device.capacity for device in devices if device.pays]
    if len(rooms) > 1 and math.fsum(drawn.problem.held) > max(rooms):
        yield "split by memory", split_by_memory(drawn, by_layers=False)
        yield "split by layers", split_by_memory(drawn, by_layers=True)


def _by_group(drawn: GraphProblem, wanted: Sequence[int]) -> tuple[int, ...]:
    """Assign each group to its wanted device.

    A group that may not run there goes to an allowed GPU, else to its first allowed device.
    """
    found = [0] * len(drawn.problem.tasks)
    for tasks, group, own in zip(drawn.problem.groups, drawn.groups, wanted, strict=True):
        # TensorFlow too prefers a GPU (3.4)
        usual = next((choice for choice in group.choices if drawn.problem.devices[choice].pays), group.choices[0])
        device = own if own in group.choices else usual
        for task in tasks:
            found[task] = device
    return tuple(found)
