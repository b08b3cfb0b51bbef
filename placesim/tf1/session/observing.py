"""Who is told of sessions and their steps: the command line, which runs a script to learn what it builds."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    from placesim.tf1.session.sessions import BaseSession


class Observer(Protocol):
    """Is told of each session, and asked before each step."""

    def opened(self, session: BaseSession) -> None:
        """A session was made."""

    def before_step(self, session: BaseSession, elements: Sequence[Any], feeds: Mapping[Any, Any]) -> bool:
        """Whether to compute the step; else its operations count as run, and its tensors come to None."""

    def closed(self, session: BaseSession) -> None:
        """A session has ended."""


_observers: list[Observer] = []


def observe(observer: Observer) -> None:
    """Tell it from now on."""
    _observers.append(observer)


def opened(session: BaseSession) -> None:
    """Tell all of a session."""
    for observer in _observers:
        observer.opened(session)


def closed(session: BaseSession) -> None:
    """Tell all that a session has ended."""
    for observer in _observers:
        observer.closed(session)


def wants_step(session: BaseSession, elements: Sequence[Any], feeds: Mapping[Any, Any]) -> bool:
    """Whether all want a step computed."""
    return all([observer.before_step(session, elements, feeds) for observer in _observers])


def computes_steps() -> bool:
    """Whether steps are computed at all: not where a script only runs up to its first one.

    What waits for a step's values before it goes on (`Is everything initialised?`) must not wait then.
    """
    return not any(getattr(observer, "stops_at_first_step", False) for observer in _observers)
