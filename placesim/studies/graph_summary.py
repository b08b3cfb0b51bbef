"""Summary from a dry run of a graph's steps, if a dry run is possible and cheap, or else the reason why not."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Generic, NamedTuple, TypeVar

from placesim.core.errors import PlacesimError, RequestError, UsageError
from placesim.inspection.snapshot import failure_of
from placesim.ops.kernels.abstract_tensor import SketchedValueError
from placesim.prediction.processors import NoFiguresError
from placesim.runtime.dry_runs.dry_run_feeds import count_dry_run_nodes

if TYPE_CHECKING:
    from placesim.formats.sources.loading import LoadedGraph
    from placesim.graph.session_steps import GraphFile
    from placesim.machine.options import SimulationOptions

Found = TypeVar("Found")
_UNKNOWN = (SketchedValueError, NoFiguresError)
"""Errors that leave a summary unknown."""
MAX_CHEAP_NODES = 10_000
"""Maximum number of nodes, over all repetitions of steps, for a cheap dry run (about a second)."""


class Knowledge(NamedTuple, Generic[Found]):
    """The result of a dry run, or else the reason why it is unknown, as a sentence."""

    found: Found | None = None
    note: str = ""


def ask(
    find: Callable[[], Found],
    loaded: LoadedGraph,
    options: SimulationOptions,
    flag: str,
    *,
    is_asked: bool,
    raises_sizes: bool = True,
) -> Knowledge[Found]:
    """Return the result of `find`, which does a dry run. Unless `is_asked`, this happens only if the dry run is cheap.

    `flag` is the option that requests the dry run, for messages. With `raises_sizes`, a size that does not match its
    placeholder, or an assumption about an unknown node or loop, raises UsageError, and such a feed raises RequestError.
    """
    costly = None if is_asked or loaded.file is None else _why_costly(loaded.file)
    if costly is not None:
        return Knowledge(note=f"Steps are only simulated with `{flag}`: {costly}.")
    try:
        return Knowledge(find())
    except PlacesimError as error:
        is_known_before = isinstance(error, RequestError | UsageError) and not isinstance(error, _UNKNOWN)
        is_given = options.shape or options.batch is not None or options.iterations or options.assume
        if raises_sizes and is_known_before and is_given:
            raise
        return Knowledge(note=_why_unknown(error))


def _why_costly(file: GraphFile) -> str | None:
    nodes = count_dry_run_nodes(file.graph, file.steps)
    if nodes is None:
        return "the graph has loops"
    return f"they have {nodes:,} nodes" if nodes > MAX_CHEAP_NODES else None


def _why_unknown(error: PlacesimError) -> str:
    if isinstance(error, RequestError) and not isinstance(error, SketchedValueError):
        return "Unavailable: the feeds of the steps cannot be read."
    summary = failure_of(error).summary
    if isinstance(error, SketchedValueError | UsageError):
        sizes = [line for line in error.help if line.startswith(("`--batch", "`--shape"))]  # nothing is fed or executed here
        said = "; ".join((summary.removeprefix(f"{error.type_name}: "), *sizes[:1]))
        return f"Unavailable: {said}."
    return f"Unavailable: the steps end with {summary}"
