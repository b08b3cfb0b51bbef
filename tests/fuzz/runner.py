"""Runs inputs in a worker process that may crash, hang or ask for too much memory, and starts another where it did."""

from __future__ import annotations

import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
from multiprocessing.connection import Connection
from pathlib import Path
from typing import NamedTuple

from tests.fuzz.inputs import Input
from tests.fuzz.messages import Answer, Request
from tests.fuzz.worker import STACK

ROOT = Path(__file__).resolve().parents[2]
PLACESIM = "placesim.cli:main"
HANG = "hang"
_INPUTS_OF_A_WORKER = 500
_GRACE_SECONDS = 1.0
_START_SECONDS = 60.0


class Limits(NamedTuple):
    """What an input may take: seconds of the clock, and megabytes of address space."""

    seconds: float = 10.0
    megabytes: int = 4096


class Outcome(NamedTuple):
    """How an input ended; `fate` is "", `hang`, or the name of a signal, and `stack` where it was then."""

    code: int
    stdout: bytes
    stderr: bytes
    touched: tuple[str, ...] = ()
    fate: str = ""
    stack: str = ""


class Runner:
    """One worker at a time; `target` is what it calls, as `MODULE:FUNCTION`."""

    def __init__(self, limits: Limits = Limits(), target: str = PLACESIM) -> None:  # noqa: B008  # a tuple does not change
        self.limits = limits
        self._target = target
        self._process: subprocess.Popen[bytes] | None = None
        self._connection: Connection
        self._directory: Path
        self._count = 0

    def __enter__(self) -> Runner:
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def run(self, given: Input, seconds: float | None = None) -> Outcome:
        """What comes of an input, in the worker that is there."""
        if self._process is None or self._count >= _INPUTS_OF_A_WORKER:
            self.restart()
        self._count += 1
        limit = seconds or self.limits.seconds
        try:
            self._connection.send(Request(given.argv, given.files, limit))
            if not self._connection.poll(limit + _GRACE_SECONDS):
                return self._ended(HANG)
            answer: Answer = self._connection.recv()
        except (EOFError, ConnectionError):
            return self._ended("")
        if b"MemoryError" in answer.stderr:
            self.stop()
        return Outcome(*answer)

    def _ended(self, fate: str) -> Outcome:
        """The outcome of an input that took the worker with it, or that has to be ended."""
        assert self._process is not None
        if fate == HANG:
            self._process.kill()
        code = self._process.wait()
        stack = (self._directory / STACK).read_text(errors="replace")
        texts = [(self._directory / name).read_bytes() for name in ("stdout", "stderr") if (self._directory / name).exists()]
        self.stop()
        stdout, stderr = (*texts, b"", b"")[:2]
        return Outcome(code, stdout, stderr, (), fate or _signal_name(code), stack)

    def restart(self) -> None:
        """A worker that has run nothing yet."""
        self.stop()
        self._directory = Path(tempfile.mkdtemp(prefix="placesim-fuzz-"))
        ours, theirs = socket.socketpair()
        arguments = [str(theirs.fileno()), self._target, str(self._directory), str(self.limits.megabytes)]
        self._process = subprocess.Popen(
            [sys.executable, "-m", "tests.fuzz.worker", *arguments],
            cwd=ROOT,
            env=os.environ | _environment(self._directory),
            pass_fds=[theirs.fileno()],
            stdin=subprocess.DEVNULL,
        )
        theirs.close()
        self._connection = Connection(ours.detach())
        self._count = 0
        self._await_start()

    def _await_start(self) -> None:
        """Run nothing once, so that no input is charged for the start."""
        self._connection.send(Request(("--version",), {}, _START_SECONDS))
        if not self._connection.poll(_START_SECONDS):
            raise TimeoutError("the fuzzer's worker does not start")
        self._connection.recv()

    def stop(self) -> None:
        """End the worker, and remove what it left."""
        if self._process is None:
            return
        self._process.kill()
        self._process.wait()
        self._connection.close()
        shutil.rmtree(self._directory, ignore_errors=True)
        self._process = None


def _environment(directory: Path) -> dict[str, str]:
    """No bytecode is written beside the code, what is temporary lies in the worker's own directory, and arenas are few."""
    path = os.pathsep.join(filter(None, (str(ROOT), os.environ.get("PYTHONPATH"))))
    threads = {"OPENBLAS_NUM_THREADS": "2", "MALLOC_ARENA_MAX": "2"}
    return {"PYTHONPATH": path, "PYTHONDONTWRITEBYTECODE": "1", "TMPDIR": str(directory), "PYTHONWARNINGS": "", **threads}


def _signal_name(code: int) -> str:
    return signal.Signals(-code).name if code < 0 else f"exit {code}"
