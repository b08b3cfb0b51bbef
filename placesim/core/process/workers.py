"""Worker processes that run a module of placesim and exchange pickles over their standard streams.

Unlike with multiprocessing, a worker does not import the caller's `__main__`. A script without a `__main__` guard would
otherwise run again in each worker.
"""

from __future__ import annotations

import os
import pickle
import subprocess
import sys
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import IO, Any, Protocol

from placesim.core.operating_system import apart_options

_PACKAGE_PARENT = str(Path(__file__).parents[3])
DONE = None
"""Marks the last of several answers to one question."""
_END_SECONDS = 5.0
"""Time limit for the end of a process that stopped answering."""


class Process(Protocol):
    """Protocol of a module running in another process; `Worker` implements it on this machine."""

    def tell(self, question: Any) -> None: ...

    def answer(self) -> Any: ...

    def kill(self) -> None: ...

    def how_it_ended(self) -> str: ...

    def close(self) -> None: ...


class Worker:
    """A process that runs a module that calls `serve`. Raises OSError if no process can be started."""

    def __init__(self, module: str) -> None:
        paths = [_PACKAGE_PARENT, *filter(None, [os.environ.get("PYTHONPATH")])]
        self._process = subprocess.Popen(
            # -P: modules in the current folder or beside the caller's script don't replace other modules
            [sys.executable, "-P", "-m", module],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            env=os.environ | {"PYTHONPATH": os.pathsep.join(paths)},
            **apart_options(),  # Ctrl-C interrupts only this process, which then ends the worker
        )

    def tell(self, question: Any) -> None:
        """Send a question.  Raises OSError if the process has ended."""
        self.pass_on(pickle.dumps(question))

    def pass_on(self, pickled: bytes) -> None:
        """Send a question that is already pickled."""
        assert self._process.stdin is not None
        self._process.stdin.write(pickled)
        self._process.stdin.flush()

    def tell_no_more(self) -> None:
        """Close the input; the process answers the questions sent before, and ends."""
        assert self._process.stdin is not None
        self._process.stdin.close()

    def answer(self) -> Any:
        """Return the next answer. Raises EOFError if the process has ended, and errors of unpickling."""
        assert self._process.stdout is not None
        return pickle.load(self._process.stdout)

    def kill(self) -> None:
        """Kill the process; a caller waiting for an answer gets none."""
        self._process.kill()

    def how_it_ended(self) -> str:
        """Return how the process ended: `signal 9` or `exit code 1`. Raises TimeoutError if it is still running."""
        try:
            code = self._process.wait(_END_SECONDS)
        except subprocess.TimeoutExpired:
            raise TimeoutError from None
        return f"signal {-code}" if code < 0 else f"exit code {code}"

    def close(self) -> None:
        """End the process and release its resources."""
        self._process.kill()
        self._process.wait()
        for stream in (self._process.stdout, self._process.stdin):
            assert stream is not None
            with suppress(OSError):  # questions that were not sent yet
                stream.close()


def serve(work: Callable[[IO[bytes], Callable[[Any], None]], None]) -> None:
    """Run the worker's side: `work` reads pickled questions from its first argument and answers by calling its second."""
    # printed text must not mix with the answers
    answers = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)

    def answer(value: Any) -> None:
        answers.write(pickle.dumps(value))
        answers.flush()

    with suppress(BrokenPipeError):  # the caller no longer reads answers
        work(sys.stdin.buffer, answer)
