"""Processes for a search: on a Dask cluster if the connection names one, else on this machine.

A study searches repeatedly, often for less time than a process needs to start, so local processes are reused.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

from placesim.core.process.workers import DONE, Process
from placesim.planning.portfolio import Effort, open_here
from placesim.runtime.cluster.connection_settings import Connection


@contextmanager
def spread(effort: Effort, connection: Connection) -> Iterator[Effort]:
    """Yield the effort with a function that opens processes: on the connection's cluster, else on this machine.

    Raises the errors of `open_cluster`.
    """
    if connection.scheduler is None and effort.needs_no_process:
        yield effort
    elif connection.scheduler is None:
        spare = SpareProcesses(open_here)
        try:
            yield replace(effort, open=spare.open)
        finally:
            spare.close()
    else:
        from placesim.runtime.cluster.cluster_setup import open_cluster
        from placesim.runtime.cluster.remote_process import RemoteProcessPool

        with open_cluster(connection) as cluster:
            yield replace(effort, open=RemoteProcessPool(cluster, "placesim.planning.worker", answers_once=False).open)


class SpareProcesses:
    """Pool of processes that `start` starts. The next `open` reuses a process that has finished its answers."""

    def __init__(self, start: Callable[[], Process]) -> None:
        self._start = start
        self._spare: list[Process] = []

    def open(self) -> Process:
        """Return a process. Raise an error if it cannot be started."""
        return _ProcessLoan(self._spare.pop() if self._spare else self._start(), self._spare.append)

    def close(self) -> None:
        """End the idle processes."""
        while self._spare:
            self._spare.pop().close()


class _ProcessLoan:
    """A borrowed process; closing it returns it to the pool if it is idle."""

    def __init__(self, process: Process, give_back: Callable[[Process], None]) -> None:
        self._process = process
        self._give_back = give_back
        self._is_idle = self._is_given_back = False
        self.kill = process.kill
        self.how_it_ended = process.how_it_ended

    def tell(self, question: Any) -> None:
        self._is_idle = False
        self._process.tell(question)

    def answer(self) -> Any:
        found = self._process.answer()
        self._is_idle = found is DONE
        return found

    def close(self) -> None:
        if self._is_given_back:
            return  # another user may have the process by now
        if self._is_idle:
            self._is_given_back = True
            self._give_back(self._process)
        else:
            self._process.close()
