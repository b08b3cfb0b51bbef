"""Lock for the steps of a session: one step computes at a time, and a step that waits lets others run.

TensorFlow runs the steps of several threads concurrently, so that an op may wait until another step fills a queue.
"""

from __future__ import annotations

import threading
from types import TracebackType

from placesim.core.errors import CancelledError

_WAIT_SECONDS = 0.05
"""Maximum seconds that a waiting step sleeps, since its condition may change without another step."""
_OWN_THREADS = ("placesim", "Dask-", "IO loop", "Profile", "TCP-Executor", "AsyncProcess", "QueueFeederThread")
"""Prefixes of the names of threads that start no steps: threads of placesim, Dask and multiprocessing."""


class Turns:
    """A lock that a step holds while it computes. Sessions that share resources share its `condition`."""

    def __init__(self, condition: threading.Condition | None = None) -> None:
        # reentrant: a Python function in a graph may run another step of its session
        self._condition = threading.Condition(threading.RLock()) if condition is None else condition
        self._closed = False
        self._is_given_up = False
        self.running = 0
        """Number of steps that have begun and not ended, including steps that wait."""
        self.waiting_node = ""
        """Name of the node whose step sleeps because nothing else can run; empty if there is none."""

    def __enter__(self) -> None:
        self._condition.acquire()
        self.running += 1

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.running -= 1
        self._condition.notify_all()
        self._condition.release()

    def give_up(self) -> None:
        """Note that the caller no longer waits for a running step: `close` will not wait for the end of the step."""
        self._is_given_up = True

    def close(self) -> None:
        """Wait for the end of the running step, unless `give_up` was called, and then cancel the waiting steps."""
        self._closed = True
        if self._condition.acquire(blocking=not self._is_given_up):
            self._condition.notify_all()
            self._condition.release()

    def let_others(self, node: str) -> bool:
        """Let the steps of other threads run for a moment; return False if no other thread could start one.

        `node` is the name of the waiting node, and stays the `waiting_node` if the step is interrupted. Raises CancelledError
        if the session has been closed.
        """
        if not other_threads_may_run_steps():
            return False
        self._condition.notify_all()
        self.waiting_node = node
        self._condition.wait(_WAIT_SECONDS)
        self.waiting_node = ""
        if self._closed:
            raise CancelledError("Run call was cancelled")
        return True


def other_threads_may_run_steps() -> bool:
    """Whether this process has another thread that could start a step."""
    return any(_may_run_steps(thread) for thread in threading.enumerate())


def _may_run_steps(thread: threading.Thread) -> bool:
    return thread is not threading.current_thread() and not thread.name.startswith(_OWN_THREADS)
