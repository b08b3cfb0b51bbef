"""Lower bounds of the simulated duration of a workload that hold for every order of its tasks."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from placesim.core.process.gc_pause import collector_paused
from placesim.machine.timelines.bandwidth_sharing import Link, byte_seconds, route_latency
from placesim.machine.timelines.compiled_workload import SENT, WorkloadPlan, make_plan
from placesim.machine.timelines.workload import NOWHERE, Cores, LinkTransfer, Resource, Task


class Bounds(NamedTuple):
    """Lower bounds in seconds, each for a different reason, with the resource and the link that cause them.

    `longest_path` ignores transfers and waiting for resources.  `busiest_resource` and `most_loaded_link` are numbers, or
    NOWHERE if there is none.
    """

    longest_path: float
    busiest_seconds: float
    busiest_resource: int
    most_loaded_seconds: float
    most_loaded_link: int


def bounds(tasks: Sequence[Task | LinkTransfer], resources: Sequence[Resource] = (), links: Sequence[Link] = ()) -> Bounds:
    """Return lower bounds for a workload.  The arguments and errors are those of `simulate`."""
    with collector_paused():
        return plan_bounds(make_plan(tasks, resources, links))


def plan_bounds(plan: WorkloadPlan) -> Bounds:
    """Return the lower bounds for a plan."""
    loads = link_seconds(plan)
    work = resource_seconds(plan)
    busiest, most_loaded = _largest(work), _largest(loads)
    return Bounds(
        longest_path=path_seconds(plan),
        busiest_seconds=0.0 if busiest == NOWHERE else work[busiest],
        busiest_resource=busiest,
        most_loaded_seconds=0.0 if most_loaded == NOWHERE else loads[most_loaded],
        most_loaded_link=most_loaded,
    )


def _largest(figures: Sequence[float]) -> int:
    return max(range(len(figures)), key=figures.__getitem__, default=NOWHERE)


def path_seconds(plan: WorkloadPlan) -> float:
    """Return the seconds of the longest path through a plan whose transfers take no time.

    The launch of a task waits for the launches of its inputs on the same stream, and its run waits for their runs.
    """
    count, hosts, places, seconds = plan.count, plan.hosts, plan.places, plan.seconds
    ends = [0.0] * count
    launch_ends = [0.0] * count
    for number in plan.order or range(count):
        place = places[number]
        begin = run = 0.0
        if hosts[place] == NOWHERE:
            for source in plan.tasks[number].inputs:
                if ends[source] > begin:
                    begin = ends[source]
        else:
            for source in plan.tasks[number].inputs:
                if places[source] == place:
                    begin = max(begin, launch_ends[source])
                    run = max(run, ends[source])
                elif ends[source] > begin:
                    begin = ends[source]
            launch_ends[number] = begin = begin + seconds[number + count]
            begin = max(begin, run)
        ends[number] = begin if number in plan.streams else begin + seconds[number]
    return max(ends, default=0.0)


def link_seconds(plan: WorkloadPlan) -> list[float]:
    """Return the seconds that each link needs for its bytes without waiting."""
    carried = [0.0] * len(plan.links)
    for number in plan.streams:
        transfer = plan.transfer(number)
        for link in transfer.route:
            carried[link] += transfer.bytes
    return [num_bytes / link.bandwidth for num_bytes, link in zip(carried, plan.links, strict=True)]


def resource_seconds(plan: WorkloadPlan) -> list[float]:
    """Return the seconds that each resource is busy without waiting, with all threads in use and each transfer alone."""
    seconds, core_seconds = plan.work()
    figures = {route: (route_latency(route, plan.links), byte_seconds(route, plan.links)) for route in plan.routes()}
    for number, streams in plan.streams.items():
        if plan.places[number] == SENT:
            num_bytes, route, _, _ = plan.transfer(number)
            latency, for_a_byte = figures[route]
            for stream in streams:
                seconds[stream] += latency + num_bytes * for_a_byte
    return [
        max(all_of_it / resource.threads, on_one / resource.cores) if isinstance(resource, Cores) else all_of_it
        for all_of_it, on_one, resource in zip(seconds, core_seconds, plan.resources, strict=True)
    ]
