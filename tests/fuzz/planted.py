"""A command line with faults put in on purpose, to see that the fuzzers notice them: the first word says which."""

from __future__ import annotations

import os
import signal
import sys
import time
import warnings
from collections.abc import Callable, Sequence
from pathlib import Path


def main(arguments: Sequence[str]) -> int:
    """Do what the first word names; any other does nothing, and well."""
    return _FAULTS.get(arguments[0], _do_nothing)()


def _do_nothing() -> int:
    return 0


def _crash() -> int:
    os.kill(os.getpid(), signal.SIGSEGV)
    return 0


def _hang() -> int:
    while True:
        time.sleep(0.01)


def _grow() -> int:
    return len(bytearray(1 << 40))


def _raise() -> int:
    raise KeyError("planted")


def _report_a_defect() -> int:
    sys.stderr.write("InternalError: KeyError: 'x'\n  this is a bug in placesim; --debug shows where\n")
    return 1


def _warn() -> int:
    warnings.warn("planted", RuntimeWarning, stacklevel=1)
    return 0


def _print(text: str) -> int:
    sys.stdout.write(text)
    return 0


def _write_outside() -> int:
    try:
        Path(os.environ["TMPDIR"]).parent.joinpath("outside").write_text("")
    except PermissionError:
        return 0
    return 1


def _find_a_word() -> int:
    """A fault that a file brings about."""
    return _raise() if any(b"planted" in path.read_bytes() for path in Path().iterdir()) else 0


_FAULTS: dict[str, Callable[[], int]] = {
    "crash": _crash,
    "hang": _hang,
    "grow": _grow,
    "raise": _raise,
    "defect": _report_a_defect,
    "warn": _warn,
    "code": lambda: 70,
    "json": lambda: _print("{"),
    "nan": lambda: _print("NaN"),
    "control": lambda: _print("a\x1b[31mb\n"),
    "outside": _write_outside,
    "word": _find_a_word,
}
