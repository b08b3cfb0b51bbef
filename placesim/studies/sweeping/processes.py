"""Parallel simulation of combinations in local or cluster processes. Each process has a thread here that controls it."""

from __future__ import annotations

from collections.abc import Callable, Generator, Sequence
from contextlib import suppress
from queue import SimpleQueue
from threading import Lock, Thread
from typing import NamedTuple

from placesim.core.errors import PlacesimError, UnavailableError
from placesim.core.process.workers import Process, Worker
from placesim.prediction.sweep_rows import SweepRow, Value
from placesim.studies.sweeping.row_simulation import RowOutcome, SweepJob, simulate_row


class NumberedOutcome(NamedTuple):
    """The outcome of a combination, with the index of the combination."""

    place: int
    outcome: RowOutcome


Open = Callable[[SweepJob], Process]
"""Function that starts a process for the job. Raises OSError if no process can be started."""


def open_here(job: SweepJob) -> Process:
    """Start a process on this machine."""
    process = Worker("placesim.studies.sweeping.worker")
    with suppress(OSError):  # if the process is dead, the first question to it fails as well
        process.tell(job)
    return process


class ProcessCount(NamedTuple):
    """The number of processes that simulate at once, and the function that starts one."""

    number: int
    open: Open = open_here


def run_combinations(
    job: SweepJob, combinations: Sequence[tuple[Value, ...]], processes: ProcessCount
) -> Generator[NumberedOutcome]:
    """Yield each combination's outcome when it is finished. With one local process, combinations run here, in order.

    Closing the iterator, or an interrupt, ends the processes. Raises UnavailableError if a cluster is lost.
    """
    if processes.open is open_here and (processes.number <= 1 or len(combinations) <= 1):
        for index, values in enumerate(combinations):
            yield NumberedOutcome(index, simulate_row(job, values))
        return
    crew = _ProcessThreads(job, combinations, processes.open)
    try:
        crew.start(min(processes.number, len(combinations)))
        for _ in combinations:
            done = crew.done.get()
            if isinstance(done, UnavailableError):
                raise done
            yield done
    finally:
        crew.end()


class _ProcessThreads:
    """Threads that each control a process. The queue `done` gets an outcome for each combination."""

    def __init__(self, job: SweepJob, combinations: Sequence[tuple[Value, ...]], open_process: Open) -> None:
        self._job = job
        self._open_process = open_process
        self._combinations = combinations
        self._waiting = iter(range(len(combinations)))
        self._lock = Lock()
        self._processes: set[Process] = set()
        self._has_ended = False
        self.done: SimpleQueue[NumberedOutcome | UnavailableError] = SimpleQueue()

    def start(self, number: int) -> None:
        for _ in range(number):
            Thread(target=self._work, name="placesim-sweep", daemon=True).start()

    def end(self) -> None:
        """End the processes; threads that wait for an answer then end too."""
        with self._lock:
            self._has_ended = True
            for process in self._processes:
                process.kill()

    def _work(self) -> None:
        process: Process | None = None
        while (index := self._next()) is not None:
            values = self._combinations[index]
            try:
                process = process or self._open()
                process.tell(values)
                outcome = process.answer()
                assert isinstance(outcome, RowOutcome)
            except UnavailableError as error:  # the cluster has no more room for processes
                self.done.put(error)
                return
            except Exception as error:  # any error of the process becomes an outcome, since the main thread waits for one
                outcome = _lost(values, process, error)
                self._close(process)
                process = None
            self.done.put(NumberedOutcome(index, outcome))
        self._close(process)

    def _next(self) -> int | None:
        with self._lock:
            return None if self._has_ended else next(self._waiting, None)

    def _open(self) -> Process:
        """Start a process for the job. Raises OSError if no process can be started."""
        process = self._open_process(self._job)
        with self._lock:
            if not self._has_ended:
                self._processes.add(process)
                return process
        process.close()
        raise ChildProcessError("the sweep has ended")

    def _close(self, process: Process | None) -> None:
        if process is None:
            return
        with self._lock:
            self._processes.discard(process)
        process.close()


def _lost(values: tuple[Value, ...], process: Process | None, error: Exception) -> RowOutcome:
    """Return the row of a combination whose process died."""
    if process is None:
        how = f"could not be started: {error}"
    else:
        try:
            how = f"ended with {process.how_it_ended()}, perhaps out of memory"
        except TimeoutError:
            how = f"sent an unreadable answer: {error!r}"
    found: PlacesimError = UnavailableError(f"its process {how}")
    return RowOutcome(SweepRow(values, error=f"{found.type_name}: {found.message}"), found)
