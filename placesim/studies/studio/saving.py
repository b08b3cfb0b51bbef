"""Forms in which a state is saved: a graph file, options, lines for a script, or one page."""

from __future__ import annotations

from placesim.studies.studio.messages import SaveKind
from placesim.studies.studio.source import GRAPH_FILE, StudioSource


def save_kinds(source: StudioSource) -> list[SaveKind]:
    """Return the forms in which the states of a source can be saved."""
    kinds = [SaveKind(kind="yaml", label="Graph file", can_write=source.kind == GRAPH_FILE)]
    kinds += [SaveKind(kind="options", label="Command-line options", can_write=False)]
    return kinds
