"""Workload description, as values: tasks, transfers, streams and cores.

Tasks and transfers stand in one sequence, and resources in another: a number is a place in it, from 0 on.
"""

from __future__ import annotations

from typing import NamedTuple

NOWHERE = -1
"""The resource of a task that needs none, and what is waited for where nothing is."""


class SerialStream(NamedTuple):
    """Runs one thing at a time, in the order in which it is given them.

    With a `host`, the number of a `Cores`, its tasks are launched there: a launch needs a thread and a core for as long as the
    task says, and then the task joins the stream.  A launch waits for the task's inputs, but those on the same stream need only
    be launched before it, since the stream keeps that order.
    """

    name: str
    host: int | None = None


class Cores(NamedTuple):
    """Cores that tasks share, at most `threads` of them at once; where the tasks ask for more cores than there are, all slow
    down in proportion."""

    name: str
    cores: int
    threads: int


Resource = SerialStream | Cores


def host_of(resource: Resource) -> int:
    """The cores that launch what runs on a resource, NOWHERE where nothing is launched."""
    return NOWHERE if isinstance(resource, Cores) or resource.host is None else resource.host


class Task(NamedTuple):
    """Work that takes so many seconds on its resource, by number, when every input, a task or a transfer by number, has ended.

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
