"""Graphviz text of a picture: scopes as clusters, nodes coloured by device, transfers as bold links with their bytes."""

from __future__ import annotations

import json
from collections.abc import Iterator, Set

from placesim.core.escaping import escape_line
from placesim.inspection.picturing.drawing import BoxLink, Drawing, draw
from placesim.inspection.picturing.picture import Picture
from placesim.inspection.picturing.scopes import Scope, choose_open_scopes, walk
from placesim.report.palette import GREY, LIGHT, device_colour, text_colour
from placesim.report.text.amounts import readable_bytes
from placesim.report.text.scopes import device_labels

COPY, LINK = LIGHT["copy"].upper(), LIGHT["link"].upper()
MAX_BOXES = 400
"""Default maximum of boxes, so that Graphviz is quick; a given depth may exceed it."""


def format_dot(picture: Picture, depth: int | None = None) -> str:
    """Return a digraph. Scopes down to `depth`, or as many as fit, are clusters; all others are boxes."""
    root, opened = choose_open_scopes(picture.nodes, MAX_BOXES, depth)
    drawing = draw(picture, root, opened)
    return "".join(f"{line}\n" for line in _lines(picture, root, opened, drawing))


def _lines(picture: Picture, root: Scope, opened: Set[Scope], drawing: Drawing) -> Iterator[str]:
    yield f"digraph {_quoted(picture.name)} {{"
    yield f'  graph [rankdir=TB, fontname="Helvetica", labeljust=l, style=rounded, color="{GREY.code}"];'
    yield '  node [shape=box, style="rounded,filled", fontname="Helvetica", fontsize=10];'
    yield f'  edge [color="{LINK}", fontname="Helvetica", fontsize=9];'
    numbers: dict[Scope | int, int] = {box: number for number, box in enumerate(drawing.boxes)}
    yield from _boxes(picture, root, opened, numbers)
    yield from (f"  b{link.source} -> b{link.target}{_link_attributes(link)};" for link in drawing.links)
    yield "}"


def _boxes(picture: Picture, root: Scope, opened: Set[Scope], numbers: dict[Scope | int, int]) -> Iterator[str]:
    """Yield nested clusters with their boxes."""
    clusters = 0
    for level, item in walk(root, opened):
        indent = "  " * level
        if item is None:
            yield f"{indent}}}"
        elif isinstance(item, Scope) and item in opened:
            yield f"{indent}subgraph cluster_{clusters} {{"
            yield f"{indent}  label={_quoted(item.label)};"
            clusters += 1
        else:
            yield f"{indent}b{numbers[item]} [{_box_attributes(picture, item)}];"


def _box_attributes(picture: Picture, item: Scope | int) -> str:
    labels = device_labels(picture)
    if isinstance(item, Scope):
        shares = ", ".join(f"{labels[device]} {amount.number}" for device, amount in item.by_device.items())
        colours = [device_colour(device) for device in item.by_device]
        fill, style = (colours[0], "rounded,filled") if len(colours) == 1 else (_shares(item), "striped")
        ink = text_colour(colours[0]) if len(colours) == 1 else "#000000"
        label = _quoted(f"{item.label}/ ({item.total.number})", shares)
        return f'label={label}, style="{style}", fillcolor="{fill}", fontcolor="{ink}"'
    node = picture.nodes[item]
    fill = device_colour(node.device)
    name = node.name.rpartition("/")[2]
    return f'label={_quoted(name, f"{node.op} on {labels[node.device]}")}, fillcolor="{fill}", fontcolor="{text_colour(fill)}"'


def _shares(scope: Scope) -> str:
    """Return stripes in Graphviz's format: the colour and share of each device."""
    whole = scope.total.number
    return ":".join(f"{device_colour(device)};{amount.number / whole:.3f}" for device, amount in scope.by_device.items())


def _link_attributes(link: BoxLink) -> str:
    if link.copies.number:
        size = readable_bytes(link.copies)
        # an xlabel takes no part in the layout: Graphviz 2.43 fails ("trouble in init_rank") on labels between nested clusters
        return f' [xlabel="{size}", color="{COPY}", fontcolor="{COPY}", penwidth=2.5]'
    return "" if link.is_data else " [style=dotted]"


def _quoted(*lines: str) -> str:
    """Return lines as one string in Graphviz's quotes, with `&` escaped as in HTML, and Graphviz's own line breaks."""
    return (
        '"' + "\\n".join(json.dumps(escape_line(line), ensure_ascii=False)[1:-1].replace("&", "&amp;") for line in lines) + '"'
    )
