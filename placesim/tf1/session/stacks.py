"""The default session of a thread."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any, Protocol, TypeAlias, TypeVar

FeedDict: TypeAlias = Mapping[Any, Any]
"""Values of tensors or tensor-like objects for a step."""


class RunningSession(Protocol):
    """The part of a session that `Tensor.eval` and `Operation.run` use."""

    @property
    def graph(self) -> Any:
        """Graph of the session."""

    def run(self, fetches: object, feed_dict: FeedDict | None = None) -> Any:
        """Values of fetches."""


_Session = TypeVar("_Session", bound=RunningSession)


class _Stack(threading.local):
    def __init__(self) -> None:
        self.sessions: list[RunningSession] = []


_stack = _Stack()


def get_default_session() -> Any:
    """Innermost default session of this thread; None if there is none."""
    return _stack.sessions[-1] if _stack.sessions else None


@contextmanager
def default_session(session: _Session, enforces_nesting: bool = True) -> Iterator[_Session]:
    """Make a session the default in this block."""
    sessions = _stack.sessions
    sessions.append(session)
    try:
        yield session
    finally:
        if sessions and sessions[-1] is session:
            sessions.pop()
        elif enforces_nesting:
            raise AssertionError(f"Nesting violated for default stack of {type(session)} objects")
        elif session in sessions:
            sessions.remove(session)
