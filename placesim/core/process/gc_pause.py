"""Fewer runs of Python's garbage collector: none during imports, while a graph is built, and for objects kept until exit."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager

from placesim.core.process.interrupts import is_own_process

FIRST_COLLECTION = 100_000
"""Number of objects before the first collection. The imports of a command make fewer, and nearly all of them stay."""
_kept: list[object] = []


def delay_first_collection() -> None:
    """Let the garbage collector start after `FIRST_COLLECTION` objects, and then work as usual."""
    usual = gc.get_threshold()

    def restore(phase: str, info: object) -> None:
        gc.callbacks.remove(restore)
        if gc.get_threshold()[0] == FIRST_COLLECTION:  # a script may have set its own
            gc.set_threshold(*usual)

    gc.callbacks.append(restore)
    gc.set_threshold(FIRST_COLLECTION, *usual[1:])


@contextmanager
def collector_paused() -> Iterator[None]:
    """Pause the garbage collector until the block ends; does nothing inside another such block."""
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            gc.enable()


def keep_until_exit(*objects: object) -> None:
    """Let the end of the process release objects, which is faster; does nothing if another program uses the package."""
    if is_own_process():
        _kept.extend(objects)
        gc.freeze()
