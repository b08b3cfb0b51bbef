"""Output of ops that print: this process's own streams, or an observer."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar

Taker = Callable[[bool, str], None]
"""Is given whether it is for standard output, else for standard error, and the text."""
_taker: ContextVar[Taker | None] = ContextVar("taker", default=None)


def write(text: str, *, is_output: bool = False) -> None:
    """Write a text unchanged to standard output or standard error."""
    taker = _taker.get()
    if taker is None:
        print(text, end="", file=sys.stdout if is_output else sys.stderr)
    else:
        taker(is_output, text)


@contextmanager
def redirect_console(taker: Taker) -> Iterator[None]:
    """Context that redirects the output of its ops."""
    token = _taker.set(taker)
    try:
        yield
    finally:
        _taker.reset(token)
