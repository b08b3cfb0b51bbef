"""A lock for the steps of a session: one step computes at a time, and a waiting one lets others run.

TensorFlow runs the steps of several threads concurrently, and an op that waits for a queue waits for the other steps.
"""

from __future__ import annotations

import threading
from types import TracebackType

from placesim.core.errors import CancelledError

_WAIT_SECONDS = 0.05
"""Seconds that a waiting step sleeps before it looks again: another thread may have changed the condition without a step."""
_OWN_THREADS = ("placesim", "Dask-", "IO loop", "Profile", "TCP-Executor", "AsyncProcess", "QueueFeederThread")
"""Prefixes of the names of threads that run no steps: those of placesim, Dask and multiprocessing."""


class Turns:
    """A lock that a step holds while it computes. Sessions that share resources share its `condition`."""

    def __init__(self, condition: threading.Condition | None = None) -> None:
        self._condition = threading.Condition(threading.RLock()) if condition is None else condition
        self._closed = False
        self._is_given_up = False
        self.running = 0
        """Number of steps that have begun and not ended, including waiting ones."""
        self.waiting_node = ""
        """The node whose step sleeps because nothing else can run, or an empty string."""

    def __enter__(self) -> Turns:
        self._condition.acquire()
        self.running += 1
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.running -= 1
        self._condition.notify_all()
        self._condition.release()

    def give_up(self) -> None:
        """Mark a step as abandoned, perhaps in a long kernel: closing the session will not wait for its end."""
        self._is_given_up = True

    def close(self) -> None:
        """Cancel waiting steps. Waits until the computing step has ended, unless one was abandoned."""
        self._closed = True
        if self._condition.acquire(blocking=not self._is_given_up):
            self._condition.notify_all()
            self._condition.release()

    def let_others(self, node: str) -> bool:
        """Let other threads' steps run for a moment; return False if no other thread could start one.

        `node` is the waiting node. If the step is interrupted meanwhile, it stays the `waiting_node`. Raises CancelledError
        once the session is closed.
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
