"""SVG of a picture with one lane (row) per device: the first view of the page, created without a browser.

Sizes are in CSS pixels. The drawing is always in light colours: it is for documents.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator, Set
from html import escape
from typing import NamedTuple

from placesim.core.escaping import escape_line
from placesim.inspection.byte_amounts import Amount
from placesim.inspection.picturing.details import device_tasks, device_work
from placesim.inspection.picturing.lanes import ScopePiece, Wire, arrange_lanes
from placesim.inspection.picturing.picture import UNPLACED, Picture
from placesim.inspection.picturing.scopes import Scope, find_open_scopes, page_tree, scope_tree
from placesim.inspection.short_device_names import short_names
from placesim.report.palette import LIGHT, PATTERNS, device_colour, device_pattern, mix_colours, pattern_colour
from placesim.report.pictures.curves import Curve, End
from placesim.report.pictures.text_width import fit_text, text_width
from placesim.report.text.amounts import readable_count, readable_seconds, readable_size

WIDTH = 1200
"""Width at which letters have at least 10 pixels if the picture fills a page of text or a slide."""
FONT = "system-ui, -apple-system, 'Segoe UI', Roboto, 'Liberation Sans', 'DejaVu Sans', sans-serif"
TEXT, SOFT, LINE, GROUND, SURFACE, COPY, LINK, ACCENT, WASH = map(
    LIGHT.__getitem__, ("text", "soft", "line", "ground", "surface", "copy", "link", "accent", "wash")
)
MARGIN, TOP, FOOT, TASK = 14, 54, 30, 26
HEAD, HEAD_LINE, METER = 152, 17, 10
COLUMN, BOX_WIDTH, BOX, GAP, SIDE = 150, 210, 46, 8, 16
"""Minimum width of a column, maximum width of a box, height of a box, gap between boxes, and margin beside them."""
MAX_PILLS = 40


class Rect(NamedTuple):
    """Rectangle in a drawing."""

    x: float
    y: float
    width: float
    height: float

    def overlaps(self, other: Rect) -> bool:
        """Whether the rectangles have a part in common."""
        return (
            self.x < other.x + other.width
            and other.x < self.x + self.width
            and self.y < other.y + other.height
            and other.y < self.y + self.height
        )

    @property
    def middle(self) -> tuple[float, float]:
        """The point in the middle."""
        return self.x + self.width / 2, self.y + self.height / 2


def format_svg(picture: Picture, depth: int | None = None) -> str:
    """Return the SVG, with scopes open down to `depth`, or as on the page when it opens."""
    if depth is None:
        root, opened = page_tree(picture.nodes)
    else:
        root = scope_tree(picture.nodes, None)
        opened = find_open_scopes(root, depth)
    return "".join(f"{line}\n" for line in _Drawing(picture, root, opened).lines())


class _Drawing:
    def __init__(self, picture: Picture, root: Scope, opened: Set[Scope]) -> None:
        self._picture = picture
        room = WIDTH - 2 * MARGIN - HEAD
        self._lanes = arrange_lanes(picture, root, opened, room // COLUMN)
        self._short = short_names(picture.devices)
        self._work = device_work(picture)
        self._column = room / self._lanes.columns
        self._most_bytes = max((wire.copies.bytes for wire in self._lanes.wires), default=0) or 1
        self._lane_rects: dict[int, Rect] = {}
        self._rects: list[Rect] = []
        self._tasks: list[tuple[float, str]] = []
        self._height = self._place()

    # --- places

    def _place(self) -> float:
        """Compute the positions of lanes and boxes; return the total height."""
        tasks = device_tasks(self._picture.devices)
        y, task = float(TOP), ""
        found: dict[int, Rect] = {}
        for device in self._lanes.devices:
            owner = tasks[device] if device >= 0 else ("not placed" if task else "")
            if owner != task:
                self._tasks.append((y, owner))
                y, task = y + TASK, owner
            stacks = Counter(piece.column for piece in self._lanes.of_device(device))
            highest = max(stacks.values(), default=0)
            head = sum(HEAD_LINE if line else METER for line, _, _ in self._head_lines(device))
            height = max(highest * (BOX + GAP) - GAP + 20, HEAD_LINE + head + 16)
            self._lane_rects[device] = lane = Rect(MARGIN, y, WIDTH - 2 * MARGIN, height)
            filled: Counter[int] = Counter()
            for number, piece in enumerate(self._lanes.pieces):
                if piece.device == device:
                    found[number] = self._box_rect(lane, piece, filled[piece.column], stacks[piece.column])
                    filled[piece.column] += 1
            y += height
        self._rects = [found[number] for number in range(len(found))]
        return y + FOOT

    def _box_rect(self, lane: Rect, piece: ScopePiece, above: int, stack: int) -> Rect:
        width = min(BOX_WIDTH, self._column - 2 * SIDE)
        x = lane.x + HEAD + piece.column * self._column + (self._column - width) / 2
        top = lane.y + (lane.height - stack * (BOX + GAP) + GAP) / 2
        return Rect(x, top + above * (BOX + GAP), width, BOX)

    # --- lines of the file

    def lines(self) -> Iterator[str]:
        name = escape(escape_line(self._picture.name))
        size = f'width="{WIDTH}" height="{_n(self._height)}" viewBox="0 0 {WIDTH} {_n(self._height)}"'
        look = f'role="img" font-family="{FONT}" font-size="12" fill="{TEXT}"'
        yield f'<svg xmlns="http://www.w3.org/2000/svg" {size} {look}>'
        yield f"<title>{name}</title>"
        yield from self._patterns()
        yield _rect(Rect(0, 0, WIDTH, self._height), GROUND)
        yield _text(
            MARGIN, 24, fit_text(escape_line(self._picture.name), WIDTH - 2 * MARGIN, 15, is_bold=True), size=15, bold=True
        )
        said = self._picture.error or self._facts()
        colour = COPY if self._picture.error else SOFT
        yield _text(MARGIN, 43, fit_text(escape_line(said), WIDTH - 2 * MARGIN, 12), colour)
        for number, device in enumerate(self._lanes.devices):
            yield from self._lane(device, number % 2 == 0)
        for y, owner in self._tasks:
            yield _text(MARGIN + 12, y + 17, escape_line(owner), SOFT, bold=True)
        yield from self._wires()
        for number, piece in enumerate(self._lanes.pieces):
            yield from self._box(piece, self._rects[number])
        yield from self._pills()
        yield from self._foot()
        yield "</svg>"

    def _facts(self) -> str:
        picture = self._picture
        total = Amount()
        for copy in picture.copies:
            total = total.plus(copy.bytes)
        size = f"{'≥ ' if total.unknown else ''}{readable_size(total.bytes)}"
        copied = f"{readable_count(total.number, 'transfer')}, {size}" if total.number else "no transfers"
        return f"{readable_count(len(picture.nodes), 'op')} on {readable_count(len(picture.devices), 'device')} · {copied}"

    def _patterns(self) -> Iterator[str]:
        """Yield the pattern tile of each visible device that has one."""
        for device in self._lanes.devices:
            shapes = PATTERNS[device_pattern(device)]
            if shapes:
                ink = pattern_colour(device_colour(device))
                shapes = shapes.replace("<circle", f'<circle fill="{ink}" fill-opacity=".75" stroke="none"')
                yield (
                    f'<pattern id="{_pattern(device)}" width="8" height="8" patternUnits="userSpaceOnUse">'
                    f'<g stroke="{ink}" stroke-opacity=".75" stroke-width="1.3" fill="none">{shapes}</g></pattern>'
                )

    # --- lanes

    def _lane(self, device: int, is_odd: bool) -> Iterator[str]:
        lane = self._lane_rects[device]
        full = self._picture.devices[device] if device >= 0 else "not placed"
        yield f"<g><title>{escape(escape_line(full))}</title>"
        yield _rect(lane, SURFACE if is_odd else GROUND, LINE)
        yield _line(lane.x + HEAD, lane.y, lane.x + HEAD, lane.y + lane.height, LINE)
        x, y = lane.x + 10, lane.y + 8
        name = self._short[device].rpartition("/")[2] if device >= 0 else "not placed"
        yield from _filled(Rect(x, y, 16, 12), device, 2)
        yield _text(x + 22, y + 11, escape_line(name), size=13, bold=True)
        y += HEAD_LINE + 2
        for line, share, is_over in self._head_lines(device):
            if not line:
                meter = Rect(x, y + 3, HEAD - 20, 5)
                yield _rect(meter, WASH, LINE, 2.5)
                yield _rect(meter._replace(width=max(2, meter.width * min(1, share))), COPY if is_over else ACCENT, radius=2.5)
                y += METER
            else:
                yield _text(x, y + 11, line, COPY if is_over else SOFT)
                y += HEAD_LINE
        yield "</g>"

    def _head_lines(self, device: int) -> list[tuple[str, float, bool]]:
        """Return the lines under a lane's name, as tuples: the text, a share, and whether the peak is over the memory limit.

        A line without text is a meter that shows the share.
        """
        count = sum(len(piece.nodes) for piece in self._lanes.of_device(device))
        lines: list[tuple[str, float, bool]] = [(readable_count(count, "op") if count else "no ops", 0, False)]
        work = self._work[device] if device >= 0 else None
        if work is not None and count:
            most = max(seconds for seconds in self._work if seconds is not None) or 1
            lines += [("", work / most, False), (f"{readable_seconds(work)} of work", 0, False)]
        for usage in self._picture.memory:
            if device >= 0 and usage.device == self._picture.devices[device]:
                is_over = usage.limit is not None and usage.peak > usage.limit
                if usage.limit:
                    lines.append(("", usage.peak / usage.limit, is_over))
                of = "at the peak" if usage.limit is None else f"of {readable_size(usage.limit)}"
                lines.append((f"{readable_size(usage.peak)} {of}", 0, is_over))
        return lines

    # --- boxes

    def _box(self, piece: ScopePiece, rect: Rect) -> Iterator[str]:
        colour = device_colour(piece.device)
        name, label, what = self._words(piece)
        dashes = ' stroke-dasharray="4 3"' if isinstance(piece.item, Scope) and piece.item.is_folded else ""
        yield f"<g><title>{escape(escape_line(name))}</title>"
        yield _rect(
            rect, mix_colours(colour, SURFACE, 0.14), mix_colours(colour, TEXT, 0.75), 6, f' stroke-width="1.4"{dashes}'
        )
        room = rect.width - 14
        yield _text(rect.x + 8, rect.y + 16, fit_text(label, room, 12, is_bold=True), bold=True)
        yield _text(rect.x + 8, rect.y + 31, fit_text(what, room, 11), SOFT, size=11)
        yield from _filled(Rect(rect.x + 3, rect.y + rect.height - 9, rect.width - 6, 6), piece.device, 3)
        yield "</g>"

    def _words(self, piece: ScopePiece) -> tuple[str, str, str]:
        """Return the full name, the label and the second line of a box: its op, or its number of ops."""
        item = piece.item
        if not isinstance(item, Scope):
            node = self._picture.nodes[item]
            return node.name, escape_line(node.name), escape_line(node.op)
        total = item.total.number
        count = (
            readable_count(total, "op")
            if len(piece.nodes) == total
            else f"{len(piece.nodes):,} of {readable_count(total, 'op')}"
        )
        copies = f"{item.copies} alike · " if item.copies else ""
        label = escape_line(item.label if item.is_folded else f"{item.name}/")
        return item.name + (f": {item.copies} alike" if item.copies else ""), label, f"{copies}{count}"

    # --- wires

    def _wires(self) -> Iterator[str]:
        self._curves = self._find_curves()
        for wire, curve in zip(self._lanes.wires, self._curves, strict=True):
            width = 1.4 + 5.6 * math.sqrt(wire.copies.bytes / self._most_bytes) if wire.copies.number else 1.2
            colour = COPY if wire.copies.number else LINK
            dashes = "" if wire.is_data else ' stroke-dasharray="2 3"'
            line = f'stroke="{colour}" stroke-opacity=".75" stroke-width="{_n(width)}"{dashes}'
            yield f'<path d="{curve.path}" fill="none" {line}/><path d="{curve.tip(4 + width)}" fill="{colour}"/>'

    def _find_curves(self) -> list[Curve]:
        """Return the curves of the wires. Ends at one edge of a box are side by side, in the order of the curves' other
        ends.
        """
        sides: dict[tuple[object, str], list[tuple[float, int, bool, Rect]]] = {}
        for number, wire in enumerate(self._lanes.wires):
            source, target = self._rects[wire.source], self._target(wire)
            is_ahead, is_down = target.x > source.x + source.width, target.y > source.y
            out = "right" if is_ahead else "bottom" if is_down else "top"
            into = "left" if is_ahead else "top" if is_down else "bottom"
            key = wire.target if wire.target is not None else ("lane", wire.lane)
            for side, rect, other, is_start, owner in (
                (out, source, target, True, wire.source),
                (into, target, source, False, key),
            ):
                by = other.middle[1 if side in ("left", "right") else 0]
                sides.setdefault((owner, side), []).append((by, number, is_start, rect))
        ends: dict[tuple[int, bool], End] = {}
        for (_, side), found in sides.items():
            for place, (_, number, is_start, rect) in enumerate(sorted(found, key=lambda end: end[:2]), start=1):
                ends[number, is_start] = _end(rect, side, place / (len(found) + 1))
        return [Curve(ends[number, True], ends[number, False]) for number in range(len(self._lanes.wires))]

    def _target(self, wire: Wire) -> Rect:
        return self._rects[wire.target] if wire.target is not None else self._lane_rects[wire.lane]._replace(width=HEAD)

    def _pills(self) -> Iterator[str]:
        """Yield byte labels of wires, largest first, where they cover neither boxes nor other labels."""
        taken = [*self._rects, *(rect._replace(width=HEAD) for rect in self._lane_rects.values())]
        wires = self._lanes.wires
        starts, targets = Counter(wire.source for wire in wires), Counter(wire.target for wire in wires)
        order = sorted(range(len(wires)), key=lambda number: (-wires[number].copies.bytes, number))
        for number in [number for number in order if wires[number].copies.number][:MAX_PILLS]:
            wire = wires[number]
            text = _size(wire.copies)
            width = text_width(text, 11, is_bold=True) + 12
            for x, y in self._curves[number].labelled(starts[wire.source], targets[wire.target]):
                rect = Rect(x - width / 2, y - 8.5, width, 17)
                if rect.x >= 0 and rect.x + width <= WIDTH and not any(map(rect.overlaps, taken)):
                    taken.append(rect)
                    yield _rect(rect, GROUND, COPY, 8.5)
                    yield _text(x, y + 4, text, COPY, size=11, bold=True, anchor="middle")
                    break

    def _foot(self) -> Iterator[str]:
        """Yield the legend of the lines."""
        y = self._height - FOOT / 2
        has_copies = any(wire.copies.number for wire in self._lanes.wires)
        if self._lanes.wires:
            said = "copied between devices (width: bytes)" if has_copies else "stays on its device"
            yield _line(MARGIN, y, MARGIN + 22, y, COPY if has_copies else LINK, 4 if has_copies else 1.2)
            yield _text(MARGIN + 30, y + 4, said, SOFT)


# --- parts ------------------------------------------------------------------------------------------------------------


def _end(rect: Rect, side: str, share: float) -> End:
    if side in ("left", "right"):
        way = 1 if side == "right" else -1
        return End(rect.x + (rect.width if way > 0 else 0), rect.y + rect.height * share, way, 0)
    way = 1 if side == "bottom" else -1
    return End(rect.x + rect.width * share, rect.y + (rect.height if way > 0 else 0), 0, way)


def _size(amount: Amount) -> str:
    if amount.unknown == amount.number:
        return "? bytes"
    return f"{'≥ ' if amount.unknown else ''}{readable_size(amount.bytes)}"


def _n(value: float) -> str:
    return f"{value:.1f}".removesuffix(".0")


def _pattern(device: int) -> str:
    return f"device{device}" if device >= 0 else "unplaced"


def _rect(rect: Rect, fill: str, stroke: str = "", radius: float = 0, more: str = "") -> str:
    edge = f' stroke="{stroke}"' if stroke else ""
    round_ = f' rx="{_n(radius)}"' if radius else ""
    x, y, width, height = map(_n, rect)
    return f'<rect x="{x}" y="{y}" width="{width}" height="{height}"{round_} fill="{fill}"{edge}{more}/>'


def _filled(rect: Rect, device: int, radius: float) -> Iterator[str]:
    """Yield a rectangle with a device's colour and pattern."""
    yield _rect(rect, device_colour(device), LINE if device == UNPLACED else "", radius)
    if device_pattern(device):
        yield _rect(rect, f"url(#{_pattern(device)})", radius=radius)


def _line(x1: float, y1: float, x2: float, y2: float, stroke: str, width: float = 1) -> str:
    return f'<path d="M{_n(x1)} {_n(y1)}L{_n(x2)} {_n(y2)}" stroke="{stroke}" stroke-width="{_n(width)}"/>'


def _text(x: float, y: float, text: str, fill: str = "", *, size: float = 12, bold: bool = False, anchor: str = "") -> str:
    more = "".join(
        f' {name}="{value}"'
        for name, value in (
            ("fill", fill),
            ("font-size", "" if size == 12 else _n(size)),
            ("font-weight", "600" if bold else ""),
            ("text-anchor", anchor),
        )
        if value
    )
    return f'<text x="{_n(x)}" y="{_n(y)}"{more}>{escape(text, quote=False)}</text>'
