"""Output of ops that print: to this process's own streams, or to an observer."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar

Taker = Callable[[bool, str], None]
"""A function `(is_output, text)`; the flag is true for standard output and false for standard error."""
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
    """Return a context that passes the output of its ops to `taker`."""
    token = _taker.set(taker)
    try:
        yield
    finally:
        _taker.reset(token)
