"""The process that runs inputs, one after another, and hands back what each left behind.

`python -m tests.fuzz.worker FD MODULE:FUNCTION DIRECTORY MEGABYTES`: inputs come, and answers go, over the socket FD.  The
function is called as the command line's `main`.  No input can write, rename or remove anything outside of DIRECTORY.
"""

from __future__ import annotations

import faulthandler
import importlib
import io
import os
import resource
import shutil
import sys
import traceback
import warnings
from collections.abc import Callable, Sequence
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

from tests.fuzz.inputs import STANDARD_INPUT, write_files
from tests.fuzz.messages import Answer, Request

Main = Callable[[Sequence[str]], int]
STACK = "stack"
"""The file with the stacks of an input that takes too long, or that ends the process."""
_MAX_FILE_BYTES = 1 << 28
_WRITING = os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_APPEND
_CHANGES = (
    *("os.chmod", "os.chown", "os.link", "os.mkdir", "os.remove", "os.rename", "os.rmdir", "os.symlink", "os.truncate"),
    "os.utime",
)
_FORBIDDEN = ("subprocess.Popen", "os.system", "os.exec", "os.posix_spawn", "socket.connect", "socket.bind")
_HARMLESS = ("lscpu", "ldconfig", "gcc", "cc", "ld", "objdump")
"""What numpy and ctypes ask about the machine, when SciPy or threadpoolctl need it."""


class Fence:
    """Refuses every change outside of a directory, and keeps what was tried."""

    def __init__(self, directory: Path) -> None:
        self._directory = os.path.realpath(directory)
        self.touched: list[str] = []

    def __call__(self, event: str, arguments: tuple[Any, ...]) -> None:
        if event == "open":
            path, _, flags = arguments
            if isinstance(flags, int) and flags & _WRITING:
                self._check(event, path)
        elif event in _CHANGES:
            for path in arguments[: 2 if event in ("os.rename", "os.link") else 1]:
                self._check(event, path)
        elif event in _FORBIDDEN and os.path.basename(str(arguments[0])) not in _HARMLESS:
            self._refuse(event, arguments[0])

    def _check(self, event: str, path: Any) -> None:
        if not isinstance(path, str | bytes | os.PathLike):
            return
        real = os.path.realpath(os.fsdecode(path))
        if real != os.devnull and not f"{real}/".startswith(f"{self._directory}/"):
            self._refuse(event, path)

    def _refuse(self, event: str, what: Any) -> None:
        self.touched.append(f"{event} {what!r:.200}")
        raise PermissionError(f"the fuzzer's fence: {event} {what!r:.200}")


def serve(connection: Connection, main: Main, directory: Path) -> None:
    """Run what comes until the other side has gone."""
    stack = (directory / STACK).open("w")
    faulthandler.enable(stack)
    fence = Fence(directory)
    sys.addaudithook(fence)
    while True:
        try:
            request: Request = connection.recv()
        except EOFError:
            return
        fence.touched.clear()
        stack.seek(0)
        stack.truncate()
        faulthandler.dump_traceback_later(request.seconds, file=stack)
        answer = _run(main, request, directory, fence)
        faulthandler.cancel_dump_traceback_later()
        connection.send(answer)


def _run(main: Main, request: Request, directory: Path, fence: Fence) -> Answer:
    place = directory / "here"
    place.mkdir()
    write_files(request.files, place)
    os.chdir(place)
    (directory / "stdin").write_bytes(request.files.get(STANDARD_INPUT, b""))
    for number, name in enumerate(("stdin", "stdout", "stderr")):
        opened = os.open(directory / name, os.O_RDWR | os.O_CREAT | os.O_TRUNC if number else os.O_RDONLY, 0o600)
        os.dup2(opened, number)
        os.close(opened)
    sys.stdin = io.TextIOWrapper(io.BufferedReader(io.FileIO(0, closefd=False)), "utf-8", "surrogateescape")
    sys.stdout = io.TextIOWrapper(io.BufferedWriter(io.FileIO(1, "w", closefd=False)), "utf-8")
    sys.stderr = io.TextIOWrapper(io.BufferedWriter(io.FileIO(2, "w", closefd=False)), "utf-8", "backslashreplace")
    code = _call(main, request.argv)
    for stream in (sys.stdout, sys.stderr):
        stream.flush()
    os.chdir(directory)
    shutil.rmtree(place)
    texts = [(directory / name).read_bytes() for name in ("stdout", "stderr")]
    return Answer(code, texts[0], texts[1], tuple(fence.touched))


def _call(main: Main, argv: Sequence[str]) -> int:
    """The exit code that Python would end with."""
    try:
        return main(argv)
    except SystemExit as end:
        return end.code if isinstance(end.code, int) else 0 if end.code is None else 1
    except BaseException:
        traceback.print_exc()
        return 1


def _limit(megabytes: int) -> None:
    """So much address space, no dumps of memory, and no endless files."""
    for limit, value in (
        (resource.RLIMIT_AS, megabytes << 20),
        (resource.RLIMIT_CORE, 0),
        (resource.RLIMIT_FSIZE, _MAX_FILE_BYTES),
    ):
        hard = resource.getrlimit(limit)[1]
        resource.setrlimit(limit, (value if hard == resource.RLIM_INFINITY else min(value, hard), hard))


def _main(arguments: Sequence[str]) -> None:
    fd, target, directory, megabytes = arguments
    module, _, function = target.partition(":")
    main: Main = getattr(importlib.import_module(module), function)
    for category in (RuntimeWarning, UserWarning, FutureWarning):
        warnings.simplefilter("always", category)  # not once a process, which runs many inputs
    _limit(int(megabytes))
    serve(Connection(int(fd)), main, Path(directory))


if __name__ == "__main__":
    _main(sys.argv[1:])
