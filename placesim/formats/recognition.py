"""Recognition of a file's format: by content, or by name for a Python script."""

from __future__ import annotations

import re
from enum import Enum
from pathlib import Path
from typing import NamedTuple

from placesim.core.checkpoints.table import TABLE_MAGIC
from placesim.core.protobuf_wire import BYTES, VARINT, WireError, field_at, fields, last_message

MODEL_FILES = ("saved_model.pb", "saved_model.pbtxt")
"""Names of a SavedModel's file in its directory."""
_SAMPLE_BYTES = 4096
_CONTROL = re.compile(rb"[\x00-\x08\x0b\x0c\x0e-\x1f]")
_OP_NAME = re.compile(rb"[A-Za-z0-9_.>/\-]{1,1000}")
_FIRST_FIELD = re.compile(rb"(?:\s|#[^\n]*\n)*([a-z_]+)[ \t]*(:?)[ \t\r\n]*([{<\[\"'0-9-]?)")
_META_GRAPHS_TAG = 2 << 3 | BYTES
_ONNX_VERSION = 1
_ONNX_FIELDS = {1: VARINT, 5: VARINT, **dict.fromkeys((2, 3, 4, 6, 7, 8, 14, 20, 25, 26), BYTES)}
"""Fields of a ModelProto and their wire types. Source: `onnx.proto`."""
_ONNX_ESSENTIALS = (7, 8)
"""Fields of a ModelProto with its graph and its opsets."""
_DOUBLE_MEANINGS = ("versions", "version")
"""Fields of a GraphDef in text format that are also keys of a graph file, where a colon follows."""


class Format(Enum):
    """Formats of files that a graph can be read from."""

    GRAPH_FILE = "a graph file in YAML or JSON"
    GRAPH_DEF = "a GraphDef"
    META_GRAPH = "a MetaGraphDef"
    SAVED_MODEL = "a SavedModel"
    CHECKPOINT = "a checkpoint's index"
    CHECKPOINT_STATE = "a checkpoint state file"
    ONNX = "an ONNX model"


class FileKind(NamedTuple):
    """Format of a file, and whether it is text."""

    format: Format
    is_text: bool


_TEXT_FIELDS = {
    "node": Format.GRAPH_DEF,
    "library": Format.GRAPH_DEF,
    "versions": Format.GRAPH_DEF,
    "version": Format.GRAPH_DEF,
    "debug_info": Format.GRAPH_DEF,
    "meta_info_def": Format.META_GRAPH,
    "graph_def": Format.META_GRAPH,
    "saver_def": Format.META_GRAPH,
    "collection_def": Format.META_GRAPH,
    "signature_def": Format.META_GRAPH,
    "asset_file_def": Format.META_GRAPH,
    "object_graph_def": Format.META_GRAPH,
    "saved_model_schema_version": Format.SAVED_MODEL,
    "meta_graphs": Format.SAVED_MODEL,
    "model_checkpoint_path": Format.CHECKPOINT_STATE,
    "all_model_checkpoint_paths": Format.CHECKPOINT_STATE,
}


class ScriptGraph(bytes):
    """The graph that a script's process returned (`script_graph`), with a pickle in it.

    Bytes are read as a script's graph only if they have this type, so that no file's content is unpickled.
    """


def is_script(path: str | Path) -> bool:
    """Whether a path is a Python script, which builds a graph when run."""
    return str(path).endswith(".py") and not Path(path).is_dir()


def is_text(data: bytes | memoryview) -> bool:
    """Whether bytes can be text. Binary messages have control characters near their start."""
    return not _CONTROL.search(bytes(data[:_SAMPLE_BYTES]))


def find_model_file(directory: str | Path) -> Path | None:
    """Return the file that makes a directory a SavedModel; None if there is none."""
    return next((path for name in MODEL_FILES if (path := Path(directory, name)).exists()), None)


def recognise(data: bytes | memoryview) -> FileKind:
    """Recognise the format of these bytes; a graph file if no other format fits."""
    if bytes(data[-len(TABLE_MAGIC) :]) == TABLE_MAGIC:
        return FileKind(Format.CHECKPOINT, False)
    if is_text(data):
        return FileKind(_recognise_text(bytes(data[:_SAMPLE_BYTES])), True)
    return FileKind(_recognise_binary(data), False)


def _recognise_text(sample: bytes) -> Format:
    found = _FIRST_FIELD.match(sample)
    if found is None:
        return Format.GRAPH_FILE
    name, colon, value = found[1].decode(), found[2], found[3]
    if name not in _TEXT_FIELDS or (not colon and value not in (b"{", b"<")):
        return Format.GRAPH_FILE
    if colon and name in _DOUBLE_MEANINGS:
        return Format.GRAPH_FILE
    return _TEXT_FIELDS[name]


def _recognise_binary(data: bytes | memoryview) -> Format:
    if _is_onnx(data):
        return Format.ONNX
    try:
        first = next(fields(data))
    except WireError:
        return Format.GRAPH_DEF if data[0] in (0x0A, 0x12, 0x18, 0x22, 0x2A) else Format.GRAPH_FILE
    if (first.number, first.wire_type) == (1, VARINT):
        return Format.SAVED_MODEL if _holds_meta_graphs(data, first.end) else Format.GRAPH_FILE
    if first.wire_type != BYTES and first.number > 5:
        return Format.GRAPH_FILE
    try:
        if first.number == 1 and first.wire_type == BYTES:
            is_graph = _is_node(data, first.value_start, first.end)
        elif first.number == 2 and first.wire_type == BYTES:
            inner = last_message(data, 1, first.value_start, first.end)
            is_graph = inner is None or not _is_node(data, inner.value_start, inner.end)
        else:
            is_graph = True
    except WireError:
        is_graph = True
    return Format.GRAPH_DEF if is_graph else Format.META_GRAPH


def _is_onnx(data: bytes | memoryview) -> bool:
    """Whether bytes, which may be truncated, are a ModelProto: they have its fields only, a version, and a graph or opsets."""
    seen: set[int] = set()
    position = 0
    while position < len(data):
        try:
            field = field_at(data, position, len(data))
        except WireError:
            seen.add(data[position] >> 3)
            break
        if _ONNX_FIELDS.get(field.number) != field.wire_type:
            return False
        seen.add(field.number)
        position = field.end
        if _ONNX_VERSION in seen and not seen.isdisjoint(_ONNX_ESSENTIALS):
            return True
    return _ONNX_VERSION in seen and not seen.isdisjoint(_ONNX_ESSENTIALS)


def _holds_meta_graphs(data: bytes | memoryview, position: int) -> bool:
    """Whether a MetaGraphDef, or the end, follows the version of a SavedModel's schema."""
    try:
        second = next(fields(data, position), None)
    except WireError:
        return data[position] == _META_GRAPHS_TAG
    return second is None or (second.number, second.wire_type) == (2, BYTES)


def _is_node(data: bytes | memoryview, start: int, end: int) -> bool:
    """Whether a message has a valid op name in the field for it in a NodeDef."""
    op = last_message(data, 2, start, end)
    return op is not None and _OP_NAME.fullmatch(bytes(data[op.value_start : op.end])) is not None
