"""Conversion of the GRAPH arguments of commands to loaded graph files, or to snapshots.

A snapshot is made from a graph, which is placed, or from an existing report.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

from placesim.studies.snapshots import NO_WISHES, DryRunNeeds, may_be_report

if TYPE_CHECKING:
    from placesim.formats.recognition import ScriptGraph
    from placesim.formats.sources.loading import LoadedGraph
    from placesim.inspection.snapshot import Snapshot
    from placesim.machine.options import SimulationOptions


def load_graph(graph: str, options: SimulationOptions) -> LoadedGraph:
    """Load a path, or standard input for `-`. The result includes the problems of the file."""
    from placesim.cli.progress import show_stages
    from placesim.core.errors import PlacesimError
    from placesim.formats.sources.loading import LoadedGraph, load

    if graph == "-":
        return load(sys.stdin.buffer, "<stdin>", options)
    try:
        built = _built(graph, options)
    except PlacesimError as error:
        return LoadedGraph(None, Path(graph).parent, error)
    with show_stages("reading"):
        return load(graph, None, options) if built is None else load(built, graph, options)


_scripts: dict[str, tuple[SimulationOptions, ScriptGraph]] = {}


def _built(graph: str, options: SimulationOptions) -> ScriptGraph | None:
    """Return the graph that a Python script builds; None for any other source.

    A command runs each script only once, and prints a note that it has run.
    """
    from placesim.formats.recognition import is_script

    if not is_script(graph):
        return None
    from placesim.cli.output import complain
    from placesim.formats.sources.loading import run_script

    known = _scripts.get(graph)
    if known is None or known[0] != options:
        known = _scripts[graph] = options, run_script(graph, options, lambda told: complain(f"{told}\n"))
    return known[1]


def read_once(graph: str, options: SimulationOptions) -> bytes | None:
    """Return the bytes of a source that can't be read twice; None for other sources.

    Such sources are standard input, a stream and a script's graph.
    """
    from placesim.core.files.reader import is_stream
    from placesim.formats.sources.loading import read_bytes, read_limited, read_stream

    name = graph_name(graph)
    if graph == "-":
        data: bytes = read_limited(options, name, lambda: read_stream(sys.stdin.buffer, name))
        return data
    return read_limited(options, name, lambda: read_bytes(graph)) if is_stream(graph) else _built(graph, options)


def graph_name(graph: str) -> str:
    """Return the name of the graph in messages."""
    return "<stdin>" if graph == "-" else graph


def load_graphs(graphs: Sequence[str], options: SimulationOptions) -> Iterator[tuple[str, LoadedGraph]]:
    """Yield each graph with its name; a `.jsonl` file has a graph on each line."""
    from placesim.formats.sources.loading import read_lines

    for graph in graphs:
        if graph.endswith(".jsonl"):
            yield from read_lines(graph, options)
        else:
            yield graph, load_graph(graph, options)


def open_subject(
    graph: str,
    values: Mapping[str, Any],
    partitioned: bool = True,
    *,
    wishes: DryRunNeeds = NO_WISHES,
    takes_prediction: bool = False,
) -> Snapshot:
    """Return the snapshot of a path, or of standard input for `-`, as `snapshots.open_snapshot` does.

    `values` are the options.
    """
    from placesim.cli.option_types import MACHINE, PLACEMENT, SIZES, SOURCE
    from placesim.cli.options import in_shell
    from placesim.cli.output import tell_needless
    from placesim.cli.progress import show_stages
    from placesim.core.escaping import escape_line
    from placesim.formats.sources.loading import load, read_bytes, source_again
    from placesim.studies.snapshots import open_snapshot, read_snapshot

    name = graph_name(graph)
    options = in_shell(values)
    data = read_once(graph, options)
    written = data if data is not None or not may_be_report(graph) else read_bytes(graph)

    with show_stages("reading and placing"):
        read = read_snapshot(written, name, wishes, takes_prediction=takes_prediction)
        if read is not None:
            if not takes_prediction:  # `diff` places its other side with the options
                tell_needless((MACHINE, SOURCE, SIZES, PLACEMENT, "cost"), f"on the report {escape_line(name)}")
            return read
        loaded = load(graph, None, options) if data is None else load(source_again(data), name, options)
        return open_snapshot(name, loaded, options, partitioned, wishes=wishes)


def subjects_in(
    graph: str, values: Mapping[str, Any], wishes: DryRunNeeds = NO_WISHES
) -> Sequence[tuple[str, Callable[[], Snapshot]]]:
    """Return the names of the snapshots of a GRAPH, each with a function that opens it.

    There is one snapshot, or one for each line of a `.jsonl` file.
    """
    if not graph.endswith(".jsonl"):
        return [(graph_name(graph), lambda: open_subject(graph, values, wishes=wishes))]
    from placesim.cli.options import in_shell
    from placesim.core.errors import PlacesimError
    from placesim.formats.sources.loading import load_line, named_lines
    from placesim.studies.snapshots import open_snapshot, read_snapshot

    options = in_shell(values)

    def opened(name: str, line: bytes) -> Snapshot:
        read = read_snapshot(line, name, wishes)
        return read or open_snapshot(name, load_line(graph, name, line, options), options, wishes=wishes)

    try:
        return [(name, partial(opened, name, line)) for name, line in named_lines(graph)]
    except PlacesimError as error:
        return [(graph, partial(_raise, error))]


def _raise(error: Exception) -> NoReturn:
    raise error
