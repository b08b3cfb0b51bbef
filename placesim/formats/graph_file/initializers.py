"""How a variable starts, as a graph file says it.  Every function raises `Wrong`."""

from __future__ import annotations

from typing import Any

from placesim.formats.graph_file.values import int_value, literal
from placesim.formats.problems import Wrong, shown
from placesim.graph.variables import INITIALIZER_FIELDS, Initializer
from placesim.suggestions import did_you_mean


def kind_value(value: Any) -> str:
    """`ref` or `resource`."""
    if value not in ("ref", "resource"):
        raise Wrong(
            f"unknown kind of variable: got {shown(value)}, expected ref or resource{did_you_mean(value, ('ref', 'resource'))}"
        )
    return str(value)


def initializer_value(value: Any) -> Initializer:
    """An initializer by name, or as a mapping of its name to its figures."""
    kinds = (*INITIALIZER_FIELDS, "constant", "value")
    if isinstance(value, str) and value in INITIALIZER_FIELDS:
        return Initializer(value)
    if isinstance(value, dict) and len(value) == 1:
        ((kind, fields),) = value.items()
        if kind in ("constant", "value"):
            return Initializer(kind, {kind: literal(fields)})
        if kind in INITIALIZER_FIELDS:
            return Initializer(kind, _initializer_fields(kind, {} if fields is None else fields))
        value = kind
    raise Wrong(f"unknown initializer: got {shown(value)}, expected one of {', '.join(kinds)}{did_you_mean(value, kinds)}")


def _initializer_fields(kind: str, fields: Any) -> dict[str, Any]:
    known = INITIALIZER_FIELDS[kind]
    if not isinstance(fields, dict):
        raise Wrong(f"wrong type of '{kind}': got {shown(fields)}, expected a mapping of {', '.join(known) or 'nothing'}")
    for key, value in fields.items():
        if key not in known:
            raise Wrong(
                f"unknown key in '{kind}': got '{key}', expected {', '.join(known) or 'none'}{did_you_mean(key, known)}"
            )
        if key == "seed":
            int_value(value, -(1 << 63), (1 << 63) - 1, "'seed'")
        elif type(value) not in (int, float):
            raise Wrong(f"wrong type of '{key}': got {shown(value)}, expected a number")
    return dict(fields)
