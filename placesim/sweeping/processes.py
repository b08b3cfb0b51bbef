"""Combinations -> rows, in several processes at once: each has its thread here, which asks and waits."""

from __future__ import annotations

import os
import pickle
import subprocess
import sys
from collections.abc import Generator, Sequence
from contextlib import suppress
from pathlib import Path
from queue import SimpleQueue
from threading import Lock, Thread
from typing import NamedTuple

from placesim.errors import PlacesimError, UnavailableError
from placesim.prediction.sweeps import SweepRow, Value
from placesim.sweeping.simulating import Job, RowOutcome, simulate_row

_PACKAGE_PARENT = str(Path(__file__).parents[2])


class Numbered(NamedTuple):
    """The outcome of a combination, by its place among all."""

    place: int
    outcome: RowOutcome


def outcomes(job: Job, combinations: Sequence[tuple[Value, ...]], processes: int) -> Generator[Numbered]:
    """Each combination's outcome as it comes; with one process they are simulated here, in order.

    Where the iterator is closed, or what waits for it is interrupted, the processes are ended.
    """
    if processes <= 1 or len(combinations) <= 1:
        for index, values in enumerate(combinations):
            yield Numbered(index, simulate_row(job, values))
        return
    crew = _Crew(job, combinations)
    try:
        crew.start(min(processes, len(combinations)))
        for _ in combinations:
            yield crew.done.get()
    finally:
        crew.end()


def number_of_processors() -> int:
    """How many this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


class _Crew:
    """Threads that each have a process; `done` gets an outcome for each combination."""

    def __init__(self, job: Job, combinations: Sequence[tuple[Value, ...]]) -> None:
        self._job = pickle.dumps(job)
        self._combinations = combinations
        self._waiting = iter(range(len(combinations)))
        self._lock = Lock()
        self._processes: set[subprocess.Popen[bytes]] = set()
        self._has_ended = False
        self.done: SimpleQueue[Numbered] = SimpleQueue()

    def start(self, number: int) -> None:
        for _ in range(number):
            Thread(target=self._work, daemon=True).start()

    def end(self) -> None:
        """Ends the processes; threads that wait for one see that."""
        with self._lock:
            self._has_ended = True
            for process in self._processes:
                process.kill()

    def _work(self) -> None:
        process = None
        while (index := self._next()) is not None:
            if process is None:
                process = self._open()
            if process is None:
                return
            try:
                outcome = _ask(process, self._combinations[index])
            except (OSError, EOFError, pickle.UnpicklingError):
                outcome = _lost(self._combinations[index], process)
                self._close(process)
                process = None
            self.done.put(Numbered(index, outcome))
        if process is not None:
            self._close(process)

    def _next(self) -> int | None:
        with self._lock:
            return None if self._has_ended else next(self._waiting, None)

    def _open(self) -> subprocess.Popen[bytes] | None:
        paths = [_PACKAGE_PARENT, *filter(None, [os.environ.get("PYTHONPATH")])]
        with self._lock:
            if self._has_ended:
                return None
            process = subprocess.Popen(
                [sys.executable, "-m", "placesim.sweeping.worker"],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
                env=os.environ | {"PYTHONPATH": os.pathsep.join(paths)},
                start_new_session=True,  # Ctrl-C is for this process, which ends that one
            )
            self._processes.add(process)
        assert process.stdin is not None
        with suppress(OSError):  # asking it fails as well, and that is a row
            process.stdin.write(self._job)
            process.stdin.flush()
        return process

    def _close(self, process: subprocess.Popen[bytes]) -> None:
        with self._lock:
            self._processes.discard(process)
        assert process.stdin is not None
        assert process.stdout is not None
        process.kill()
        process.wait()
        process.stdout.close()
        with suppress(OSError):
            process.stdin.close()


def _ask(process: subprocess.Popen[bytes], values: tuple[Value, ...]) -> RowOutcome:
    assert process.stdin is not None
    assert process.stdout is not None
    process.stdin.write(pickle.dumps(values))
    process.stdin.flush()
    found = pickle.load(process.stdout)
    assert isinstance(found, RowOutcome)
    return found


def _lost(values: tuple[Value, ...], process: subprocess.Popen[bytes]) -> RowOutcome:
    code = process.wait()
    how = f"signal {-code}" if code < 0 else f"exit code {code}"
    error: PlacesimError = UnavailableError(f"the process that simulated it has ended with {how}, perhaps for want of memory")
    return RowOutcome(SweepRow(values, error=f"{error.type_name}: {error.message}"), error)
