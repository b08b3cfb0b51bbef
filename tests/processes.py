"""Processes that tests start, and their surroundings: the same for all, whatever the caller's are."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from types import MappingProxyType
from typing import NamedTuple

from placesim.cli import BLAS_SPIN
from placesim.core.operating_system import apart_options

ROOT = Path(__file__).parent.parent
EMPTY: Mapping[str, str] = MappingProxyType({})
PLACESIM = (sys.executable, "-m", "placesim")
_SECONDS = 120
"""The longest that a command may take that is only waited for."""
_CLEARED = ("COLUMNS", "LINES", "NO_COLOR", "FORCE_COLOR", "PLACESIM_", "TF_", "CUDA_VISIBLE_DEVICES")
"""The variables, or how their names begin, that outputs depend on."""

_DASK = {
    "ADMIN__TICK__INTERVAL": "1s",
    "ADMIN__SYSTEM_MONITOR__INTERVAL": "10s",
    "WORKER__MEMORY__MONITOR_INTERVAL": "10s",
    "WORKER__PROFILE__ENABLED": "False",
}
"""How seldom Dask's processes look at themselves: up to a hundred times a second is as dear as all that tests ask of them."""


class CommandResult(NamedTuple):
    """Exit code and texts of a command that has ended."""

    code: int
    output: str
    complaint: str


def set_surroundings() -> None:
    """Clear the caller's settings from this process and from those that it starts, which import from this repository."""
    for name in [name for name in os.environ if name.startswith(_CLEARED)]:
        del os.environ[name]
    os.environ["XDG_CONFIG_HOME"] = f"{os.devnull}/config"  # nothing can be there
    os.environ["PYTHONPATH"] = os.pathsep.join(filter(None, (str(ROOT), os.environ.get("PYTHONPATH"))))
    os.environ.update((f"DASK_DISTRIBUTED__{name}", value) for name, value in _DASK.items())
    os.environ.setdefault(*BLAS_SPIN)
    # in a shell's background job Ctrl-C is ignored, and would be so by all children
    signal.signal(signal.SIGINT, signal.default_int_handler)


@contextmanager
def start_process(command: Sequence[str | Path], **options: object) -> Iterator[subprocess.Popen[bytes]]:
    """A process in a session of its own, killed with its group when the block ends.

    It runs in the repository and writes to pipes, where the options of Popen do not say otherwise.
    """
    options = {"cwd": ROOT, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE} | options
    with subprocess.Popen(command, **apart_options(), **options) as process:  # type: ignore[call-overload]
        try:
            yield process
        finally:
            with suppress(ProcessLookupError):
                if sys.platform == "win32":
                    process.kill()
                else:
                    os.killpg(process.pid, signal.SIGKILL)


def run_process(
    command: Sequence[str | Path],
    *,
    folder: Path = ROOT,
    environment: Mapping[str, str] = EMPTY,
    given: bytes = b"",
    check: bool = False,
) -> CommandResult:
    """A command that is waited for, with more variables and an input; `check` is that it ends well."""
    with start_process(command, cwd=folder, stdin=subprocess.PIPE, env={**os.environ, **environment}) as process:
        output, complaint = (text.decode().replace(os.linesep, "\n") for text in process.communicate(given, timeout=_SECONDS))
    assert not check or process.returncode == 0, complaint
    return CommandResult(process.returncode, output, complaint)


def run_shell(script: str, *, folder: Path = ROOT, environment: Mapping[str, str] = EMPTY) -> CommandResult:
    """A script of bash, whose `python` and `placesim` are ours."""
    _need("bash", "linux", "darwin")
    commands = f'python() {{ "{sys.executable}" "$@"; }}\nplacesim() {{ python -m placesim "$@"; }}\n'
    return run_process(("bash", "-c", commands + script), folder=folder, environment=environment)


def _need(what: str, *systems: str) -> None:
    """Skip the running test on a system that lacks what it needs."""
    if sys.platform not in systems:
        import pytest

        pytest.skip(f"needs {what}")


def read_until(process: subprocess.Popen[bytes], wanted: bytes, seconds: float = 60) -> bytes:
    """The output of a process up to a text, and perhaps some behind it."""
    assert process.stdout is not None
    found, end = b"", time.monotonic() + seconds
    while wanted not in found:
        assert time.monotonic() < end, found
        piece = os.read(process.stdout.fileno(), 65536)
        assert piece, found
        found += piece
    return found


def until(is_so: Callable[[], object], seconds: float = 60) -> bool:
    """Whether it becomes so within that time."""
    end = time.monotonic() + seconds
    while not is_so():
        if time.monotonic() > end:
            return False
        time.sleep(0.02)
    return True


def resident_bytes(process: subprocess.Popen[bytes]) -> int:
    """The memory that a process has in use."""
    _need("memory in /proc", "linux")
    return int(Path(f"/proc/{process.pid}/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")


def interrupt(process: subprocess.Popen[bytes], number: int = signal.SIGINT) -> CommandResult:
    """Ctrl-C, or another signal: how a process ends then."""
    _need("signals to other processes", "linux", "darwin")
    process.send_signal(number)
    output, complaint = process.communicate(timeout=60)
    return CommandResult(process.returncode, (output or b"").decode(), (complaint or b"").decode())
