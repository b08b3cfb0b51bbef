"""Modules of ours as processes of their own, asked and answering in pickles over their standard streams.

A process knows nothing of the caller's `__main__`, which multiprocessing would import again: a script without a guard would run
once more in each of them.
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

_PACKAGE_PARENT = str(Path(__file__).parents[3])
DONE = None
"""Last answer of a module that answers a question repeatedly."""
_END_SECONDS = 5.0
"""A process that answers no more has ended, or ends within this."""


class Process(Protocol):
    """A module of ours at work somewhere, as `Worker` is on this machine."""

    def tell(self, question: Any) -> None: ...

    def answer(self) -> Any: ...

    def kill(self) -> None: ...

    def how_it_ended(self) -> str: ...

    def close(self) -> None: ...


class Worker:
    """A process that runs a module whose end calls `serve`.  Raises OSError where none can be started any more."""

    def __init__(self, module: str) -> None:
        paths = [_PACKAGE_PARENT, *filter(None, [os.environ.get("PYTHONPATH")])]
        self._process = subprocess.Popen(
            # -P: files beside the caller's script, or in its folder, take no module's place
            [sys.executable, "-P", "-m", module],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            env=os.environ | {"PYTHONPATH": os.pathsep.join(paths)},
            start_new_session=True,  # Ctrl-C is for this process, which ends that one
        )

    def tell(self, question: Any) -> None:
        """Raises OSError where the process is no more."""
        self.pass_on(pickle.dumps(question))

    def pass_on(self, pickled: bytes) -> None:
        """`tell`, of what is pickled already."""
        assert self._process.stdin is not None
        self._process.stdin.write(pickled)
        self._process.stdin.flush()

    def tell_no_more(self) -> None:
        """It ends once it has answered."""
        assert self._process.stdin is not None
        self._process.stdin.close()

    def answer(self) -> Any:
        """The next answer. Raises EOFError if it has ended, and any error from an unreadable answer."""
        assert self._process.stdout is not None
        return pickle.load(self._process.stdout)

    def kill(self) -> None:
        """End it; who waits for an answer gets none."""
        self._process.kill()

    def how_it_ended(self) -> str:
        """`signal 9` or `exit code 1`.  Raises TimeoutError where it is still there."""
        try:
            code = self._process.wait(_END_SECONDS)
        except subprocess.TimeoutExpired:
            raise TimeoutError from None
        return f"signal {-code}" if code < 0 else f"exit code {code}"

    def close(self) -> None:
        """End it, and leave nothing of it."""
        self._process.kill()
        self._process.wait()
        for stream in (self._process.stdout, self._process.stdin):
            assert stream is not None
            with suppress(OSError):  # what it was still to be told
                stream.close()


def serve(work: Callable[[IO[bytes], Callable[[Any], None]], None]) -> None:
    """The process's own side: `work` reads pickled questions from what it is given, and answers by the function."""
    # whatever prints must not get between the answers
    answers = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)

    def answer(value: Any) -> None:
        answers.write(pickle.dumps(value))
        answers.flush()

    with suppress(BrokenPipeError):  # nobody listens any more
        work(sys.stdin.buffer, answer)
