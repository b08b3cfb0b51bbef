"""The GRAPH arguments of commands -> loaded graph files, or snapshots of a graph placed now or a report written before."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from io import BytesIO
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

from placesim.studies.snapshots import NO_WISHES, DryRunNeeds, may_be_report

if TYPE_CHECKING:
    from placesim.formats.sources.loading import LoadedGraph
    from placesim.inspection.snapshot import Snapshot
    from placesim.machine.options import SimulationOptions


def load_graph(graph: str, options: SimulationOptions) -> LoadedGraph:
    """A path, or `-` for standard input; what is wrong with the file is in what was loaded."""
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
        return load(graph, None, options) if built is None else load(BytesIO(built), graph, options)


_scripts: dict[str, tuple[SimulationOptions, bytes]] = {}


def _built(graph: str, options: SimulationOptions) -> bytes | None:
    """What a Python script built, which one command runs once and says so; None for any other graph."""
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
    """The bytes of what is not to be read again: standard input, a stream, what a script built; None for any other graph."""
    from placesim.core.files.reader import is_stream
    from placesim.formats.sources.loading import read_bytes, read_limited, read_stream

    name = graph_name(graph)
    if graph == "-":
        data: bytes = read_limited(options, name, lambda: read_stream(sys.stdin.buffer, name))
        return data
    return read_limited(options, name, lambda: read_bytes(graph)) if is_stream(graph) else _built(graph, options)


def graph_name(graph: str) -> str:
    """What messages call it."""
    return "<stdin>" if graph == "-" else graph


def graph_loader(graph: str, options: SimulationOptions) -> Callable[[], LoadedGraph]:
    """Reads the graph, as often as it is asked; a stream once, and a script is run once."""
    from placesim.formats.sources.loading import load

    name = graph_name(graph)
    data = read_once(graph, options)
    if data is None:
        return lambda: load_graph(graph, options)
    return lambda: load(BytesIO(data), name, options)


def load_graphs(graphs: Sequence[str], options: SimulationOptions) -> Iterator[tuple[str, LoadedGraph]]:
    """Each graph with its name; a `.jsonl` file holds one a line."""
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
    """The snapshot of a path, or of `-` for standard input, as `subjects.open_snapshot` has it; `values` are the options."""
    from placesim.cli.options import shell_environment
    from placesim.cli.progress import show_stages
    from placesim.formats.sources.loading import load, read_bytes
    from placesim.machine.options import make_options
    from placesim.studies.snapshots import open_snapshot

    name = graph_name(graph)
    options = make_options({"environment": shell_environment(), **values})
    data = read_once(graph, options)
    written = data if data is not None or not may_be_report(graph) else read_bytes(graph)

    def loaded_graph() -> LoadedGraph:
        return load(graph, None, options) if data is None else load(BytesIO(data), name, options)

    with show_stages("reading and placing"):
        return open_snapshot(
            name, loaded_graph, options, partitioned, wishes=wishes, written=written, takes_prediction=takes_prediction
        )


def subjects_in(
    graph: str, values: Mapping[str, Any], wishes: DryRunNeeds = NO_WISHES
) -> Sequence[tuple[str, Callable[[], Snapshot]]]:
    """What `open_subject` opens of a GRAPH, with its name: one, or one for each line of a `.jsonl` file."""
    if not graph.endswith(".jsonl"):
        return [(graph_name(graph), lambda: open_subject(graph, values, wishes=wishes))]
    from placesim.cli.options import shell_environment
    from placesim.core.errors import PlacesimError
    from placesim.formats.sources.loading import load_line, named_lines
    from placesim.machine.options import make_options
    from placesim.studies.snapshots import open_snapshot

    options = make_options({"environment": shell_environment(), **values})

    def opened(name: str, line: bytes) -> Snapshot:
        return open_snapshot(name, lambda: load_line(graph, name, line, options), options, wishes=wishes, written=line)

    try:
        return [(name, partial(opened, name, line)) for name, line in named_lines(graph)]
    except PlacesimError as error:
        return [(graph, partial(_raise, error))]


def _raise(error: Exception) -> NoReturn:
    raise error
