"""A picture's tree of name scopes and its matrix of transfers, as lines for a pipe and as a JSON object.

In a pipe, every line begins with the name of its table, and tabs separate its cells. Bytes count only known sizes, and a `+`
follows them if some sizes are unknown.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence, Set
from itertools import chain
from typing import Any, NamedTuple

from placesim.inspection.picturing.picture import Picture
from placesim.inspection.picturing.scopes import Scope, find_open_scopes, scope_tree, unfold
from placesim.inspection.short_device_names import short_names
from placesim.placement.function_bodies import Repeat
from placesim.report.text.amounts import plain_bytes
from placesim.report.text.tables import NOTHING, TableSpec, TabLines

NOT_PLACED = "not-placed"
ROOT = "."
"""Path of the root scope."""


def device_labels(picture: Picture) -> dict[int, str]:
    """Return the label of each device by index; -1 stands for nodes that are not placed."""
    return {-1: NOT_PLACED, **dict(enumerate(short_names(picture.devices)))}


# --- in a pipe ------------------------------------------------------------------------------------------------------

COLUMNS = {
    **dict.fromkeys(("scope", "body"), ("scope", "nodes", "bytes", "devices")),
    "repeat": ("body", "same_as"),
    "transfers": ("src", "dst", "tensors", "bytes"),
    "host-copies": ("device", "tensors", "bytes"),
    "signals": ("src", "dst", "count"),
    "memory": ("device", "peak", "limit", "node"),
    "note": ("sentence",),
}
"""Columns of each table in a pipe.

- `body` has the scopes in bodies of called functions, and `scope` all others. `devices` has `DEVICE=nodes` for each device.
- `repeat` is a function body, and the earlier body that is placed exactly like it.
- `host-copies` are copies between a device's memory and the host's.
- `signals` counts control edges.
- `memory` has the peak and the node that ran then, if memory was requested.
"""


def scope_lines(picture: Picture, depth: int | None = None) -> TabLines:
    """Return lines for every scope down to `depth`, and for every pair of devices with transfers."""
    labels = device_labels(picture)
    tree = scope_tree(picture.nodes, fold_limit=None)
    within = within_bodies(picture)
    scopes = (
        _scope_row(scope, labels, "body" if within(scope.name) else "scope")
        for level, scope in tree.walk()
        if depth is None or level <= depth
    )
    transfers = (
        ("transfers", labels[src], labels[dst], f"{total.number}", plain_bytes(total))
        for (src, dst), total in picture.matrix().items()
    )
    host = (
        ("host-copies", labels[device], f"{total.number}", plain_bytes(total)) for device, total in picture.asides.host.items()
    )
    signals = (("signals", labels[src], labels[dst], f"{count}") for (src, dst), count in picture.asides.signals.items())
    repeats = (("repeat", *repeat) for repeat in repeated_bodies(picture))
    return TabLines(COLUMNS, chain(scopes, repeats, transfers, host, signals, _memory_rows(picture)))


def _memory_rows(picture: Picture) -> Iterator[Sequence[str]]:
    labels = dict(zip(picture.devices, short_names(picture.devices), strict=True))
    for usage in picture.memory:
        limit = NOTHING if usage.limit is None else f"{usage.limit}"
        yield "memory", labels[usage.device], f"{usage.peak}", limit, usage.peak_node
    if picture.memory_note:
        yield "note", f"memory: {picture.memory_note}"


def within_bodies(picture: Picture) -> Callable[[str], str]:
    """Return a function that maps a scope's name to the path of the innermost function body around the scope.

    The path is empty for scopes of the graph itself.
    """
    bodies = {node.body for node in picture.nodes if node.body}

    def within(name: str) -> str:
        while name and name not in bodies:
            name = name.rpartition("/")[0]
        return name

    return within if bodies else lambda name: ""


def repeated_bodies(picture: Picture) -> Sequence[Repeat]:
    """Return the function bodies that are placed exactly like earlier bodies."""
    return () if picture.live is None else picture.live.bodies.repeats


def _scope_row(scope: Scope, labels: dict[int, str], kind: str) -> Sequence[str]:
    total = scope.total
    devices = " ".join(f"{labels[device]}={amount.number}" for device, amount in scope.by_device.items())
    return kind, scope.name or ROOT, f"{total.number}", plain_bytes(total), devices


# --- JSON -----------------------------------------------------------------------------------------------------------


def scopes_document(picture: Picture, depth: int | None = None) -> dict[str, Any]:
    """Return the JSON object: `scopes`, outer ones first, `transfers` and other copies. Scopes are generated one by one.

    Devices have full names, and null means not placed. `host_copies` and `signals` are the copies that are not transfers.
    `body` is the path of the scope's function body, or null; `repeats` lists identical bodies.
    """
    names: dict[int, str | None] = {-1: None, **dict(enumerate(picture.devices))}
    tree, within = scope_tree(picture.nodes, fold_limit=None), within_bodies(picture)
    return {
        "devices": list(picture.devices),
        "scopes": (
            _scope_document(scope, names, within(scope.name)) for level, scope in tree.walk() if depth is None or level <= depth
        ),
        "repeats": [{"body": repeat.path, "same_as": repeat.of} for repeat in repeated_bodies(picture)],
        "transfers": [
            {"src": names[src], "dst": names[dst], **total.document("tensors")}
            for (src, dst), total in picture.matrix().items()
        ],
        "host_copies": [
            {"device": names[device], **total.document("tensors")} for device, total in picture.asides.host.items()
        ],
        "signals": [
            {"src": names[src], "dst": names[dst], "count": count} for (src, dst), count in picture.asides.signals.items()
        ],
        "memory": [
            {"device": usage.device, "peak": usage.peak, "limit": usage.limit, "node": usage.peak_node}
            for usage in picture.memory
        ]
        or None,
        "memory_note": picture.memory_note or None,
        "warnings": list(picture.warnings),
        "error": picture.error or None,
    }


TABLES = (
    TableSpec("scopes", ("scopes",), ("scope", "body", "nodes", "bytes", "unknown")),
    TableSpec("repeats", ("repeats",), ("body", "same_as")),
    TableSpec("devices", ("scopes", "by_device"), ("scope", "device", "nodes", "bytes", "unknown")),
    TableSpec("transfers", ("transfers",), ("src", "dst", "tensors", "bytes", "unknown")),
    TableSpec("host-copies", ("host_copies",), ("device", "tensors", "bytes", "unknown")),
    TableSpec("signals", ("signals",), ("src", "dst", "count")),
    TableSpec("memory", ("memory",), ("device", "peak", "limit", "node")),
)
"""Tables of the JSON object."""


def _scope_document(scope: Scope, names: dict[int, str | None], body: str) -> dict[str, Any]:
    by_device = [{"device": names[device], **amount.document("nodes")} for device, amount in scope.by_device.items()]
    return {"scope": scope.name, "body": body or None, **scope.total.document("nodes"), "by_device": by_device}


# --- which rows a terminal shows ------------------------------------------------------------------------------------


class Row(NamedTuple):
    """A row of the tree.

    `item` is a scope, the id of a node, or a tuple of neighbouring scopes that share a row because there is no room.
    `is_closed` means that the inner scopes of `item` are not shown.
    """

    level: int
    item: Scope | int | tuple[Scope, ...]
    is_closed: bool = False


def folded_rows(picture: Picture, limit: int, depth: int | None = None) -> list[Row]:
    """Return rows for the scopes that fit into `limit` rows, or for all scopes down to `depth`; a small graph also shows nodes.

    If the outermost level has too many scopes, only those with the most nodes are shown.
    """
    tree = scope_tree(picture.nodes)
    scopes = [scope for _, scope in tree.walk()]
    if depth is None and len(scopes) + len(picture.nodes) <= limit:
        return _rows(tree, set(scopes), with_nodes=True)
    opened = unfold(tree, limit, nodes_count=False) if depth is None else find_open_scopes(tree, depth)
    rows = _rows(tree, opened, with_nodes=False)
    return rows if depth is not None or len(rows) <= limit else _largest(tree, limit)


def _largest(tree: Scope, limit: int) -> list[Row]:
    """Return rows for the outermost scopes with the most nodes, in their order, and a row for all others."""
    by_size = sorted(tree.scopes, key=lambda scope: -scope.total.number)
    kept = set(by_size[: max(1, limit - 2)])
    rest = tuple(scope for scope in tree.scopes if scope not in kept)
    shown = [Row(1, scope, bool(scope.scopes)) for scope in tree.scopes if scope in kept]
    return [Row(0, tree), *shown, *([Row(1, rest)] if rest else [])]


def _rows(tree: Scope, opened: Set[Scope], with_nodes: bool) -> list[Row]:
    rows: list[Row] = []
    waiting: list[tuple[int, Scope | int]] = [(0, tree)]
    while waiting:
        level, item = waiting.pop()
        if isinstance(item, Scope):
            rows.append(Row(level, item, bool(item.scopes) and item not in opened))
            shown = item.children if with_nodes else item.scopes
            waiting += [(level + 1, child) for child in reversed(shown)] if item in opened else []
        else:
            rows.append(Row(level, item))
    return rows
