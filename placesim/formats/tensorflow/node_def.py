"""Reader and writer of NodeDefs.

The attr `_node_def` of a node keeps as bytes what its fields can't hold: debug info, full types, attrs without a value, and
unknown fields.
"""

from __future__ import annotations

from collections.abc import Generator, Iterable, Iterator, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from functools import lru_cache
from itertools import chain
from typing import NamedTuple

import numpy as np

from placesim.core.dtypes import DataType
from placesim.core.process.ahead import can_compute_ahead, computed_ahead
from placesim.core.protobuf_wire import BYTES, WireError, field_head, fields, message_field
from placesim.formats.node_columns import NodeColumns, NodeKind, input_columns
from placesim.formats.tensorflow.attr_value import LARGE_BYTES, UnrepresentableValue, read_entry, read_string, write_attr
from placesim.formats.tensorflow.messages import Buffer, Message, UnknownFields, message_class, parse, parser, serialise
from placesim.formats.tensorflow.node_parts import (
    LABEL,
    NUMBER_HEADS,
    Column,
    NodeParts,
    Numbers,
    node_parts,
    split_runs,
    tensor_at,
    tensors,
)
from placesim.formats.tensorflow.tensor_proto import raw_content, write_tensor
from placesim.graph.graph import NodeDef
from placesim.ops.attributes import Attrs, AttrValue, TensorValue

REST = "_node_def"
"""Name of the attr that holds the other parts of a NodeDef."""
_DEVICE, _ATTR = 4, 5  # of a NodeDef
_KEY, _VALUE = 1, 2  # of an entry of its attrs
_TENSOR = 8  # of an AttrValue
_TENSOR_CONTENT = 4  # of a TensorProto
_CACHED_BYTES = 512
_MAX_CACHED = 1 << 18
_MANY_NODES = 150_000
"""Number of nodes from which a second processor is worthwhile."""
_OWN_BLOCKS = 4
"""Number of blocks of which a second processor takes apart all but one."""
_FEW_NODES = 64
"""Number of nodes below which reading them together is no faster than one by one (measured)."""


class _NodeTemplate(NamedTuple):
    """The common part of nodes whose bytes differ only in name and inputs.

    They may also differ in the number of the attr `tensor`, and in a colocation label, which is attr number `label`.
    """

    kind: NodeKind
    tensor: str = ""
    label: int = -1


_CLASS = message_field(_KEY, b"_class")
"""Bytes with which the entry of a colocation label usually begins."""
_UNLIKE = _NodeTemplate(NodeKind("", "", {}, False))
"""Template of no node: such a node must be read by itself."""


class NodeReader:
    """A reader of nodes. Attrs with the same bytes share one mapping."""

    def __init__(self) -> None:
        self._outline = message_class("NodeOutline")
        self._parse = parser("NodeOutline")
        self._attrs: dict[tuple[str, tuple[bytes, ...]], Attrs] = {}
        self._entries: dict[bytes, tuple[str, AttrValue, bool]] = {}
        self._alike: dict[tuple[str, str], _NodeTemplate] = {}
        self._seen: set[tuple[str, str]] = set()
        self._texts: dict[str, str] = {"": ""}
        self._labels: dict[str, tuple[str]] = {}

    def read_all(self, data: memoryview, spans: Sequence[int]) -> Iterator[NodeDef]:
        """Return an iterator over the consecutive NodeDefs in `data`; `spans` are their starts and ends. Raises WireError."""
        return chain.from_iterable(columns.node_defs() for columns in self.read_columns(data, spans))

    def read_columns(self, data: memoryview, spans: Sequence[int]) -> Generator[NodeColumns]:
        """Return an iterator over the same nodes, in blocks. Raises WireError."""
        is_ahead = len(spans) > 2 * _MANY_NODES and can_compute_ahead()
        runs = [run for run in split_runs(spans) if len(run[0]) >= _FEW_NODES]
        # this process has less to do, so it takes some blocks apart itself
        ahead = (tuple(node_parts(data, *run)) for number, run in enumerate(runs) if number % _OWN_BLOCKS)
        number = 0
        with computed_ahead(ahead) if is_ahead else nullcontext(ahead) as ready:
            for starts, ends in split_runs(spans):
                if len(starts) < _FEW_NODES:
                    yield _as_columns(self._read(data[start:end]) for start, end in zip(starts, ends, strict=True))
                    continue
                parts = NodeParts(*next(ready)) if number % _OWN_BLOCKS else node_parts(data, starts, ends)
                number += 1
                yield self._read_alike(data, starts, ends, parts)

    def _read_alike(self, data: memoryview, starts: Column, ends: Column, parts: NodeParts) -> NodeColumns:
        known, keys, rows = self._alike, parts.keys, np.array(np.frombuffer(parts.rows, np.int64))
        templates = [known.get(key, _UNLIKE) for key in keys]
        unlike = np.flatnonzero(np.array([template is _UNLIKE for template in templates])[rows])
        read: dict[int, NodeDef] = {}
        alone: list[NodeKind] = []
        numbers = tensors(parts.numbers) if unlike.size else {}
        spans = zip(starts[unlike].tolist(), ends[unlike].tolist(), strict=True)
        for row, index, (start, end) in zip(unlike.tolist(), rows[unlike].tolist(), spans, strict=True):
            op, rest = keys[index]
            templates[index] = known.get((op, rest), _UNLIKE)  # perhaps learned from an earlier row
            if templates[index] is _UNLIKE:
                node, shared = self._read(data[start:end])
                read[row] = node
                alone.append(NodeKind(node.op, node.device, shared, "_class" in node.attrs))
                self._learn(node, op, rest, numbers.get(row))
        rows[list(read)] = np.arange(len(keys), len(keys) + len(read))
        made = {row: node.attrs for row, node in read.items()}
        attrs = _AlikeAttrs(templates, rows, made, parts.numbers, parts.labels, self._labels)
        kinds = [template.kind for template in templates] + alone
        counts, near = (np.frombuffer(column, np.int64) for column in (parts.counts, parts.near))
        columns = NodeColumns(parts.names, counts, near, parts.far, kinds, rows, attrs)
        return columns.with_texts({row: (node.name, node.inputs) for row, node in read.items()}) if read else columns

    def _learn(self, node: NodeDef, op: str, rest: str, number: TensorValue | None) -> None:
        """Record a template from the second node with the same op, device and attrs, for later ones.

        With `number`, the node is a constant that ends in this number, and later constants may have other numbers.
        """
        if not op or len(self._seen) >= _MAX_CACHED:
            return
        if (op, rest) not in self._seen:
            self._seen.add((op, rest))
            return
        parts = [part.encode("latin-1") for part in rest.split(LABEL)]
        if number is not None:
            parts[-1] += number.array.tobytes()
        if not all(map(_has_no_name, parts)) or (len(parts) > 1 and "_class" in rest):
            return  # of two labels, the last one counts
        attrs, place = node.attrs, -1
        if len(parts) > 1:
            place = list(attrs).index("_class")
            attrs = {name: value for name, value in attrs.items() if name != "_class"}
        if number is None:
            held = [name for name, value in attrs.items() if isinstance(value, TensorValue)]
            if len(held) <= (node.op == "Const"):
                kind = NodeKind(node.op, node.device, attrs, place >= 0)
                self._alike[op, rest] = _NodeTemplate(kind, "".join(held), place)
            return
        tensor = next(reversed(list(attrs)), "")
        value = attrs.get(tensor)
        if not isinstance(value, TensorValue) or value.dtype is not number.dtype or value.array.shape:
            return
        # the number is the constant's value only if the attr, as written here, ends the node's bytes
        entry = message_field(_ATTR, write_entry(tensor, value))
        if parts[-1].endswith(entry) and entry[: -value.dtype.size].endswith(NUMBER_HEADS[value.dtype]):
            others = {name: other for name, other in attrs.items() if name != tensor}
            self._alike[op, rest] = _NodeTemplate(NodeKind(node.op, node.device, others, place >= 0), tensor, place)

    def read(self, data: Buffer) -> NodeDef:
        """Read a NodeDef. Raises WireError."""
        return self._read(data)[0]

    def _read(self, data: Buffer) -> tuple[NodeDef, Attrs]:
        """Return a node and an object that it shares with nodes of the same op and types. Raises WireError."""
        slim: Buffer = data
        entries = None
        if len(data) > LARGE_BYTES:
            slim, entries = _set_attrs_aside(data)
        outline = self._parse(slim)
        name, op, device = outline.name, outline.op, outline.device
        key = None
        if entries is None:
            entries = outline.attr[:]
            if op != "Const":
                key = (op, tuple(entries))
        found = self._attrs.get(key) if key is not None else None
        try:
            if found is not None:
                attrs = kind = found
            elif key is not None:
                attrs, kind = self._read_labelled(*key)
            else:
                attrs = kind = self._read_attrs(entries)
            if len(UnknownFields(outline)):
                attrs = _with_rest(attrs, slim)
            elif key is not None and found is None and len(self._attrs) < _MAX_CACHED:
                self._attrs[key] = attrs
        except WireError as error:
            raise WireError(f"node '{name}': {error}") from None
        texts = self._texts
        device = texts.get(device) or texts.setdefault(device, device)
        return NodeDef(name, texts.get(op) or texts.setdefault(op, op), tuple(outline.input[:]), device, attrs), kind

    def _read_labelled(self, op: str, entries: tuple[bytes, ...]) -> tuple[Attrs, Attrs]:
        """Return attrs, and the same without colocation labels, shared by all nodes that differ only in their labels."""
        labels = [index for index, entry in enumerate(entries) if entry[: len(_CLASS)] == _CLASS]
        if len(labels) != 1:
            attrs = self._read_attrs(entries)
            return attrs, attrs
        others = (*entries[: labels[0]], *entries[labels[0] + 1 :])
        kind = self._attrs.get((op, others))
        if kind is None:
            kind = self._read_attrs(others)
            if len(self._attrs) < _MAX_CACHED:
                self._attrs[op, others] = kind
        label = self._read_attrs([entries[labels[0]]])
        if REST in kind or len(kind) != len(others) or list(label) != ["_class"]:
            return self._read_attrs(entries), kind
        items = list(kind.items())
        return dict([*items[: labels[0]], *label.items(), *items[labels[0] :]]), kind

    def _read_attrs(self, entries: Sequence[Buffer]) -> Attrs:
        attrs: dict[str, AttrValue] = {}
        rest: list[bytes] = []
        for entry in entries:
            found = self._entries.get(entry) if entry.__class__ is bytes else None
            if found is None:
                found = self._read_entry(entry)
            name, value, is_all = found
            if value is not UnrepresentableValue and name != REST:
                attrs[name] = value
            if not is_all or name == REST:
                rest.append(bytes(entry))
        if rest:
            attrs[REST] = read_string(serialise(self._outline(attr=rest)))
        return attrs

    def _read_entry(self, entry: Buffer) -> tuple[str, AttrValue, bool]:
        found = read_entry(entry)
        if entry.__class__ is bytes and len(entry) <= _CACHED_BYTES and not isinstance(found[1], TensorValue):
            self._entries[bytes(entry)] = found
        return found


def _as_columns(read: Iterable[tuple[NodeDef, Attrs]]) -> NodeColumns:
    nodes, shared = zip(*read, strict=True)
    names, _, inputs, _, attrs, _ = zip(*nodes, strict=True)
    kinds = [NodeKind(node.op, node.device, kind, "_class" in node.attrs) for node, kind in zip(nodes, shared, strict=True)]
    return NodeColumns(list(names), *input_columns(names, inputs), kinds, np.arange(len(nodes)), _ReadAttrs(attrs))


class _ReadAttrs(tuple[Attrs, ...]):
    """The attrs of the nodes of a block, all of which have been read by themselves."""

    def all(self) -> list[Attrs]:
        return list(self)

    def of(self, row: int) -> Attrs:
        return self[row]


@dataclass(frozen=True, slots=True)
class _AlikeAttrs:
    """The attrs of the nodes of a block: of their templates, except for the nodes that have been `read` by themselves."""

    templates: Sequence[_NodeTemplate]
    rows: Column
    read: Mapping[int, Attrs]
    numbers: Numbers
    labels: Mapping[int, str]
    label_attrs: dict[str, tuple[str]]

    def all(self) -> list[Attrs]:
        """Return the attrs of all nodes. Each constant has an array of its own, as the accounting of memory expects."""
        rows = self.rows.copy()
        rows[list(self.read)] = -1
        shared = [*(template.kind.shared for template in self.templates), {}]
        found = list(map(shared.__getitem__, rows.tolist()))
        is_special = [*(bool(template.tensor) or template.label >= 0 for template in self.templates), False]
        special = np.flatnonzero(np.array(is_special)[rows])
        numbers = tensors(self.numbers) if special.size else {}
        for row, index in zip(special.tolist(), rows[special].tolist(), strict=True):
            found[row] = self._special(self.templates[index], row, numbers.get(row))
        for row, attrs in self.read.items():
            found[row] = attrs
        return found

    def of(self, row: int) -> Attrs:
        """Return the attrs of one of the nodes."""
        found = self.read.get(row)
        return self._special(self.templates[int(self.rows[row])], row, tensor_at(self.numbers, row)) if found is None else found

    def _special(self, template: _NodeTemplate, row: int, number: TensorValue | None) -> Attrs:
        (_, _, attrs, _), tensor, place = template
        found = attrs
        if place >= 0:
            items, text = list(attrs.items()), self.labels[row]
            found = dict([*items[:place], ("_class", self.label_attrs.setdefault(text, (text,))), *items[place:]])
        if tensor:
            found = {**found, tensor: _copied(attrs[tensor]) if number is None else number}
        return found


def _has_no_name(data: bytes) -> bool:
    """Whether bytes are whole fields of a NodeDef other than its name, op and inputs."""
    try:
        return all(field.number >= _DEVICE for field in fields(data))
    except WireError:
        return False


def _copied(value: TensorValue) -> TensorValue:
    return TensorValue(value.dtype, value.array.copy())


def _set_attrs_aside(data: Buffer) -> tuple[bytes, list[Buffer]]:
    """Return the bytes of a large node without its attrs, and the entries of the attrs as views."""
    view = memoryview(data)
    others, entries = [], []
    for field in fields(view):
        if field.number == _ATTR and field.wire_type == BYTES:
            entries.append(view[field.value_start : field.end])
        else:
            others.append(view[field.start : field.end])
    return b"".join(others), [entry if len(entry) > LARGE_BYTES else bytes(entry) for entry in entries]


def _rest_of(attrs: Attrs) -> bytes:
    kept = attrs.get(REST, "")
    return kept.encode() if isinstance(kept, str) else kept


def _with_rest(attrs: Attrs, data: Buffer) -> Attrs:
    """Return attrs that also keep the fields of a NodeDef that have no place in a node."""
    others = b"".join(bytes(data[field.start : field.end]) for field in fields(data) if field.number > _ATTR)
    return {**attrs, REST: read_string(_rest_of(attrs) + others)}


def keep_unread_attrs(attrs: Attrs, names: Sequence[str]) -> Attrs:
    """Return attrs of which the named ones are only kept as bytes, in REST. Raises the WireError of `write_entry`."""
    entries = [write_entry(name, attrs[name]) for name in names]
    rest = _rest_of(attrs) + serialise(message_class("NodeOutline")(attr=entries))
    return {name: value for name, value in attrs.items() if name not in names} | {REST: read_string(rest)}


class NodeWriter:
    """A writer of nodes. Attrs that share a mapping are serialised once."""

    def __init__(self) -> None:
        self._outline = message_class("NodeOutline")
        self._written: dict[int, tuple[Attrs, list[bytes]]] = {}

    def write(self, name: str, op: str, inputs: Sequence[str], device: str, attrs: Attrs) -> list[Buffer]:
        """Return the bytes of a NodeDef in pieces; the content of a large constant is a view of its array.

        Raises WireError for content that a NodeDef can't hold.
        """
        if op != "Const" or REST in attrs:
            return [self._write(name, op, inputs, device, attrs)]
        large = {key: content for key, value in attrs.items() if (content := _large_content(value)) is not None}
        if not large:
            return [self._write(name, op, inputs, device, attrs)]
        others = {key: value for key, value in attrs.items() if key not in large}
        pieces: list[Buffer] = [self._write(name, op, inputs, device, others)]
        for key, content in large.items():
            pieces += (_head_of_entry(key, attrs[key], len(content)), content)
        return pieces

    def _write(self, name: str, op: str, inputs: Sequence[str], device: str, attrs: Attrs) -> bytes:
        try:
            rest = read_rest("NodeOutline", attrs[REST]) if REST in attrs else None
            if rest is not None:
                return self._write_with_rest(rest, name, op, inputs, device, attrs)
            entries = self._entries(attrs)
            return bytes(self._outline(name=name, op=op, input=inputs, device=device, attr=entries).SerializeToString())
        except (ValueError, TypeError) as error:
            raise WireError(f"node '{name}': {error}") from None

    def _entries(self, attrs: Attrs) -> list[bytes]:
        found = self._written.get(id(attrs))
        if found is not None:
            return found[1]
        entries = [write_entry(key, value) for key, value in attrs.items()]
        if not any(isinstance(value, TensorValue) for value in attrs.values()):
            self._written[id(attrs)] = (attrs, entries)
        return entries

    def _write_with_rest(self, rest: Message, name: str, op: str, inputs: Sequence[str], device: str, attrs: Attrs) -> bytes:
        kept = {parse("AttrEntry", entry).key: entry for entry in rest.attr}
        entries = [write_entry(key, value) for key, value in attrs.items() if key != REST and key not in kept]
        outline = self._outline(name=name, op=op, input=inputs, device=device, attr=[*entries, *kept.values()])
        for known in ("name", "op", "input", "device", "attr"):
            rest.ClearField(known)
        return bytes(outline.SerializeToString()) + bytes(rest.SerializeToString())


def _large_content(value: AttrValue) -> memoryview | None:
    if not isinstance(value, TensorValue) or value.array.nbytes <= LARGE_BYTES:
        return None
    return raw_content(value)


def _head_of_entry(name: str, value: TensorValue, size: int) -> bytes:
    """Return the bytes of an attr whose value is a tensor, without the tensor's content: `size` bytes, which must follow."""
    tensor = serialise(write_tensor(value, without_content=True)) + field_head(_TENSOR_CONTENT, size)
    tensor = field_head(_TENSOR, len(tensor) + size) + tensor
    key = name.encode()
    entry = message_field(_KEY, key) + field_head(_VALUE, len(tensor) + size) + tensor
    return field_head(_ATTR, len(entry) + size) + entry


def read_rest(name: str, value: AttrValue) -> Message | None:
    """Return the message kept in an attr; None for invalid bytes, which a person may have written."""
    try:
        return parse(name, value.encode() if isinstance(value, str) else value)
    except (WireError, TypeError):
        return None


def write_entry(name: str, value: AttrValue) -> bytes:
    """Return the bytes of an entry of a map of attrs. Raises WireError for a value that no attr can hold."""
    return (_write_entry_once if type(value) in _REPEATED else _write_entry)(name, value)


def _write_entry(name: str, value: AttrValue) -> bytes:
    try:
        entry = message_class("AttrEntry")(key=name)
        entry.value.CopyFrom(write_attr(value))
        return bytes(entry.SerializeToString(deterministic=True))
    except (WireError, ValueError, TypeError) as error:
        raise WireError(f"attr '{name}': {error}") from None


_write_entry_once = lru_cache(_MAX_CACHED, typed=True)(_write_entry)
_REPEATED = (DataType, bool, int)
"""Types of attrs that have few values, in most nodes the same."""
