"""The GRAPH arguments of commands -> loaded graph files, or snapshots of a graph placed now or a report written before."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from enum import Enum, auto
from io import BytesIO
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from placesim.inspection.snapshot import Snapshot
    from placesim.loading import Loaded
    from placesim.options import Options


class MemoryWish(Enum):
    """Whether to find out what devices hold: `KNOWN` where that can be known, `CHEAP` if it also costs little."""

    NONE = auto()
    CHEAP = auto()
    KNOWN = auto()
    NEEDED = auto()

    @staticmethod
    def of(asked: bool | None, values: Mapping[str, Any], *, by_itself: bool) -> MemoryWish:
        """What `--memory` says; without it sizes ask for it, and a form that tells it `by_itself`."""
        if asked is None:
            asked = True if values.get("shape") or values.get("batch") is not None else None
        if asked is None:
            return MemoryWish.CHEAP if by_itself else MemoryWish.NONE
        return MemoryWish.KNOWN if asked else MemoryWish.NONE


def load_graph(graph: str, options: Options) -> Loaded:
    """A path, or `-` for standard input; what is wrong with the file is in what was loaded."""
    from placesim.loading import load

    return load(sys.stdin.buffer, "<stdin>", options) if graph == "-" else load(graph, None, options)


def graph_name(graph: str) -> str:
    """What messages call it."""
    return "<stdin>" if graph == "-" else graph


def graph_loader(graph: str, options: Options) -> Callable[[], Loaded]:
    """Reads the graph, as often as it is asked; a stream once."""
    from placesim.files.reading import is_stream
    from placesim.loading import load, read_bytes, read_stream

    name = graph_name(graph)
    if graph != "-" and not is_stream(graph):
        return lambda: load_graph(graph, options)
    data = read_stream(sys.stdin.buffer, name) if graph == "-" else read_bytes(graph)
    return lambda: load(BytesIO(data), name, options)


def load_graphs(graphs: Sequence[str], options: Options) -> Iterator[tuple[str, Loaded]]:
    """Each graph with its name; a `.jsonl` file holds one a line."""
    from placesim.loading import read_lines

    for graph in graphs:
        if graph.endswith(".jsonl"):
            yield from read_lines(graph, options)
        else:
            yield graph, load_graph(graph, options)


def open_subject(
    graph: str, values: Mapping[str, Any], partitioned: bool = True, *, memory: MemoryWish = MemoryWish.NONE
) -> Snapshot:
    """The snapshot of a path, or of `-` for standard input; `values` are the options by name.

    Where there is such a wish the steps are walked through, and what the devices hold meanwhile is in the snapshot.  What is
    wrong with the file or the command line is raised, and what keeps memory that is needed from being known; what TensorFlow
    would raise is in the snapshot.
    """
    from placesim.cli.options import shell_environment
    from placesim.files.reading import is_stream
    from placesim.inspection.baseline import read_baseline
    from placesim.inspection.snapshot import snapshot_of
    from placesim.loading import load, read_bytes, read_stream
    from placesim.options import make_options
    from placesim.simulation import Stage, simulate

    name = graph_name(graph)
    is_read_once = graph == "-" or is_stream(graph)
    data = b""
    if is_read_once or _may_be_report(graph):
        data = read_stream(sys.stdin.buffer, name) if graph == "-" else read_bytes(graph)
    found = read_baseline(data, name) if data else None
    if found is not None:
        return found if memory is MemoryWish.NONE else replace(found, memory_note="A written report keeps no memory.")
    options = make_options({"environment": shell_environment(), **values})

    def loaded_graph() -> Loaded:
        return load(BytesIO(data), name, options) if is_read_once else load(graph, None, options)

    loaded = loaded_graph()
    report = simulate(loaded, options, Stage.PARTITIONED if partitioned else Stage.PLACED)
    if report.error is not None and report.error.exit_code != 1:
        raise report.error
    snapshot = snapshot_of(name, report, loaded.file)
    if memory is MemoryWish.NONE or report.error is not None:
        return snapshot
    from placesim.sizing import find_known_peaks, find_peaks

    if memory is MemoryWish.NEEDED:
        return replace(snapshot, memory=find_peaks(loaded_graph, loaded, options))
    peaks = find_known_peaks(loaded_graph, loaded, options, is_asked=memory is MemoryWish.KNOWN)
    return replace(snapshot, memory=peaks.memory, memory_note=peaks.note)


def _may_be_report(path: str) -> bool:
    """Whether a file begins as a JSON object; what can't be read is left to the loader to complain of."""
    from placesim.files.reading import open_file

    try:
        with open_file(path) as file:
            return file.read(64).lstrip()[:1] == b"{"
    except (OSError, ValueError):
        return False
