"""Dask tasks that ask a module of placesim in a separate process next to the worker.

A task occupies a thread of the worker while the process runs, so the number of threads limits the worker's load. Unlike a
thread, the process can be killed, and if it runs out of memory, the worker survives.
"""

from __future__ import annotations

import time
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from threading import Event, Lock, Thread
from typing import Any, NamedTuple

from placesim.core.errors import UnavailableError
from placesim.core.process.workers import Worker
from placesim.core.version import __version__

IDLE_SECONDS = 2.0
"""Seconds for which an idle process is kept for another question with the same `kin`."""
_LOOK_SECONDS = 0.2
TELLING_SECONDS = 0.3
"""Minimum seconds between two messages with answers."""


class Errand(NamedTuple):
    """A pickled question to a module whose main program is `workers.serve`; `version` is placesim's version at the sender.

    A process is reused for further questions with the same `kin`.  With a `topic`, the module may answer repeatedly until it
    ends, and Dask's event log has the answers under the topic; without one, it answers once.
    """

    module: str
    version: str
    question: bytes
    kin: str = ""
    topic: str = ""


class Answers(NamedTuple):
    """Answers of a process to one question.

    `ended` says how the process ended, if answers are missing. `attempt` identifies the run of the task, which Dask may repeat.
    """

    attempt: str
    values: list[Any]
    ended: str = ""


RUN_ERRAND = f"__import__('{__name__}', fromlist=['run_errand']).run_errand(errand, preface)"
"""Expression for `eval` on the worker; a worker without placesim would end if a function of placesim were sent to it."""


def run_errand(fields: tuple[Any, ...], preface: bytes | None = None) -> Answers:
    """Run the errand with these fields, and return the answers; a new process first receives the pickled preface.

    The process is killed if Dask no longer wants the task, because it was cancelled or its client is gone.
    """
    from distributed import get_worker

    errand = Errand(*fields)
    if errand.version != __version__:
        raise UnavailableError(f"versions of placesim differ: got {__version__} at a worker, expected {errand.version}")
    worker = get_worker()
    key = worker.get_current_task()

    def is_wanted() -> bool:
        task = worker.state.tasks.get(key)
        return task is not None and task.state in ("executing", "long-running")

    attempt = uuid.uuid4().hex
    process = _crew.take(errand.kin) or _begun(errand.module, preface)
    try:
        with _watched(process, is_wanted):
            process.pass_on(errand.question)
            if errand.topic:
                process.tell_no_more()
                return _all_told(attempt, process, lambda told: worker.log_event(errand.topic, told))
            found = Answers(attempt, [process.answer()])
    except Exception as error:  # the process has ended, or its answer can't be read
        found = Answers(attempt, [], _how_it_ended(process, error))
        process.close()
        return found
    _crew.keep(errand.kin, process)
    return found


def _begun(module: str, preface: bytes | None) -> Worker:
    process = Worker(module)
    if preface is not None:
        with suppress(OSError):  # the question will fail too
            process.pass_on(preface)
    return process


def _all_told(attempt: str, process: Worker, tell: Callable[[bytes], None]) -> Answers:
    """Return all answers until the process ends; meanwhile, `tell` sends the new ones from time to time."""
    import pickle

    values: list[Any] = []
    told, due = 0, 0.0
    with suppress(EOFError):
        while True:
            values.append(process.answer())
            if time.monotonic() >= due:
                tell(pickle.dumps((attempt, told, values[told:])))
                told, due = len(values), time.monotonic() + TELLING_SECONDS
    process.close()
    return Answers(attempt, values)


def _how_it_ended(process: Worker, error: Exception) -> str:
    try:
        return process.how_it_ended()
    except TimeoutError:
        return f"unreadable answer: {error!r}"


@contextmanager
def _watched(process: Worker, is_wanted: Callable[[], bool]) -> Iterator[None]:
    """Kill the process during this context if it is no longer wanted."""
    has_ended = Event()

    def watch() -> None:
        while not has_ended.wait(_LOOK_SECONDS):
            if not is_wanted():
                process.kill()
                return

    thread = Thread(target=watch, name="placesim-watch", daemon=True)
    thread.start()
    try:
        yield
    finally:
        has_ended.set()
        thread.join()


class _ProcessPool:
    """Idle processes that wait IDLE_SECONDS for another question."""

    def __init__(self) -> None:
        self._lock = Lock()
        self._idle: list[tuple[float, str, Worker]] = []
        self._has_thread = False

    def take(self, kin: str) -> Worker | None:
        with self._lock:
            for entry in self._idle:
                if entry[1] == kin:
                    self._idle.remove(entry)
                    return entry[2]
        return None

    def keep(self, kin: str, process: Worker) -> None:
        if not kin:
            process.close()
            return
        with self._lock:
            self._idle.append((time.monotonic() + IDLE_SECONDS, kin, process))
            if not self._has_thread:
                self._has_thread = True
                Thread(target=self._end_idle, name="placesim-idle", daemon=True).start()

    def _end_idle(self) -> None:
        while True:
            time.sleep(_LOOK_SECONDS)
            with self._lock:
                over = [entry for entry in self._idle if entry[0] <= time.monotonic()]
                self._idle = [entry for entry in self._idle if entry not in over]
                self._has_thread = bool(self._idle)
                has_more = self._has_thread
            for _, _, process in over:
                process.close()
            if not has_more:
                return


_crew = _ProcessPool()
