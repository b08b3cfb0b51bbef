"""Results of a simulation, as values: times of tasks, their waits, and the use of resources."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum
from typing import NamedTuple

from placesim.machine.timelines.bandwidth_sharing import Traffic
from placesim.machine.timelines.workload import NOWHERE, LinkTransfer, Task


class ResourceUsage(NamedTuple):
    """For how many seconds a resource ran at least one thing, and how many seconds of one core that made."""

    busy_seconds: float
    core_seconds: float


@dataclass(frozen=True, slots=True)
class WorkloadTimeline:
    """Start and end of each task and transfer, by number.

    `starts` and `ends` are those of the run; `launch_starts` and `launch_ends` those of the launch, which are the start of the
    run if there is none, and empty if no task has one.  `usage` has a row for each resource, `traffic` one for each link.
    `waited_for` says what let it begin, as a phase: a task's number for its run, the number of all tasks more for its launch,
    NOWHERE where it waited for nothing; first for all runs, then, where there are launches, for those.
    """

    seconds: float
    starts: tuple[float, ...]
    ends: tuple[float, ...]
    launch_starts: tuple[float, ...]
    launch_ends: tuple[float, ...]
    usage: tuple[ResourceUsage, ...]
    traffic: tuple[Traffic, ...]
    waited_for: tuple[int, ...]


class Wait(Enum):
    """Reason for the start time of something."""

    NOTHING = "nothing"
    INPUT = "input"
    LAUNCH = "launch"
    TURN = "turn"


class PathStep(NamedTuple):
    """Segment of the critical path: the run or launch of a task, and its reason for waiting, which is the segment before."""

    task: int
    is_launch: bool
    start: float
    end: float
    wait: Wait


class TaskSlice(NamedTuple):
    """A task on a resource."""

    task: int
    resource: int
    start: float
    end: float


def critical_path(tasks: Sequence[Task | LinkTransfer], timeline: WorkloadTimeline) -> tuple[PathStep, ...]:
    """From the beginning to the last end (of several, the smallest number's) without a gap; each step ends as the next begins.

    A step waited for an input, for its own launch, or for its turn, which the end of the step before gave it: on the same
    stream, or on the same cores.
    """
    count = len(tasks)
    if not count:
        return ()
    phase = timeline.ends.index(timeline.seconds)
    steps = []
    while phase != NOWHERE:
        before = timeline.waited_for[phase]
        task = phase % count
        is_launch = phase >= count
        if before == NOWHERE:
            wait = Wait.NOTHING
        elif before == task + count:
            wait = Wait.LAUNCH
        else:
            wait = Wait.INPUT if before % count in tasks[task].inputs else Wait.TURN
        starts, ends = (timeline.launch_starts, timeline.launch_ends) if is_launch else (timeline.starts, timeline.ends)
        steps.append(PathStep(task, is_launch, starts[task], ends[task], wait))
        phase = before
    return tuple(reversed(steps))


def slices(tasks: Sequence[Task | LinkTransfer], timeline: WorkloadTimeline) -> tuple[TaskSlice, ...]:
    """Task slices on streams and cores, by resource and start; a transfer once for each of its streams, without launches."""
    found = []
    for number, (task, start, end) in enumerate(zip(tasks, timeline.starts, timeline.ends, strict=True)):
        on = (task.resource,) if isinstance(task, Task) else tuple(dict.fromkeys(task.streams))
        found += [TaskSlice(number, resource, start, end) for resource in on if resource != NOWHERE]
    return tuple(sorted(found, key=lambda it: (it.resource, it.start, it.end, it.task)))
