"""Threads inside one op (11.2): a kernel divides its work into parts, and the op's threads share them.

While a step runs, numpy's linear algebra uses one thread. Its own threads would wait actively on the processors that the parts
need. Also, the results would depend on the number of threads.
"""

from __future__ import annotations

import ctypes
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

from placesim.core.operating_system import assign_thread, has_glibc, thread_processors
from placesim.ops.process.denormals import flush_denormals

Part = TypeVar("Part")
Job = Callable[[], object]


class IntraOpPool:
    """Threads for one op: the calling thread, and helper threads that start on first use.

    The pool uses no futures. They would take 20 to 50 us, while many ops take only a few tenths of a millisecond.
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
        """Call `work(part)` for each part, in this thread and in free helpers. Wait for all, and re-raise an exception.

        This thread takes the first parts and helpers the last, so that a part's data are in the cache where the op before left
        them.
        """
        remaining = deque(parts)
        # cleared at the end, so that a helper that starts too late does not keep the work's tensors alive
        shared = [work]
        helpers = min(self.threads, len(parts)) - 1
        free = [True] * helpers  # permissions to help: each helper takes one, or starts too late and finds none
        ended: SimpleQueue[BaseException | None] = SimpleQueue()

        def help_out() -> None:
            if not _take(free):
                return
            try:
                take_parts(remaining.pop)
            except BaseException as error:
                ended.put(error)
            else:
                ended.put(None)

        def take_parts(take: Callable[[], Part]) -> None:
            try:
                while True:
                    try:
                        part = take()
                    except IndexError:
                        return
                    shared[0](part)
            except BaseException:
                remaining.clear()  # so that no thread takes another part
                raise

        if helpers:
            self._start(helpers)
            self._move_away()
        for _ in range(helpers):
            self._asked.put(partial(copy_context().run, help_out))
        try:
            take_parts(remaining.popleft)
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
                del error, errors  # avoids a reference cycle of the error and this frame

    def _start(self, helpers: int) -> None:
        if len(self._helpers) < helpers:
            with self._starting:
                while len(self._helpers) < helpers:
                    # the helper refers only to the queue, so that an unreferenced pool is finalized and ends its threads
                    name = f"placesim-intra-op_{len(self._helpers)}"
                    helper = Thread(target=_help, args=(self._asked,), name=name, daemon=True)
                    helper.start()
                    self._helpers.append(helper.native_id or -1)
                self._processors = set()

    def _move_away(self) -> None:
        """Let helpers use all processors except that of this thread.

        Some schedulers, for instance on virtual machines, would otherwise start helpers on this thread's processor, and move
        them only after the op has ended. This affects only speed, so a system that forbids it is not an error.
        """
        current = _current_processor()
        if current is None or _this_thread.__dict__.get("helps"):
            return
        here = current()
        if self._processors and here not in self._processors:
            return
        self._processors = thread_processors() - {here}
        for helper in self._helpers if self._processors else ():
            with suppress(OSError):
                assign_thread(helper, self._processors)


def _help(asked: SimpleQueue[Job | None]) -> None:
    _this_thread.helps = True
    flush_denormals()
    while (job := asked.get()) is not None:
        job()
        del job  # releases its tensors before waiting for the next job


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
    """Call `work(part)` for each part in the threads of the running op, or in this thread if no step runs.

    The parts run in any order and concurrently, so each must write to separate memory; `scratch` buffers belong to a thread.
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
    return getattr(ctypes.PyDLL(None), "sched_getcpu", None) if has_glibc() else None


class _OneBlasThread:
    """A context in which BLAS uses one thread. It may hold several steps; when the last ends, BLAS gets its threads back."""

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
    # importing either of these modules loads scipy's own BLAS, so the libraries must be listed again
    return _blas_of(not sys.modules.keys().isdisjoint(("scipy.linalg", "scipy.special")))


def blas_text() -> str:
    """Return the name of numpy's matrix library, its version and its kernels for this processor."""
    found: dict[str, Any] = next((entry for entry in _blas().info() if entry["user_api"] == "blas"), {})
    return " ".join(str(found[key]) for key in ("internal_api", "version", "architecture") if found.get(key)) or "none"


@lru_cache(maxsize=2)
def _blas_of(has_scipy: bool) -> Any:
    from threadpoolctl import ThreadpoolController  # type: ignore[import-untyped]  # it ships no types

    return ThreadpoolController()
