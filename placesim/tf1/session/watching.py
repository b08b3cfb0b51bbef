"""Watchers of sessions and their steps, such as the command line, which runs a script to learn its graph."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Protocol

from placesim.tf1.session.stacks import RunningSession

if TYPE_CHECKING:
    from placesim.studies.simulation.program_sessions import OpenedMachine


class WatchedSession(RunningSession, Protocol):
    """A session, and the machine that it has opened."""

    _opened: OpenedMachine


class SessionWatcher(Protocol):
    """Observer of sessions, which may also veto steps."""

    computes: bool
    """Whether steps are computed.  If not, code must not wait for their values."""

    def opened(self, session: WatchedSession) -> None:
        """A session was made."""

    def wants_step(self, session: WatchedSession, elements: Sequence[Any], feeds: Mapping[Any, Any]) -> bool:
        """Whether to compute a step.  If not, its operations count as run, and its tensors are None."""

    def closed(self, session: WatchedSession) -> None:
        """A session has ended."""


_watchers: list[SessionWatcher] = []


def watch(watcher: SessionWatcher) -> None:
    """Register a watcher."""
    _watchers.append(watcher)


def opened(session: WatchedSession) -> None:
    """Inform all watchers of a new session."""
    for watcher in _watchers:
        watcher.opened(session)


def closed(session: WatchedSession) -> None:
    """Inform all watchers that a session has ended."""
    for watcher in _watchers:
        watcher.closed(session)


class _StepKinds(threading.local):
    internal = 0
    background = 0


_kinds = _StepKinds()


@contextmanager
def internal_steps() -> Iterator[None]:
    """Steps of this thread in the block are internal, not the script's: watchers are not informed of them."""
    _kinds.internal += 1
    try:
        yield
    finally:
        _kinds.internal -= 1


@contextmanager
def background_steps() -> Iterator[None]:
    """Steps of this thread in the block fill queues, and do not count as the script's first step."""
    _kinds.background += 1
    try:
        yield
    finally:
        _kinds.background -= 1


def is_background() -> bool:
    """Whether a step of this thread fills queues."""
    return _kinds.background > 0


def wants_step(session: WatchedSession, elements: Sequence[Any], feeds: Mapping[Any, Any]) -> bool:
    """Whether all watchers want the step computed."""
    if _kinds.internal:
        return computes_steps()
    wishes = [watcher.wants_step(session, elements, feeds) for watcher in _watchers]  # each is asked
    return all(wishes)


def computes_steps() -> bool:
    """Whether steps are computed; not if a script runs only up to its first step."""
    return all(watcher.computes for watcher in _watchers)
