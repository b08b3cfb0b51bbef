"""A Mermaid flowchart of a picture, for Markdown: scopes as subgraphs, transfers as thick links."""

from __future__ import annotations

from collections.abc import Iterator, Set

from placesim.core.escaping import escape_line
from placesim.inspection.picturing.drawing import Drawing, draw
from placesim.inspection.picturing.picture import Picture
from placesim.inspection.picturing.scopes import Scope, choose_open_scopes, walk
from placesim.report.palette import LIGHT, device_colour, text_colour
from placesim.report.text.amounts import readable_bytes
from placesim.report.text.scopes import device_labels

MAX_BOXES = 80
"""Default maximum of boxes: Mermaid draws at most 500 links, and is slow even with fewer links."""


def format_mermaid(picture: Picture, depth: int | None = None) -> str:
    """Return a flowchart. Scopes down to `depth`, or as many as fit, are subgraphs; all others are boxes."""
    root, opened = choose_open_scopes(picture.nodes, MAX_BOXES, depth)
    drawing = draw(picture, root, opened)
    return "".join(f"{line}\n" for line in _lines(picture, root, opened, drawing))


def _lines(picture: Picture, root: Scope, opened: Set[Scope], drawing: Drawing) -> Iterator[str]:
    labels = device_labels(picture)
    numbers: dict[Scope | int, int] = {box: number for number, box in enumerate(drawing.boxes)}
    yield "flowchart TD"
    yield from _boxes(picture, root, opened, numbers, labels)
    for link in drawing.links:
        size = readable_bytes(link.copies)
        arrow = f"== {size} ==>" if link.copies.number else "-->" if link.is_data else "-.->"
        yield f"  b{link.source} {arrow} b{link.target}"
    for device in sorted({device for box in drawing.boxes if (device := _device(picture, box)) is not None}):
        fill = device_colour(device)
        yield f"  classDef {_class(device)} fill:{fill},color:{text_colour(fill)},stroke:{LIGHT['link'].upper()}"


def _boxes(
    picture: Picture, root: Scope, opened: Set[Scope], numbers: dict[Scope | int, int], labels: dict[int, str]
) -> Iterator[str]:
    subgraphs = 0
    for level, item in walk(root, opened):
        indent = "  " * level
        if item is None:
            yield f"{indent}end"
        elif isinstance(item, Scope) and item in opened:
            yield f'{indent}subgraph s{subgraphs}["{_escaped(item.label)}"]'
            subgraphs += 1
        else:
            device = _device(picture, item)
            yield f"{indent}b{numbers[item]}{_box(picture, item, labels)}" + ("" if device is None else f":::{_class(device)}")


def _box(picture: Picture, item: Scope | int, labels: dict[int, str]) -> str:
    if isinstance(item, Scope):
        shares = ", ".join(f"{_escaped(labels[device])} {amount.number}" for device, amount in item.by_device.items())
        return f'[["{_escaped(item.label)}<br>{shares}"]]'
    node = picture.nodes[item]
    return f'("{_escaped(node.name.rpartition("/")[2])}<br>{_escaped(node.op)} on {_escaped(labels[node.device])}")'


def _device(picture: Picture, item: Scope | int) -> int | None:
    """Return the device of a box, or None if it has several."""
    if isinstance(item, Scope):
        return next(iter(item.by_device)) if len(item.by_device) == 1 else None
    return picture.nodes[item].device


def _class(device: int) -> str:
    return f"d{device}" if device >= 0 else "unplaced"


def _escaped(text: str) -> str:
    """Return a text for use inside quotes in Mermaid, with special characters as numeric entities."""
    shown = escape_line(text)
    return "".join(
        character if character.isalnum() or character in " _-./():…" else f"#{ord(character)};" for character in shown
    )
