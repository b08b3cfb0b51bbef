"""Repair of an assignment whose peaks exceed their limits: units that hold tensors at a peak move to other devices."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence

import numpy as np

from placesim.planning.peaks import Peaks

MAX_TENSORS, MAX_MOVES = 40, 128
"""Maximum numbers of tensors at a peak whose units may move, and of their moves."""
LEAST_HELP = 1e-3
"""Share of the excess that a move must remove."""
STEP = 0.5
"""Share of the excess that may remain when the times of moves are estimated again."""

Units = Callable[[int], Iterator[Sequence[int]]]
"""For a tensor: sequences of groups, each of which may move together."""


def lower_peaks(
    peaks: Peaks,
    units: Units,
    rate: Callable[[Sequence[Mapping[int, int]]], Sequence[float]],
    allows: Callable[[Mapping[int, int]], bool],
    is_over: Callable[[], bool],
    most: int = MAX_MOVES,
) -> dict[int, int] | None:
    """Move groups until no peak exceeds its limit, and return their new devices.

    `rate` returns a step time for each of several sets of moves, and `allows` says whether a set is possible. Of the `most`
    moves that free the most memory, those come first that add the fewest seconds for it. Return None if no move helps, or once
    `is_over` returns true.
    """
    together: dict[int, int] = {}

    def is_possible(move: Mapping[int, int]) -> bool:
        return allows({**together, **move})

    while excess := peaks.excess:
        found = [] if is_over() else _helpful(peaks, units, excess, is_possible)
        found = sorted(found, key=lambda row: row[0])[:most]
        if not found:
            return None
        *seconds, now = rate([*({**together, **move} for _, move in found), together])
        costs = [max(0.0, after - now) / (excess - left) for after, (left, _) in zip(seconds, found, strict=True)]
        moved: dict[int, int] = {}
        for number in sorted(range(len(found)), key=lambda number: (costs[number], found[number][0])):
            move = found[number][1]
            if not moved.keys().isdisjoint(move) or not is_possible({**moved, **move}):
                continue
            if peaks.takes(move, peaks.excess * (1 - LEAST_HELP)):
                moved |= move
            if peaks.excess <= STEP * excess:
                break
        together.update(moved)
    return together


def tensor_units(peaks: Peaks) -> Units:
    """Return the units that have one tensor: the groups that make and read the tensor on a device where they now are."""
    problem = peaks.problem

    def units(number: int) -> Iterator[Sequence[int]]:
        tensor = problem.tensors[number]
        yield tuple(dict.fromkeys(problem.group_of[task] for task in (tensor.task, *(task for task, _ in tensor.reads))))

    return units


def _helpful(
    peaks: Peaks, units: Units, excess: float, is_possible: Callable[[Mapping[int, int]], bool]
) -> list[tuple[float, dict[int, int]]]:
    """Return possible moves that help, with the excess that they leave: to devices that pay or, if none helps, to others."""
    devices = peaks.problem.devices
    for targets in (
        [number for number, device in enumerate(devices) if device.pays],
        [number for number, device in enumerate(devices) if not device.pays],
    ):
        found = []
        for move in filter(is_possible, _moves(peaks, units, targets)):
            change = peaks.move(move)
            left = peaks.excess
            peaks.undo(change)
            if left < excess * (1 - LEAST_HELP):
                found.append((left, move))
        if found:
            return found
    return []


def _moves(peaks: Peaks, units: Units, targets: Sequence[int]) -> Iterator[dict[int, int]]:
    """Yield moves of units that hold tensors at the peaks of devices that exceed their limits.

    Those tensors come first whose size is closest to the bytes that a device must free.
    """
    problem, over = peaks.problem, peaks.over
    full = [int(device) for device in np.argsort(-over, kind="stable") if over[device]]
    for device in full:
        alive = [number for number in peaks.largest_at_peak(device) if problem.tensors[number].size]
        alive.sort(key=lambda number: abs(math.log(problem.tensors[number].size / over[device])))
        seen, count = set[tuple[int, ...]](), 0
        for unit in (unit for number in alive[:MAX_TENSORS] for unit in units(number)):
            own = tuple(group for group in unit if peaks.of_group[group] == device)
            if not own or own in seen:
                continue
            seen.add(own)
            for target in targets:
                if target != device:
                    yield dict.fromkeys(own, target)
                    count += 1
            if count >= MAX_MOVES // len(full):
                break
