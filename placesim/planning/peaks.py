"""Peak memory of each device: the permanent memory of its tasks plus the tensors alive at the same moment."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np

from placesim.planning.problem import Plan, PlanningProblem

_Array = np.ndarray
_Ends = dict[int, int]
"""The devices that hold a tensor from its beginning on, with the place of the moment at which each frees it."""


class PeakChange(NamedTuple):
    """A change of an assignment that can be undone: the former devices of groups, and the former ends of tensors."""

    devices: dict[int, int]
    ends: dict[int, _Ends]


class Peaks:
    """The peaks of an assignment of all groups. Moving groups updates them."""

    def __init__(self, problem: PlanningProblem, devices: Sequence[int]) -> None:
        self.problem = problem
        self.of_group = [devices[members[0]] if members else 0 for members in problem.groups]
        self.capacities = [device.capacity for device in problem.devices]
        self._kinds = [device.kind for device in problem.devices]
        moments = sorted({moment for tensor in problem.tensors for moment in (tensor.made, *(at for _, at in tensor.reads))})
        place = {moment: number for number, moment in enumerate(moments)}
        self._made = [place[tensor.made] for tensor in problem.tensors]
        # by tensor: each group with readers, and the place of its last moment of reading; the maker's group comes first
        self._reads: list[tuple[tuple[int, int], ...]] = []
        # by group: its tensors with that place; the maker's place is after all others, as all ends depend on the maker's device
        self._touched: list[list[tuple[int, int]]] = [[] for _ in problem.groups]
        for number, tensor in enumerate(problem.tensors):
            made, maker = self._made[number], problem.group_of[tensor.task]
            last = {maker: made}
            for task, at in tensor.reads:
                group = problem.group_of[task]
                last[group] = max(place[at], last.get(group, made))
            self._reads.append(tuple(last.items()))
            for group, at in last.items():
                self._touched[group].append((number, len(moments) if group == maker else at))
        self.live = np.zeros((len(problem.devices), max(1, len(moments))))
        self.held = np.zeros(len(problem.devices))
        self._ends: list[_Ends] = [{} for _ in problem.tensors]
        for number in range(len(problem.tensors)):
            self._set_ends(number, self._find_ends(number))
        for group, device in enumerate(self.of_group):
            self.held[device] += problem.held[group]

    @property
    def devices(self) -> list[int]:
        """Device of each task."""
        return [self.of_group[group] for group in self.problem.group_of]

    def _find_ends(self, number: int) -> _Ends:
        tensor, of_group = self.problem.tensors[number], self.of_group
        (maker, own_last), *others = self._reads[number]
        own = of_group[maker]
        if tensor.only_on and own not in tensor.only_on:
            return {}
        found = {own: own_last}
        for group, at in others:
            device = of_group[group]
            if at > found.get(device, -1):
                found[device] = at
        if tensor.is_kept:
            del found[own]
        return found

    def _set_ends(self, number: int, ends: _Ends) -> None:
        """Change the moments at which devices free a tensor."""
        before, size, none = self._ends[number], self.problem.tensors[number].size, self._made[number] - 1
        for device in {**before, **ends}:
            old, new = before.get(device, none), ends.get(device, none)
            if new > old:
                self.live[device, old + 1 : new + 1] += size
            elif new < old:
                self.live[device, new + 1 : old + 1] -= size
        self._ends[number] = ends

    def largest_at_peak(self, device: int) -> list[int]:
        """Return the indices of the tensors that are alive at the peak of a device, the largest first."""
        peak = int(self.live[device].argmax())
        tensors = self.problem.tensors
        alive = (n for n in range(len(tensors)) if self._made[n] <= peak <= self._ends[n].get(device, -1))
        return sorted(alive, key=lambda number: -tensors[number].size)

    def has_room(self, group: int, device: int) -> bool:
        """Return whether `device` can run the group and has room for the group's permanent memory."""
        fits = self.held[device] + self.problem.held[group] <= self.capacities[device]
        if self.problem.apart and any(self.of_group[rival] == device for rival in self.problem.rivals[group]):
            return False
        return bool(fits) and self.problem.group_seconds[group][self._kinds[device]] < float("inf")

    def move(self, moved: Mapping[int, int]) -> PeakChange:
        """Move groups to devices without checking their room. `undo` takes the returned change back."""
        of_group, held, stale = self.of_group, self.problem.held, dict[int, None]()
        for group, device in moved.items():
            old = of_group[group]
            for number, at in self._touched[group] if device != old else ():
                ends = self._ends[number]
                # another group reads the tensor later on the old device, and one does not read it earlier on the new device
                if at >= ends.get(old, -1) or at > ends.get(device, -1):
                    stale[number] = None
        before = {group: of_group[group] for group in moved}
        for group, device in moved.items():
            self.held[of_group[group]] -= held[group]
            self.held[device] += held[group]
            of_group[group] = device
        changed = {}
        for number in stale:
            found = self._find_ends(number)
            if found != self._ends[number]:
                changed[number] = self._ends[number]
                self._set_ends(number, found)
        return PeakChange(before, changed)

    def undo(self, change: PeakChange) -> None:
        """Take the last change back."""
        for group, device in change.devices.items():
            self.held[self.of_group[group]] -= self.problem.held[group]
            self.held[device] += self.problem.held[group]
            self.of_group[group] = device
        for number, ends in change.ends.items():
            self._set_ends(number, ends)

    @property
    def peaks(self) -> _Array:
        """Peak of each device."""
        found: _Array = self.held + self.live.max(axis=1)
        return found

    @property
    def over(self) -> _Array:
        """Bytes by which each device's peak exceeds its capacity."""
        found: _Array = np.maximum(self.peaks - self.capacities, 0.0)
        return found

    @property
    def excess(self) -> float:
        """Bytes above each device's capacity, as shares of the capacity: those of the peak, and the mean of all moments."""
        over = np.maximum(self.live + (self.held - self.capacities)[:, None], 0.0)
        return float(((over.max(axis=1) + over.mean(axis=1)) / self.capacities).sum())

    def takes(self, moved: Mapping[int, int], most: float = 0.0) -> bool:
        """Move groups to devices. If the excess would be above `most`, move none and return False."""
        change = self.move(moved)
        if not self.over.any() or (most and self.excess <= most):
            return True
        self.undo(change)
        return False

    def move_to(self, of_group: Sequence[int]) -> None:
        """Move each group to its device; groups without a device stay."""
        self.move({group: new for group, (old, new) in enumerate(zip(self.of_group, of_group, strict=False)) if old != new})


def peak_plan(problem: PlanningProblem, devices: Sequence[int]) -> Plan:
    """Return the plan for an assignment; its value is the highest peak, computed from scratch."""
    return Plan(float(max(Peaks(problem, devices).peaks, default=0.0)), tuple(devices))


def least_peak(problem: PlanningProblem) -> float:
    """Return a lower bound of the highest peak of any assignment.

    At every moment each piece of memory is on some device; at best the sum of all pieces is spread evenly over the devices that
    may hold them.  With more pieces than devices, two pieces share a device; with more than twice as many, three do, and so
    on.  A task's device holds everything that the task reads and makes.
    """
    tensors = problem.tensors
    moments = sorted({moment for tensor in tensors for moment in (tensor.made, *(at for _, at in tensor.reads))}) or [0]
    place = {moment: number for number, moment in enumerate(moments)}
    pieces = [MemoryPiece(held, problem.homes[group]) for group, held in enumerate(problem.held) if held]
    rows = [np.ones(len(moments), bool) for _ in pieces]
    for tensor in tensors:
        if not tensor.is_kept and not tensor.only_on:
            row = np.zeros(len(moments), bool)
            row[place[tensor.made] : place[max([tensor.made, *(at for _, at in tensor.reads)])] + 1] = True
            rows.append(row)
            pieces.append(MemoryPiece(tensor.size, tensor_homes(problem, tensor.task, [task for task, _ in tensor.reads])))
    together: dict[tuple[int, int], float] = {}
    for tensor in tensors:
        own = problem.group_of[tensor.task]
        if tensor.only_on and not problem.homes[own] <= tensor.only_on:
            continue
        at_once = {(task, at) for task, at in tensor.reads if not (tensor.is_kept and problem.group_of[task] == own)}
        for key in at_once | (set() if tensor.is_kept else {(tensor.task, tensor.made)}):
            together[key] = together.get(key, 0.0) + tensor.size
    alone = [size + problem.held[problem.group_of[task]] for (task, _), size in together.items()]
    return max([*alone, *problem.held, shared_peak(len(problem.devices), pieces, rows)], default=0.0)


class MemoryPiece(NamedTuple):
    """A piece of memory with a size, which is on one of the devices `homes`."""

    size: float
    homes: frozenset[int]


def tensor_homes(problem: PlanningProblem, task: int, readers: Sequence[int]) -> frozenset[int]:
    """Return the devices that can run the producer or a reader of a tensor; one of them holds the tensor while it is needed."""
    groups = {problem.group_of[task], *(problem.group_of[reader] for reader in readers)}
    return frozenset().union(*(problem.homes[group] for group in groups))


def shared_peak(count: int, pieces: Sequence[MemoryPiece], rows: Sequence[_Array]) -> float:
    """Return a lower bound of the highest peak of `count` devices; each row marks the moments at which its piece is alive."""
    if not pieces:
        return 0.0
    live, sizes = np.array(rows), np.array([piece.size for piece in pieces])
    best = 0.0
    for homes in {frozenset(range(count)), *(piece.homes for piece in pieces)}:
        inside = np.array([piece.homes <= homes for piece in pieces])
        best = max(best, float((sizes * inside @ live).max()) / len(homes))
    # only the points with most memory: sorting at each point would take too long
    for point in np.argsort(-(sizes @ live), kind="stable")[:_CROWDED_POINTS]:
        largest = np.sort(sizes[live[:, point]])[::-1]
        for more in range(1, (len(largest) - 1) // count + 1):
            best = max(best, float(largest[more * count - more : more * count + 1].sum()))
    return best


_CROWDED_POINTS = 50
