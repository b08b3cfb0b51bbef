"""The converters ("rows") of all families. A row converts nodes of an ONNX op, in some versions, to TensorFlow ops."""

from __future__ import annotations

from functools import cache
from importlib import import_module
from pkgutil import iter_modules

from placesim.formats.onnx import rows as families
from placesim.formats.onnx.onnx_node import Row, Rows


@cache
def rows() -> dict[tuple[str, str], dict[int, Row]]:
    """Return the converters by domain and op, then by the version of the op's definition."""
    found: dict[tuple[str, str], dict[int, Row]] = {}
    # imported by name: each module of the folder is a family, so that no list needs to name a new module
    for module in iter_modules(families.__path__, f"{families.__name__}."):
        table: Rows = getattr(import_module(module.name), "ROWS", {})
        for (op, *versions), row in table.items():
            domain, _, name = op.rpartition("::")
            found.setdefault((domain, name), {}).update(dict.fromkeys(versions, row))
    return found


def find_row(domain: str, op: str, since: int) -> Row | None:
    """Return the converter of an op; None if there is none for this version."""
    return rows().get((domain, op), {}).get(since)


def known_versions(domain: str, op: str) -> list[int]:
    """Return the versions of an op that have converters."""
    return sorted(rows().get((domain, op), ()))
