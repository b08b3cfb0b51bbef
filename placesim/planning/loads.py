"""Load of each device in a pipeline: the time of its tasks and of their transfers.

A paying device pays once for a tensor that it sends, however many devices read it.  It pays once for a tensor that it receives,
however many of its tasks read it.  This definition is that of msr-fiddle/dnn-partitioning, which the published instances use.
"""

from __future__ import annotations

from collections.abc import Sequence

from placesim.planning.problem import Plan, PlanningProblem


class Loads:
    """The loads of an assignment of all groups. Moving a group updates them."""

    def __init__(self, problem: PlanningProblem, devices: Sequence[int]) -> None:
        self.problem = problem
        self.devices = list(devices)
        count = len(problem.devices)
        self.loads = [0.0] * count
        self.held = [0.0] * count
        self.capacities = [device.capacity for device in problem.devices]
        self.of_group = [self.devices[members[0]] for members in problem.groups]
        self._pays = [device.pays for device in problem.devices]
        self._makes = [task.makes for task in problem.tasks]
        self._kinds = [device.kind for device in problem.devices]
        # number of tasks on each device that read a task's output
        self._readers = [[0] * count for _ in problem.tasks]
        for task, readers in enumerate(problem.readers):
            for reader in readers:
                self._readers[task][self.devices[reader]] += 1
        self._touched: dict[int, list[int]] = {}
        for group, device in enumerate(self.of_group):
            self.loads[device] += self._seconds(group, device)
            self.held[device] += problem.held[group]
        self._charge = self._charge_plain if problem.ways is None else self._charge_ways
        self._charge(range(len(problem.tasks)), 1.0)

    def _seconds(self, group: int, device: int) -> float:
        return self.problem.group_seconds[group][self._kinds[device]]

    def _sources(self, group: int) -> list[int]:
        """Return the tasks whose transfers change when a group moves."""
        if group not in self._touched:
            members = self.problem.groups[group]
            found = {task for task in members if self._makes[task]}
            found.update(source for task in members for source in self.problem.inputs[task] if self._makes[source])
            self._touched[group] = sorted(found)
        return self._touched[group]

    def _charge_plain(self, tasks: Sequence[int] | range, sign: float) -> None:
        loads, pays = self.loads, self._pays
        for task in tasks:
            own, amount, leaves = self.devices[task], sign * self._makes[task], False
            for device, count in enumerate(self._readers[task]):
                if count and device != own:
                    leaves = True
                    if pays[device]:
                        loads[device] += amount
            if leaves and pays[own]:
                loads[own] += amount

    def _charge_ways(self, tasks: Sequence[int] | range, sign: float) -> None:
        ways, loads, pays = self.problem.ways, self.loads, self._pays
        assert ways is not None
        for task in tasks:
            own, amount, leaving = self.devices[task], self._makes[task], 0.0
            for device, count in enumerate(self._readers[task]):
                if count and device != own:
                    way = ways[own][device]
                    seconds = way.delay + amount * way.pace
                    leaving = max(leaving, seconds)
                    if pays[device]:
                        loads[device] += sign * seconds
            if pays[own]:
                loads[own] += sign * leaving

    def has_room(self, group: int, device: int) -> bool:
        """Return whether `device` can run the group and has room for the group's memory."""
        fits = self.held[device] + self.problem.held[group] <= self.capacities[device]
        if self.problem.apart and any(self.of_group[rival] == device for rival in self.problem.rivals[group]):
            return False
        return fits and self._seconds(group, device) < float("inf")

    def move(self, group: int, device: int) -> None:
        """Move a group to another device without checking its room."""
        problem, old, touched = self.problem, self.of_group[group], self._sources(group)
        self._charge(touched, -1.0)
        for task in problem.groups[group]:
            self.devices[task] = device
            for source in problem.inputs[task]:
                readers = self._readers[source]
                readers[old] -= 1
                readers[device] += 1
        self._charge(touched, 1.0)
        self.of_group[group] = device
        self.loads[old] -= self._seconds(group, old)
        self.loads[device] += self._seconds(group, device)
        self.held[old] -= problem.held[group]
        self.held[device] += problem.held[group]


def is_contiguous(problem: PlanningProblem, devices: Sequence[int]) -> bool:
    """Return whether no path of forward tasks leaves a device and comes back to it."""
    tasks = problem.tasks
    # bit n is set if a path to the task left device n
    left = [0] * len(tasks)
    for task in problem.order:
        if tasks[task].is_backward:
            continue
        own = 1 << devices[task]
        for source in problem.inputs[task]:
            if not tasks[source].is_backward:
                left[task] |= left[source] | ((1 << devices[source]) & ~own)
        if left[task] & own:
            return False
    return True


def load_plan(problem: PlanningProblem, devices: Sequence[int]) -> Plan:
    """Return the plan for an assignment; its value is the highest load, computed from scratch."""
    return Plan(max(Loads(problem, devices).loads, default=0.0), tuple(devices))
