"""A checked workload in columns, which can be simulated repeatedly with different times.

Each row is a phase: the run or the launch of a task. The run has the task's number. If any stream has a host, the launch has
this number plus the number of all tasks; the launch row of a task without a launch is unused.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

from placesim.core.errors import InvalidArgumentError
from placesim.machine.timelines.bandwidth_sharing import (
    Link,
    Traffic,
    byte_seconds,
    check_bytes,
    check_links,
    check_route,
    route_latency,
)
from placesim.machine.timelines.workload import (
    NOWHERE,
    CallingThread,
    Cores,
    LinkTransfer,
    Resource,
    SerialStream,
    Task,
    host_of,
)

SENT = -2
"""Entry of `places` for a transfer that may share its links, or that uses more than one stream."""
SHARED = -1.0
"""Duration of a transfer on links that it may share; only the simulation determines it."""
CIRCLE_SHOWN = 10
"""Maximum number of tasks of a cycle shown in an error."""


@dataclass(frozen=True, slots=True)
class WorkloadPlan:
    """A workload in columns by phase, which a simulation does not change.

    - `places`: the resource of each phase. NOWHERE means that the phase uses no resource or that the row is unused; SENT marks
      a transfer that may share its links or uses more than one stream.
    - `seconds`: the duration of each phase, or SHARED if links determine it.
    - `hosts`: the host of each place, including the negative places NOWHERE and SENT.
    - `consumers`: the phases that wait for each phase; for a launch, its own run is not listed.
    - `missing`: the number of phases for which each phase waits.
    - `asked`: the cores that each phase requests; `most_asked` is the maximum for each resource.
    - `streams`: the distinct streams of each transfer.
    - `order`: all tasks in topological order; None if the order of their numbers is topological.
    """

    tasks: Sequence[Task | LinkTransfer]
    resources: Sequence[Resource]
    links: Sequence[Link]
    hosts: list[int]
    places: list[int]
    seconds: list[float]
    asked: list[int]
    most_asked: list[int]
    streams: dict[int, tuple[int, ...]]
    consumers: list[list[int]]
    missing: list[int]
    order: list[int] | None

    @property
    def count(self) -> int:
        """Number of tasks and transfers."""
        return len(self.tasks)

    def without_inputs(self) -> list[int]:
        """Return the phases that wait for no other phase."""
        count = self.count
        launches = self.places[count:] or [NOWHERE] * count
        waiting = zip(self.tasks, launches, strict=True)
        return [
            number if launch == NOWHERE else number + count for number, (task, launch) in enumerate(waiting) if not task.inputs
        ]

    def work(self) -> tuple[list[float], list[float]]:
        """Return for each resource the total seconds of its phases, and the total core-seconds."""
        seconds = [0.0] * len(self.hosts)
        core_seconds = [0.0] * len(self.hosts)
        for place, takes, cores in zip(self.places, self.seconds, self.asked, strict=True):
            seconds[place] += takes
            core_seconds[place] += takes * cores
        count = len(self.resources)
        return seconds[:count], core_seconds[:count]

    def traffic(self) -> list[Traffic]:
        """Return the traffic of each link from transfers that share no links."""
        num_bytes = [0.0] * len(self.links)
        busy = [0.0] * len(self.links)
        routes: dict[tuple[int, ...], float] = {}
        for number in self.streams:
            if self.seconds[number] != SHARED:
                transfer = self.transfer(number)
                routes[transfer.route] = routes.get(transfer.route, 0.0) + transfer.bytes
        for route, moved in routes.items():
            for link in route:
                num_bytes[link] += moved
            for link in set(route):
                busy[link] += moved * byte_seconds(route, self.links)
        return [Traffic(*row) for row in zip(num_bytes, busy, strict=True)]

    def routes(self) -> set[tuple[int, ...]]:
        """Return the distinct routes of all transfers."""
        return {self.transfer(number).route for number in self.streams}

    def transfer(self, number: int) -> LinkTransfer:
        """Return the transfer with this number; the number must belong to a transfer, not to a task."""
        transfer = self.tasks[number]
        assert isinstance(transfer, LinkTransfer)
        return transfer

    def with_seconds(self, runs: Sequence[float]) -> WorkloadPlan:
        """Return a copy with other run times of tasks (finite, at least 0); entries for transfers are ignored."""
        seconds = [*runs, *self.seconds[self.count :]]
        for number in self.streams:
            seconds[number] = self.seconds[number]
        return replace(self, seconds=seconds)

    def with_callers(self, resource: int) -> set[int]:
        """Return the numbers of a resource and, for cores, of the calling threads that use them."""
        callers = (n for n, it in enumerate(self.resources) if isinstance(it, CallingThread) and it.cores == resource)
        return {resource, *callers}

    def with_free_resource(self, resource: int) -> WorkloadPlan:
        """Return a copy in which the tasks of a resource take no time; for cores, neither their launches nor their callers."""
        used = self.with_callers(resource)
        free = [0.0 if place in used else s for place, s in zip(self.places, self.seconds, strict=True)]
        return replace(self, seconds=free).with_seconds(free[: self.count])

    def with_free_tasks(self, numbers: Sequence[int]) -> WorkloadPlan:
        """Return a copy in which these tasks and their launches take no time."""
        seconds, count = self.seconds.copy(), self.count
        has_launches = len(seconds) > count
        for number in numbers:
            seconds[number] = 0.0
            if has_launches:
                seconds[number + count] = 0.0
        return replace(self, seconds=seconds)

    def with_free_link(self, number: int) -> WorkloadPlan:
        """Return a copy in which a link has infinite bandwidth and no latency."""
        links = list(self.links)
        links[number] = Link(links[number].name, math.inf)
        found = replace(self, links=links, seconds=self.seconds.copy(), places=self.places.copy())
        found.settle_transfers()
        return found

    def settle_transfers(self) -> None:
        """Compute the times of transfers that never share a link. If such a transfer has one stream, it becomes a task of the
        stream.

        A link is never shared if all its transfers use a common stream.
        """
        ways = {(self.transfer(number).route, streams) for number, streams in self.streams.items()}
        guards: dict[int, set[int]] = {}
        for route, streams in ways:
            for link in route:
                if self.links[link].bandwidth < math.inf:
                    guards[link] = guards.get(link, set(streams)) & set(streams)
        alone = {
            way: (route_latency(way[0], self.links), byte_seconds(way[0], self.links))
            for way in ways
            if all(guards.get(link, True) for link in way[0])
        }
        places, seconds = self.places, self.seconds
        for number, streams in self.streams.items():
            transfer = self.transfer(number)
            figures = alone.get((transfer.route, streams))
            seconds[number] = SHARED if figures is None else figures[0] + transfer.bytes * figures[1]
            if figures is None or len(streams) > 1:
                places[number] = SENT
            else:
                places[number] = streams[0] if streams else NOWHERE


def make_plan(
    tasks: Sequence[Task | LinkTransfer], resources: Sequence[Resource] = (), links: Sequence[Link] = ()
) -> WorkloadPlan:
    """Compile a workload.  Raises InvalidArgumentError for invalid figures and cyclic tasks."""
    check_links(links)
    hosts = [_checked_host(number, resources) for number in range(len(resources))]
    # the negative places NOWHERE and SENT have no host
    hosts += [NOWHERE, NOWHERE]
    count = len(tasks)
    phases = count * 2 if max(hosts) != NOWHERE else count
    places, seconds, asked = [NOWHERE] * phases, [0.0] * phases, [1] * phases
    most_asked = [1] * len(resources)
    streams: dict[int, tuple[int, ...]] = {}
    for number, task in enumerate(tasks):
        if isinstance(task, LinkTransfer):
            check_bytes(number, task.bytes)
            check_route(number, task.route, links)
            streams[number] = _streams(number, task, resources)
            continue
        _check_task(number, task, resources)
        takes, place, _, launch, cores = task
        places[number], seconds[number] = place, takes
        if hosts[place] != NOWHERE:
            places[number + count], seconds[number + count] = hosts[place], launch
        elif cores > 1 and place != NOWHERE:
            asked[number] = cores
            most_asked[place] = max(cores, most_asked[place])
    consumers, missing, in_order = _waits(tasks, places, hosts, phases)
    order = None if in_order else _order(tasks)
    plan = WorkloadPlan(
        tasks=tasks,
        resources=resources,
        links=links,
        hosts=hosts,
        places=places,
        seconds=seconds,
        asked=asked,
        most_asked=most_asked,
        streams=streams,
        consumers=consumers,
        missing=missing,
        order=order,
    )
    plan.settle_transfers()
    return plan


def _check_task(number: int, task: Task, resources: Sequence[Resource]) -> None:
    """Raise InvalidArgumentError for invalid figures."""
    takes, place, _, launch, cores = task
    if not (0 <= takes < math.inf and 0 <= launch < math.inf):
        raise InvalidArgumentError(f"task {number} takes {takes} s and {launch} s to launch: both must be finite, 0 or more")
    if not NOWHERE <= place < len(resources):
        raise InvalidArgumentError(f"task {number} is on resource {place}: there are {len(resources)}, numbered from 0")
    if cores < 1:
        raise InvalidArgumentError(f"task {number} asks for {cores} cores: it must be 1 or more")


def _waits(
    tasks: Sequence[Task | LinkTransfer], places: Sequence[int], hosts: Sequence[int], phases: int
) -> tuple[list[list[int]], list[int], bool]:
    """Return the phases that wait for each phase, the number of phases that each waits for, and whether every phase waits
    only for tasks with smaller numbers.

    If a task has a launch, the launch waits for the inputs; for inputs on the same stream, it waits only for their launches.
    """
    count, in_order = len(tasks), True
    consumers: list[list[int]] = [[] for _ in range(phases)]
    missing = [0] * phases
    for number, task in enumerate(tasks):
        inputs = task.inputs
        place = places[number]
        is_launched = hosts[place] != NOWHERE
        first = number + count if is_launched else number
        missing[first] = len(inputs)
        for source in inputs:
            if not 0 <= source < number:
                if not 0 <= source < count:
                    raise InvalidArgumentError(
                        f"task {number} has the input {source}: there are {count} tasks, numbered from 0"
                    )
                in_order = False
            consumers[source + count if is_launched and places[source] == place else source].append(first)
    return consumers, missing, in_order


def _streams(number: int, transfer: LinkTransfer, resources: Sequence[Resource]) -> tuple[int, ...]:
    for stream in transfer.streams:
        resource = resources[stream] if 0 <= stream < len(resources) else None
        if not isinstance(resource, SerialStream) or resource.host is not None:
            raise InvalidArgumentError(f"transfer {number} takes resource {stream}, which is not a stream without a host")
    return tuple(dict.fromkeys(transfer.streams))


def _checked_host(number: int, resources: Sequence[Resource]) -> int:
    """Return the number of the `Cores` that launch a resource's tasks; NOWHERE if there are none.

    Raises InvalidArgumentError if the figures or the host of the resource are invalid.
    """
    resource = resources[number]
    if isinstance(resource, Cores):
        if resource.cores < 1 or resource.threads < 1:
            raise InvalidArgumentError(
                f"{resource.name!r} has {resource.cores} cores and {resource.threads} threads: both must be 1 or more"
            )
        return NOWHERE
    needed = resource.host if isinstance(resource, SerialStream) else resource.cores
    if needed is not None and not (0 <= needed < len(resources) and isinstance(resources[needed], Cores)):
        does = "is launched by" if isinstance(resource, SerialStream) else "runs on"
        raise InvalidArgumentError(f"{resource.name!r} {does} resource {needed}, which has no cores")
    return host_of(resource)


def _order(tasks: Sequence[Task | LinkTransfer]) -> list[int]:
    """Return all tasks in topological order.  Raises InvalidArgumentError if there is a cycle."""
    missing = [len(task.inputs) for task in tasks]
    consumers: list[list[int]] = [[] for _ in tasks]
    for number, task in enumerate(tasks):
        for source in task.inputs:
            consumers[source].append(number)
    found = [number for number, waits in enumerate(missing) if not waits]
    for number in found:
        for consumer in consumers[number]:
            missing[consumer] -= 1
            if not missing[consumer]:
                found.append(consumer)
    if len(found) < len(tasks):
        raise InvalidArgumentError(_circle(tasks, {number for number, waits in enumerate(missing) if waits}))
    return found


def _circle(tasks: Sequence[Task | LinkTransfer], left: set[int]) -> str:
    """Describe a cycle of tasks that wait for each other."""
    number = min(left)
    path: dict[int, None] = {}
    while number not in path:
        path[number] = None
        number = next(source for source in tasks[number].inputs if source in left)
    circle = list(path)
    circle = [*circle[circle.index(number) :], number]
    shown = " -> ".join(map(str, circle[:CIRCLE_SHOWN])) + (" -> ..." if len(circle) > CIRCLE_SHOWN else "")
    return f"cycle of tasks: {shown}"
