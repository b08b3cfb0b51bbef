"""Simple placements for comparison with a plan, as assignments of a graph problem."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from placesim.planning.graphs.problem_building import GraphProblem


def round_robin(drawn: GraphProblem) -> tuple[int, ...]:
    """Return the assignment of each group, in graph order, to the next GPU in turn or, without GPUs, to the next device."""
    paying = [number for number, device in enumerate(drawn.problem.devices) if device.pays]
    turn = paying or list(range(len(drawn.problem.devices)))
    movable = [number for number, group in enumerate(drawn.groups) if group.nodes]
    of_group = {group: turn[place % len(turn)] for place, group in enumerate(movable)}
    return _by_group(drawn, [of_group.get(number, turn[0]) for number in range(len(drawn.groups))])


def named_baselines(drawn: GraphProblem) -> Iterator[tuple[str, tuple[int, ...]]]:
    """Yield labels with assignments: all groups on one device of each kind, and round robin."""
    devices = drawn.problem.devices
    for kind in dict.fromkeys(device.kind for device in devices):
        first = next(number for number, device in enumerate(devices) if device.kind == kind)
        yield (
            f"all on {drawn.devices[first].spec.type}:{drawn.devices[first].spec.id}",
            _by_group(drawn, [first] * len(drawn.groups)),
        )
    if len(devices) > 1:
        yield "round robin", round_robin(drawn)


def _by_group(drawn: GraphProblem, wanted: Sequence[int]) -> tuple[int, ...]:
    """Return the assignment of each group to its wanted device, or if it may not run there, to a GPU or its first choice."""
    found = [0] * len(drawn.problem.tasks)
    for tasks, group, own in zip(drawn.problem.groups, drawn.groups, wanted, strict=True):
        # TensorFlow too prefers a GPU (3.4)
        usual = next((choice for choice in group.choices if drawn.problem.devices[choice].pays), group.choices[0])
        device = own if own in group.choices else usual
        for task in tasks:
            found[task] = device
    return tuple(found)
