"""Loader of graphs from YAML, JSON, mappings and TensorFlow's files, recognised by their content.

A Python script, recognised by its name, runs in a separate process, and its graph is loaded.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from io import BytesIO
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any, TypeAlias, TypeVar

from placesim.core.errors import (
    DeadlineExceededError,
    GraphBuildError,
    GraphFileError,
    Location,
    PlacesimError,
    Problem,
    ResourceExhaustedError,
    UsageError,
)
from placesim.core.files.reader import GRAPH_BYTES, is_stream, read_stream_path, read_to_end
from placesim.core.process.deadlines import run_within
from placesim.core.suggestions import MAX_CANDIDATES, SIMILAR, near_words
from placesim.formats.sources.graph_builder import GraphBuilder
from placesim.machine.options import SimulationOptions

if TYPE_CHECKING:
    from placesim.formats.onnx.reader import OnnxFile
    from placesim.formats.recognition import FileKind, ScriptGraph
    from placesim.formats.tensorflow.meta_graph import MetaGraph, ModelSignature
    from placesim.formats.tensorflow.reader import TensorFlowFile
    from placesim.graph.session_steps import GraphFile, GraphStep
    from placesim.ops.registry import Registry

    Source: TypeAlias = "str | Path | IO[str] | IO[bytes] | Mapping[str, Any] | GraphBuilder | ScriptGraph | SourceGraph"


Found = TypeVar("Found")


@dataclass(frozen=True, slots=True)
class LoadedGraph:
    """A graph file, or the error that prevented reading it. Paths of feeds are relative to `directory`.

    The graph may read files in `folder`: the folder of its file, or a SavedModel's directory. `inputs` and `outputs` map the
    arguments of a model's signature to tensors. `annotations` has the number of nodes that request each device in a model; it
    is None for a graph file.

    `needs_fetch` says why nothing can run unless the user names a fetch. `text` is a graph file's text, None for other sources.
    `signatures` has all signatures of a model, and `onnx` the content of an ONNX model.
    """

    file: GraphFile | None
    directory: Path
    error: PlacesimError | None = None
    inputs: Mapping[str, str] = field(default_factory=dict)
    outputs: Mapping[str, str] = field(default_factory=dict)
    annotations: Mapping[str, int] | None = None
    needs_fetch: str = ""
    folder: Path = Path()
    text: str | None = None
    signatures: Mapping[str, ModelSignature] = field(default_factory=dict)
    onnx: OnnxFile | None = None


_READING = (
    *("tensorflow", "tag", "signature", "checkpoint", "checkpoint_every", "restart"),
    *("layer_assignment", "allow_unknown", "clear_devices", "device"),
)
"""Options on which the content of a loaded graph depends, beside the names of feeds."""


class SourceGraph:
    """A source that is read once, and again only for other options that its content depends on."""

    def __init__(self, source: Source, options: SimulationOptions) -> None:
        self.name = source_name(source)
        self.source = kept_source(source, options)
        self._read: tuple[tuple[Any, ...], LoadedGraph] | None = None

    def __repr__(self) -> str:
        return f"<placesim graph {self.name}>"

    def load(self, options: SimulationOptions) -> LoadedGraph:
        """Return the graph for these options; an error is part of it."""
        key = (*(getattr(options, name) for name in _READING), tuple(options.feed))
        if self._read is not None and self._read[0] == key:
            return self._read[1]
        name = self.name if isinstance(self.source, bytes) else None
        found = load(source_again(self.source), name, options)
        if found.error is None:  # an error may be one of time or memory, of which another call gives more
            self._read = key, found
        return found


def load(source: Source, name: str | None = None, options: SimulationOptions | None = None) -> LoadedGraph:
    """Load a graph from any source. The result holds its error, if any. `name` is the file's name in messages."""
    from placesim.formats.recognition import is_script

    if isinstance(source, SourceGraph):
        return source.load(options or SimulationOptions())
    place = Path(source) if isinstance(source, str | Path) and not is_stream(source) else None
    directory = Path() if place is None else place.parent
    folder = place if place is not None and os.path.isdir(place) else directory
    options, known = options or SimulationOptions(), name or source_name(source)
    try:
        if isinstance(source, str | Path) and is_script(source):
            source = run_script(source, options)
        if options.timeout is not None:
            _import_readers(known, options)
        loaded = read_limited(options, known, lambda: _with_devices(_load(source, name, directory, options), options))
        return replace(loaded, folder=folder)
    except PlacesimError as error:
        return LoadedGraph(None, directory, error)


def _import_readers(name: str, options: SimulationOptions) -> None:
    """Import the modules and tables that read a file of this name, so that they do not count for the time limit."""
    import placesim.formats.graph_file.reader
    from placesim.ops.registry import load_registry

    ending = os.path.splitext(name)[1].lower()
    if ending == ".onnx":
        import placesim.formats.onnx.reader
        from placesim.formats.onnx.messages import import_onnx

        import_onnx()
    elif ending in _BINARY_NAMES or os.path.isdir(name):
        import placesim.formats.tensorflow.reader  # noqa: F401
    load_registry(options.release.name)


def read_limited(options: SimulationOptions, name: str, work: Callable[[], Found]) -> Found:
    """Return the result of `work`, which reads the file `name`, within the options' limits of time and memory.

    Raises DeadlineExceededError or ResourceExhaustedError beyond these limits, and any error of `work`.
    """
    limit = memory_limit(options)
    if limit is None and options.timeout is None:
        return work()
    watch = None
    if limit is not None:
        from placesim.ops.process.memory_limit import LOOK_AFTER, ProcessMemory

        watch = partial(ProcessMemory(limit).worked, LOOK_AFTER)
    try:
        return run_within(options.timeout, work, watch)
    except DeadlineExceededError:
        raise DeadlineExceededError(f"Timed out reading {name}: it takes more than {options.timeout:g} seconds") from None
    except ResourceExhaustedError:
        message = f"OOM reading {name}: it takes more than {limit} bytes, expected a smaller graph or a larger --memory-limit"
        raise ResourceExhaustedError(message) from None


def memory_limit(options: SimulationOptions) -> int | None:
    """Return the option `memory_limit` in bytes; None without one. Raises UsageError for an invalid size."""
    from placesim.formats.graph_file.plain_values import size_value
    from placesim.formats.problems import InvalidValue

    given = options.memory_limit
    if given is None:
        return None
    try:
        return size_value(int(given) if isinstance(given, str) and given.isdecimal() and len(given) < 20 else given)
    except InvalidValue as wrong:
        raise UsageError(f"memory limit: {wrong}") from None


def _load(source: Source, name: str | None, directory: Path, options: SimulationOptions) -> LoadedGraph:
    from placesim.formats.graph_file.parsing.yaml_tree import decode_utf8
    from placesim.formats.graph_file.reader import graph_file_from_mapping, read_graph_file
    from placesim.formats.recognition import Format, ScriptGraph, recognise

    registry = _registry_of(options)
    if isinstance(source, GraphBuilder):
        _check_release(source, options)
        return _loaded(source.graph_file(), directory, options)
    if isinstance(source, Mapping):
        return _loaded(graph_file_from_mapping(source, name or "<mapping>", registry), directory, options)
    if isinstance(source, ScriptGraph):
        from placesim.formats.script_graph import read_script_graph

        return _loaded(read_script_graph(source, registry), directory, options)
    if isinstance(source, str | Path):
        file = name or str(source)
        if os.path.isdir(source):
            _check_directory(Path(source))
            return _load_tensorflow(str(source), None, None, options, directory)
        content: str | bytes = read_bytes(source)
    elif isinstance(source, SourceGraph) or not hasattr(source, "read"):
        got = type(source).__name__
        raise UsageError(f"no graph: got {got}, expected a path, a mapping, an open file or a GraphBuilder")
    else:
        file = name or str(getattr(source, "name", "<stream>"))
        content = read_stream(source, file)
    if not isinstance(content, str):
        kind = recognise(content)
        if kind.format is Format.ONNX:
            return _load_onnx(content, file, directory, options)
        if kind.format is not Format.GRAPH_FILE:
            return _load_tensorflow(file, content, kind, options, directory)
        check_content(content, file)
        content = decode_utf8(content, file)  # the same name, so that the bytes are not kept
    return replace(_loaded(read_graph_file(content, file, registry), directory, options), text=content)


_BINARY_NAMES = {
    ".onnx": "an ONNX model",
    **dict.fromkeys((".pb", ".pbtxt"), "a GraphDef, a MetaGraphDef or a SavedModel"),
}


def check_content(content: bytes, name: str) -> None:
    """Raise GraphFileError for content of no known format in a file whose extension implies one."""
    from placesim.formats.recognition import is_text

    expected = _BINARY_NAMES.get(os.path.splitext(name)[1].lower())
    if expected is None:
        return
    if not content.strip():
        got = "an empty file"
    elif not is_text(content) or not _is_utf8(content):
        got = f"{len(content)} bytes of another kind"
    elif b"nodes" not in content:  # every graph file has this key
        got = "text of no known format"
    else:
        return
    raise GraphFileError((Problem(Location(name, 0, 0), f"not a graph: got {got}, expected {expected}"),))


def _is_utf8(content: bytes) -> bool:
    try:
        content.decode("utf-8-sig")
    except UnicodeDecodeError:
        return False
    return True


def _registry_of(options: SimulationOptions) -> Registry | None:
    """Return the registry of the options' release; None if they have none, so that the file may name it."""
    from placesim.ops.registry import load_registry

    return None if options.tensorflow is None else load_registry(options.release.name)


def _check_release(builder: GraphBuilder, options: SimulationOptions) -> None:
    """Raise UsageError if the options name another release than the builder's."""
    if options.tensorflow is not None and options.release is not builder.release:
        raise UsageError(
            f"release differs from the builder's: got tensorflow={options.release.name}, expected {builder.release.name}, "
            f"or a GraphBuilder(tensorflow='{options.release.name}')"
        )


def _check_directory(directory: Path) -> None:
    from placesim.formats.recognition import find_model_file

    if find_model_file(directory) is None:
        message = "cannot read the graph: got a directory without saved_model.pb, expected a graph file or a SavedModel"
        raise GraphFileError((Problem(Location(str(directory), 0, 0), message),))


def read_bytes(path: str | Path, what: str = "graph file") -> bytes:
    """Read a file; `what` is the expected kind of file, for messages. Raises GraphFileError if it is not a readable file."""
    try:
        return read_stream_path(path, GRAPH_BYTES)
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or str(error)
        near = (_example_of(path) or _nearest_file(path)) if isinstance(error, FileNotFoundError) else ""
        message = f"cannot read the {what}: {reason}{near}"
        raise GraphFileError((Problem(Location(str(path), 0, 0), message),)) from None


def _example_of(path: str | Path) -> str:
    """Return a hint how to write the example of this name, else an empty text."""
    from placesim.formats.sources.examples import ENDING, titles

    name, ending = os.path.splitext(os.path.basename(path))
    return f"; `placesim new {name}` writes the example of this name" if ending == ENDING and name in titles() else ""


def _nearest_file(path: str | Path) -> str:
    """Return `; did you mean 'graphs/towers.yaml'?` for a similar file name in the folder, else an empty text.

    Extensions do not count: many files share one.
    """
    folder, name = os.path.split(path)
    try:
        names = sorted(os.listdir(folder or "."), reverse=True)[-MAX_CANDIDATES:]
    except OSError:
        return ""
    by_stem = {os.path.splitext(known)[0].lower(): known for known in names}
    near = near_words(os.path.splitext(name)[0].lower(), by_stem, 1, SIMILAR)
    return f"; did you mean '{os.path.join(folder, by_stem[near[0]])}'?" if near else ""


def run_script(path: str | Path, options: SimulationOptions, tell: Callable[[str], None] | None = None) -> ScriptGraph:
    """Run a Python script up to the options' `until`, and return its graph for `load`.

    `tell` receives a message with the line that the script reached. Raises GraphFileError if there is no such file, and the
    errors of `scripts.record_script`.
    """
    from placesim.formats.sources.scripts import record_script

    _check_options(options, "a Python script")
    read_bytes(path)
    return record_script(path, options, tell)


def read_stream(stream: IO[Any], name: str) -> Any:
    """Read the rest of an open file. Raises GraphFileError if that fails."""
    try:
        return read_to_end(stream, name, GRAPH_BYTES)
    except OSError as error:
        message = f"cannot read it: got '{error.strerror or error}', expected a readable graph file"
        raise GraphFileError((Problem(Location(name, 0, 0), message),)) from None


def read_lines(path: str, options: SimulationOptions | None = None) -> Iterator[tuple[str, LoadedGraph]]:
    """Yield the graph on each non-empty line of a `.jsonl` file, with its name `FILE:LINE`.

    A result holds the error of its line. An unreadable file gives one result, with the error.
    """
    try:
        lines = list(named_lines(path))
    except PlacesimError as error:
        yield path, LoadedGraph(None, Path(), error)
        return
    for name, line in lines:
        yield name, load_line(path, name, line, options)


def named_lines(path: str) -> Iterator[tuple[str, bytes]]:
    """Return the non-empty lines of a `.jsonl` file, each with its name. Raises GraphFileError for an unreadable file."""
    lines = read_bytes(path).splitlines()
    return ((f"{path}:{number}", line) for number, line in enumerate(lines, 1) if line.strip())


def load_line(path: str, name: str, line: bytes, options: SimulationOptions | None = None) -> LoadedGraph:
    """Load the graph on a line of the `.jsonl` file at `path`."""
    return replace(load(BytesIO(line), name, options), directory=Path(path).parent, folder=Path(path).parent)


# --- sources that are loaded several times ----------------------------------------------------------------------------


def kept_source(source: Any, options: SimulationOptions) -> Any:
    """Return a source for any number of calls of `source_again`: the bytes of an open file, the graph of a script."""
    if isinstance(source, SourceGraph):
        return source.source
    if not hasattr(source, "read"):
        is_path = isinstance(source, str) or hasattr(source, "__fspath__")
        return run_script(source, options) if is_path and str(source).endswith(".py") else source
    data = source.read()
    return data.encode() if isinstance(data, str) else data


def source_again(kept: Any) -> Any:
    """Return a source for `load` from the result of `kept_source`."""
    from placesim.formats.recognition import ScriptGraph

    return BytesIO(kept) if isinstance(kept, bytes) and not isinstance(kept, ScriptGraph) else kept


def source_name(source: Any) -> str:
    """Return the name of a graph in reports."""
    if isinstance(source, GraphBuilder | SourceGraph):
        return source.name
    if isinstance(source, Mapping):
        return "<mapping>"
    return str(getattr(source, "name", "<stream>")) if hasattr(source, "read") else str(source)


# --- graph files ----------------------------------------------------------------------------------------------------


def _loaded(file: GraphFile, directory: Path, options: SimulationOptions) -> LoadedGraph:
    _check_options(options, "a graph file")
    if options.initial_checkpoint is not None:
        from placesim.formats.tensorflow.restoring import add_checkpoint_values

        file = add_checkpoint_values(file, options.initial_checkpoint)
    return LoadedGraph(file, directory)


_MODEL_OPTIONS = {
    "a TensorFlow model": (("tag", "tags"), ("signature", "signature")),
    "an ONNX model": (("allow-unknown", "unknown_devices"), ("layer-assignment", "layer_assignment")),
}
"""Options that apply to one kind of model, with the names of their fields."""


def _check_options(options: SimulationOptions, got: str, *kinds: str) -> None:
    """Raise UsageError for an option that applies only to `kinds` (default: all models). `got` names the loaded kind."""
    for kind in kinds or _MODEL_OPTIONS:
        for option, field_name in _MODEL_OPTIONS[kind]:
            if getattr(options, field_name):
                raise UsageError(f"--{option} does not apply: got {got}, expected {kind}")


def _with_devices(loaded: LoadedGraph, options: SimulationOptions) -> LoadedGraph:
    """Apply `clear_devices` and `device` to the graph. Raises UsageError for a pattern that no node matches."""
    patterns = options.device_patterns
    file = loaded.file
    if file is None or not (options.clear_devices or patterns):
        return loaded
    from placesim.formats.device_annotations import clear_devices, set_devices
    from placesim.graph.node_patterns import did_you_mean_node, find_matching_names

    graph = file.graph
    for pattern, device in patterns:
        if not find_matching_names(pattern, graph):
            expected = "expected a node's name or id, a pattern or a scope that ends in '/'"
            near = did_you_mean_node(pattern, [*graph.ids, *graph.handles])
            raise UsageError(f"no node matches '{pattern}' in --device: got '{pattern}={device}', {expected}{near}")
    if options.clear_devices:
        file = clear_devices(file)
    if patterns:
        file = set_devices(file, [(pattern, requested_device(pattern, device)) for pattern, device in patterns])
    return replace(loaded, file=file)


def requested_device(pattern: str, device: str) -> str:
    """Return a requested device in the notation of nodes. Raises UsageError for an invalid device."""
    from placesim.machine.device_names import format_spec, parse_python_spec

    try:
        return format_spec(parse_python_spec(device))
    except GraphBuildError as error:
        raise UsageError(f"{error.message} (in --device '{pattern}={device}')") from None


# --- models of ONNX -------------------------------------------------------------------------------------------------


def _load_onnx(content: bytes, name: str, directory: Path, options: SimulationOptions) -> LoadedGraph:
    from placesim.formats.onnx.devices import layer_rules
    from placesim.formats.onnx.interface import fed_members
    from placesim.formats.onnx.reader import read_onnx

    _check_options(options, "an ONNX model", "a TensorFlow model")
    if options.checkpoint is not None:
        raise UsageError("--checkpoint does not apply: got an ONNX model, expected a graph with variables")
    layers = None if options.clear_devices else layer_rules(options.layer_assignment)
    members = fed_members(options.feed)
    found = read_onnx(content, name, directory, _registry_of(options), options.unknown_devices, layers, members)
    return LoadedGraph(found.file, directory, None, found.inputs, found.outputs, found.annotations, onnx=found)


# --- TensorFlow's own files -----------------------------------------------------------------------------------------


def _load_tensorflow(
    name: str, content: bytes | None, kind: FileKind | None, options: SimulationOptions, directory: Path
) -> LoadedGraph:
    from placesim.formats.recognition import Format
    from placesim.formats.tensorflow.reader import read_tensorflow_file

    _check_options(options, "a TensorFlow file", "an ONNX model")
    found = read_tensorflow_file(
        name,
        data=content,
        tags=options.tags,
        signature_name=options.signature,
        checkpoint=options.initial_checkpoint,
        registry=_registry_of(options),
        kind=kind,
    )
    if options.tags and found.format is not Format.SAVED_MODEL:
        raise UsageError(f"--tag does not apply: got {found.format.value}, expected a SavedModel's directory")
    meta_graph = found.meta_graph
    if options.signature is not None and meta_graph is None:
        raise UsageError(f"--signature does not apply: got {found.format.value}, expected a model with signatures")
    file = found.file
    needs_fetch = ""
    signatures: Mapping[str, ModelSignature] = {}
    if meta_graph is not None:
        signatures = meta_graph.signatures
        file = replace(file, steps=_steps_of(found, meta_graph, not file.initial_values))
        needs_fetch = "" if found.outputs else _known_signatures(meta_graph)
    return LoadedGraph(
        file, directory, None, found.inputs, found.outputs, found.annotations, needs_fetch, signatures=signatures
    )


def _steps_of(found: TensorFlowFile, meta_graph: MetaGraph, initialises: bool) -> tuple[GraphStep, ...]:
    """Return the steps of a model: the op that a loader runs once, then the signature.

    With `initialises`, the initializers of the variables run before these steps.
    """
    from placesim.graph.session_steps import Feed, Fetch, GraphStep

    steps = []
    ids = meta_graph.file.graph.ids
    if initialises:
        steps.append(GraphStep(tuple(Fetch(name) for name in meta_graph.initializers if name in ids)))
    if found.init_op:
        feeds = tuple(Feed(tensor, path) for tensor, path in found.asset_feeds.items())
        steps.append(GraphStep((Fetch(found.init_op),), feeds))
    if found.outputs:
        steps.append(GraphStep(tuple(Fetch(tensor, label=argument) for argument, tensor in found.outputs.items())))
    return tuple(step for step in steps if step.fetches)


def _known_signatures(meta_graph: MetaGraph) -> str:
    known = ", ".join(f"'{name}'" for name in meta_graph.signatures) or "none"
    return f"nothing to run: got a model without a signature, expected --fetch or --signature; its signatures: {known}"
