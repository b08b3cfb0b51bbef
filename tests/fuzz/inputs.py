"""One input of a fuzzer: a command line, and the files that it finds in the directory where it runs."""

from __future__ import annotations

import os
import shlex
from collections.abc import Callable, Iterator, Mapping
from itertools import pairwise
from pathlib import Path
from random import Random
from typing import NamedTuple

STANDARD_INPUT = "-"
"""The name in `files` of what comes on standard input."""


class Input(NamedTuple):
    """A command line and files by their names, which may hold bytes that are no UTF-8 (as `os.fsdecode` gives them)."""

    argv: tuple[str, ...]
    files: Mapping[str, bytes]

    @property
    def command(self) -> str:
        """The command that it calls."""
        return next((word for word in self.argv if not word.startswith("-")), "")

    @property
    def form(self) -> str:
        """What follows the last `--format`; "" where it is not asked for."""
        options = self.argv[: self.argv.index("--")] if "--" in self.argv else self.argv
        return next((value for name, value in reversed(list(pairwise(options))) if name == "--format"), "")

    @property
    def size(self) -> int:
        """Bytes of the files and words of the command line."""
        return sum(map(len, self.files.values())) + len(self.argv)

    def shell(self) -> str:
        """The command line as a shell takes it."""
        words = ["placesim", *self.argv]
        text = shlex.join(words)
        return text if text.isprintable() else " ".join(word if word.isprintable() else ascii(word) for word in words)


Surface = Callable[[Random], Iterator[Input]]
"""Inputs without end, which follow from the random numbers alone."""


def write_files(files: Mapping[str, bytes], directory: Path) -> None:
    """The files in a directory; one whose name no file can have is left out."""
    for name, content in files.items():
        path = directory / name
        if name == STANDARD_INPUT or "\0" in name or ".." in path.parts or os.path.isabs(name):
            continue
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)
