"""Initial assignment that fits: each group goes to the device with the least memory in use."""

from __future__ import annotations

from placesim.planning.problem import PlanningProblem


def first_fit(problem: PlanningProblem) -> list[int] | None:
    """Return a device for each task; None if a group finds none.

    Groups that must be apart come first, in increasing order of their number of possible devices. The other groups follow,
    largest memory first.
    """
    held = [0.0] * len(problem.devices)
    of_group: list[int | None] = [None] * len(problem.groups)

    def rank(group: int) -> tuple[bool, int, float]:
        return not problem.rivals[group], len(problem.homes[group]) if problem.rivals[group] else 0, -problem.held[group]

    for group in sorted(range(len(problem.groups)), key=rank):
        allowed = [
            device
            for device in sorted(problem.homes[group])
            if held[device] + problem.held[group] <= problem.devices[device].capacity
            if all(of_group[rival] != device for rival in problem.rivals[group])
        ]
        if not allowed:
            return None
        of_group[group] = best = min(allowed, key=held.__getitem__)
        held[best] += problem.held[group]
    return [device for group in problem.group_of if (device := of_group[group]) is not None]
