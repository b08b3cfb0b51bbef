"""A picture -> its tree of name scopes and its matrix of copies, as text for a pipe, for a terminal, and as a JSON object.

In a pipe every line begins with what it is, and has tabs between its parts: `scope`, path, nodes, bytes, and `DEVICE=nodes` for
each device; then `transfers`, source, target, tensors, bytes.  Bytes are those that are known; where some are not, `+` follows.
What else is copied: `host-copies`, device, tensors, bytes between its memory and the host's; `signals`, source, target, and how
many control edges.
Bodies of functions that nodes call are counted apart, in lines that begin with `body` in the place of `scope`; `repeat`, path,
path: a body that is as another one.
Where memory was asked for: `memory`, device, bytes at its peak, its limit or `-`, the node at it; or `note` and a sentence.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence, Set
from itertools import chain
from typing import Any, NamedTuple

from placesim.core.escaping import escape_line
from placesim.inspection.picturing.picture import Picture
from placesim.inspection.picturing.scopes import Scope, find_open_scopes, scope_tree, unfold
from placesim.inspection.short_device_names import short_names
from placesim.placement.function_bodies import Repeat
from placesim.report.text.amounts import plain_bytes
from placesim.report.text.tables import TableSpec

NOT_PLACED = "not-placed"
ROOT = "."
"""Path of the root scope."""


def device_labels(picture: Picture) -> dict[int, str]:
    """Label of each device, by index, and of nodes on none."""
    return {-1: NOT_PLACED, **dict(enumerate(short_names(picture.devices)))}


# --- in a pipe ------------------------------------------------------------------------------------------------------


def format_lines(picture: Picture, depth: int | None = None) -> Iterator[str]:
    """Lines for every scope down to `depth`, and for every pair of devices with transfers."""
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
    rows = chain(scopes, repeats, transfers, host, signals, _memory_rows(picture))
    return ("\t".join(map(escape_line, row)) + "\n" for row in rows)


def _memory_rows(picture: Picture) -> Iterator[Sequence[str]]:
    labels = dict(zip(picture.devices, short_names(picture.devices), strict=True))
    for usage in picture.memory:
        limit = "-" if usage.limit is None else f"{usage.limit}"
        yield "memory", labels[usage.device], f"{usage.peak}", limit, usage.peak_node
    if picture.memory_note:
        yield "note", f"memory: {picture.memory_note}"


def within_bodies(picture: Picture) -> Callable[[str], str]:
    """For a scope's name the path of the innermost body that it is in, or is; empty for scopes of the graph itself."""
    bodies = {node.body for node in picture.nodes if node.body}

    def within(name: str) -> str:
        while name and name not in bodies:
            name = name.rpartition("/")[0]
        return name

    return within if bodies else lambda name: ""


def repeated_bodies(picture: Picture) -> Sequence[Repeat]:
    """Bodies that are identical to others, which represent them."""
    return () if picture.live is None else picture.live.bodies.repeats


def _scope_row(scope: Scope, labels: dict[int, str], kind: str) -> Sequence[str]:
    total = scope.total
    devices = " ".join(f"{labels[device]}={amount.number}" for device, amount in scope.by_device.items())
    return kind, scope.name or ROOT, f"{total.number}", plain_bytes(total), devices


# --- JSON -----------------------------------------------------------------------------------------------------------


def scopes_document(picture: Picture, depth: int | None = None) -> dict[str, Any]:
    """`scopes`, each before those in it, and `transfers` between devices; devices by their full names, null for none.

    `host_copies` and `signals` are what is copied beside transfers.  Scopes come one by one; in `body` they have the path of
    the function's body that they are of, null for those of the graph, and `repeats` are bodies that are as others.
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
"""Of the JSON object."""


def _scope_document(scope: Scope, names: dict[int, str | None], body: str) -> dict[str, Any]:
    by_device = [{"device": names[device], **amount.document("nodes")} for device, amount in scope.by_device.items()]
    return {"scope": scope.name, "body": body or None, **scope.total.document("nodes"), "by_device": by_device}


# --- which rows a terminal shows ------------------------------------------------------------------------------------


class Row(NamedTuple):
    """A row of the tree: a scope, or a node by its id; `is_closed` where scopes in it are left out.

    `item` is a tuple where scopes are left out for want of room: all of those that stand beside each other, in one row.
    """

    level: int
    item: Scope | int | tuple[Scope, ...]
    is_closed: bool = False


def folded_rows(picture: Picture, limit: int, depth: int | None = None) -> list[Row]:
    """The scopes that fit into `limit` rows, or those down to `depth`; nodes too where a small graph fits as a whole.

    Where those of the outermost level are too many already, the ones with the most nodes stay.
    """
    tree = scope_tree(picture.nodes)
    scopes = [scope for _, scope in tree.walk()]
    if depth is None and len(scopes) + len(picture.nodes) <= limit:
        return _rows(tree, set(scopes), with_nodes=True)
    opened = unfold(tree, limit, nodes_count=False) if depth is None else find_open_scopes(tree, depth)
    rows = _rows(tree, opened, with_nodes=False)
    return rows if depth is not None or len(rows) <= limit else _largest(tree, limit)


def _largest(tree: Scope, limit: int) -> list[Row]:
    """The scopes of the outermost level with the most nodes, in their order, and a row for the rest of them."""
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
