"""Time limits for work that does not check the clock: it runs in its own thread, which is interrupted.

Python code is interrupted at any point. Code that does not return to Python soon, such as a large matrix product, is abandoned:
its thread ends when the code returns, or with the process.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from contextlib import suppress
from contextvars import copy_context
from queue import SimpleQueue
from threading import Event, Thread
from typing import Any, Generic, TypeVar

from placesim.core.errors import DeadlineExceededError

Found = TypeVar("Found")

GRACE_SECONDS = 0.3
"""Time for interrupted work to clean up."""
TURN_SECONDS = 0.1
"""Time slice of a waiting thread; an interrupt is delivered between slices."""


class ThreadInterruption(SystemExit):
    """Exception raised in a thread to cancel its work. Kernels do not treat it as an error, and the thread ends quietly."""


class _Work(Generic[Found]):
    """A function to call once, and its result."""

    def __init__(self, work: Callable[[], Found]) -> None:
        self._work = work
        self._context = copy_context()
        self._found: Found
        self._error: BaseException | None = None
        self._ended = Event()

    def run(self) -> None:
        try:
            self._found = self._context.run(self._work)
        except BaseException as error:  # raised again in the waiting thread
            self._error = error
        self._ended.set()

    def wait(self, seconds: float, watch: Callable[[], object] = bool) -> bool:
        """Return whether the work ended within `seconds`; `watch` is called from time to time."""
        end = time.monotonic() + seconds
        while (left := end - time.monotonic()) > 0 and not self._ended.wait(min(left, TURN_SECONDS)):
            watch()
        return self._ended.is_set()

    def outcome(self) -> Found:
        if self._error is not None:
            raise self._error
        return self._found


class _Worker:
    """A thread that performs one task after another until it is interrupted."""

    def __init__(self) -> None:
        self._is_interrupted = False
        self._waiting: SimpleQueue[_Work[Any]] = SimpleQueue()
        self._thread = Thread(target=self._serve, name="placesim-limited", daemon=True)
        self._thread.start()

    def _serve(self) -> None:
        with suppress(ThreadInterruption):  # the interrupt may arrive just after the work has ended
            while not self._is_interrupted:
                self._waiting.get().run()

    @property
    def is_alive(self) -> bool:
        """Whether the thread exists. In a forked process, threads of the process that forked it do not."""
        return self._thread.is_alive()

    def start(self, work: _Work[Any]) -> None:
        self._waiting.put(work)

    def interrupt(self) -> None:
        """Raise `ThreadInterruption` in the thread as soon as it runs Python. The thread accepts no more work."""
        self._is_interrupted = True
        interrupt(self._thread)


def interrupt(thread: Thread) -> None:
    """Raise `ThreadInterruption` in a thread, as soon as it runs Python."""
    import ctypes

    ctypes.pythonapi.PyThreadState_SetAsyncExc(ctypes.c_ulong(thread.ident or 0), ctypes.py_object(ThreadInterruption))


_idle: list[_Worker] = []
_given_up = Event()


def has_abandoned_work() -> bool:
    """Whether this process abandoned any work, so that its threads may still be running."""
    return _given_up.is_set()


def run_within(seconds: float | None, work: Callable[[], Found], watch: Callable[[], object] | None = None) -> Found:
    """Return the result of `work`, and cancel the work after a time limit.

    `watch` is called from time to time, and may raise an exception to cancel the work. Without a limit or `watch`, the work
    runs in this thread. Raises DeadlineExceededError once the time has passed, and any exception of `work` or `watch`.
    """
    if seconds is None and watch is None:
        return work()
    worker = _idle_worker() or _Worker()
    started = _Work(work)
    try:
        worker.start(started)
        ended = started.wait(math.inf if seconds is None else seconds, watch or bool)
    except BaseException:  # an interrupt of this thread also interrupts the work
        _give_up(worker, started)
        raise
    if not ended:
        _give_up(worker, started)
        raise DeadlineExceededError("Timed out waiting for notification")
    _idle.append(worker)
    return started.outcome()


def _idle_worker() -> _Worker | None:
    while _idle:
        worker = _idle.pop()
        if worker.is_alive:
            return worker
    return None


def _give_up(worker: _Worker, work: _Work[Any]) -> None:
    """Interrupt the work repeatedly, since a callback may suppress the first exception."""
    _given_up.set()
    for _ in range(round(GRACE_SECONDS / TURN_SECONDS)):
        worker.interrupt()
        if work.wait(TURN_SECONDS):
            return
