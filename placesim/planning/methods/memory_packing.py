"""Assignments with low peaks: groups that share large tensors become clusters, which are packed on the devices."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

import numpy as np

from placesim.planning.memory_limits import find_overfull_devices
from placesim.planning.peaks import peak_plan
from placesim.planning.problem import Plan, PlanningProblem, are_apart

SHARES = (1.0, 0.5, 0.25, 0.1)
"""Maximum peaks of clusters, as shares of a device's available memory."""
MAX_MOMENTS = 256
"""Maximum number of moments at which memory is counted; between two of them, the largest use counts."""
_Array = np.ndarray


def pack_by_memory(problem: PlanningProblem) -> list[Plan]:
    """Return distinct plans of a memory problem that satisfy its constraints, the lowest peak first.

    For each size of clusters, one packing has few copies, and another one balances the peaks.
    """
    shared, used = _shared_bytes(problem), _memory_of_groups(problem)
    found: dict[tuple[int, ...], Plan] = {}
    for share in SHARES:
        clusters = _Clusters(problem, used, shared, share)
        for is_near in (True, False):
            of_group = clusters.pack(is_near=is_near)
            devices = tuple(of_group[group] for group in problem.group_of)
            if devices not in found and are_apart(problem, devices) and not find_overfull_devices(problem, devices):
                found[devices] = peak_plan(problem, devices)
    return sorted(found.values(), key=lambda plan: plan.value)


def _shared_bytes(problem: PlanningProblem) -> Counter[tuple[int, int]]:
    """Return the bytes of the tensors that one group makes and another one reads, the largest amount first."""
    found = Counter[tuple[int, int]]()
    for tensor in problem.tensors:
        own = problem.group_of[tensor.task]
        for other in {problem.group_of[task] for task, _ in tensor.reads} - {own}:
            found[min(own, other), max(own, other)] += int(tensor.size)
    return found


def _memory_of_groups(problem: PlanningProblem) -> list[_Array]:
    """Return the memory `[moments]` of each group: its permanent memory, and its outputs up to their last readers."""
    moments = sorted({moment for tensor in problem.tensors for moment in (tensor.made, *(at for _, at in tensor.reads))})
    count = max(1, min(MAX_MOMENTS, len(moments)))
    place = {moment: number * count // len(moments) for number, moment in enumerate(moments)}
    found = [np.full(count, held) for held in problem.held]
    for tensor in problem.tensors:
        if not tensor.is_kept and not tensor.only_on:
            last = max([tensor.made, *(at for _, at in tensor.reads)])
            found[problem.group_of[tensor.task]][place[tensor.made] : place[last] + 1] += tensor.size
    return found


class _Clusters:
    """Clusters of groups. Groups with the most bytes in common are joined first, if one device may run and hold both."""

    def __init__(
        self, problem: PlanningProblem, used: Sequence[_Array], shared: Counter[tuple[int, int]], share: float
    ) -> None:
        self._problem = problem
        self._shared = shared
        self._parent = list(range(len(problem.groups)))
        self._used = list(used)
        self._homes = list(problem.homes)
        self._most = share * float(np.sum(used, axis=0).max())
        self._rooms = [share * device.capacity for device in problem.devices]
        for (one, other), _ in shared.most_common():
            self._join(self._root(one), self._root(other))

    def _root(self, group: int) -> int:
        while self._parent[group] != group:
            self._parent[group] = self._parent[self._parent[group]]
            group = self._parent[group]
        return group

    def _join(self, one: int, other: int) -> None:
        homes = self._homes[one] & self._homes[other]
        if one == other or not homes or self._problem.rivals[one] or self._problem.rivals[other]:
            return
        together = self._used[one] + self._used[other]
        if float(together.max()) <= min([self._most, *(self._rooms[device] for device in homes)]):
            self._parent[other] = one
            self._used[one], self._homes[one] = together, homes

    def pack(self, *, is_near: bool) -> list[int]:
        """Return a device for each group: clusters with large peaks come first.

        A cluster goes to the device where the peak stays lowest or, if `is_near` is set, to the device with room that has the
        most bytes in common with it.
        """
        problem = self._problem
        filled = [np.zeros_like(self._used[0]) for _ in problem.devices]
        roots = [self._root(group) for group in range(len(problem.groups))]
        common: dict[int, Counter[int]] = {}
        for (one, other), size in self._shared.items():
            common.setdefault(roots[one], Counter())[roots[other]] += size
            common.setdefault(roots[other], Counter())[roots[one]] += size
        device_of: dict[int, int] = {}
        for root in sorted(set(roots), key=lambda root: (-float(self._used[root].max()), root)):
            near = Counter[int]()
            for other, size in common.get(root, Counter[int]()).items() if is_near else ():
                if other in device_of:
                    near[device_of[other]] += size

            def rank(device: int, root: int = root, near: Counter[int] = near) -> tuple[bool, int, float]:
                peak = float((filled[device] + self._used[root]).max())
                lacks = peak > problem.devices[device].capacity
                return lacks, 0 if lacks else -near[device], peak

            best = min(sorted(self._homes[root]), key=rank, default=0)
            device_of[root] = best
            filled[best] = filled[best] + self._used[root]
        return [device_of[root] for root in roots]
