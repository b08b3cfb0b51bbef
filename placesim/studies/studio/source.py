"""The source of a studio: a graph file, whose text the page edits, or another file or script, whose devices it edits."""

from __future__ import annotations

import json
from collections import OrderedDict
from collections.abc import Callable, Hashable, Mapping
from dataclasses import replace
from io import BytesIO
from pathlib import Path
from threading import RLock
from typing import Any, Generic, NamedTuple, TypeVar

from placesim.core.errors import PlacesimError, UsageError
from placesim.formats.device_annotations import set_devices
from placesim.formats.graph_file.parsing.yaml_tree import decode_utf8
from placesim.formats.recognition import Format, is_script, recognise
from placesim.formats.sources.loading import LoadedGraph, check_content, load, read_bytes, requested_device, run_script
from placesim.graph.node_patterns import did_you_mean_node, find_matching_names, matcher
from placesim.machine.options import SimulationOptions, make_options
from placesim.studies.studio.messages import EditResult, State

GRAPH_FILE, TENSORFLOW_FILE, SCRIPT = "graph file", "TensorFlow file", "script"
_BOM = "\ufeff".encode()
_KINDS = {Format.GRAPH_FILE: GRAPH_FILE, Format.ONNX: "ONNX model"}
STATE_OPTIONS = (
    *("cpu", "gpu", "gpu_model", "link", "soft_placement", "batch", "shape", "tensorflow", "clear_devices"),
    *("optimize", "inter_op_threads", "intra_op_threads"),
)
"""Options that a page may change. None of them names a file."""
MAX_CACHED = 6
Value = TypeVar("Value")


class RecentValues(Generic[Value]):
    """The most recently used values, by key. A lock ensures that each value is computed only once."""

    def __init__(self) -> None:
        self._values: OrderedDict[Hashable, Value] = OrderedDict()
        self._lock = RLock()

    def find(self, key: Hashable, make: Callable[[], Value]) -> Value:
        """Return the value of a key; if it is not stored, `make` computes it."""
        with self._lock:
            if key not in self._values:
                self._values[key] = make()
                if len(self._values) > MAX_CACHED:
                    self._values.popitem(last=False)
            self._values.move_to_end(key)
            return self._values[key]

    def __reduce__(self) -> tuple[Any, ...]:
        # another process makes its own values
        return type(self), ()


class EditedGraph(NamedTuple):
    """The graph of a state, with the state's options and a result for each edit of a device.

    `patterns` are the patterns of the applied edits.
    """

    loaded: LoadedGraph
    options: SimulationOptions
    edits: list[EditResult]
    patterns: tuple[str, ...]

    def edit_of(self, node: str) -> str | None:
        """Return the pattern of the last edit of a node; None if no edit applies to it."""
        assert self.loaded.file is not None
        handles = self.loaded.file.graph.handles
        return next((pattern for pattern in reversed(self.patterns) if matcher((pattern,), handles)(node)), None)


class StudioSource:
    """A graph at `path` with the options of the command line, by name.

    `content` has the bytes of a graph file when it was read or last written. `tell` receives a message about a script's run.
    Raises GraphFileError if the file is unreadable or not of the format that its extension implies, and errors of the script.
    """

    def __init__(self, path: str, values: Mapping[str, Any], tell: Callable[[str], None] = lambda told: None) -> None:
        self.path = path
        self.content = b""
        self._values = dict(values)
        self._graphs = RecentValues[LoadedGraph]()
        self._source: Any = path
        options = make_options(values)
        if is_script(path):
            self.kind = SCRIPT
            self._source = run_script(path, options, tell)
        elif Path(path).is_dir():
            self.kind = TENSORFLOW_FILE
        else:
            content = read_bytes(path)
            self.kind = _KINDS.get(recognise(content).format, TENSORFLOW_FILE)
            if self.kind == GRAPH_FILE:
                check_content(content, path)
                self.content = content

    @property
    def start(self) -> State:
        """The state of the command line, with its options and devices."""
        text = decode_utf8(self.content, self.path).replace("\r\n", "\n") if self.kind == GRAPH_FILE else None
        given = {name: value for name in STATE_OPTIONS if (value := self._values.get(name)) not in (None, ())}
        devices = make_options({"device": self._values.get("device", ())}).device_patterns
        return State(
            text=text,
            options={name: list(value) if isinstance(value, tuple) else value for name, value in given.items()},
            devices=[list(pair) for pair in devices],
        )

    def encoded(self, text: str) -> bytes:
        """Return a text encoded like the graph file, with the same line ends and byte order mark."""
        content = text.encode()
        content = content.replace(b"\n", b"\r\n") if b"\r\n" in self.content else content
        return _BOM + content if self.content.startswith(_BOM) else content

    def options_of(self, state: State) -> SimulationOptions:
        """Return the options of a state. Raises UsageError for an option that a page may not change, or an invalid value."""
        for name in state["options"]:
            if name not in STATE_OPTIONS:
                raise UsageError(f"wrong option of the page: got '{name}', expected one of {', '.join(STATE_OPTIONS)}")
        own = {name: value for name, value in self._values.items() if name not in (*STATE_OPTIONS, "device")}
        return make_options(own | {name: value for name, value in state["options"].items() if value is not None})

    def graph(self, state: State) -> EditedGraph:
        """Return the graph of a state. Raises the errors of the file and the options.

        An edit that can't be applied is left out; its result has the reason.
        """
        options = self.options_of(state)
        key = state["text"], options.tensorflow, options.clear_devices
        loaded = self._graphs.find(key, lambda: self._load(state["text"], options))
        if loaded.error is not None:
            raise loaded.error
        assert loaded.file is not None
        pairs, edits = list[tuple[str, str]](), []
        for pattern, device in state["devices"]:
            names = find_matching_names(pattern, loaded.file.graph)
            problem = "" if names else f"no node matches '{pattern}'{did_you_mean_node(pattern, loaded.file.graph.ids)}"
            try:
                pairs += [(pattern, requested_device(pattern, device))] if names else []
            except PlacesimError as error:
                problem = error.message
            edits.append(EditResult(nodes=len(names), problem=problem))
        file = set_devices(loaded.file, pairs) if pairs else loaded.file
        return EditedGraph(replace(loaded, file=file), options, edits, tuple(pattern for pattern, _ in pairs))

    def _load(self, text: str | None, options: SimulationOptions) -> LoadedGraph:
        if self.kind != GRAPH_FILE:
            return load(self._source, self.path, options)
        if text is None:
            raise UsageError("no text: got a state without the text of the graph file, expected one")
        folder = Path(self.path).parent
        return replace(load(BytesIO(text.encode()), self.path, options), directory=folder, folder=folder)


def read_state(value: Any) -> State:
    """Return a state that a page sent. Raises UsageError for an invalid state."""
    if not isinstance(value, dict) or set(value) != set(State.__annotations__):
        raise UsageError("wrong state: expected an object with text, options and devices")
    text, options, devices = value["text"], value["options"], value["devices"]
    pairs = isinstance(devices, list) and all(isinstance(pair, list) and len(pair) == 2 for pair in devices)
    if not pairs or not all(isinstance(word, str) for pair in devices for word in pair):
        raise UsageError("wrong devices of a state: expected a list of pairs of a pattern and a device")
    if not isinstance(options, dict) or not all(map(_is_option_value, options.values())):
        raise UsageError("wrong options of a state: expected an object of numbers, texts, booleans and lists of texts")
    if not isinstance(text, str | None):
        raise UsageError("wrong text of a state: expected a string or null")
    try:
        json.dumps(value, ensure_ascii=False).encode()
    except UnicodeEncodeError:
        raise UsageError("wrong text of a state: got half of a surrogate pair, expected Unicode characters") from None
    return State(text=text, options=options, devices=devices)


def _is_option_value(value: Any) -> bool:
    listed = isinstance(value, list) and all(isinstance(word, str) for word in value)
    return listed or isinstance(value, str | int | bool | None)
