"""Reader and writer of GraphDefs, binary or text."""

from __future__ import annotations

import os
from array import array
from collections.abc import Iterator, Mapping
from contextlib import closing, contextmanager
from dataclasses import replace
from os import PathLike
from pathlib import Path, PurePath
from typing import NamedTuple

from placesim.core.errors import GraphFileError, Location, Problem
from placesim.core.escaping import escape_line
from placesim.core.process.gc_pause import collector_paused
from placesim.core.protobuf_wire import BYTES, Field, WireError, field_at, field_head, fields, message_field, take_run
from placesim.core.releases import CURRENT
from placesim.formats.library_checks import check_library
from placesim.formats.node_import import NodeImport
from placesim.formats.problems import FileProblems, shorten_message
from placesim.formats.recognition import Format, recognise
from placesim.formats.tensorflow.file_bytes import file_bytes
from placesim.formats.tensorflow.function_def import read_function, write_function
from placesim.formats.tensorflow.messages import Buffer, Message, as_binary, as_text, message_class, parse, serialise, to_text
from placesim.formats.tensorflow.new_attrs import NewAttrs
from placesim.formats.tensorflow.node_def import NodeReader, NodeWriter
from placesim.graph.graph import Graph, LibraryFunction
from placesim.graph.session_steps import Config, GraphFile
from placesim.ops.registry import Registry, load_registry

_NODE, _LIBRARY, _VERSIONS = 1, 2, 4
_LIBRARY_FUNCTION = 1
MAX_PROBLEMS = 100
"""Maximum number of problems in a file; reading ends there."""
_MAX_SEARCHES = 3


# --- reading --------------------------------------------------------------------------------------------------------


class _Parts(NamedTuple):
    """The parts of a GraphDef. `rest` has the fields that are not read, as the bytes of a GraphDef.

    `nodes` has the start and the end of the first node in the file, then of the second, and so on; `functions` likewise.
    """

    nodes: array[int]
    functions: array[int]
    versions: dict[str, int]
    rest: bytes


def read_graph_def(
    data: Buffer,
    name: str,
    registry: Registry | None = None,
    producer_ops: Message | None = None,
    is_text: bool | None = None,
) -> GraphFile:
    """Read a GraphDef's bytes or text as a raw graph; `name` is the file's name, for messages.

    Large constants are views of `data`. `producer_ops` is the OpList of the program that wrote the graph, if known. Raises
    GraphFileError with all problems.
    """
    with file_errors(name), collector_paused():
        view = memoryview(as_binary("GraphDef", data, is_text))
        return _read(view, name, registry or load_registry(), producer_ops or message_class("OpList")())


@contextmanager
def file_errors(name: str) -> Iterator[None]:
    """Raise GraphFileError with the file's name in place of the WireError of the block."""
    try:
        yield
    except WireError as error:
        raise GraphFileError((Problem(Location(name, error.line, error.column), shorten_message(str(error))),)) from None


def _read(data: memoryview, name: str, registry: Registry, producer_ops: Message) -> GraphFile:
    parts = _parts(data)
    reader = NodeReader()
    new_attrs = NewAttrs(registry, producer_ops)
    problems = FileProblems(name, MAX_PROBLEMS, _MAX_SEARCHES)
    functions = _read_functions(data, parts.functions, reader)
    graph = Graph(registry, {key: _without(new_attrs, function) for key, function in functions.items()}, name)
    graph.versions = parts.versions
    _check_versions(parts, registry, problems)
    check_library(registry, graph.functions, problems)
    nodes = NodeImport(graph, problems)
    if new_attrs:
        nodes.add_all(map(new_attrs.without, reader.read_all(data, parts.nodes)))
    else:
        with closing(reader.read_columns(data, parts.nodes)) as blocks:
            for columns in blocks:
                nodes.add_columns(columns)
    nodes.finish()
    problems.raise_if_any()
    as_read = None if new_attrs else graph
    return GraphFile(escape_line(PurePath(name).stem), graph, is_raw=True, rest=parts.rest, as_read=as_read)


def _parts(data: memoryview) -> _Parts:
    nodes, functions = array("q"), array("q")
    versions = message_class("VersionDef")()
    library_rest, others = bytearray(), bytearray()
    has_library = False
    position = take_run(data, _NODE, 0, len(data), nodes)
    while position < len(data):
        field = field_at(data, position, len(data))
        if (field.number, field.wire_type) == (_LIBRARY, BYTES):
            library_rest += _library(data, field, functions)
            has_library = True
        elif (field.number, field.wire_type) == (_VERSIONS, BYTES):
            versions.MergeFrom(parse("VersionDef", data[field.value_start : field.end]))
        else:
            others += data[field.start : field.end]
        position = take_run(data, _NODE, field.end, len(data), nodes)
    found = {key: getattr(versions, key) for key in ("producer", "min_consumer") if getattr(versions, key)}
    rest = message_class("GraphDef")()
    if library_rest or (has_library and not functions):
        rest.library.CopyFrom(parse("FunctionDefLibrary", bytes(library_rest)))
    for key in found:
        versions.ClearField(key)
    if versions.ByteSize():
        rest.versions.CopyFrom(versions)
    return _Parts(nodes, functions, found, serialise(rest) + bytes(others))


def _library(data: memoryview, library: Field, functions: array[int]) -> bytes:
    rest = b""
    for field in fields(data, library.value_start, library.end):
        if field.number == _LIBRARY_FUNCTION and field.wire_type == BYTES:
            functions.extend((field.value_start, field.end))
        else:
            rest += data[field.start : field.end]
    return rest


def _read_functions(data: memoryview, spans: array[int], reader: NodeReader) -> dict[str, LibraryFunction]:
    found: dict[str, LibraryFunction] = {}
    written: dict[str, memoryview] = {}
    starts = iter(spans)
    for start, end in zip(starts, starts, strict=True):
        function = read_function(data[start:end], reader)
        if written.setdefault(function.name, data[start:end]) != data[start:end]:
            reason = "because a different function with the same name already exists."
            raise WireError(f"Cannot add function '{function.name}' {reason}")
        found[function.name] = function
    return found


def _without(new_attrs: NewAttrs, function: LibraryFunction) -> LibraryFunction:
    return replace(function, nodes=tuple(map(new_attrs.without, function.nodes)))


def _check_versions(parts: _Parts, registry: Registry, problems: FileProblems) -> None:
    least = parts.versions.get("min_consumer", 0)
    current = registry.rules.producer
    if least > current:
        above = f"GraphDef min consumer version {least} above current version {current}"
        message = f"{above} for TensorFlow {registry.release}.  Please upgrade TensorFlow."
        problems.add(0, message, "InvalidArgumentError")


# --- writing --------------------------------------------------------------------------------------------------------


def write_graph_def(file: GraphFile, text: bool = False, original: Buffer = b"") -> bytes:
    """Write a graph, its functions and versions as a GraphDef, binary or text.

    With `original`, the file from which the unchanged graph was read, in binary form, the result is that GraphDef.  A GraphDef
    can't hold the devices, config and steps of the file. Raises GraphFileError for content of the graph that a GraphDef can't
    hold.
    """
    with file_errors(file.name):
        if original:
            return as_text("GraphDef", original).encode() if text else bytes(original)
        parse("GraphDef", file.rest)
        data = b"".join([*_write(file.graph), file.rest])
        return to_text(parse("GraphDef", data)).encode() if text else data


def read_original(path: object) -> Buffer:
    """Return the GraphDef in a file as bytes; empty if the path is not that of a regular file with a GraphDef."""
    if not (isinstance(path, str | PathLike) and os.path.isfile(path)):
        return b""
    content = file_bytes(Path(path))
    form, is_text = recognise(content)
    return as_binary("GraphDef", content, is_text) if form is Format.GRAPH_DEF else b""


def find_unwritten_sections(file: GraphFile) -> list[str]:
    """Return the sections of a graph file with content that a GraphDef can't hold."""
    found = {
        "tensorflow": file.graph.registry.rules is not CURRENT and not file.is_raw,
        "devices": file.inventory is not None,
        "links": bool(file.links.entries),
        "config": file.config != Config(),
        "run": file.steps is not None,
        "description": bool(file.description),
    }
    return [section for section, is_used in found.items() if is_used]


def write_partitions(parts: Mapping[str, Graph], text: bool = False) -> dict[str, bytes]:
    """Return a GraphDef for each device's partition; all its nodes request the device. Raises as `write_graph_def` does."""
    written = {}
    for device, graph in parts.items():
        with file_errors(device):
            data = b"".join(_write(graph, device))
            written[device] = to_text(parse("GraphDef", data)).encode() if text else data
    return written


def _write(graph: Graph, device: str | None = None) -> list[Buffer]:
    """Return the bytes of a GraphDef in pieces, so that they are joined only once. With `device`, all nodes request it."""
    writer = NodeWriter()
    pieces: list[Buffer] = []
    for node in graph.nodes:
        asked = node.device if device is None else device
        written = writer.write(node.name, node.op, graph.input_texts(node), asked, node.attrs)
        pieces.append(field_head(_NODE, sum(map(len, written))))
        pieces += written
    functions = [write_function(function, writer) for function in graph.functions.values()]
    library = b"".join(message_field(_LIBRARY_FUNCTION, function) for function in functions)
    if library:
        pieces.append(message_field(_LIBRARY, library))
    if graph.versions:
        pieces.append(message_field(_VERSIONS, _write_versions(graph.versions)))
    return pieces


def _write_versions(versions: Mapping[str, int]) -> bytes:
    try:
        return serialise(message_class("VersionDef")(**versions))
    except (ValueError, TypeError) as error:
        raise WireError(f"versions: {error}") from None
