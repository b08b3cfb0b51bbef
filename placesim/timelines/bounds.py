"""What no order could beat: limits below the time that a simulation can come to."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

from placesim.timelines.events import longest_path
from placesim.timelines.links import Link
from placesim.timelines.workload import NOWHERE, Cores, Resource, Task, Transfer, host_of


class Bounds(NamedTuple):
    """Seconds that all of it takes at the least, each for another reason, and the resource and the link that say so.

    `longest_path` has transfers free and a resource for each task; the numbers are NOWHERE where there is none.
    """

    longest_path: float
    busiest_seconds: float
    busiest_resource: int
    most_loaded_seconds: float
    most_loaded_link: int


def bounds(tasks: Sequence[Task | Transfer], resources: Sequence[Resource] = (), links: Sequence[Link] = ()) -> Bounds:
    """The bounds of what `simulate` has accepted."""
    carried = [0.0] * len(links)
    for task in tasks:
        if isinstance(task, Transfer):
            for link in task.route:
                carried[link] += task.bytes
    loads = [num_bytes / link.bandwidth for num_bytes, link in zip(carried, links, strict=True)]
    work = _work(tasks, resources, links)
    busiest, most_loaded = _largest(work), _largest(loads)
    return Bounds(
        longest_path=longest_path(tasks, resources),
        busiest_seconds=0.0 if busiest == NOWHERE else work[busiest],
        busiest_resource=busiest,
        most_loaded_seconds=0.0 if most_loaded == NOWHERE else loads[most_loaded],
        most_loaded_link=most_loaded,
    )


def _largest(figures: Sequence[float]) -> int:
    return max(range(len(figures)), key=figures.__getitem__, default=NOWHERE)


def _work(tasks: Sequence[Task | Transfer], resources: Sequence[Resource], links: Sequence[Link]) -> list[float]:
    """How long each resource takes if it never waits: cores as many threads and cores as they have, transfers each alone."""
    seconds = [0.0] * len(resources)
    core_seconds = [0.0] * len(resources)
    for task in tasks:
        if isinstance(task, Transfer):
            alone = math.fsum(links[link].latency for link in task.route)
            alone += max((task.bytes * task.route.count(link) / links[link].bandwidth for link in set(task.route)), default=0.0)
            for stream in set(task.streams):
                seconds[stream] += alone
        elif task.resource != NOWHERE:
            seconds[task.resource] += task.seconds
            core_seconds[task.resource] += task.seconds * task.cores
            host = host_of(resources[task.resource])
            if host != NOWHERE:
                seconds[host] += task.launch
                core_seconds[host] += task.launch
    return [
        max(all_of_it / resource.threads, on_one / resource.cores) if isinstance(resource, Cores) else all_of_it
        for all_of_it, on_one, resource in zip(seconds, core_seconds, resources, strict=True)
    ]
