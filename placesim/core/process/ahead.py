"""Values that a second processor computes ahead, in a copy of this process, while this process uses the values before them."""

from __future__ import annotations

import gc
import marshal
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from itertools import islice
from threading import current_thread, main_thread
from typing import Any, BinaryIO

from placesim.core.operating_system import FORKS, available_processors, end_fork, start_fork
from placesim.core.process.interrupts import is_own_process

_LENGTH_BYTES = 8


def can_compute_ahead() -> bool:
    """Whether a copy of this process can compute values: only for the main thread of a command, which nobody else relies on."""
    is_alone = is_own_process() and current_thread() is main_thread()
    return FORKS and is_alone and available_processors() > 1


@contextmanager
def computed_ahead(values: Iterator[Any]) -> Iterator[Iterator[Any]]:
    """Return an iterator over values that a copy of this process computes, for use in the block.

    The values consist of Python's plain types. `values` must not depend on changes during the block: if there is no copy, or if
    it ends too early, this process computes them.
    """
    try:
        process, pipe = start_fork(lambda pipe: _write(values, pipe))
    except OSError:
        yield values
        return
    try:
        with pipe:
            yield _received(values, pipe)
    finally:
        end_fork(process)


def _write(values: Iterator[Any], pipe: BinaryIO) -> None:
    gc.disable()
    for value in values:
        content = marshal.dumps(value)
        pipe.write(len(content).to_bytes(_LENGTH_BYTES, "little"))
        pipe.write(content)
        pipe.flush()
    pipe.write(bytes(_LENGTH_BYTES))  # a value is never empty


def _received(values: Iterator[Any], pipe: BinaryIO) -> Iterator[Any]:
    count = 0
    with suppress(EOFError):
        while True:
            length = pipe.read(_LENGTH_BYTES)
            if len(length) == _LENGTH_BYTES and not any(length):
                return
            content = pipe.read(int.from_bytes(length, "little"))
            value = marshal.loads(content)
            yield value
            count += 1
    yield from islice(values, count, None)
