"""The corpus of TensorFlow 1 scripts and what TensorFlow 2.21 made of them (see `../data/tf1/README.md`)."""

from __future__ import annotations

import gzip
import json
from collections.abc import Callable, Iterable, Sequence
from fnmatch import fnmatchcase
from functools import cache
from pathlib import Path
from typing import Any

DATA = Path(__file__).parent.parent / "data" / "tf1"
SCRIPTS = DATA / "scripts"
AGREEING = Path(__file__).parent / "agreeing.txt"
"""The scripts that agree in everything, one a line; the list only grows."""

Record = dict[str, Any]


def read_records(path: Path) -> dict[str, Record]:
    """Every record by its script's name; the file may be compressed.  Raises OSError, ValueError, KeyError or TypeError."""
    opened: Callable[..., Any] = gzip.open if path.read_bytes()[:2] == b"\x1f\x8b" else open
    with opened(path, "rt") as lines:
        return {record["id"]: record for record in map(json.loads, lines)}


def matching(names: Iterable[str], patterns: Sequence[str]) -> list[str]:
    """The names that match one of some patterns (`dev_*`, or a beginning); all where there are none."""
    wanted = [pattern if "*" in pattern else pattern + "*" for pattern in patterns]
    return [name for name in names if not wanted or any(fnmatchcase(name, pattern) for pattern in wanted)]


@cache
def records() -> dict[str, Record]:
    """Every record by its script's name."""
    return read_records(DATA / "graphs.jsonl.gz")


def names(*patterns: str) -> list[str]:
    """The scripts that match one of some patterns; all where there are none."""
    return matching(records(), patterns)


def agreeing() -> list[str]:
    """The scripts that must agree."""
    return AGREEING.read_text().split() if AGREEING.exists() else []
