"""Forms in which a state is saved: a graph file, a model, options, a file for a script, or one page."""

from __future__ import annotations

import shlex
from base64 import b64encode
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

from placesim.core.errors import PlacesimError, UsageError
from placesim.core.files.writer import unwritable, write_whole
from placesim.formats.graph_file.writing.text_edits import EditableText, UneditableText
from placesim.formats.sources.loading import LoadedGraph, read_bytes
from placesim.graph.node_patterns import find_matching_names, is_pattern, matcher
from placesim.machine.options import option_words
from placesim.planning.graphs.plan_annotations import devices_by_name
from placesim.studies.plan_files import machine_text, planned_for, write_requests
from placesim.studies.plan_functions import DeviceRequests
from placesim.studies.studio.messages import Saved, SaveKind, State
from placesim.studies.studio.source import GRAPH_FILE, SCRIPT, EditedGraph, StudioSource
from placesim.studies.studio.studio import Studio

_LABELS = {
    "yaml": "Graph file",
    "options": "Command-line options",
    "script": "Device function for tf.device",
    "patch": "Patch of the script",
    "json": "Graph file in JSON",
    "pb": "GraphDef",
    "pbtxt": "GraphDef as text",
    "onnx": "ONNX model",
    "page": "One page, without a server",
}
_ENDINGS = {"options": ".txt", "script": "_devices.py", "page": ".html"}
_ALL_DROPPED = ["*", ""]
"""The edit that drops all requests, as a plan does."""
_BINARY = ("pb", "onnx")
_NOT_IN_FILE = ("batch", "shape")
"""Options that no graph file holds; other forms of a graph hold only its devices."""


def save_kinds(source: StudioSource) -> list[SaveKind]:
    """Return the forms in which a source's states can be saved."""
    only = {"patch": SCRIPT, "onnx": "ONNX model"}
    kinds = [kind for kind in _LABELS if only.get(kind, source.kind) == source.kind]
    return [SaveKind(kind=kind, label=_LABELS[kind], can_write=kind == "yaml" and source.kind == GRAPH_FILE) for kind in kinds]


def save_state(
    studio: Studio,
    number: int,
    state: State,
    kind: str,
    page: Callable[[], str],
    *,
    is_written: bool = False,
    overwrites: bool = False,
) -> Saved:
    """Return a state in a form; `page` generates the form `page`. With `is_written`, the graph file on the disk is replaced.

    Raises the errors of the state. Raises UsageError for an unknown form, a file that can't be written, and a state that the
    form can't express.
    """
    source = studio.source
    if kind not in {found["kind"] for found in save_kinds(source)} or (is_written and kind != "yaml"):
        raise UsageError(f"cannot save as {kind}: expected one of the forms in the menu")
    notes = list[str]()
    if kind == "page":
        content = page().encode()
    elif kind == "options":
        content = _command(source, state, notes).encode()
    else:
        content = _graph(studio, state, kind, notes)
    if kind == "yaml" and source.kind == GRAPH_FILE:
        content = source.encoded(content.decode())
    saved = Saved(
        id=number,
        name=_name(source, kind),
        content=b64encode(content).decode() if kind in _BINARY else content.decode("utf-8-sig"),
        is_binary=kind in _BINARY,
        written=None,
        options=_left_options(state, kind),
        notes=notes,
        conflict=False,
    )
    if is_written:
        if not overwrites and _is_changed(source):
            return Saved(**{**saved, "conflict": True})
        _write(source, content)
        saved["written"] = source.path
    return saved


def _is_changed(source: StudioSource) -> bool:
    try:
        return read_bytes(source.path) != source.content
    except PlacesimError:  # it has gone
        return True


def _write(source: StudioSource, content: bytes) -> None:
    try:
        write_whole(Path(source.path), content)
    except (OSError, ValueError) as error:
        raise unwritable(Path(source.path), error) from error
    source.content = content


def _name(source: StudioSource, kind: str) -> str:
    path = Path(source.path)
    if kind == "yaml" and source.kind == GRAPH_FILE:
        return path.name
    return path.stem.replace("-", "_" if kind == "script" else "-") + _ENDINGS.get(kind, f".{kind}")


# --- graphs


def _graph(studio: Studio, state: State, kind: str, notes: list[str]) -> bytes:
    """Return a graph with the state's edits in a form, and add to `notes` what the form can't express."""
    source = studio.source
    text, left = state["text"], _left_options(state, kind)
    if kind == "yaml" and text is not None and not _given_options(state) and not state["devices"]:
        return text.encode()  # even if it can't be read
    if left:
        notes.append(f"this form cannot hold these options; give them to the command: {shlex.join(option_words(left))}")
    edited, plain = source.graph(state), source.graph({**state, "devices": []})
    notes += (edit["problem"] for edit in edited.edits if edit["problem"])
    snapshot = studio.snapshot(state)
    if snapshot.error is not None:
        if kind != "yaml" or text is None:
            raise UsageError(f"cannot save as {kind}: {snapshot.error.summary}")
        notes.append("the graph cannot be placed: the edits are rows of `placement`")
        return _with_rows(state, plain).encode()
    path = Path(source.path).with_name(_name(source, kind))
    requests = _requests(studio, state, plain.loaded)
    can_have_rows = kind == "yaml" and text is not None and bool(state["devices"])
    try:
        content = b"".join(write_requests(plain.loaded, plain.options, requests, path, notes.append))
    except PlacesimError:  # requests of single nodes can't express an edit that takes colocated nodes along
        if not can_have_rows:
            raise
    else:
        if not can_have_rows or not _is_new_raw(source, state, content.decode()):
            return content
    return _with_rows(state, plain).encode()


def _given_options(state: State) -> dict[str, Any]:
    return {name: value for name, value in state["options"].items() if value is not None}


def _left_options(state: State, kind: str) -> dict[str, Any]:
    """Return the options of a state that a form cannot hold."""
    if kind in ("options", "page"):
        return {}
    given = _given_options(state)
    return {
        name: value
        for name, value in given.items()
        if (name in _NOT_IN_FILE if kind in ("yaml", "json") else name != "clear_devices")
    }


def _is_new_raw(source: StudioSource, state: State, content: str) -> bool:
    """Return whether the new text is a raw graph file, which keeps none of the original text."""
    before, after = (
        source.graph({"text": text, "options": {}, "devices": []}).loaded.file for text in (state["text"], content)
    )
    return after is not None and after.is_raw and not (before is not None and before.is_raw)


def _requests(studio: Studio, state: State, loaded: LoadedGraph) -> DeviceRequests:
    """Return the requests of the state's edits, with the devices to which they led."""
    live = studio.snapshot(state).live
    assert live is not None
    assert live.placement is not None
    assert loaded.file is not None
    where = devices_by_name(live.placement)
    graph = loaded.file.graph
    asked: dict[str, str] = {}
    edits: dict[str, str] = {}
    free: dict[str, None] = {}
    for pattern, device in state["devices"]:
        names = [name for name in find_matching_names(pattern, graph) if name in where]
        if not names:
            continue
        free[pattern] = None
        covers = matcher((pattern,), graph.handles)
        edits = {path: own for path, own in edits.items() if not covers(path)}
        for path in (pattern,) if pattern == "*" or not is_pattern(pattern) else names:
            if device:
                edits[path] = where[path] if path in where else Counter(where[name] for name in names).most_common(1)[0][0]
        for name in names:
            asked.pop(name, None)
            if device:
                asked[name] = where[name]
    places = {name: frozenset((device,)) for name, device in where.items()}
    return DeviceRequests(studio.source.path, "edited in `placesim studio`", asked, edits, tuple(free), places)


def _with_rows(state: State, plain: EditedGraph) -> str:
    """Return the text with the machine and the session of the options, and with the edits as rows of `placement`.

    `plain` is the graph without the edits. Raises UsageError for a text that can't be changed.
    """
    file, options, source = plain.loaded.file, plain.options, state["text"]
    assert file is not None
    assert source is not None
    rows = {
        path: device or None
        for pattern, device in state["devices"]
        for path in ((pattern,) if not is_pattern(pattern) else find_matching_names(pattern, file.graph))
    }
    try:
        text = machine_text(source, file, planned_for(file, options), options)
        text = EditableText(text).without_devices() if options.clear_devices else text
        return EditableText(text).with_placement(rows) if rows else text
    except UneditableText:
        raise UsageError("cannot write the edits into this text: expected a graph file with a list of nodes") from None


# --- options


def _command(source: StudioSource, state: State, notes: list[str]) -> str:
    """Return the state's options and devices as words of a command line."""
    if state["text"] != source.start["text"]:
        notes.append("the text has changed: save the graph file too")
    options, pairs = state["options"], state["devices"]
    if _ALL_DROPPED in pairs:
        last = len(pairs) - 1 - pairs[::-1].index(_ALL_DROPPED)
        options, pairs = {**options, "clear_devices": True}, pairs[last + 1 :]
    devices = (word for pattern, device in pairs for word in ("--device", f"{pattern}={device}"))
    return f"{shlex.join([*option_words(options), *devices])}\n"
