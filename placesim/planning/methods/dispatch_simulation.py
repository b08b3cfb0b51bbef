"""Greedy plans made during a simulation: each ready task goes to the device where it would end first.

List scheduling uses a fixed order of tasks. Here, as on a real machine, tasks run when they become ready, and hosts launch
kernels ahead of their streams. A pass costs about as much as a simulation, so many passes are made, with different sizes of
clusters and weights of transfers. From the second pass on, a pass also considers where the best plan has a task's readers.
Finally, parts of the best plan are decided again while the rest is fixed.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from heapq import heappop, heappush
from random import Random
from typing import NamedTuple

from placesim.machine.timelines.bandwidth_sharing import byte_seconds, route_latency
from placesim.machine.timelines.workload import NOWHERE, Cores, host_of
from placesim.planning.coarsening import clusterings, join_groups
from placesim.planning.memory_limits import find_overfull_devices
from placesim.planning.problem import Plan, PlanningProblem
from placesim.planning.schedules import assignments
from placesim.planning.search_budget import Search

MOVED = (0.0, 0.1, 0.3, 1.0, 3.0)
"""Seconds added to a task's end for each second of transfers to the task."""
AHEAD = (0.0, 0.3, 1.0)
"""Seconds added to a task's end for each second of transfers to its readers, which are assumed to run as in the best plan."""
NOISES = (0.0, 0.0, 0.1, 0.5)
SPARES = (True, False)
ANEW, IN_TIME, VARIED = 0.6, 0.7, 0.4
"""Probabilities: a part of the best plan is decided again; this part is a time interval; a weight changes."""
WORSE, WORSE_PINNED = 1.02, 1.003
"""Maximum estimate of a simulated pass, as a multiple of the best estimate: in general, and if most tasks are pinned."""
SHARES = (0.02, 0.05, 0.1, 0.2, 0.4)
"""Shares of a plan that are decided again."""
_LAUNCHED, _BEGUN, _ENDED, _MOVED = range(4)
_NONE = -1
_UNKNOWN: list[int] = []
_LOOK = 4096
"""Number of events between checks of the time limit."""


class Weights(NamedTuple):
    """Weights added to a task's end time: transfers to it and to its readers, and noise.

    With `spares_host`, tasks that a device with its own stream can run don't go to the host.
    """

    moved: float = 0.0
    ahead: float = 0.0
    noise: float = 0.0
    spares_host: bool = True


FIRST = (Weights(0.3), Weights(0.3, spares_host=False))


class _Way(NamedTuple):
    """A transfer from one device to another: its delay in seconds, seconds per unit, and the ports that it occupies."""

    delay: float
    pace: float
    ports: tuple[int, ...]


class Dispatcher:
    """Simulates a problem's tasks, and chooses the device of each when all its inputs have started."""

    def __init__(self, problem: PlanningProblem) -> None:
        self.problem = problem
        count = len(problem.devices)
        layout, devices = problem.layout, problem.devices
        kinds = [device.kind for device in devices]
        self.seconds = [[task.seconds[kind] for kind in kinds] for task in problem.tasks]
        self.launches = [[task.launches[kind] if task.launches else 0.0 for kind in kinds] for task in problem.tasks]
        self.cores = [[task.cores[kind] if task.cores else 1 for kind in kinds] for task in problem.tasks]
        self.makes = [task.makes for task in problem.tasks]
        self.waiting = [len(sources) for sources in problem.inputs]
        self.rank = [0] * len(problem.tasks)
        for place, task in enumerate(problem.order):
            self.rank[task] = place
        # a device is a stream that a host launches, or a host's cores; `room` has threads and cores
        self.hosts: list[int] = []
        self.streams: list[int] = []
        if layout is None:
            self.hosts, self.streams = list(range(count)), [_NONE] * count
            self.room = [(device.slots, math.inf) for device in devices]
            self.ways = [
                [_Way(way.delay, way.pace, (a, count + b)) for b in range(count) for way in (problem.way(a, b),)]
                for a in range(count)
            ]
            self.ports = 2 * count
            return
        self.room = [
            (resource.threads, float(resource.cores)) if isinstance(resource, Cores) else (1, 1.0)
            for resource in layout.resources
        ]
        for place in layout.places:
            resource = layout.resources[place]
            is_cores = isinstance(resource, Cores)
            self.streams.append(_NONE if is_cores else place)
            host = host_of(resource)
            self.hosts.append(place if host == NOWHERE else host)
        self.ports = len(layout.resources)
        self.ways = [
            [_Way(route_latency(links, layout.links), byte_seconds(links, layout.links), streams) for links, streams in row]
            for row in layout.routes
        ]

    def units(self, clusters: Sequence[int]) -> Units | None:
        """Return the units that move together: tasks of one cluster or group. Return None if no device can run and hold some
        unit.
        """
        problem = self.problem
        of_task = join_groups(problem, clusters)
        count = 1 + max(of_task, default=-1)
        kinds, devices = len(problem.kinds), problem.devices
        seconds, held = [[0.0] * kinds for _ in range(count)], [0.0] * count
        for task, unit in enumerate(of_task):
            row = seconds[unit]
            for kind, more in enumerate(problem.tasks[task].seconds):
                row[kind] += more
            held[unit] += problem.tasks[task].holds
        choices = [
            tuple(n for n, device in enumerate(devices) if row[device.kind] < math.inf and size <= device.capacity)
            for row, size in zip(seconds, held, strict=True)
        ]
        streams = [tuple(device for device in row if self.streams[device] != _NONE) or row for row in choices]
        if not all(choices):
            return None
        return Units(of_task, [[row[device.kind] for device in devices] for row in seconds], held, choices, streams)

    def run(
        self,
        units: Units,
        weights: Weights,
        draw: Random,
        before: Sequence[int] = (),
        pinned: Sequence[int] = (),
        is_over: Callable[[], bool] = lambda: False,
    ) -> tuple[float, list[int]] | None:
        """Simulate a dispatch. Return the approximate end in seconds, and a device for each task.

        Return None if a unit finds no room or `is_over` returns true. `before` has each task's device in an earlier plan; the
        pass assumes that the readers of a task will be there. `pinned` has the devices of units that are already decided, or
        -1.
        """
        return _Pass(self, units, weights, draw, before, pinned, is_over).run()


class Units(NamedTuple):
    """Units that move together: the unit of each task, and for each unit its seconds by device, memory and allowed devices.

    `streams` has the allowed devices with their own stream, or all allowed ones if there are none.
    """

    of_task: Sequence[int]
    seconds: list[list[float]]
    held: list[float]
    choices: list[tuple[int, ...]]
    streams: list[tuple[int, ...]]


class _Pass:
    """One simulated pass."""

    def __init__(
        self,
        machine: Dispatcher,
        units: Units,
        weights: Weights,
        draw: Random,
        before: Sequence[int],
        pinned: Sequence[int],
        is_over: Callable[[], bool],
    ) -> None:
        self.machine = machine
        self.is_over = is_over
        self.units = units
        self.weights = weights
        self.draw = draw
        self.before = before
        problem = machine.problem
        count, ports, resources = len(problem.tasks), machine.ports, len(machine.room)
        # if no unit is decided before its tasks are ready, no output can be moved early
        self.foresees = bool(pinned) or len(units.held) < len(problem.groups)
        self.pinned = pinned or [_NONE] * len(units.held)
        self.of_unit = [_NONE] * len(units.held)
        self.left = [device.capacity for device in problem.devices]
        self.devices = [_NONE] * count
        self.joined, self.ends = [0.0] * count, [0.0] * count
        # the number of inputs that a decided task waits for
        self.missing = [0] * count
        # by task: tasks that wait for its end; a number below 0 stands for a device that gets its output (-1 - device)
        self.after: dict[int, list[int]] = {}
        # by task and device: None if the task's output is on the device, else the tasks that wait for it there
        self.moves: dict[tuple[int, int], list[int] | None] = {}
        self.free, self.pending = [0.0] * resources, [0.0] * resources
        self.threads = [threads for threads, _ in machine.room]
        self.demand = [0.0] * resources
        self.queued: list[deque[int]] = [deque() for _ in range(resources)]
        self.busy, self.backlog = [False] * ports, [0.0] * ports
        self.sending: list[deque[tuple[int, int]]] = [deque() for _ in range(ports)]
        self.events: list[tuple[float, int, int, int, int]] = []
        self.now = 0.0

    def run(self) -> tuple[float, list[int]] | None:
        """Run the pass; see `Dispatcher.run`."""
        machine, events, rank = self.machine, self.events, self.machine.rank
        readers, waiting = machine.problem.readers, machine.waiting[:]
        ready = [task for task in machine.problem.order if not waiting[task]]
        last, number = 0.0, 0
        while True:
            for task in ready:
                if not self._decide(task):
                    return None
            if not events:
                return last, self.devices
            number += 1
            if not number % _LOOK and self.is_over():
                return None
            self.now, _, kind, task, device = heappop(events)
            ready = []
            if kind == _LAUNCHED:
                self._release(machine.hosts[device], 1.0)
                self._join(task, device)
            elif kind == _ENDED:
                if machine.streams[device] == _NONE:
                    self._release(machine.hosts[device], machine.cores[task][device])
                if self.now > last:
                    last = self.now
                for waiter in self.after.pop(task, ()):
                    if waiter < 0:
                        self._request(task, -1 - waiter)
                    else:
                        self._arrived(waiter)
                if self.foresees:
                    self._move_early(task, device)
                continue
            elif kind == _MOVED:
                self._moved(task, device)
                continue
            for reader in readers[task]:
                waiting[reader] -= 1
                if not waiting[reader]:
                    ready.append(reader)
            if len(ready) > 1:
                ready.sort(key=rank.__getitem__)

    # --- where a task goes

    def _decide(self, task: int) -> bool:
        units, unit = self.units, self.units.of_task[task]
        device = self.of_unit[unit]
        if device == _NONE:
            device = self.pinned[unit]
            if device == _NONE:
                choices = units.streams[unit] if self.weights.spares_host else units.choices[unit]
                device = choices[0] if len(choices) == 1 else self._best(task, unit, choices)
            if device == _NONE or units.held[unit] > self.left[device]:
                return False
            self.of_unit[unit] = device
            self.left[device] -= units.held[unit]
            stream = self.machine.streams[device]
            self.pending[stream if stream != _NONE else self.machine.hosts[device]] += units.seconds[unit][device]
        self._commit(task, device)
        return True

    def _best(self, task: int, unit: int, choices: Sequence[int]) -> int:
        """Return the device with the lowest score: the earliest end, with the other weights added."""
        machine, now, joined, ends, devices = self.machine, self.now, self.joined, self.ends, self.devices
        inputs, makes, moves, backlog = machine.problem.inputs[task], machine.makes, self.moves, self.backlog
        seconds, launches = machine.seconds[task], machine.launches[task]
        weights, held, left = self.weights, self.units.held[unit], self.left
        readers = machine.problem.readers[task] if weights.ahead and self.before else ()
        least, found = math.inf, _NONE
        for device in choices:
            if held > left[device]:
                continue
            stream = machine.streams[device]
            begin, moved = now, 0.0
            for source in inputs:
                other = devices[source]
                if other == device:
                    there = ends[source] if stream == _NONE else joined[source]
                else:
                    there = ends[source]
                    waits = moves.get((source, device), _UNKNOWN)
                    if waits is None:
                        there = now
                    else:
                        way = machine.ways[other][device]
                        for port in way.ports:
                            if now + backlog[port] > there:
                                there = now + backlog[port]
                        if waits is _UNKNOWN:
                            takes = way.delay + way.pace * makes[source]
                            moved += takes
                            there += takes
                if there > begin:
                    begin = there
            if stream == _NONE:
                host = machine.hosts[device]
                busy = now + self.pending[host] / machine.room[host][0]
            else:
                begin += launches[device]
                busy = self.free[stream]
                busy = (busy if busy > now else now) + self.pending[stream]
            score = (begin if begin > busy else busy) + seconds[device] + weights.moved * moved
            if readers:
                score += weights.ahead * self._ahead(task, device, readers)
            if weights.noise:
                score += weights.noise * seconds[device] * self.draw.random()
            if score < least:
                least, found = score, device
        return found

    def _ahead(self, task: int, device: int, readers: Sequence[int]) -> float:
        """Return the seconds of transfers to the readers' devices in the earlier plan."""
        made, ways = self.machine.makes[task], self.machine.ways[device]
        others = {self.before[reader] for reader in readers}
        return sum([ways[other].delay + ways[other].pace * made for other in others if other != device])

    # --- what the machine does

    def _commit(self, task: int, device: int) -> None:
        """Assign a task to a device, and send its missing inputs there as soon as possible."""
        machine, now, ends, devices, moves = self.machine, self.now, self.ends, self.devices, self.moves
        devices[task] = device
        is_launched, missing = machine.streams[device] != _NONE, 0
        for source in machine.problem.inputs[task]:
            other = devices[source]
            if other == device:
                if not is_launched and ends[source] > now:
                    missing += 1
                    self.after.setdefault(source, []).append(task)
                continue
            waits = moves.get((source, device), _UNKNOWN)
            if waits is None:
                continue
            missing += 1
            if waits is not _UNKNOWN:
                waits.append(task)
                continue
            self._foresee(source, device, [task])
            if ends[source] <= now:
                self._request(source, device)
            else:
                self.after.setdefault(source, []).append(-1 - device)
        self.missing[task] = missing
        if not missing:
            self._start(task)

    def _foresee(self, source: int, device: int, waiting: list[int]) -> None:
        """Record that an output will be moved to a device, and that the ports of the transfer will be busy."""
        self.moves[source, device] = waiting
        way = self.machine.ways[self.devices[source]][device]
        takes = way.delay + way.pace * self.machine.makes[source]
        for port in way.ports:
            self.backlog[port] += takes

    def _move_early(self, source: int, device: int) -> None:
        """Move an output to each device that reads it as soon as it is made, even if its readers also wait for other inputs."""
        for reader in self.machine.problem.readers[source]:
            unit = self.units.of_task[reader]
            other = self.of_unit[unit]
            if other == _NONE:
                other = self.pinned[unit]
            if other not in (_NONE, device) and (source, other) not in self.moves:
                self._foresee(source, other, [])
                self._request(source, other)

    def _arrived(self, task: int) -> None:
        self.missing[task] -= 1
        if not self.missing[task]:
            self._start(task)

    def _start(self, task: int) -> None:
        """Launch or run a task whose inputs have arrived, or queue it until the host has a free thread."""
        host = self.machine.hosts[self.devices[task]]
        if self.threads[host]:
            self._occupy(task, host)
        else:
            self.queued[host].append(task)

    def _occupy(self, task: int, host: int) -> None:
        """Occupy a thread and cores of a host for a task. The speed at the task's start applies until its end."""
        machine, device, now = self.machine, self.devices[task], self.now
        self.threads[host] -= 1
        is_launched = machine.streams[device] != _NONE
        self.demand[host] += 1.0 if is_launched else machine.cores[task][device]
        slower = max(1.0, self.demand[host] / machine.room[host][1])
        if is_launched:
            heappush(self.events, (now + machine.launches[task][device] * slower, machine.rank[task], _LAUNCHED, task, device))
            return
        takes = machine.seconds[task][device]
        self.pending[host] -= takes
        self.joined[task] = now
        self.ends[task] = end = now + takes * slower
        heappush(self.events, (end, machine.rank[task], _ENDED, task, device))
        # its readers get their devices now
        heappush(self.events, (now, machine.rank[task], _BEGUN, task, device))

    def _release(self, host: int, cores: float) -> None:
        self.threads[host] += 1
        self.demand[host] -= cores
        if self.queued[host]:
            self._occupy(self.queued[host].popleft(), host)

    def _join(self, task: int, device: int) -> None:
        """Add a launched task to its stream, which determines its end."""
        machine, now = self.machine, self.now
        stream, takes = machine.streams[device], machine.seconds[task][device]
        self.joined[task] = now
        self.pending[stream] -= takes
        self.free[stream] = self.ends[task] = end = max(self.free[stream], now) + takes
        heappush(self.events, (end, machine.rank[task], _ENDED, task, device))

    def _request(self, source: int, device: int) -> None:
        """Queue an output at all ports of its transfer."""
        ports = self.machine.ways[self.devices[source]][device].ports
        if not ports:
            self._send(source, device)
            return
        for port in ports:
            self.sending[port].append((source, device))
        self._serve(ports[0])

    def _serve(self, port: int) -> None:
        """Start the transfers at a port that are first in the queues of all their ports."""
        queue, busy, sending = self.sending[port], self.busy, self.sending
        while queue and not busy[port]:
            source, device = first = queue[0]
            ports = self.machine.ways[self.devices[source]][device].ports
            if any(busy[other] or sending[other][0] != first for other in ports):
                return
            for other in ports:
                sending[other].popleft()
                busy[other] = True
            self._send(source, device)

    def _send(self, source: int, device: int) -> None:
        way = self.machine.ways[self.devices[source]][device]
        takes = way.delay + way.pace * self.machine.makes[source]
        heappush(self.events, (self.now + takes, self.machine.rank[source], _MOVED, source, device))

    def _moved(self, source: int, device: int) -> None:
        """End a transfer: waiting tasks may start, and its ports are free."""
        way = self.machine.ways[self.devices[source]][device]
        takes = way.delay + way.pace * self.machine.makes[source]
        for port in way.ports:
            self.busy[port] = False
            self.backlog[port] -= takes
        waiting = self.moves[source, device] or ()
        self.moves[source, device] = None
        for task in waiting:
            self._arrived(task)
        for port in way.ports:
            self._serve(port)


def dispatch_ready(problem: PlanningProblem, search: Search) -> Iterator[Plan]:
    """Yield increasingly better plans: passes with various clusters and weights, then parts of the best plan decided again."""
    passes = _Passes(problem, search)
    for plan in passes.plans():
        yield plan
        if search.is_met(plan.value):
            return


class _Passes:
    """A sequence of passes, each evaluated by simulation."""

    def __init__(self, problem: PlanningProblem, search: Search) -> None:
        self._problem = problem
        self._search = search
        self._machine = Dispatcher(problem)
        self._measured = assignments(problem)
        self._best = search.start
        # the lowest estimate of passes with and without pinned units
        self._least = {True: math.inf, False: math.inf}
        self._units: list[Units] = []
        self._good = [*FIRST]
        # the value, number and weights of each pass without pinned units
        self._tried: list[tuple[float, int, Weights]] = []

    def plans(self) -> Iterator[Plan]:
        """Yield better plans. Each clustering is tried first. Later passes change weights, or decide parts of the best plan
        again.
        """
        search, draw = self._search, self._search.random
        for clusters in clusterings(self._problem):
            units = self._machine.units(clusters)
            if units is not None:
                self._units.append(units)
                for weights in FIRST:
                    # without any plan, one pass is made even if the time is over
                    if search.is_over and self._best is not None:
                        return
                    yield from self._try(len(self._units) - 1, weights)
        while self._units and not search.is_over:
            if self._best is not None and draw.random() < ANEW:
                yield from self._decide_again()
            else:
                number = min(draw.choices(sorted(self._tried), k=2))[1]
                yield from self._try(number, self._weights())

    def _is_late(self) -> bool:
        """Return whether the time is over; the first pass always runs, and counted work ignores the clock."""
        return self._best is not None and self._search.evaluations is None and self._search.is_over

    def _try(self, number: int, weights: Weights, pinned: Sequence[int] = ()) -> Iterator[Plan]:
        before = self._best.devices if self._best else ()
        found = self._machine.run(self._units[number], weights, self._search.random, before, pinned, self._is_late)
        self._search.spend(1)
        plan, value = None, math.inf
        if found is not None:
            value, devices = found
            least = self._least[bool(pinned)]
            if value <= least * (WORSE_PINNED if pinned else WORSE):
                self._least[bool(pinned)] = min(value, least)
                plan = self._measured.plan(devices)
                value = plan.value
        if not pinned:
            self._tried.append((value, number, weights))
        if plan is None or (self._best is not None and plan.value >= self._best.value):
            return
        if not find_overfull_devices(self._problem, plan.devices):
            self._best = plan
            self._good.append(weights)
            yield plan

    def _decide_again(self) -> Iterator[Plan]:
        """Decide again all units of a time interval, or some random units."""
        draw, best = self._search.random, self._best
        assert best is not None
        number = draw.randrange(len(self._units))
        units = self._units[number]
        pinned = [_NONE] * len(units.held)
        for task, unit in enumerate(units.of_task):
            pinned[unit] = best.devices[task]
        share = draw.choice(SHARES)
        if draw.random() < IN_TIME and best.starts:
            begin = draw.uniform(-share, 1.0) * best.value
            end = begin + share * best.value
            free = {unit for unit, start in zip(units.of_task, best.starts, strict=True) if begin <= start < end}
        else:
            free = {unit for unit in range(len(pinned)) if draw.random() < share}
        for unit in free:
            pinned[unit] = _NONE
        yield from self._try(number, self._weights(), pinned)

    def _weights(self) -> Weights:
        """Return the weights of an earlier improving pass, with some changed at random."""
        draw = self._search.random
        good = draw.choice(self._good)
        return Weights(
            draw.choice(MOVED) if draw.random() < VARIED else good.moved,
            draw.choice(AHEAD) if draw.random() < VARIED else good.ahead,
            draw.choice(NOISES) if draw.random() < VARIED else good.noise,
            spares_host=draw.choice(SPARES) if draw.random() < VARIED else good.spares_host,
        )
