"""Limits of the entries of a graph, of a function or of a branch: allowed kinds, and names that they may use."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import NamedTuple

from placesim.core.dtypes import OpenType
from placesim.graph.graph import LibraryFunction


class EntryLimits(NamedTuple):
    """Entries that are not allowed at a place, each kind with the expected alternative, and the allowed names.

    `library` are the functions that may be called, `broken` those of which all that is wrong has been reported, `open_types`
    the types that callers choose, by attr.
    """

    refused: Mapping[str, str] = {}
    library: Mapping[str, LibraryFunction] = {}
    broken: Collection[str] = ()
    open_types: Mapping[str, OpenType] = {}


NO_LIMITS = EntryLimits()
