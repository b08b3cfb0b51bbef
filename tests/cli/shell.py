"""Runs the command line for tests: in this process, or as one of its own."""

from __future__ import annotations

import subprocess
from contextlib import AbstractContextManager
from pathlib import Path

import pytest

from placesim.cli import main
from tests.processes import PLACESIM, ROOT, CommandResult, start_process

__all__ = ["ROOT", "CommandResult", "Shell", "rows", "start"]


class Shell:
    """Runs commands in the test's own process, in a directory of its own."""

    def __init__(self, directory: Path, capture: pytest.CaptureFixture[str]) -> None:
        self.directory = directory
        self._capture = capture

    def __call__(self, *arguments: str) -> CommandResult:
        self._capture.readouterr()
        code = main(arguments)
        printed = self._capture.readouterr()
        return CommandResult(code, printed.out, printed.err)

    def write(self, name: str, content: str | bytes) -> str:
        """A file in the directory; gives its name."""
        path = self.directory / name
        path.write_bytes(content if isinstance(content, bytes) else content.encode())
        return name


def start(*arguments: str, **options: object) -> AbstractContextManager[subprocess.Popen[bytes]]:
    """The command line as a process, which ends with its block."""
    return start_process((*PLACESIM, *arguments), **options)


def rows(text: str, kind: str) -> list[list[str]]:
    """The parts of the lines of one kind, in a report whose lines begin with theirs."""
    return [line.split("\t")[1:] for line in text.splitlines() if line.startswith(f"{kind}\t")]
