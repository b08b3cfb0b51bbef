"""Tasks that wait for each other, on streams, cores and links: when each begins and ends.

A task is ready when its last input has ended.  What is ready takes its turn first come, first served; of what becomes ready in
one moment, the task with the smaller number first.  Nothing that runs is interrupted.  Times are seconds from the beginning.

Times that differ by less than a part of `MOMENT` are one moment: sums of the same times in another order, or in another unit,
differ by less, and must not change whose turn it is.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Sequence
from heapq import heappop, heappush

from placesim.collector import collector_paused
from placesim.errors import InvalidArgumentError
from placesim.timelines.links import Link, SharedLinks
from placesim.timelines.timeline import Timeline, Usage
from placesim.timelines.workload import NOWHERE, Cores, Resource, Stream, Task, Transfer, host_of

MOMENT = 2.0**-40
LINKS = -1
"""The event that something changes on the links; for the cores that are resource `r` it is -2 - r, for a phase its number."""
UNKNOWN = -1.0
"""The seconds of a transfer, before the links tell."""
CIRCLE_SHOWN = 10
"""So many tasks of a circle are named in an error."""


def simulate(tasks: Sequence[Task | Transfer], resources: Sequence[Resource] = (), links: Sequence[Link] = ()) -> Timeline:
    """Runs everything; raises InvalidArgumentError for figures that make no sense and for tasks that wait for each other."""
    with collector_paused():
        loop = _Loop(tasks, resources, SharedLinks(links))
        loop.run()
        return loop.timeline()


def longest_path(tasks: Sequence[Task | Transfer], resources: Sequence[Resource] = ()) -> float:
    """The seconds of the same with a resource for each task and transfers that take no time; raises as `simulate` does."""
    with collector_paused():
        loop = _Loop(tasks, resources, SharedLinks(()))
        loop.lift_limits()
        loop.run()
        return max(loop.ends[: loop.count], default=0.0)


class _RunningOnCores:
    """What runs on cores now: at `at`, each task has had `done` of its seconds, counted from when the cores were last idle.

    All of them proceed at one `speed`, so that `due` has for each the value of `done` at which it is through, the first on top.
    """

    __slots__ = ("at", "busy_seconds", "core_seconds", "cores", "demand", "done", "due", "next_end", "speed", "threads")

    def __init__(self, resource: Cores) -> None:
        self.cores = resource.cores
        self.threads = resource.threads
        self.due: list[tuple[float, int, int]] = []
        self.demand = 0
        self.speed = 1.0
        self.done = 0.0
        self.at = 0.0
        self.next_end = math.inf
        self.busy_seconds = 0.0
        self.core_seconds = 0.0

    def begin(self, time: float, phase: int, seconds: float, cores: int) -> None:
        """Puts a task beside those that run."""
        if self.due:
            self._count_until(time)
            self.done += (time - self.at) * self.speed
        self.at = time
        heappush(self.due, (self.done + seconds, phase, cores))
        self._ask(cores)

    def end(self, until: float) -> list[tuple[float, int]]:
        """What ends by then, if nothing begins before; when, and the phase."""
        ended = []
        while self.due and (time := self.end_of_first()) <= until:
            self._count_until(time)
            self.done, phase, cores = heappop(self.due)
            self.at = time
            self._ask(-cores)
            ended.append((time, phase))
        if not self.due:
            self.done = 0.0
        return ended

    def end_of_first(self) -> float:
        """When the next task is through, if nothing begins before."""
        return self.at + max(0.0, self.due[0][0] - self.done) / self.speed if self.due else math.inf

    def _ask(self, cores: int) -> None:
        self.demand += cores
        self.speed = self.cores / self.demand if self.demand > self.cores else 1.0

    def _count_until(self, time: float) -> None:
        elapsed = time - self.at
        self.busy_seconds += elapsed
        self.core_seconds += elapsed * min(self.demand, self.cores)


class _Loop:
    """The simulation under way, in columns.

    A row is a phase: the run of each task, by the task's number, and, where a stream has a host, also the launch of each task,
    by the number of all tasks more (that of a task without a launch stays unused).
    """

    def __init__(self, tasks: Sequence[Task | Transfer], resources: Sequence[Resource], shared: SharedLinks) -> None:
        self.tasks = tasks
        self.count = len(tasks)
        self.resources = resources
        self.shared = shared
        self.on_cores = [_RunningOnCores(resource) if isinstance(resource, Cores) else None for resource in resources]
        hosts = [_checked_host(number, resources) for number in range(len(resources))]
        hosts.append(NOWHERE)
        phases = self.count * 2 if max(hosts) != NOWHERE else self.count
        self.places = [NOWHERE] * phases
        self.seconds = [UNKNOWN] * phases
        self.missing = [0] * phases
        self.consumers: list[list[int]] = [[] for _ in range(phases)]
        self.streams: dict[int, tuple[int, ...]] = {}
        self.waited_for = [NOWHERE] * phases
        self.starts = [math.nan] * phases
        self.ends = [math.nan] * phases
        self.ready_at = [0.0] * phases
        self.queues: list[deque[int]] = [deque() for _ in resources]
        self.running = [NOWHERE] * len(resources)
        self.ended_last = [NOWHERE] * len(resources)
        self.busy_seconds = [0.0] * len(resources)
        self.events: list[tuple[float, int]] = []
        self.links_change = math.inf
        self.now = 0.0
        for number, task in enumerate(tasks):
            if isinstance(task, Task):
                self._place(number, task)
            else:
                self.streams[number] = self._streams_of(number, task)
        for number, task in enumerate(tasks):
            self._connect(number, task, hosts)
        # the row of a launch that there isn't stays out
        self.ready = [
            phase for phase, waits in enumerate(self.missing) if not waits and (phase < self.count or self.places[phase] >= 0)
        ]

    def lift_limits(self) -> None:
        """Gives each phase a resource of its own, and transfers no time."""
        for number, host in enumerate(self.places[self.count :]):
            if host != NOWHERE:
                # what the order of the stream saw to: a run waits for the runs of its inputs there
                same_stream = [it for it in self.tasks[number].inputs if self.places[it] == self.places[number]]
                self.missing[number] += len(same_stream)
                for source in same_stream:
                    self.consumers[source].append(number)
        self.places = [NOWHERE] * len(self.places)
        self.seconds = [0.0 if seconds == UNKNOWN else seconds for seconds in self.seconds]
        self.streams = {}

    def _place(self, number: int, task: Task) -> None:
        seconds, resource, _, launch, cores = task
        if not (0 <= seconds < math.inf and 0 <= launch < math.inf):
            raise InvalidArgumentError(
                f"task {number} takes {seconds} s and {launch} s to launch: both must be finite, 0 or more"
            )
        if not NOWHERE <= resource < len(self.resources):
            raise InvalidArgumentError(f"task {number} is on resource {resource}: there are {len(self.resources)}, from 0 on")
        if cores < 1:
            raise InvalidArgumentError(f"task {number} asks for {cores} cores: it must be 1 or more")
        self.places[number] = resource
        self.seconds[number] = seconds

    def _streams_of(self, number: int, transfer: Transfer) -> tuple[int, ...]:
        for stream in transfer.streams:
            resource = self.resources[stream] if 0 <= stream < len(self.resources) else None
            if not isinstance(resource, Stream) or resource.host is not None:
                raise InvalidArgumentError(f"transfer {number} takes resource {stream}, which is no stream without a host")
        return tuple(dict.fromkeys(transfer.streams))

    def _connect(self, number: int, task: Task | Transfer, hosts: Sequence[int]) -> None:
        """Has a task's first phase wait for its inputs, and its run for its launch."""
        count, consumers = self.count, self.consumers
        resource = self.places[number]
        first = number
        if hosts[resource] != NOWHERE and isinstance(task, Task):
            first = number + count
            self.places[first] = hosts[resource]
            self.seconds[first] = task.launch
            self.missing[number] = 1
            consumers[first].append(number)
        for source in task.inputs:
            if not 0 <= source < count:
                raise InvalidArgumentError(f"task {number} has the input {source}: there are {count} tasks, from 0 on")
            launched_before = first != number and self.places[source] == resource
            consumers[source + count if launched_before else source].append(first)
        self.missing[first] = len(task.inputs)

    def run(self) -> None:
        """The events, moment after moment, until nothing is left to happen."""
        count, places, missing, consumers, waited_for = self.count, self.places, self.missing, self.consumers, self.waited_for
        ended_last, running, streams = self.ended_last, self.running, self.streams
        ready = self.ready
        touched: list[int] = []
        unfinished = count
        while True:
            if len(ready) > 1:
                ready.sort(key=lambda phase: phase % count)
            self._queue(ready, touched)
            self._serve(touched)
            if streams:
                self._watch_links()
            if not self.events:
                break
            ready, touched = [], []
            for phase in self._end_moment():
                resource = places[phase]
                if resource != NOWHERE:
                    ended_last[resource] = phase
                    running[resource] = NOWHERE
                    touched.append(resource)
                elif phase in streams:
                    for resource in streams[phase]:
                        ended_last[resource] = phase
                        running[resource] = NOWHERE
                        touched.append(resource)
                        self.busy_seconds[resource] += self.ends[phase] - self.starts[phase]
                if phase < count:
                    unfinished -= 1
                for consumer in consumers[phase]:
                    missing[consumer] -= 1
                    if not missing[consumer]:
                        waited_for[consumer] = phase
                        ready.append(consumer)
        if unfinished:
            raise InvalidArgumentError(self._circle())

    def _queue(self, ready: Sequence[int], touched: list[int]) -> None:
        """Puts what is ready now behind what waits for its resource, or begins it where it needs none."""
        now, places, ready_at, seconds = self.now, self.places, self.ready_at, self.seconds
        for phase in ready:
            ready_at[phase] = now
            resource = places[phase]
            if resource != NOWHERE:
                self.queues[resource].append(phase)
                touched.append(resource)
            elif seconds[phase] != UNKNOWN:
                self.starts[phase] = now
                heappush(self.events, (now + seconds[phase], phase))
            elif streams := self.streams[phase]:
                for resource in streams:
                    self.queues[resource].append(phase)
                touched.append(streams[0])
            else:
                self._send(phase)

    def _serve(self, touched: Sequence[int]) -> None:
        """Begins what can begin now, on each resource in turn."""
        now, running, ready_at = self.now, self.running, self.ready_at
        for resource in touched:
            queue = self.queues[resource]
            cores = self.on_cores[resource]
            if cores is not None:
                self._serve_cores(resource, cores, queue)
            elif queue and running[resource] == NOWHERE:
                phase = queue[0]
                seconds = self.seconds[phase]
                if seconds == UNKNOWN:
                    self._send_in_turn(phase)
                    continue
                running[resource] = queue.popleft()
                self.starts[phase] = now
                self.busy_seconds[resource] += seconds
                heappush(self.events, (now + seconds, phase))
                if ready_at[phase] < now:
                    self.waited_for[phase] = self.ended_last[resource]

    def _serve_cores(self, resource: int, cores: _RunningOnCores, queue: deque[int]) -> None:
        now = self.now
        while queue and len(cores.due) < cores.threads:
            phase = queue.popleft()
            self.starts[phase] = now
            if self.ready_at[phase] < now:
                self.waited_for[phase] = self.ended_last[resource]
            task = self.tasks[phase] if phase < self.count else None
            cores.begin(now, phase, self.seconds[phase], task.cores if isinstance(task, Task) else 1)
        time = cores.end_of_first()
        if time != cores.next_end:
            cores.next_end = time
            if time < math.inf:
                heappush(self.events, (time, -2 - resource))

    def _send_in_turn(self, phase: int) -> None:
        """Begins a transfer that is first in the queue of one of its streams, if it is so on all and they are free."""
        running, queues, streams = self.running, self.queues, self.streams[phase]
        if all(running[stream] == NOWHERE and queues[stream][0] == phase for stream in streams):
            for stream in streams:
                running[stream] = queues[stream].popleft()
            if self.ready_at[phase] < self.now:
                last = [self.ended_last[stream] for stream in streams]
                self.waited_for[phase] = max((before for before in last if before != NOWHERE), key=self.ends.__getitem__)
            self._send(phase)

    def _send(self, phase: int) -> None:
        transfer = self.tasks[phase]
        assert isinstance(transfer, Transfer)
        self.starts[phase] = self.now
        self.shared.begin(self.now, phase, transfer.bytes, transfer.route)

    def _watch_links(self) -> None:
        time = self.shared.next_change()
        if time != self.links_change:
            self.links_change = time
            if time < math.inf:
                heappush(self.events, (time, LINKS))

    def _end_moment(self) -> list[int]:
        """Goes on to the next moment; what ends in it."""
        events, ends, now = self.events, self.ends, self.now
        limit = events[0][0] * (1 + MOMENT)
        ended = []
        while events and events[0][0] <= limit:
            time, event = heappop(events)
            if event >= 0:
                ends[event] = time
                ended.append(event)
                if time > now:
                    now = time
                continue
            if event == LINKS:
                if time != self.links_change:
                    continue
                finished = self.shared.advance(limit)
                self.links_change = math.inf
                now = max(now, self.shared.now)
            else:
                cores = self.on_cores[-2 - event]
                if cores is None or time != cores.next_end:
                    continue
                finished = cores.end(limit)
                cores.next_end = math.inf
            for time, phase in finished:
                ends[phase] = time
                ended.append(phase)
                now = max(now, time)
        self.now = now
        return ended

    def _circle(self) -> str:
        """Which tasks wait for each other, where not all could begin."""
        count = self.count
        left = {phase % count for phase, waits in enumerate(self.missing) if waits}
        number = min(left)
        path: dict[int, None] = {}
        while number not in path:
            path[number] = None
            number = next(source for source in self.tasks[number].inputs if source in left)
        circle = list(path)
        circle = [*circle[circle.index(number) :], number]
        shown = " -> ".join(map(str, circle[:CIRCLE_SHOWN])) + (" -> ..." if len(circle) > CIRCLE_SHOWN else "")
        return f"tasks wait for each other in a circle, so that none of them can begin: {shown}"

    def timeline(self) -> Timeline:
        """What came of it."""
        count = self.count
        launched = [place != NOWHERE for place in self.places[count:]]
        runs = self.starts[:count]
        return Timeline(
            seconds=max(self.ends[:count], default=0.0),
            starts=tuple(runs),
            ends=tuple(self.ends[:count]),
            launch_starts=tuple(self.starts[count + i] if has else runs[i] for i, has in enumerate(launched)),
            launch_ends=tuple(self.ends[count + i] if has else runs[i] for i, has in enumerate(launched)),
            usage=tuple(
                Usage(busy, busy) if cores is None else Usage(cores.busy_seconds, cores.core_seconds)
                for busy, cores in zip(self.busy_seconds, self.on_cores, strict=True)
            ),
            traffic=self.shared.traffic(),
            waited_for=tuple(self.waited_for),
        )


def _checked_host(number: int, resources: Sequence[Resource]) -> int:
    """The cores that launch a resource's tasks, NOWHERE if none do; raises where its figures or its host make no sense."""
    resource = resources[number]
    if isinstance(resource, Cores):
        if resource.cores < 1 or resource.threads < 1:
            raise InvalidArgumentError(
                f"{resource.name!r} has {resource.cores} cores and {resource.threads} threads: both must be 1 or more"
            )
    elif resource.host is not None and not (
        0 <= resource.host < len(resources) and isinstance(resources[resource.host], Cores)
    ):
        raise InvalidArgumentError(f"{resource.name!r} is launched by resource {resource.host}, which has no cores")
    return host_of(resource)
