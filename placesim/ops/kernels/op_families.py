"""The family of each op's kernel, so that only the families that a graph needs are imported.

`make tables` writes `op-families.txt` from the families' tables; a test compares them.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

PATH = Path(__file__).with_name("op-families.txt")


def _read_rows() -> Iterator[tuple[str, str]]:
    for line in PATH.read_text("utf-8").splitlines():
        family, _, ops = line.partition(":")
        yield from ((op, family) for op in ops.split())


OP_FAMILIES = dict(_read_rows())
FAMILIES = tuple(dict.fromkeys(OP_FAMILIES.values()))
"""The modules of this package that have a `TABLE`."""
