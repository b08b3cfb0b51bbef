"""Limits of the entries of a graph, of a function or of a branch: allowed kinds, and usable names."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import NamedTuple

from placesim.core.dtypes import OpenType
from placesim.graph.graph import LibraryFunction


class EntryLimits(NamedTuple):
    """Limits of entries. `refused` maps each kind that is not allowed to the expected alternative, for messages.

    `library` has the functions that may be called, and `broken` the names of invalid functions, which have been reported.
    `open_types` has the types that depend on the call, by attr.
    """

    refused: Mapping[str, str] = {}
    library: Mapping[str, LibraryFunction] = {}
    broken: Collection[str] = ()
    open_types: Mapping[str, OpenType] = {}


NO_LIMITS = EntryLimits()
