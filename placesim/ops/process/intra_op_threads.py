"""Threads inside one op (11.2): a kernel divides its work into parts, and the op's threads share them.

While a step runs, numpy's linear algebra uses one thread. Its own threads would wait actively on the processors that the parts
need. Also, results could depend on their number, and a product's parts must not.
"""

from __future__ import annotations

import ctypes
import os
import sys
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from contextvars import ContextVar, copy_context
from functools import lru_cache, partial
from queue import SimpleQueue
from threading import Lock, Thread, local
from typing import Any, TypeVar
from weakref import finalize

from placesim.ops.process.denormals import flush_denormals

Part = TypeVar("Part")
Job = Callable[[], object]


class IntraOpPool:
    """Threads for one op: the calling one, and helpers that start on first use.

    Many ops take a few tenths of a millisecond, of which futures would take 20 to 50 us; so none are used.
    """

    def __init__(self, threads: int) -> None:
        self.threads = max(1, threads)
        self._asked: SimpleQueue[Job | None] = SimpleQueue()
        self._helpers: list[int] = []
        self._processors: set[int] = set()
        self._starting = Lock()
        self._end = finalize(self, _end_helpers, self._asked, self.threads - 1)

    def close(self) -> None:
        """End all threads after their current work."""
        self._end()

    @contextmanager
    def serving(self) -> Iterator[None]:
        """Return a context in which ops spread their work over this pool."""
        with _one_blas_thread:
            token = _serving.set(self)
            try:
                yield
            finally:
                _serving.reset(token)

    def spread(self, work: Callable[[Part], object], parts: Sequence[Part]) -> None:
        """Call `work(part)` for each part, here and in free helpers; after all have ended, re-raise an exception of one."""
        remaining = iter(parts)  # each thread takes the next one
        # emptied at the end: a helper that comes too late would else hold the work's tensors until it has looked
        shared = [work]
        helpers = min(self.threads, len(parts)) - 1
        free = [True] * helpers  # a helper takes one of them, which no two threads can, or finds that it is too late
        ended: SimpleQueue[BaseException | None] = SimpleQueue()

        def help_out() -> None:
            if not _take(free):
                return
            try:
                take_parts()
            except BaseException as error:
                ended.put(error)
            else:
                ended.put(None)

        def take_parts() -> None:
            try:
                for part in remaining:
                    shared[0](part)
            except BaseException:
                deque(remaining, maxlen=0)  # nobody takes another one
                raise

        if helpers:
            self._start(helpers)
            self._move_away()
        for _ in range(helpers):
            self._asked.put(partial(copy_context().run, help_out))
        try:
            take_parts()
        finally:
            while _take(free):
                helpers -= 1
            errors = [ended.get() for _ in range(helpers)]
            shared.clear()
        error = next(filter(None, errors), None)
        if error is not None:
            try:
                raise error
            finally:
                del error, errors  # else the error would hold the frame that holds it

    def _start(self, helpers: int) -> None:
        if len(self._helpers) < helpers:
            with self._starting:
                while len(self._helpers) < helpers:
                    # it knows the queue alone: a pool that nobody holds any more ends its threads
                    name = f"placesim-intra-op_{len(self._helpers)}"
                    helper = Thread(target=_help, args=(self._asked,), name=name, daemon=True)
                    helper.start()
                    self._helpers.append(helper.native_id or -1)
                self._processors = set()

    def _move_away(self) -> None:
        """Let helpers use all processors but the one of this thread.

        Some schedulers, as on virtual machines, would otherwise start them on this thread's processor, and move them only after
        the op has ended. This only affects speed, so a system that forbids it is no error.
        """
        current = _current_processor()
        if current is None or _this_thread.__dict__.get("helps"):
            return
        here = current()
        if self._processors and here not in self._processors:
            return
        self._processors = os.sched_getaffinity(0) - {here}
        for helper in self._helpers if self._processors else ():
            with suppress(OSError):
                os.sched_setaffinity(helper, self._processors)


def _help(asked: SimpleQueue[Job | None]) -> None:
    _this_thread.helps = True
    flush_denormals()
    while (job := asked.get()) is not None:
        job()
        del job  # with all that it holds, before the next one is waited for


def _end_helpers(asked: SimpleQueue[Job | None], count: int) -> None:
    for _ in range(count):
        asked.put(None)


def _take(free: list[bool]) -> bool:
    try:
        return free.pop()
    except IndexError:
        return False


_serving: ContextVar[IntraOpPool | None] = ContextVar("serving", default=None)


def spread(work: Callable[[Part], object], parts: Sequence[Part]) -> None:
    """Call `work(part)` for each part in the threads of the running op; in this thread if no step runs.

    The parts run in any order and at the same time, so each must write to its own place; `scratch` buffers belong to a thread.
    """
    pool = _serving.get()
    if pool is not None and len(parts) > 1:
        pool.spread(work, parts)
    else:
        for part in parts:
            work(part)


_this_thread = local()


@lru_cache(maxsize=1)
def _current_processor() -> Callable[[], int] | None:
    return getattr(ctypes.PyDLL(None), "sched_getcpu", None) if hasattr(os, "sched_setaffinity") else None


class _OneBlasThread:
    """A context for any number of steps at once; BLAS gets its threads back when the last one ends."""

    def __init__(self) -> None:
        self._lock = Lock()
        self._steps = 0
        self._limits: Any = None

    def __enter__(self) -> None:
        with self._lock:
            if not self._steps:
                self._limits = _blas().limit(limits=1, user_api="blas")
            self._steps += 1

    def __exit__(self, *_: object) -> None:
        with self._lock:
            self._steps -= 1
            if not self._steps:
                self._limits.restore_original_limits()


_one_blas_thread = _OneBlasThread()


def _blas() -> Any:
    # either of these loads scipy's own BLAS
    return _blas_of(not sys.modules.keys().isdisjoint(("scipy.linalg", "scipy.special")))


def blas_text() -> str:
    """Return the name of numpy's matrix library, its version and its kernels for this processor."""
    found: dict[str, Any] = next((entry for entry in _blas().info() if entry["user_api"] == "blas"), {})
    return " ".join(str(found[key]) for key in ("internal_api", "version", "architecture") if found.get(key)) or "none"


@lru_cache(maxsize=2)
def _blas_of(has_scipy: bool) -> Any:
    from threadpoolctl import ThreadpoolController  # type: ignore[import-untyped]  # it ships no types

    return ThreadpoolController()
