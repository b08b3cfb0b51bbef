"""Latency of a step whose devices run connected parts as calls (as msr-fiddle/dnn-partitioning defines it).

A call begins when all its outside inputs are available and the device's previous call has ended. It takes the time to load its
inputs, run its tasks one after another, and store its outputs for other readers. A device whose transfers take none of its time
(`pays` is false) has no calls: tasks start as soon as their inputs are available.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from placesim.planning.problem import Plan, PlanningProblem

ALONE = -1
"""The call number of a task that runs individually, on a device that does not pay for transfers."""


class Calls:
    """Evaluates assignments of tasks to calls; call n runs on `paying[n % len(paying)]`, after that device's previous call.

    Contiguity needs no check: if a part is not contiguous, its calls wait for each other in a cycle and never end.
    """

    def __init__(self, problem: PlanningProblem) -> None:
        self.problem = problem
        self.paying = [number for number, device in enumerate(problem.devices) if device.pays]
        self.free = next((number for number, device in enumerate(problem.devices) if not device.pays), ALONE)
        own = problem.devices[self.paying[0]].kind if self.paying else 0
        alone = problem.devices[self.free].kind if self.free != ALONE else own
        self._called = [task.seconds[own] for task in problem.tasks]
        self._alone = [task.seconds[alone] if self.free != ALONE else math.inf for task in problem.tasks]
        self._makes = [task.makes for task in problem.tasks]

    def seconds(self, calls: Sequence[int]) -> float:
        """Return the end of the last task; infinity if calls wait for each other.

        `calls` has, for each task, the number of the call that runs it, or ALONE.
        """
        duration, after, waiting, used = self._units(calls)
        ready = [number for number, is_used in enumerate(used) if is_used and not waiting[number]]
        begins = [0.0] * len(used)
        left = sum(used)
        last = 0.0
        while ready:
            number = ready.pop()
            left -= 1
            end = begins[number] + duration[number]
            if end > last:
                last = end
            for other in after[number]:
                if end > begins[other]:
                    begins[other] = end
                waiting[other] -= 1
                if not waiting[other]:
                    ready.append(other)
        return math.inf if left else last

    def _units(self, calls: Sequence[int]) -> tuple[list[float], list[list[int]], list[int], list[bool]]:
        """Return for each unit: its duration, the units that wait for it, the number of its own waits, and whether it is used.

        First come units of all tasks, then units of calls. The unit of a task is used only if the task runs individually.
        """
        count = 1 + max(calls, default=ALONE)
        readers, makes = self.problem.readers, self._makes
        size, devices = len(calls), max(1, len(self.paying))
        unit = [task if call == ALONE else size + call for task, call in enumerate(calls)]
        waiting = [0] * (size + count)
        after: list[list[int]] = [[] for _ in range(size + count)]
        duration = [0.0] * (size + count)
        moved_in: set[tuple[int, int]] = set()
        used = [False] * (size + count)
        for task in range(size):
            own = unit[task]
            used[own] = True
            duration[own] += self._alone[task] if own == task else self._called[task]
            leaves = False
            for reader in readers[task]:
                other = unit[reader]
                if other != own:
                    leaves = True
                    after[own].append(other)
                    waiting[other] += 1
                    if other >= size and (task, other) not in moved_in:
                        moved_in.add((task, other))
                        duration[other] += makes[task]
            if leaves and own >= size:
                duration[own] += makes[task]
        for call in range(count):
            if used[size + call]:
                later = next((c for c in range(call + devices, count, devices) if used[size + c]), None)
                if later is not None:
                    after[size + call].append(size + later)
                    waiting[size + later] += 1
        return duration, after, waiting, used

    def plan(self, calls: Sequence[int]) -> Plan:
        """Return the plan for an assignment of tasks to calls."""
        count = max(1, len(self.paying))
        devices = tuple(self.free if call == ALONE else self.paying[call % count] for call in calls)
        return Plan(self.seconds(calls), devices, calls=tuple(0 if call == ALONE else call // count for call in calls))
