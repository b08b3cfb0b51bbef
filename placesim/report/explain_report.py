"""The result of `explain`, for the command line and Python callers: why nodes are on their devices."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, overload

from placesim.core.styled_text import StyledText, join_texts
from placesim.inspection.explaining.inquiry import ExplainedError, ExplainedNode, inquire, select_nodes
from placesim.inspection.snapshot import PlacedNode, ReportedError, Snapshot
from placesim.report.readings import Reading, counted, plain_document
from placesim.report.text.explanation import (
    TABLES,
    explained_document,
    format_brief,
    format_error_explained,
    format_explained,
    format_recorded,
    recorded_document,
)


class ExplainReport(Reading):
    """Explained nodes in log order, with proofs and edits; `error` is set if the graph can't be placed.

    `nodes` are `ExplainedNode`s. If the snapshot was read from a written report, which has no reasons, `nodes` are
    `PlacedNode`s and `error` is a `ReportedError`. An index is the name of a node, or the number of a row.
    """

    TABLES = TABLES

    def __init__(
        self,
        snapshot: Snapshot,
        explained: Sequence[ExplainedNode],
        recorded: Sequence[PlacedNode],
        error: ExplainedError | None,
        edits: int,
        *,
        is_brief: bool,
        is_live: bool,
    ) -> None:
        self.name = snapshot.name
        self._explained = tuple(explained)
        self._recorded = tuple(recorded)
        self._error = error
        self._failure = snapshot.error
        self._edits = edits
        self._is_brief = is_brief
        self._is_live = is_live

    @property
    def nodes(self) -> tuple[ExplainedNode, ...] | tuple[PlacedNode, ...]:
        """The explained nodes, or the nodes of a written report."""
        return self._explained if self._is_live else self._recorded

    @property
    def error(self) -> ExplainedError | ReportedError | None:
        """The explained placement error. For a written report, the error without an explanation."""
        return self._error if self._is_live else self._failure

    def __repr__(self) -> str:
        failure = "" if self._failure is None else f", {self._failure.type}"
        return f"<placesim.ExplainReport of {self.name}: {counted(len(self.nodes), 'node')}{failure}>"

    @overload
    def __getitem__(self, index: str) -> ExplainedNode | PlacedNode: ...

    @overload
    def __getitem__(self, index: int) -> dict[str, Any]: ...

    @overload
    def __getitem__(self, index: slice) -> tuple[dict[str, Any], ...]: ...

    def __getitem__(self, index: str | int | slice) -> ExplainedNode | PlacedNode | dict[str, Any] | tuple[dict[str, Any], ...]:
        """Return the node with this name, or rows of the main table. Raises KeyError for a node that is not explained."""
        if not isinstance(index, str):
            return super().__getitem__(index)
        for node in self.nodes:
            if (node.proof.node if isinstance(node, ExplainedNode) else node.name) == index:
                return node
        raise KeyError(index)

    def marked(self) -> StyledText:
        """Return the text with styles."""
        error = self._error
        if not self._is_live:
            return StyledText(*map(format_recorded, self._recorded), *self._failed())
        if self._is_brief and error is None:
            return StyledText(*(format_brief(node.proof) for node in self._explained))
        told = [] if self._is_brief else [format_explained(node, self._edits) for node in self._explained]
        return join_texts("\n", told if error is None else [*told, format_error_explained(error, max(self._edits, 1))])

    def _failed(self) -> Iterator[str]:
        if self._failure is None:
            return
        yield from (self._failure.summary, "\n")
        if self._failure.node is None and self._failure.location is not None:
            yield f"  at {self._failure.location}\n"

    def text(self) -> str:
        """Return the text that the command writes to a pipe."""
        return str(self.marked())

    def pieces(self) -> dict[str, Any]:
        """Return the JSON object, with iterators that generate its rows one by one."""
        return (
            explained_document(self._explained, self._error)
            if self._is_live
            else recorded_document(self._recorded, self._failure)
        )

    def document(self) -> dict[str, Any]:
        """Return the JSON object as plain values: `nodes`, the `groups` of these nodes, and the `error`."""
        return plain_document(self.pieces())


def explain_snapshot(snapshot: Snapshot, patterns: Sequence[str], edits: int) -> ExplainReport:
    """Explain the nodes that match the patterns, and try edits unless `edits` is 0; without patterns, explain all briefly.

    Raises UsageError, with the nearest name, for a pattern that matches no node.
    """
    inquiry = inquire(snapshot)
    if inquiry is None:
        was_placed = bool(snapshot.nodes) or snapshot.error is None
        names = set(select_nodes(snapshot, patterns)) if patterns and was_placed else None
        recorded = [node for node in snapshot.nodes if names is None or node.name in names]
        return ExplainReport(snapshot, (), recorded, None, edits, is_brief=not patterns, is_live=False)
    wanted = select_nodes(snapshot, patterns) if patterns else []
    error = inquiry.explained_error(snapshot, bool(edits))
    nodes = inquiry.explained(wanted, bool(edits)) if patterns else inquiry.explained_briefly()
    return ExplainReport(snapshot, tuple(nodes), (), error, edits, is_brief=not patterns, is_live=True)
