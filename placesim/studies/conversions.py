"""Conversion of a loaded graph to a file: YAML, JSON, a binary or text GraphDef, or an ONNX model with devices."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from functools import partial
from pathlib import Path, PurePath
from typing import TYPE_CHECKING, NamedTuple

from placesim.core.errors import GraphFileError, UsageError
from placesim.core.files.writer import join_pieces
from placesim.ops.categories import FUNCTION_ENDS

if TYPE_CHECKING:
    from placesim.formats.onnx.reader import OnnxFile
    from placesim.formats.sources.loading import LoadedGraph
    from placesim.graph.session_steps import GraphFile
    from placesim.runtime.sessions.outcome import Outcome

NODES = ("exact", "raw", "scopes")
"""Forms of nodes in YAML.

`exact` uses scopes if they give exactly the same nodes, `raw` writes NodeDefs, and `scopes` uses scopes even if attrs with
default values are lost.
"""


class Content(NamedTuple):
    """A graph in a format: pieces of bytes, and notes about content that the format can't hold.

    The notes are complete once all pieces are written.
    """

    pieces: Iterator[bytes]
    notes: tuple[str, ...]


def _is_as_python_builds(file: GraphFile) -> bool:
    """Whether the shape functions accept all nodes, so that the graph can be written as TensorFlow's Python would build it."""
    from placesim.runtime.shapes.shape_check import check_shapes

    try:
        check_shapes(file)
    except GraphFileError:
        return False
    return True


def yaml_content(file: GraphFile, nodes: str = NODES[0]) -> Content:
    """Return YAML with nodes in one of the forms `NODES`.

    If scopes can't express the nodes, they are raw; for `scopes`, a note says so.
    """
    from placesim.formats.graph_file.writing.raw_writer import yaml_lines
    from placesim.formats.graph_file.writing.scoped_writer import scoped_lines

    is_raw, leaves_defaults = nodes == "raw", nodes == "scopes"
    written = None if is_raw else scoped_lines(file, leaves_defaults=leaves_defaults, accepts=_is_as_python_builds)
    notes = (
        ("cannot express this graph with scopes: nodes are written individually",)
        if nodes == "scopes" and written is None
        else ()
    )
    return Content(_encoded(yaml_lines(file) if written is None else iter(written)), notes)


def _json(file: GraphFile, source: object) -> Iterator[bytes]:
    from placesim.formats.graph_file.writing.raw_writer import graph_file_parts
    from placesim.report.document import json_text

    return _encoded(json_text(graph_file_parts(file)))


def _graph_def(file: GraphFile, source: object, *, text: bool) -> Iterator[bytes]:
    from placesim.formats.tensorflow.graph_def import read_original, write_graph_def

    yield write_graph_def(file, text, read_original(source) if file.as_read is file.graph else b"")


def _encoded(pieces: Iterator[str]) -> Iterator[bytes]:
    return (piece.encode() for piece in join_pieces(pieces))


WRITERS: Mapping[str, Callable[[GraphFile, object], Iterator[bytes]]] = {
    "yaml": lambda file, source: yaml_content(file).pieces,
    "json": _json,
    "pb": partial(_graph_def, text=False),
    "pbtxt": partial(_graph_def, text=True),
}
"""Writer of each format that any graph can be converted to; it gets the graph and its source."""
FORMS = (*WRITERS, "onnx")
MAX_IDS = 3
"""Maximum number of lost ids that a note lists."""
ENDINGS: Mapping[str, tuple[str, ...]] = {
    "yaml": (".yaml", ".yml"),
    "json": (".json",),
    "pb": (".pb",),
    "pbtxt": (".pbtxt",),
    "onnx": (".onnx",),
}
"""File extensions of each format."""


def find_file_form(path: str | PurePath) -> str:
    """Return the format of a path's extension. Raises UsageError for an unknown extension."""
    ending = PurePath(path).suffix.lower()
    found = next((form for form, endings in ENDINGS.items() if ending in endings), None)
    if found is None:
        known = ", ".join(ending for endings in ENDINGS.values() for ending in endings)
        raise UsageError(f"unknown extension: got '{path}', expected one of {known}, or --format")
    return found


def convert_graph(
    file: GraphFile, form: str, nodes: str = NODES[0], model: OnnxFile | None = None, source: object = None
) -> Content:
    """Return a graph in a format, with notes about lost parts. Raises UsageError for `onnx` without a `model`.

    `model` is the ONNX model from which the graph was read. If `source` is the path of a GraphDef, and the graph is unchanged,
    a new GraphDef is an exact copy, in the same order.
    """
    if form == "onnx":
        return onnx_content(file, model)
    if model is not None:
        model.check_weights()
    written = yaml_content(file, nodes) if form == "yaml" else Content(WRITERS[form](file, source), ())
    lost = find_losses(file, form, source)
    return written._replace(notes=(*written.notes, *((f"not in {form}: {', '.join(lost)}",) if lost else ())))


def weights_left_behind(loaded: LoadedGraph, path: Path) -> str:
    """Return a note about weight files that are missing beside an ONNX model written to `path`; empty if none is missing."""
    files = () if loaded.onnx is None else loaded.onnx.tensor_files
    names = [file.relative_to(loaded.directory) for file in files]
    left = [f"'{name}'" for name, file in zip(names, files, strict=True) if not (path.parent / name).exists() and file.exists()]
    if not left:
        return ""
    return f"not in onnx: weights in {', '.join(left)} beside the input; copy these files to '{path.parent}'"


def onnx_content(file: GraphFile, model: OnnxFile | None) -> Content:
    """Return the ONNX model with the nodes' requested devices, otherwise unchanged.

    Raises UsageError if the graph was not read from an ONNX model.
    """
    from placesim.formats.onnx.writing import annotate_model, node_devices

    if model is None:
        raise UsageError("only ONNX input can be written as .onnx: got a graph of another format, expected an ONNX model")
    asked = {node.name: node.device for node in file.graph.nodes if node.device}
    devices = node_devices(model, asked)
    others = sum(
        device not in (None, devices[output])
        for output in devices
        for device in (asked.get(node.name) for node in model.file.graph.nodes[slice(*model.made[output])])
    )
    notes = (f"not in onnx: devices of {others} nodes that differ from the majority in their ONNX node",) if others else ()
    return Content((bytes(piece) for piece in annotate_model(model.data, devices)), notes)


def find_losses(file: GraphFile, form: str, source: object = None) -> list[str]:
    """Return the parts of a graph that a format can't hold."""
    from placesim.formats.tensorflow.graph_def import find_unwritten_sections
    from placesim.formats.tensorflow.messages import loses_fields_as_text

    lost = find_unwritten_sections(file) if form in ("pb", "pbtxt") else []
    if form == "pbtxt" and loses_fields_as_text("GraphDef", b"".join(_graph_def(file, source, text=False))):
        lost.append("unknown fields")
    # the other handles are names inside of scopes
    ids = [name for name, nodes in file.graph.handles.items() if not all(_has_name(node, name) for node in nodes)]
    if ids:
        more = ", ..." if len(ids) > MAX_IDS else ""
        lost.append(f"ids ({', '.join(ids[:MAX_IDS])}{more})")
    return [*lost, "the values of its variables"] if file.initial_values else lost


def _has_name(node: str, name: str) -> bool:
    """Whether a node's name is `name` inside of scopes, or with a number that makes it unique."""
    stem, _, number = node.rpartition("_")
    return any(f"/{found}".endswith(f"/{name}") for found in ((node, stem) if number.isdigit() else (node,)))


def build_placed_file(file: GraphFile, outcome: Outcome, form: str) -> GraphFile:
    """Return a file whose nodes request the devices on which they were placed.

    Nodes of functions get requests if they are on the same device in all calls and the new file has the same placement.
    For a format without steps, the file also has the nodes that steps add.
    """
    from placesim.formats.device_annotations import assign_devices, assign_functions
    from placesim.placement.function_bodies import logged_nodes

    if form in ("pb", "pbtxt"):
        file = outcome.file or file
    devices = {node.path: node.device.name for placement in outcome.placed for node in logged_nodes(placement)}
    placed = _with_step_devices(assign_devices(file, devices), devices)
    within = _devices_in_functions(outcome) if file.graph.functions and outcome.placed_graphs else {}
    if within:
        with_functions = assign_functions(placed, within)
        if _places(with_functions, outcome) == _places(None, outcome):
            return with_functions
    return placed


def _with_step_devices(file: GraphFile, devices: Mapping[str, str]) -> GraphFile:
    """Return the file with devices for the nodes that steps add."""
    if file.steps is None:
        return file
    added = ([node._replace(device=devices.get(node.name, node.device)) for node in step.nodes] for step in file.steps)
    return replace(file, steps=tuple(replace(step, nodes=tuple(nodes)) for step, nodes in zip(file.steps, added, strict=True)))


def _devices_in_functions(outcome: Outcome) -> dict[str, dict[str, str]]:
    """Return the devices of functions' nodes that are on the same device in all calls.

    Bodies that run entirely on the device of their call are left out, since their requests are ignored.
    """
    from placesim.placement.function_bodies import Instantiation

    found: dict[str, dict[str, set[str]]] = {}
    placement = outcome.placed_graphs[-1]
    bodies = outcome.bodies.bodies
    whole = {body.function for body in bodies if body.how is Instantiation.SINGLE_DEVICE}
    within = ((body.placement, body.function) for body in bodies if body.placement is not None)
    for placed, function in ((placement, ""), *within):
        for node, device in zip(placed.graph.nodes, placed.devices, strict=True):
            origin = placed.graph.origins.get(node.name)
            name, of = (origin.node, origin.function) if origin is not None else (node.name, function)
            if of and device is not None and node.op not in FUNCTION_ENDS:
                found.setdefault(of, {}).setdefault(name, set()).add(device.name)
    return {
        function: {name: next(iter(devices)) for name, devices in nodes.items() if len(devices) == 1}
        for function, nodes in found.items()
        if function not in whole
    }


def _places(file: GraphFile | None, outcome: Outcome) -> dict[str, str]:
    """Return the device of each node, also in bodies, when `file` is placed on the outcome's machine.

    Without `file`, the devices are those of the outcome.
    """
    from placesim.placement.function_bodies import logged_nodes
    from placesim.placement.session_placer import SessionPlacer

    placement = outcome.placed_graphs[-1]
    if file is not None:
        placement = SessionPlacer(placement.device_set, placement.groups.soft).place(file.graph)
    return {node.path: node.device.name for node in logged_nodes(placement)}


def partition_files(outcome: Outcome, is_text: bool) -> Iterator[tuple[PurePath, bytes]]:
    """Yield a file with a GraphDef for the partition of each device.

    If steps have different partitions, each step has its own folder.
    """
    from placesim.formats.tensorflow.graph_def import write_partitions

    for number, prepared in enumerate(outcome.prepared):
        folder = PurePath(f"step-{number}") if len(outcome.prepared) > 1 else PurePath()
        parts = {part.device.name: part.graph for part in prepared.partitions.parts}
        for device, content in write_partitions(parts, is_text).items():
            name = device.strip("/").replace("/", ".").replace(":", "_")
            yield folder / f"{name}.{'pbtxt' if is_text else 'pb'}", content
