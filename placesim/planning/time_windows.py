"""Time windows: the earliest start of each task on each device, and the least time after it, valid for every plan.

Each input comes from the device from which it arrives first. No task waits for a device or a link, and the choices for other
tasks do not matter.
"""

from __future__ import annotations

import numpy as np

from placesim.planning.problem import UNSURE, PlanningProblem

MAX_TASKS = 50_000
"""Maximum number of tasks; for more tasks, the bound takes too long."""
_Array = np.ndarray


class LinkTimes:
    """Matrices `[from, to]` of seconds between devices: the delay, and the time per unit of size."""

    def __init__(self, problem: PlanningProblem) -> None:
        count, layout = len(problem.devices), problem.layout
        self.delays, self.paces = np.zeros((2, count, count))
        for source in range(count):
            for target in range(count):
                if source != target:
                    self.delays[source, target], self.paces[source, target] = (layout or problem).way(source, target)

    def seconds(self, amount: float) -> _Array:
        """Return the minimum seconds `[from, to]` in which an amount moves between devices; zeros if the amount is UNSURE."""
        found: _Array = np.zeros_like(self.delays) if amount <= UNSURE else self.delays + amount * self.paces
        return found


class Windows:
    """Matrices of seconds `[task, device]`; a value is infinite if the device cannot run the task.

    - `begins`: the earliest start.
    - `paths`: the duration of the task.
    - `after`: the remaining time after the task.
    - `launches`: the time to launch the task on the host; the launch ends when the task starts.
    """

    def __init__(self, problem: PlanningProblem) -> None:
        kinds = [device.kind for device in problem.devices]
        self._problem = problem
        self.ways = LinkTimes(problem)
        shape = len(problem.tasks), len(kinds)
        self.paths = np.array([[task.path_seconds[kind] for kind in kinds] for task in problem.tasks], float).reshape(shape)
        self.launches = np.array(
            [[task.launches[kind] if task.launches else 0.0 for kind in kinds] for task in problem.tasks], float
        ).reshape(shape)
        self.begins = self._forward()
        self.after = self._backward()

    def _moved(self, task: int) -> _Array:
        """Return the minimum seconds between devices for a task's output; zero within a device."""
        return self.ways.seconds(self._problem.tasks[task].sent)

    def _forward(self) -> _Array:
        problem, group_of = self._problem, self._problem.group_of
        begins, launched = np.zeros_like(self.paths), np.zeros_like(self.paths)
        arrived: dict[int, _Array] = {}
        for task in problem.order:
            there, may_launch = begins[task], launched[task]
            for source in problem.inputs[task]:
                ends = begins[source] + self.paths[source]
                moved = np.full_like(there, np.inf)
                if group_of[source] == group_of[task]:
                    pass  # tasks of one group are never on different devices
                elif source in arrived:
                    moved = arrived[source]
                else:
                    moved = arrived[source] = (ends[:, None] + self._moved(source)).min(axis=0)
                # inputs from other devices must arrive before the launch; a stream keeps the order of its own tasks
                np.maximum(there, np.minimum(ends, moved + self.launches[task]), out=there)
                np.maximum(may_launch, np.minimum(launched[source], moved), out=may_launch)
            may_launch += self.launches[task]
            np.maximum(there, may_launch, out=there)
        return begins

    def _backward(self) -> _Array:
        problem, group_of = self._problem, self._problem.group_of
        after = np.zeros_like(self.paths)
        for task in reversed(problem.order):
            moved = self._moved(task)
            for reader in problem.readers[task]:
                rest = self.paths[reader] + after[reader]
                least = rest
                if group_of[reader] != group_of[task]:
                    least = np.minimum(rest, (moved + (rest + self.launches[reader])).min(axis=1))
                np.maximum(after[task], least, out=after[task])
        return after

    def seconds(self) -> _Array:
        """Return the least makespan with each group on each device, as `[group, device]`."""
        problem = self._problem
        alone = self.begins + self.paths + self.after
        found = np.zeros((len(problem.groups), alone.shape[1]))
        np.maximum.at(found, np.array(problem.group_of, np.intp), alone)
        return found
