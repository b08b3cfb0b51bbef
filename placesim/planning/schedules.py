"""Schedules of tasks: by priority on equal devices, or in order of arrival with transfers."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from heapq import heappop, heappush

from placesim.machine.timelines.compiled_workload import WorkloadPlan as SimulatedPlan
from placesim.machine.timelines.compiled_workload import make_plan
from placesim.machine.timelines.event_simulation import plan_seconds, simulate_plan
from placesim.machine.timelines.workload import NOWHERE, LinkTransfer
from placesim.machine.timelines.workload import Task as SimulatedTask
from placesim.planning.problem import Plan, PlanningProblem


def tails(problem: PlanningProblem, seconds: Sequence[float]) -> list[float]:
    """Return the seconds of the longest path after each task, excluding the task."""
    found = [0.0] * len(seconds)
    for task in reversed(problem.order):
        for source in problem.inputs[task]:
            found[source] = max(found[source], found[task] + seconds[task])
    return found


def heads(problem: PlanningProblem, seconds: Sequence[float]) -> list[float]:
    """Return the seconds of the longest path before each task, excluding the task."""
    found = [0.0] * len(seconds)
    for task in problem.order:
        for reader in problem.readers[task]:
            found[reader] = max(found[reader], found[task] + seconds[task])
    return found


class PrioritySchedules:
    """Schedules of tasks on equal devices without transfers: a free device runs the ready task of highest rank."""

    def __init__(self, problem: PlanningProblem) -> None:
        self.problem = problem
        self.seconds = [task.seconds[problem.devices[0].kind] for task in problem.tasks]
        self._waiting = [len(sources) for sources in problem.inputs]

    def starts(self, order: Sequence[int]) -> tuple[list[float], list[float]]:
        """Return the start of each task, and the n latest end times of all tasks, where n is the number of devices.

        `order` has all tasks; the one with the highest rank comes first.
        """
        seconds, readers, waiting = self.seconds, self.problem.readers, self._waiting[:]
        free, now = len(self.problem.devices), 0.0
        rank, starts, ends = [0] * len(order), [0.0] * len(order), []
        for place, task in enumerate(order):
            rank[task] = place
        ready = [place for place, task in enumerate(order) if not waiting[task]]
        running: list[tuple[float, int]] = []
        while ready or running:
            while ready and free:
                task = order[heappop(ready)]
                starts[task] = now
                heappush(running, (now + seconds[task], task))
                free -= 1
            now = running[0][0]
            while running and running[0][0] == now:
                task = heappop(running)[1]
                free += 1
                ends.append(now)
                for reader in readers[task]:
                    waiting[reader] -= 1
                    if not waiting[reader]:
                        heappush(ready, rank[reader])
        return starts, ends[-len(self.problem.devices) :]

    def plan(self, starts: Sequence[float]) -> Plan:
        """Return the plan that runs each task on a device that is free at its start."""
        seconds = self.seconds
        free = list(range(len(self.problem.devices)))
        busy: list[tuple[float, int]] = []
        devices = [0] * len(seconds)
        # tasks without duration end before others that start at the same moment on their device
        for task in sorted(range(len(seconds)), key=lambda number: (starts[number], seconds[number] > 0)):
            while busy and busy[0][0] <= starts[task]:
                heappush(free, heappop(busy)[1])
            devices[task] = free[0] if not seconds[task] and free else heappop(free) if free else busy[0][1]
            if seconds[task]:
                heappush(busy, (starts[task] + seconds[task], devices[task]))
        value = max((start + time for start, time in zip(starts, seconds, strict=True)), default=0.0)
        return Plan(value, tuple(devices), tuple(starts))


class SimulatedSchedule:
    """Simulates assignments on the machine of the problem's layout: tasks, launches and transfers.

    Tasks and transfers that are ready at one moment run in the order of TensorFlow's executors, as in a simulated graph: first
    the tasks without inputs, device by device, then the others, in the order in which they become ready. An output is sent once
    to each other memory where it is read, and a receive has its own turn before its readers.
    """

    def __init__(self, problem: PlanningProblem) -> None:
        self.problem = problem
        self._kinds = [device.kind for device in problem.devices]
        self._waiting = [len(sources) for sources in problem.inputs]
        self._roots = [task for task, count in enumerate(self._waiting) if not count]
        # with each reader, whether it reads the output from host memory on a GPU
        self._readers = [
            [(reader, task in problem.tasks[reader].host_inputs) for reader in readers]
            for task, readers in enumerate(problem.readers)
        ]
        layout, count = problem.layout, len(problem.devices)
        assert layout is not None
        self._routes = layout.memory_routes or layout.routes
        # the memory that a task's outputs and inputs are in, on each device: its own, or that of its host
        is_gpu = [bool(layout.hosts) and layout.hosts[device] != layout.places[device] for device in range(count)]
        self._memories = tuple(range(count)), tuple(device + count * is_gpu[device] for device in range(count))
        self._places = layout.places, layout.hosts or layout.places

    def seconds(self, devices: Sequence[int]) -> float:
        """Return the end of the last task in seconds."""
        return plan_seconds(self._plan(devices)[0])

    def plan(self, devices: Sequence[int]) -> Plan:
        """Return the plan for an assignment."""
        return self.critical_tasks(devices)[0]

    def critical_tasks(self, devices: Sequence[int]) -> tuple[Plan, list[int]]:
        """Return the plan for an assignment, and its critical path, the tasks that determine the end."""
        simulated, numbers = self._plan(devices)
        timeline, count = simulate_plan(simulated), simulated.count
        chain, phase = set[int](), max(range(count), key=timeline.ends.__getitem__, default=NOWHERE)
        while phase != NOWHERE:
            chain.add(phase % count)
            phase = timeline.waited_for[phase]
        plan = Plan(timeline.seconds, tuple(devices), tuple(timeline.starts[number] for number in numbers))
        return plan, [task for task, number in enumerate(numbers) if number in chain]

    def _plan(self, devices: Sequence[int]) -> tuple[SimulatedPlan, list[int]]:
        """Return the compiled simulation of an assignment, and each task's number in the simulation."""
        problem, layout = self.problem, self.problem.layout
        assert layout is not None
        work: list[SimulatedTask | LinkTransfer] = []
        numbers = [0] * len(problem.tasks)
        arrived: dict[tuple[int, int], int] = {}
        made = self.memories(devices)
        for task, memory, is_received in self.turns(devices):
            if memory == made[task]:
                numbers[task] = len(work)
                work.append(self._task(task, made, numbers, arrived, devices))
            elif not is_received:
                links, streams = self._routes[made[task]][memory]
                arrived[task, memory] = len(work)
                work.append(LinkTransfer(problem.tasks[task].makes, links, (numbers[task],), streams))
        return make_plan(work, layout.resources, layout.links), numbers

    def memories(self, devices: Sequence[int]) -> list[int]:
        """Return the memory of each task's output."""
        memories = self._memories
        return [memories[row.on_host][device] for row, device in zip(self.problem.tasks, devices, strict=True)]

    def turns(self, devices: Sequence[int]) -> Iterator[tuple[int, int, bool]]:
        """Yield tasks, sends and receives in the order of TensorFlow's executors, as (task, memory, is_received).

        A task has the memory of its output; the send of the output, and later the receive, have another one.
        """
        waiting, readers, memories, made = self._waiting[:], self._readers, self._memories, self.memories(devices)
        turns = {device: turn for turn, device in enumerate(dict.fromkeys(devices))}
        ready: deque[tuple[int, int, bool]] = deque()
        for task in sorted(self._roots, key=lambda task: turns[devices[task]]):
            ready.append((task, made[task], False))
        while ready:
            turn = task, memory, is_received = ready.popleft()
            own = made[task]
            yield turn
            if memory != own and not is_received:
                ready.append((task, memory, True))
                continue
            sent = {own}
            for reader, is_from_host in readers[task]:
                other = memories[is_from_host][devices[reader]]
                if other == memory:
                    waiting[reader] -= 1
                    if not waiting[reader]:
                        ready.append((reader, made[reader], False))
                elif memory == own and other not in sent:
                    sent.add(other)
                    ready.append((task, other, False))

    def _task(
        self,
        task: int,
        made: Sequence[int],
        numbers: Sequence[int],
        arrived: Mapping[tuple[int, int], int],
        devices: Sequence[int],
    ) -> SimulatedTask:
        """Return the work of a task on its device; inputs from other memories have arrived by transfers.

        `made` has the memory of each task's output.
        """
        row, device = self.problem.tasks[task], devices[task]
        kind, inputs = self._kinds[device], []
        for source in self.problem.inputs[task]:
            memory = self._memories[source in row.host_inputs][device]
            inputs.append(numbers[source] if made[source] == memory else arrived[source, memory])
        launch, cores = row.launches[kind] if row.launches else 0.0, row.cores[kind] if row.cores else 1
        place = self._places[row.runs_on_host][device]
        return SimulatedTask(row.seconds[kind], place, tuple(inputs), launch, cores)


def assignments(problem: PlanningProblem) -> FirstComeSchedule | SimulatedSchedule:
    """Return the evaluator of assignments for a makespan."""
    return FirstComeSchedule(problem) if problem.layout is None else SimulatedSchedule(problem)


class FirstComeSchedule:
    """Schedules assignments like an executor: each device runs its tasks in the order in which they become ready.

    Ties are broken by number. A tensor is moved once to each device that reads it, as soon as it is made. A device sends, and
    receives, one tensor at a time.
    """

    def __init__(self, problem: PlanningProblem) -> None:
        self.problem = problem
        kinds = [device.kind for device in problem.devices]
        self._seconds = [[task.seconds[kind] for kind in kinds] for task in problem.tasks]
        self._waiting = [len(sources) for sources in problem.inputs]
        count = len(problem.devices)
        self._ways = [[problem.way(a, b) for b in range(count)] for a in range(count)]

    def seconds(self, devices: Sequence[int], starts: list[float] | None = None) -> float:
        """Return the end of the last task in seconds; `starts` is filled in if it is given."""
        readers, tasks, waiting, seconds = self.problem.readers, self.problem.tasks, self._waiting[:], self._seconds
        count = len(self.problem.devices)
        free = [device.slots for device in self.problem.devices]
        queues: list[list[tuple[float, int]]] = [[] for _ in range(count)]
        sends, receives = [0.0] * count, [0.0] * count
        # (time, task, device): the end of a task or, on another device, the arrival of its output
        events: list[tuple[float, int, int]] = []
        for task, number in enumerate(waiting):
            if not number:
                heappush(queues[devices[task]], (0.0, task))
        now, touched = 0.0, list(range(count))
        while True:
            for device in touched:
                queue = queues[device]
                while queue and free[device]:
                    task = heappop(queue)[1]
                    if starts is not None:
                        starts[task] = now
                    free[device] -= 1
                    heappush(events, (now + seconds[task][device], task, device))
            if not events:
                return now
            touched = []
            now = events[0][0]
            while events and events[0][0] == now:
                _, task, device = heappop(events)
                own = devices[task]
                touched.append(device)
                if device == own:
                    free[own] += 1
                    for other in {devices[reader] for reader in readers[task]}:
                        if other != own:
                            way = self._ways[own][other]
                            moving = tasks[task].makes * way.pace
                            begin = max(now, sends[own], receives[other])
                            sends[own] = receives[other] = begin + moving
                            heappush(events, (begin + way.delay + moving, task, other))
                for reader in readers[task]:
                    if devices[reader] == device:
                        waiting[reader] -= 1
                        if not waiting[reader]:
                            heappush(queues[device], (now, reader))

    def plan(self, devices: Sequence[int]) -> Plan:
        """Return the plan for an assignment."""
        starts = [0.0] * len(devices)
        return Plan(self.seconds(devices, starts), tuple(devices), tuple(starts))
