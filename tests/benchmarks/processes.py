"""What a whole process takes: its processor time, which other processes hardly change, and its peak memory."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import IO, NamedTuple

ROOT = Path(__file__).parent.parent.parent


class Usage(NamedTuple):
    """Processor seconds of all threads, and the most memory in MiB."""

    seconds: float
    mebibytes: int


def usage_of(command: Sequence[str], output: IO[bytes] | int = subprocess.DEVNULL) -> Usage:
    """Run a command in the repository's root. Raises CalledProcessError unless its exit code is 0."""
    # as for most users, modules are compiled once, not for each process
    settings = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    process = subprocess.Popen(command, cwd=ROOT, stdout=output, stderr=subprocess.STDOUT, env=settings)
    _, status, usage = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode:
        raise subprocess.CalledProcessError(process.returncode, command)
    return Usage(usage.ru_utime + usage.ru_stime, usage.ru_maxrss >> 10)
