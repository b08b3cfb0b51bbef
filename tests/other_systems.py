"""Runs commands as on Linux, then without the names that macOS lacks, then without those that Windows lacks.

`python -m tests.other_systems` reads a list of `Call` as JSON, and prints for each system the outcomes and the files left. The
commands run in this process, which can't be used for anything else afterwards. Python's own library and other packages keep
the names that they took while the commands ran as on Linux; placesim is imported anew.
"""

from __future__ import annotations

import io
import json
import os
import platform
import signal
import subprocess
import sys
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any, NamedTuple

from tests.system_names import MODULES, WHOLE_MODULES, missing_names

SYSTEMS = ("linux", "darwin", "win32")
_LIBRARIES = "/proc/self/maps"
"""Read by threadpoolctl, which has its own way on each system."""

_DESCRIPTORS = "/proc/self/fd"
_list = os.listdir


class Call(NamedTuple):
    """A command's arguments, and its standard input."""

    arguments: list[str]
    given: str = ""


def run(call: Call, system: str) -> tuple[int, str, str]:
    """Exit code and texts of a command."""
    import placesim.cli

    encoding = "cp1252" if system == "win32" else "utf-8"
    sys.stdin = io.TextIOWrapper(io.BytesIO(call.given.encode()), "utf-8")
    streams = [io.TextIOWrapper(io.BytesIO(), encoding, newline="\n") for _ in range(2)]
    sys.stdout, sys.stderr = streams
    try:
        code = placesim.cli.main(call.arguments)
    finally:
        sys.stdout, sys.stderr = sys.__stdout__, sys.__stderr__
    output, complaint = (stream.detach().getvalue().decode() for stream in streams)
    return code, output, complaint


def become(system: str) -> None:
    """Take away what a system lacks, and let placesim be imported anew."""
    for name in [name for name in sys.modules if name.partition(".")[0] == "placesim"]:
        del sys.modules[name]
    if system == "linux":
        return
    if system == "win32":
        _become_windows()
    for module in MODULES:
        for name in missing_names(module, system):
            vars(sys.modules[module]).pop(name, None)
    for module in WHOLE_MODULES[system]:
        sys.modules[module] = None  # type: ignore[assignment]  # Python's way to say that there is none
    sys.platform = system
    sys.modules["psutil"] = _psutil()
    _hide_files()


def _become_windows() -> None:
    """Give the names that only Windows has, and refuse to rename or remove a file that is open."""
    import fcntl

    lock, exclusive = fcntl.flock, fcntl.LOCK_EX
    msvcrt = ModuleType("msvcrt")
    vars(msvcrt).update(LK_LOCK=1, locking=lambda descriptor, mode, size: lock(descriptor, exclusive))
    sys.modules["msvcrt"] = msvcrt
    vars(subprocess).update(CREATE_NEW_PROCESS_GROUP=0, signal=SimpleNamespace(**vars(signal)))

    def check(*paths: Any) -> None:
        opened = set()
        for number in _list(_DESCRIPTORS):
            with suppress(FileNotFoundError):  # the descriptor of the list itself
                opened.add(os.readlink(f"{_DESCRIPTORS}/{number}"))
        for path in map(os.path.realpath, paths):
            if path in opened:
                raise PermissionError(13, "The process cannot access the file because it is being used", path)

    for name in ("replace", "rename", "unlink", "remove"):
        setattr(os, name, _checked(getattr(os, name), check))


def _checked(call: Callable[..., Any], check: Callable[..., None]) -> Callable[..., Any]:
    def checked(*paths: Any, **options: Any) -> Any:
        if not options:
            check(*paths)
        return call(*paths, **options)

    return checked


def _hide_files() -> None:
    """Let no file be found that is Linux's own."""
    for module, name in ((io, "open"), (os, "open"), (os, "stat"), (os, "scandir"), (os, "listdir")):
        setattr(module, name, _hiding(getattr(module, name)))
    vars(sys.modules["builtins"])["open"] = io.open


def _hiding(call: Callable[..., Any]) -> Callable[..., Any]:
    def hiding(path: Any = ".", *rest: Any, **options: Any) -> Any:
        if isinstance(path, str | os.PathLike) and str(path).startswith(("/proc/", "/sys/")) and str(path) != _LIBRARIES:
            raise FileNotFoundError(2, "No such file or directory", str(path))
        return call(path, *rest, **options)

    return hiding


def _psutil() -> Any:
    """A stand-in for psutil, which reads /proc on Linux."""
    process = SimpleNamespace(memory_info=lambda: SimpleNamespace(rss=1 << 28))
    return SimpleNamespace(virtual_memory=lambda: SimpleNamespace(available=1 << 33), Process=lambda: process)


def main() -> None:
    calls = [Call(*row) for row in json.load(sys.stdin)]
    platform.uname()
    start = Path.cwd()
    found = {}
    for system in SYSTEMS:
        become(system)
        os.chdir(start / system)
        outcomes = [run(call, system) for call in calls]
        files = {path.name: path.read_bytes().decode("latin-1") for path in sorted(Path().iterdir()) if path.is_file()}
        found[system] = {"outcomes": outcomes, "files": files}
    print(json.dumps(found))


if __name__ == "__main__":
    main()
