"""Results of a simulation, as values: times of tasks, their waits, and the use of resources."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum
from typing import NamedTuple

from placesim.machine.timelines.bandwidth_sharing import Traffic
from placesim.machine.timelines.workload import NOWHERE, LinkTransfer, Task


class ResourceUsage(NamedTuple):
    """The seconds in which a resource ran at least one task, and the core-seconds that its tasks used."""

    busy_seconds: float
    core_seconds: float


@dataclass(frozen=True, slots=True)
class WorkloadTimeline:
    """Start and end of each task and transfer, by number.

    - `starts`, `ends`: the times of the runs.
    - `launch_starts`, `launch_ends`: the times of the launches; for a task without a launch, both are the start of its
      run. Both lists are empty if no task has a launch.
    - `usage` has a row for each resource, `traffic` one for each link.
    - `waited_for`: for each phase, the phase whose end let it begin, or NOWHERE.  Runs come first, then launches if there are
      any.  A run has the number of its task, and a launch that number plus the number of all tasks.
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
    """Reason why a phase began at its time and not earlier."""

    NOTHING = "nothing"
    INPUT = "input"
    LAUNCH = "launch"
    TURN = "turn"


class PathStep(NamedTuple):
    """A segment of the critical path: the run or launch of a task, and the reason why it waited for the previous segment."""

    task: int
    is_launch: bool
    start: float
    end: float
    wait: Wait


class TaskSlice(NamedTuple):
    """The time that a task or transfer occupies a resource."""

    task: int
    resource: int
    start: float
    end: float


def critical_path(tasks: Sequence[Task | LinkTransfer], timeline: WorkloadTimeline) -> tuple[PathStep, ...]:
    """Return the chain of phases, without gaps, from the beginning to the end of the last phase. If several phases end last,
    the chain ends with the phase of the smallest number.

    Each phase waited for the end of the previous phase, which made an input, launched the phase, or freed its stream or cores.
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
    """Return the slices of tasks on streams and cores, without launches, sorted by resource and start.

    A transfer has a slice for each of its streams.
    """
    found = []
    for number, (task, start, end) in enumerate(zip(tasks, timeline.starts, timeline.ends, strict=True)):
        on = (task.resource,) if isinstance(task, Task) else tuple(dict.fromkeys(task.streams))
        found += [TaskSlice(number, resource, start, end) for resource in on if resource != NOWHERE]
    return tuple(sorted(found, key=lambda it: (it.resource, it.start, it.end, it.task)))
