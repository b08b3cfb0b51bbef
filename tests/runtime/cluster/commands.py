"""Dask's own commands as processes: `dask scheduler` and `dask worker`, on the loopback interface."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from contextlib import ExitStack
from pathlib import Path
from types import TracebackType

from tests.processes import start_process, until


class DaskCommands:
    """A scheduler and workers in processes of their own; a context manager that ends them all."""

    def __init__(self, directory: Path, *options: str, scheme: str = "tcp", **environment: str) -> None:
        """Options are those of both commands."""
        self._directory = directory
        self._options = [*options, "--protocol", scheme, "--host", "127.0.0.1", "--no-dashboard"]
        self._processes = ExitStack()
        self.workers: list[subprocess.Popen[bytes]] = []
        file = directory / "scheduler.json"
        file.unlink(missing_ok=True)
        self.scheduler = self._start(["scheduler", "--port", "0", "--scheduler-file", str(file)], environment)
        self.address: str = ""
        try:
            assert until(lambda: self._is_up(file)), "the scheduler did not start"
        except BaseException:
            self._processes.close()
            raise

    def _is_up(self, file: Path) -> bool:
        try:
            self.address = json.loads(file.read_text())["address"]
        except (OSError, ValueError):
            assert self.scheduler.poll() is None, "the scheduler has ended"
        return bool(self.address)

    def worker(self, *options: str, **environment: str) -> subprocess.Popen[bytes]:
        """One more worker; it joins in its own time."""
        self.workers.append(self._start(["worker", self.address, "--nthreads", "1", *options], environment))
        return self.workers[-1]

    def _start(self, command: list[str], environment: dict[str, str]) -> subprocess.Popen[bytes]:
        streams = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
        process = start_process(
            [sys.executable, "-m", "dask", *command, *self._options],
            cwd=self._directory,
            env=os.environ | environment,
            **streams,
        )
        return self._processes.enter_context(process)

    def __enter__(self) -> DaskCommands:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self._processes.close()
