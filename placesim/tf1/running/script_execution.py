"""Execution of a script as the main module of a process, and the answer to the parent process."""

from __future__ import annotations

import json
import os
import sys
import types
from collections.abc import Mapping
from importlib.machinery import SourceFileLoader
from pathlib import Path
from typing import Any, NoReturn


def execute(path: str) -> None:
    """Run a script as the process's main module.  Raises the script's exceptions, including SyntaxError."""
    module = types.ModuleType("__main__")
    module.__file__ = path
    module.__dict__["__cached__"] = None
    sys.modules["__main__"] = module
    source = _replaced.get(os.path.abspath(path))
    exec(compile(Path(path).read_bytes() if source is None else source, path, "exec"), module.__dict__)


_replaced: dict[str, str] = {}


def replace_sources(texts: Mapping[str, str]) -> None:
    """Run other texts in place of the script and its modules, by absolute path."""
    _replaced.update(texts)
    read = SourceFileLoader.get_data

    def get_data(self: SourceFileLoader, path: str) -> bytes:
        text = texts.get(os.path.abspath(path))
        return read(self, path) if text is None else text.encode()

    def path_stats(self: SourceFileLoader, path: str) -> Mapping[str, Any]:
        raise OSError("compiled modules have the old texts")

    SourceFileLoader.get_data = get_data  # type: ignore[method-assign, assignment]
    SourceFileLoader.path_stats = path_stats  # type: ignore[method-assign]


def leave(code: int) -> NoReturn:
    """Run the script's exit handlers and write its output; then end the process, despite open threads and blocks."""
    import atexit
    from threading import Thread

    cleaning = Thread(target=atexit._run_exitfuncs, name="placesim-cleaning", daemon=True)
    cleaning.start()
    cleaning.join(_PATIENCE_SECONDS)
    for stream in (sys.stdout, sys.stderr):
        try:
            stream.flush()
        except (OSError, ValueError, AttributeError):
            continue
    os._exit(code)


_PATIENCE_SECONDS = 5.0
"""Time limit in seconds for exit handlers of a script left in the middle."""


def exit_code(error: SystemExit) -> tuple[int, str]:
    """Exit code of a SystemExit, and the text that Python prints."""
    if error.code is None:
        return 0, ""
    if isinstance(error.code, int):
        return error.code & 0xFF, ""
    return 1, f"{error.code}\n"


def answer(job: Mapping[str, Any], head: Mapping[str, Any], data: bytes = b"") -> None:
    """Send the complete answer to the parent process."""
    path = Path(job["answer"])
    part = path.with_suffix(".part")
    part.write_bytes(json.dumps(head).encode() + b"\n" + data)
    part.replace(path)
