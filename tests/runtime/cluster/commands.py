"""Dask's own commands as processes: `dask scheduler` and `dask worker`, on the loopback interface.

They are forked from a process that has imported Dask and placesim, which takes longer than what most tests ask of them.
"""

from __future__ import annotations

import gc
import json
import multiprocessing
import os
import signal
import sys
from contextlib import suppress
from multiprocessing.process import BaseProcess
from pathlib import Path
from types import TracebackType

from tests.processes import until

IDLE_SECONDS = 0.5
"""How long these workers keep an idle process of a sweep."""
_FORKS = multiprocessing.get_context("forkserver")
_FORKS.set_forkserver_preload(
    [
        "distributed.cli.dask_scheduler",
        "distributed.cli.dask_worker",
        "placesim.runtime.cluster.worker_process",
        "placesim.runtime.dask.worker_session",
        __name__,
    ]
)


class DaskCommands:
    """A scheduler and workers in processes of their own; a context manager that ends them all."""

    def __init__(self, directory: Path, *options: str, scheme: str = "tcp") -> None:
        """Options are those of both commands."""
        self._directory = directory
        self._options = [*options, "--protocol", scheme, "--host", "127.0.0.1", "--no-dashboard"]
        self._processes: list[BaseProcess] = []
        self.workers: list[BaseProcess] = []
        file = directory / "scheduler.json"
        file.unlink(missing_ok=True)
        self.scheduler = self._start("scheduler", "--port", "0", "--scheduler-file", str(file))
        self.address: str = ""
        try:
            assert until(lambda: self._is_up(file)), "the scheduler did not start"
        except BaseException:
            self.close()
            raise

    def _is_up(self, file: Path) -> bool:
        try:
            self.address = json.loads(file.read_text())["address"]
        except (OSError, ValueError):
            assert self.scheduler.is_alive(), "the scheduler has ended"
        return bool(self.address)

    def worker(self, *options: str) -> BaseProcess:
        """One more worker, without a nanny; it joins in its own time."""
        self.workers.append(self._start("worker", self.address, "--nthreads", "1", "--no-nanny", *options))
        return self.workers[-1]

    def _start(self, *command: str) -> BaseProcess:
        words = [*command, *self._options]
        process = _FORKS.Process(target=_run_dask, args=(words, self._directory, dict(os.environ)), daemon=True)
        process.start()
        self._processes.append(process)
        return process

    def close(self) -> None:
        for process in self._processes:
            process.kill()  # one that has just been forked leads no group yet
            with suppress(ProcessLookupError):
                if process.pid is not None:
                    os.killpg(process.pid, signal.SIGKILL)
        for process in self._processes:
            process.join()

    def __enter__(self) -> DaskCommands:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.close()


def _run_dask(words: list[str], folder: Path, environment: dict[str, str]) -> None:
    """In a process that has just been forked: become `dask` with these words."""
    from dask.cli import run_cli

    from placesim.runtime.cluster import worker_process

    os.setsid()
    os.chdir(folder)
    os.environ.clear()
    os.environ.update(environment)
    nowhere = os.open(os.devnull, os.O_RDWR)
    for number in range(3):
        os.dup2(nowhere, number)
    gc.freeze()  # what is imported is nobody's garbage
    worker_process.IDLE_SECONDS = IDLE_SECONDS
    sys.argv = ["dask", *words]
    run_cli()
