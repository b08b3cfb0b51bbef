"""Description of a workload, as values: tasks, transfers, streams and cores.

Tasks and transfers are in one sequence, and resources in another; each is identified by its position there, from 0 on.
"""

from __future__ import annotations

from typing import NamedTuple

NOWHERE = -1
"""Marks a task without a resource, or a task that waited for nothing."""


class SerialStream(NamedTuple):
    """A stream, which runs one task at a time, in the order of submission.

    `host` is the number of the `Cores` that launch its tasks, if any.  A launch uses a thread and a core, and then the task
    joins the stream.  A launch waits for the task's inputs; for inputs on the same stream, it only waits for their launches,
    since the stream keeps the order.
    """

    name: str
    host: int | None = None


class Cores(NamedTuple):
    """Cores shared by at most `threads` tasks at once.

    If the tasks request more cores than exist, all slow down in proportion.
    """

    name: str
    cores: int
    threads: int


class CallingThread(NamedTuple):
    """A thread that runs one task at a time on the cores of another resource, beside the threads of that resource.

    `cores` is the number of these `Cores`.
    """

    name: str
    cores: int


Resource = SerialStream | Cores | CallingThread


def host_of(resource: Resource) -> int:
    """Return the index of the `Cores` that launch a resource's tasks, or NOWHERE if there are none."""
    return NOWHERE if not isinstance(resource, SerialStream) or resource.host is None else resource.host


class Task(NamedTuple):
    """Work of a duration in seconds on a resource; it starts when all inputs (tasks or transfers, by number) have ended.

    On `Cores`, it requests `cores` cores, and `seconds` is its duration if it gets all of them.  On a stream with a host,
    `launch` is the duration of the launch in seconds.
    """

    seconds: float
    resource: int = NOWHERE
    inputs: tuple[int, ...] = ()
    launch: float = 0.0
    cores: int = 1


class LinkTransfer(NamedTuple):
    """A transfer of bytes over links; it starts when its inputs have ended and its streams are free, all given by number.

    It occupies all its streams until it ends; none of them may have a host.
    """

    bytes: float
    route: tuple[int, ...] = ()
    inputs: tuple[int, ...] = ()
    streams: tuple[int, ...] = ()
