"""What goes to a worker, and what comes back."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple


class Request(NamedTuple):
    """What a worker is asked to run, and after how many seconds it is to say where it stands."""

    argv: tuple[str, ...]
    files: Mapping[str, bytes]
    seconds: float


class Answer(NamedTuple):
    """What an input left behind; `touched` is what it tried to change outside of its directory."""

    code: int
    stdout: bytes
    stderr: bytes
    touched: tuple[str, ...]
