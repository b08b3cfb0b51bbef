"""The GRAPH arguments of commands -> loaded graph files, or snapshots of a graph placed now or a report written before."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from enum import Enum, auto
from io import BytesIO
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from placesim.inspection.snapshot import Snapshot
    from placesim.loading import Loaded
    from placesim.options import Options
    from placesim.prediction.node_costs import NodeCosts
    from placesim.prediction.study import TimeStudy


class Wish(Enum):
    """Whether to find out what walking through the steps tells: `KNOWN` where it can, `CHEAP` if it also costs little."""

    NONE = auto()
    CHEAP = auto()
    KNOWN = auto()
    NEEDED = auto()

    @staticmethod
    def of(asked: bool | None, values: Mapping[str, Any], *, by_itself: bool) -> Wish:
        """What a flag says; without it sizes ask for it, and a form that tells it `by_itself`."""
        if asked is None:
            asked = True if values.get("shape") or values.get("batch") is not None else None
        if asked is None:
            return Wish.CHEAP if by_itself else Wish.NONE
        return Wish.KNOWN if asked else Wish.NONE


class Wishes(NamedTuple):
    """What to find out of a graph beside its placement: what its devices hold, how long its steps take, and each node."""

    memory: Wish = Wish.NONE
    time: Wish = Wish.NONE
    costs: Wish = Wish.NONE


NO_WISHES = Wishes()


def load_graph(graph: str, options: Options) -> Loaded:
    """A path, or `-` for standard input; what is wrong with the file is in what was loaded."""
    from placesim.errors import PlacesimError
    from placesim.loading import Loaded, load

    if graph == "-":
        return load(sys.stdin.buffer, "<stdin>", options)
    try:
        built = _built(graph, options)
    except PlacesimError as error:
        return Loaded(None, Path(graph).parent, error)
    return load(graph, None, options) if built is None else load(BytesIO(built), graph, options)


_scripts: dict[str, tuple[Options, bytes]] = {}


def _built(graph: str, options: Options) -> bytes | None:
    """What a Python script built, which one command runs once and says so; None for any other graph."""
    from placesim.formats.recognition import is_script

    if not is_script(graph):
        return None
    from placesim.cli.output import complain
    from placesim.loading import run_script

    known = _scripts.get(graph)
    if known is None or known[0] != options:
        known = _scripts[graph] = options, run_script(graph, options, lambda told: complain(f"{told}\n"))
    return known[1]


def read_once(graph: str, options: Options) -> bytes | None:
    """The bytes of what is not to be read again: standard input, a stream, what a script built; None for any other graph."""
    from placesim.files.reading import is_stream
    from placesim.loading import read_bytes, read_stream

    if graph == "-":
        data: bytes = read_stream(sys.stdin.buffer, graph_name(graph))
        return data
    return read_bytes(graph) if is_stream(graph) else _built(graph, options)


def graph_name(graph: str) -> str:
    """What messages call it."""
    return "<stdin>" if graph == "-" else graph


def graph_loader(graph: str, options: Options) -> Callable[[], Loaded]:
    """Reads the graph, as often as it is asked; a stream once, and a script is run once."""
    from placesim.loading import load

    name = graph_name(graph)
    data = read_once(graph, options)
    if data is None:
        return lambda: load_graph(graph, options)
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
    graph: str,
    values: Mapping[str, Any],
    partitioned: bool = True,
    *,
    wishes: Wishes = NO_WISHES,
    takes_prediction: bool = False,
) -> Snapshot:
    """The snapshot of a path, or of `-` for standard input; `values` are the options by name.

    As far as there are `wishes` the steps are walked through.  What is wrong with the file or the command line is raised, and
    what keeps a thing that is needed from being known; what TensorFlow would raise is in the snapshot.
    """
    from placesim.cli.options import shell_environment
    from placesim.inspection.snapshot import snapshot_of
    from placesim.loading import load, read_bytes
    from placesim.options import make_options
    from placesim.simulation import Stage, simulate

    name = graph_name(graph)
    options = make_options({"environment": shell_environment(), **values})
    data = read_once(graph, options)
    written = data if data is not None or not _may_be_report(graph) else read_bytes(graph)
    found = _written(written, name, wishes, takes_prediction=takes_prediction) if written else None
    if found is not None:
        return found

    def loaded_graph() -> Loaded:
        return load(graph, None, options) if data is None else load(BytesIO(data), name, options)

    loaded = loaded_graph()
    report = simulate(loaded, options, Stage.PARTITIONED if partitioned else Stage.PLACED)
    if report.error is not None and report.error.exit_code != 1:
        raise report.error
    snapshot = snapshot_of(name, report, loaded.file)
    if report.error is not None:
        return replace(snapshot, complaint=report.error_text())
    if wishes.memory is not Wish.NONE:
        snapshot = _with_memory(snapshot, loaded, loaded_graph, options, wishes.memory)
    if wishes.time is not Wish.NONE:
        snapshot = _with_time(snapshot, loaded, loaded_graph, options, wishes.time)
    if wishes.costs is not Wish.NONE:
        snapshot = _with_costs(snapshot, loaded, loaded_graph, options, wishes.costs)
    return snapshot


def _written(data: bytes, name: str, wishes: Wishes, *, takes_prediction: bool) -> Snapshot | None:
    """The snapshot of a written report or prediction; None where it is neither."""
    from placesim.errors import UsageError
    from placesim.inspection.baseline import read_baseline
    from placesim.inspection.snapshot import Snapshot

    found = read_baseline(data, name)
    if found is not None:
        kept_not = "A written report keeps no {}."
        memory = "" if wishes.memory is Wish.NONE else kept_not.format("memory")
        return replace(found, memory_note=memory, time_note="" if wishes.time is Wish.NONE else kept_not.format("times"))
    if b'"critical_path"' not in data:
        return None
    from placesim.inspection.predicted_step import read_prediction

    step = read_prediction(data, name)
    if step is not None and not takes_prediction:
        raise UsageError(f"no graph: got the prediction {name}, which only `placesim diff` reads, expected a graph")
    return None if step is None else Snapshot(name, step=step, holds_placement=False)


def _with_memory(snapshot: Snapshot, loaded: Loaded, load: Callable[[], Loaded], options: Options, wish: Wish) -> Snapshot:
    from placesim.known import known
    from placesim.sizing import find_peaks

    if wish is Wish.NEEDED:
        return replace(snapshot, memory=find_peaks(load, loaded, options))
    peaks = known(lambda: find_peaks(load, loaded, options), loaded, options, "--memory", is_asked=wish is Wish.KNOWN)
    return replace(snapshot, memory=peaks.found or (), memory_note=peaks.note)


def _with_time(snapshot: Snapshot, loaded: Loaded, load: Callable[[], Loaded], options: Options, wish: Wish) -> Snapshot:
    from placesim.inspection.predicted_step import predicted_step
    from placesim.known import known, unchanged
    from placesim.timing import study_time

    def find() -> TimeStudy:
        return study_time(lambda: unchanged(loaded, load), replace(options, no_memory_limit=True), snapshot.name)

    if wish is Wish.NEEDED:
        study = find()
        return replace(snapshot, time=study, step=predicted_step(study))
    # sizes that mean nothing are the memory's to complain of, and a machine without figures has no times
    found = known(find, loaded, options, "--time", is_asked=wish is Wish.KNOWN, raises_sizes=False)
    if found.found is None:
        return replace(snapshot, time_note=found.note)
    return replace(snapshot, time=found.found, step=predicted_step(found.found))


def _with_costs(snapshot: Snapshot, loaded: Loaded, load: Callable[[], Loaded], options: Options, wish: Wish) -> Snapshot:
    from placesim.known import known, unchanged
    from placesim.timing import find_costs

    def find() -> NodeCosts:
        return find_costs(lambda: unchanged(loaded, load), options)

    costs = known(find, loaded, options, "--cost", is_asked=wish is not Wish.CHEAP)
    return replace(snapshot, costs=costs.found, cost_note=costs.note)


def _may_be_report(path: str) -> bool:
    """Whether a file begins as a JSON object; what can't be read is left to the loader to complain of."""
    from placesim.files.reading import open_file

    try:
        with open_file(path) as file:
            return file.read(64).lstrip()[:1] == b"{"
    except (OSError, ValueError):
        return False
