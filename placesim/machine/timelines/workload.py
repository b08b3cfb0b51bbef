"""Workload description, as values: tasks, transfers, streams and cores.

Tasks and transfers stand in one sequence, and resources in another: a number is a place in it, from 0 on.
"""

from __future__ import annotations

from typing import NamedTuple

NOWHERE = -1
"""Marks a task without a resource, or a task that waited for nothing."""


class SerialStream(NamedTuple):
    """Runs one task at a time, in the order of submission.

    With a `host`, the number of a `Cores`, its tasks are launched there: a launch needs a thread and a core for as long as the
    task says, and then the task joins the stream.  A launch waits for the task's inputs, but those on the same stream need only
    be launched before it, since the stream keeps that order.
    """

    name: str
    host: int | None = None


class Cores(NamedTuple):
    """Cores shared by at most `threads` tasks at once; if these request more cores than exist, all slow down in proportion."""

    name: str
    cores: int
    threads: int


Resource = SerialStream | Cores


def host_of(resource: Resource) -> int:
    """Cores that launch a resource's tasks, NOWHERE if there are none."""
    return NOWHERE if isinstance(resource, Cores) or resource.host is None else resource.host


class Task(NamedTuple):
    """Work of a duration in seconds on a resource, which starts when all inputs (tasks or transfers, by number) have ended.

    On `Cores` it asks for `cores` of them, and the seconds are those that it takes where it gets them; on a stream with a host,
    `launch` is how many seconds the launch takes.
    """

    seconds: float
    resource: int = NOWHERE
    inputs: tuple[int, ...] = ()
    launch: float = 0.0
    cores: int = 1


class LinkTransfer(NamedTuple):
    """Bytes over links, by number, once every input has ended and it is the transfer's turn on each of its streams, by number.

    It takes all of its streams at once, until it ends; none of them may have a host.
    """

    bytes: float
    route: tuple[int, ...] = ()
    inputs: tuple[int, ...] = ()
    streams: tuple[int, ...] = ()
