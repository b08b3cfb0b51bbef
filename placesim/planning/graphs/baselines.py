"""Simple placements for comparison with a plan, as assignments of a graph problem."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from placesim.planning.graphs.problem_building import GraphProblem


def one_device(drawn: GraphProblem, device: int) -> tuple[int, ...]:
    """Return the assignment of all groups to one device. Groups that may not run there go to a GPU, or to their first
    choice.
    """
    return _by_group(drawn, lambda number: device)


def round_robin(drawn: GraphProblem) -> tuple[int, ...]:
    """Return the assignment of each group to the next GPU in turn or, without GPUs, to the next device."""
    paying = [number for number, device in enumerate(drawn.problem.devices) if device.pays]
    turn = paying or list(range(len(drawn.problem.devices)))
    first = {task: place for place, task in enumerate(drawn.problem.order)}
    ranked = sorted(range(len(drawn.groups)), key=lambda group: min(first[task] for task in drawn.problem.groups[group]))
    movable = [group for group in ranked if drawn.groups[group].nodes]
    of_group = {group: turn[place % len(turn)] for place, group in enumerate(movable)}
    return _by_group(drawn, lambda number: of_group.get(number, turn[0]))


def named_baselines(drawn: GraphProblem) -> Iterator[tuple[str, tuple[int, ...]]]:
    """Yield labels with assignments: all groups on one device of each kind, and round robin."""
    devices = drawn.problem.devices
    for kind in dict.fromkeys(device.kind for device in devices):
        first = next(number for number, device in enumerate(devices) if device.kind == kind)
        yield f"all on {drawn.devices[first].spec.type}:{drawn.devices[first].spec.id}", one_device(drawn, first)
    if len(devices) > 1:
        yield "round robin", round_robin(drawn)


def _by_group(drawn: GraphProblem, choose: Callable[[int], int]) -> tuple[int, ...]:
    found = [0] * len(drawn.problem.tasks)
    for number, (tasks, group) in enumerate(zip(drawn.problem.groups, drawn.groups, strict=True)):
        wanted = choose(number)
        # a GPU if one is allowed, as TensorFlow prefers it
        usual = next((choice for choice in group.choices if drawn.problem.devices[choice].pays), group.choices[0])
        device = wanted if wanted in group.choices else usual
        for task in tasks:
            found[task] = device
    return tuple(found)
