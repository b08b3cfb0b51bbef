"""The report on a graph and a machine, as text and as a JSON object."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, fields
from functools import cached_property
from typing import TYPE_CHECKING, Any, NamedTuple, Self

from placesim.core.releases import CURRENT
from placesim.core.styled_text import StyledText
from placesim.placement.function_bodies import logged_nodes
from placesim.placement.placer import Placement
from placesim.report.document import error_document, result_document
from placesim.report.readings import Reading, counted
from placesim.report.results import format_results
from placesim.report.text.complaint import format_outcome_error
from placesim.report.text.log import (
    LogLine,
    Shows,
    classic_lines,
    creation_lines,
    format_mapping,
    format_pieces,
    mapping_lines,
    mark_lines,
    modern_lines,
)
from placesim.report.text.tables import TableSpec
from placesim.runtime.sessions.outcome import Outcome, TransferRow

if TYPE_CHECKING:
    from placesim.inspection.snapshot import Snapshot


class PlacementRow(NamedTuple):
    """A line of the log: a node's op, device and request.

    `body` is the path of the function body that the node belongs to, which is also the beginning of its name. `lowered_from` is
    the node that lowering replaced by this node: `call/f/x`, or `call/` for a node around the bodies. Both are empty for other
    nodes.
    """

    node: str
    op: str
    device: str
    requested: str
    body: str = ""
    lowered_from: str = ""

    def document(self) -> dict[str, str]:
        """Return the row's JSON object, with `body` and `lowered_from` if they are set."""
        found = {"node": self.node, "op": self.op, "device": self.device, "requested": self.requested}
        if self.body:
            found["body"] = self.body
        if self.lowered_from:
            found["lowered_from"] = self.lowered_from
        return found


@dataclass(frozen=True)
class Report(Reading, Outcome):
    """An outcome and its presentations; `shows_node` selects the logged nodes, and None selects all."""

    TABLES = (
        TableSpec("placements", ("placements",), PlacementRow._fields),
        TableSpec("transfers", ("transfers",), TransferRow._fields),
    )
    shows_node: Shows | None = None

    @classmethod
    def of(cls, outcome: Outcome, **own: Any) -> Self:
        """Return the report of an outcome, with all nodes logged. `own` has the fields of a subclass."""
        return cls(**{part.name: getattr(outcome, part.name) for part in fields(Outcome)}, **own)

    def __repr__(self) -> str:
        nodes = counted(len({row.node for row in self.placements}), "node")
        where = f"{nodes} on {counted(len(self.devices), 'device')}" if self.placed else "not placed"
        results = f", {counted(len(self.results), 'result')}" if self.results else ""
        failure = "" if self.error is None else f", {self.error.type_name}"
        return f"<placesim.Report of {self.name}: {where}{results}{failure}>"

    @property
    def name(self) -> str:
        """Name of the graph."""
        return "a graph" if self.file is None else self.file.name

    def snapshot(self) -> Snapshot:
        """Return the placement in the form that inspections read."""
        from placesim.inspection.snapshot import snapshot_of

        return snapshot_of(self.name, self)

    def page(self) -> str | None:
        """Return the page of the placement, as `show` writes it, or None if nothing was placed."""
        if not self.placed:
            return None
        from placesim.inspection.picturing.picture import picture_of
        from placesim.report.pictures.html_page import html_page

        return html_page(picture_of(self.snapshot()))

    def _repr_html_(self) -> str:
        """Return the results and, below them, the page."""
        from html import escape

        results = format_results(self.results, self.style == "classic")
        return (f"<pre>{escape(results, quote=False)}</pre>" if results else "") + super()._repr_html_()

    def _notebook_text(self) -> str:
        return self.log() or repr(self)

    @property
    def mapping(self) -> tuple[str, ...]:
        """The lines under `Device mapping:`."""
        return mapping_lines(self.devices)

    @property
    def creation(self) -> tuple[str, ...]:
        """The lines that TensorFlow logs when it creates the GPUs."""
        return creation_lines(self.creation_log, self.devices, self.style == "classic")

    @property
    def handles(self) -> Mapping[str, Sequence[str]]:
        """The ids of the graph file's entries, each with the names of its nodes."""
        return self.placed_graphs[-1].graph.handles if self.placed_graphs else {}

    @cached_property
    def placements(self) -> tuple[PlacementRow, ...]:
        """The shown nodes in log order: first the graph's nodes, then the nodes of called function bodies."""
        shows = self.shows_node
        rows = (row for placement in self.placed_graphs for row in _placement_rows(placement))
        if shows is None:
            return tuple(rows)
        return tuple(row for row in rows if shows(row.node) or (row.lowered_from and shows(row.lowered_from)))

    def document(self) -> dict[str, Any]:
        """Return the JSON object as plain values: devices, mapping, placements, transfers, warnings, results and error.

        For one of TensorFlow's file formats, the object also has `annotations`: the number of nodes that request each device.
        `tensorflow` is the release, if it is not the current one.
        """
        head = {key: list(rows) for key, rows in self.document_head().items()}
        return head | {"results": [result_document(row) for row in self.results]} | self.document_tail()

    def document_head(self) -> dict[str, Iterator[Any]]:
        """Return the JSON object's lists before the results, with rows generated one by one."""
        return {
            "devices": (device.attributes for device in self.devices),
            "mapping": iter(self.mapping),
            "placements": (row.document() for row in self.placements),
            "transfers": (row._asdict() for row in self.transfers),
            "warnings": iter(self.warnings),
        }

    def document_tail(self) -> dict[str, Any]:
        """Return the part of the JSON object after the results."""
        release = self.placed[-1].graph.registry.rules if self.placed else CURRENT
        return (
            {"error": None if self.error is None else error_document(self.error)}
            | ({} if self.annotations is None else {"annotations": dict(self.annotations)})
            | ({} if release is CURRENT else {"tensorflow": release.name})
        )

    def text(self) -> str:
        """Return the log, if enabled, and the results."""
        return self.log() + format_results(self.results, self.style == "classic")

    def log(self) -> str:
        """Return the device mapping and the placements; empty if the log is off."""
        return "".join(self.log_pieces())

    def log_pieces(self) -> Iterator[str]:
        """Yield the log in pieces of many whole lines, so that several copies of a large log are never in memory."""
        if mapping := self._mapping_text():
            yield str(mapping)
        yield from format_pieces(self._log_lines())

    def marked_log(self) -> StyledText:
        """Return the log with styles; for a large graph this takes many times as long as `log`."""
        return StyledText(self._mapping_text(), mark_lines(self._log_lines()))

    def _mapping_text(self) -> StyledText:
        return format_mapping(mapping_lines(self.devices, self.style == "classic")) if self._has_log else StyledText()

    def _log_lines(self) -> Iterator[LogLine]:
        if not self._has_log:
            return iter(())
        if self.style == "classic":
            return classic_lines(self.placed, self.fetches, self.shows_node)
        return modern_lines(self.placed, self.shows_node)

    @property
    def _has_log(self) -> bool:
        return self.shows_log and bool(self.devices)

    def error_text(self) -> StyledText:
        """Return the error for users: one line, then lines of help; empty without an error."""
        return format_outcome_error(self)


def _placement_rows(placement: Placement) -> Iterator[PlacementRow]:
    if not placement.graph.functions:  # most graphs call nothing, and some have a million nodes
        nodes, devices = placement.graph.nodes, placement.devices
        placed = ((nodes[node_id], devices[node_id]) for node_id in placement.log)
        yield from (PlacementRow(n.name, n.op, device.name, n.device) for n, device in placed if device is not None)
        return
    for path, node, device, _, body, lowered_from in logged_nodes(placement):
        yield PlacementRow(path, node.op, device.name, node.device, body, lowered_from)
