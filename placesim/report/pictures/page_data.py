"""The data of the page of a placement: columns of numbers and texts, each distinct text stored once.

Nodes have their numbers in the picture; scopes are numbered in the order of the tree, from the root 0. A child of a scope is a
node's number, or `-1 - n` for scope n. An input is a pair of node and slot, with slot -1 for a control edge. A node's outputs
and attrs are indices into `lists`, whose items are indices into `values`. A request is a row of its text and the devices that
it allows.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Set
from shlex import quote
from typing import Any

from placesim.inspection.explaining.paragraphs import Paragraph, Paragraphs
from placesim.inspection.memory_requirements import name_of
from placesim.inspection.picturing.details import allowed_devices, attr_texts, device_tasks, device_work, output_texts
from placesim.inspection.picturing.drawing import copies_by_edge
from placesim.inspection.picturing.edits import node_edits
from placesim.inspection.picturing.order import node_depths
from placesim.inspection.picturing.picture import Picture
from placesim.inspection.picturing.scopes import Scope, page_tree
from placesim.inspection.short_device_names import short_names
from placesim.report.pictures.shell import ValueTable
from placesim.report.text.explanation import trial_text
from placesim.runtime.partitioning.pruning import feed_name

_SENT = re.compile(r"/_\d+$")
"""End of the name of a node that a step adds for a tensor that arrives from another device."""
MAX_EDITS = 8
"""Maximum edits shown per node, as in `explain`."""


_NO_PROOFS: dict[str, Any] = {"paragraphs": [], "proofs": [], "of_node": []}


def page_document(picture: Picture, *, explains: bool = True) -> dict[str, Any]:
    """Return all data of the page. Without `explains`, it has no proofs and no edits."""
    root, opened = page_tree(picture.nodes)
    ops, requests = ValueTable[str](), ValueTable[str]()
    values, lists = ValueTable[str](), ValueTable[tuple[int, ...]]()

    def numbered(rows: Iterable[tuple[str, ...]]) -> list[int]:
        return [lists.number(tuple(map(values.number, row))) for row in rows]

    nodes = {
        "name": [node.name for node in picture.nodes],
        "op": [ops.number(node.op) for node in picture.nodes],
        "device": [node.device for node in picture.nodes],
        "requested": [requests.number(node.requested) for node in picture.nodes],
        "bytes": [node.bytes for node in picture.nodes],
        "place": [f"{node.location}" if node.location else "" for node in picture.nodes],
        "inputs": [[number for source in node.inputs for number in source] for node in picture.nodes],
        "depth": node_depths(picture.nodes),
        "outputs": numbered(output_texts(picture)),
        "attrs": numbered(attr_texts(picture)),
    }
    return {
        "title": picture.name,
        "devices": _devices(picture),
        "ops": list(ops),
        "requests": [[text, *allowed_devices(text, picture.devices)] for text in requests],
        "values": list(values),
        "lists": [list(row) for row in lists],
        "nodes": nodes,
        "scopes": _scopes(root, opened),
        "copies": [list(copy) for copy in picture.copies],
        "edge_copies": [[*key, copy] for key, copy in copies_by_edge(picture).items()],
        "memory": _memory(picture),
        "proofs": _proofs(picture) if explains else _NO_PROOFS,
        "edits": _edits(picture) if explains else [],
        "explain": _explain_command(picture),
        "warnings": list(picture.warnings),
        "error": picture.error,
        "has_graph": picture.live is not None,
    }


def _devices(picture: Picture) -> list[dict[str, Any]]:
    """Return the devices with their tasks (empty if there is only one) and predicted seconds per step."""
    tasks, work = device_tasks(picture.devices), device_work(picture)
    rows = zip(picture.devices, short_names(picture.devices), tasks, work, strict=True)
    return [{"name": name, "short": short, "task": task, "work": seconds} for name, short, task, seconds in rows]


def _memory(picture: Picture) -> dict[str, Any] | None:
    """Return each device's peak with the node that ran then, and the bytes that each node holds at the peaks.

    Returns None if memory was not requested.

    A node that a step adds (`a/_7`) counts as the node whose tensor it carries. -1 stands for a node that the picture lacks,
    such as one in a function's body.
    """
    if not picture.memory and not picture.memory_note:
        return None
    devices = {name: index for index, name in enumerate(picture.devices)}
    nodes = {node.name: index for index, node in enumerate(picture.nodes)}

    def node_of(name: str) -> int:
        return nodes.get(name, nodes.get(feed_name(_SENT.sub("", name)), -1))

    held: dict[tuple[int, int], int] = {}
    for usage in picture.memory:
        for holder in usage.holders:
            key = node_of(name_of(holder)), devices[usage.device]
            held[key] = held.get(key, 0) + holder.size
    return {
        "note": picture.memory_note,
        "peaks": [
            [devices[usage.device], usage.peak, usage.limit, node_of(usage.peak_node), usage.peak_node]
            for usage in picture.memory
        ],
        "held": [[*key, size] for key, size in held.items() if key[0] >= 0],
    }


def _scopes(root: Scope, opened: Set[Scope]) -> dict[str, list[Any]]:
    scopes = [scope for _, scope in root.walk()]
    numbers = {scope: number for number, scope in enumerate(scopes)}
    return {
        "name": [scope.name for scope in scopes],
        "label": [scope.label for scope in scopes],
        "folded": [int(scope.is_folded) for scope in scopes],
        "copies": [scope.copies for scope in scopes],
        "bodies": [int(scope.is_body) for scope in scopes],
        "children": [
            [-1 - numbers[child] if isinstance(child, Scope) else child for child in scope.children] for scope in scopes
        ],
        "opened": [number for number, scope in enumerate(scopes) if scope in opened],
    }


def _proofs(picture: Picture) -> dict[str, Any]:
    """Return the distinct paragraphs, the distinct proofs as lists of paragraphs, and each node's proof."""
    if picture.live is None or picture.live.placement is None:
        return _NO_PROOFS
    paragraphs, proofs = ValueTable[Paragraph](), ValueTable[tuple[int, ...]]()
    source = Paragraphs(picture.live, picture.costs)
    of_node = [
        proofs.number(tuple(paragraphs.number(paragraph) for paragraph in source.of(node_id)))
        for node_id in range(len(picture.nodes))
    ]
    return {
        "paragraphs": [[paragraph.term, paragraph.text, *paragraph.nodes] for paragraph in paragraphs],
        "proofs": [list(p) for p in proofs],
        "of_node": of_node,
    }


def _edits(picture: Picture) -> list[list[Any]]:
    """Return a row for each node that is not on its requested device: node, number of untried edits, and edits as texts."""
    return [
        [node, found.untried, *(str(trial_text(trial, device)) for trial in found.outcomes[:MAX_EDITS])]
        for node, device, found in node_edits(picture)
    ]


def _explain_command(picture: Picture) -> str:
    """Return the command that explains a node, without the node's name; empty if the graph is not a file."""
    if picture.live is None or picture.name.startswith("<"):
        return ""
    return picture.command or f"placesim explain {quote(picture.name)}"
