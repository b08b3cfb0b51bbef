"""NodeDef bytes <-> nodes by names.

What a node here has no place for (debug info, full types, an attr without a value, fields of the future) is kept as bytes in
the attr `_node_def`, and written back from there.
"""

from __future__ import annotations

from collections.abc import Sequence
from struct import Struct
from typing import NamedTuple

import numpy as np

from placesim.dtypes import DOUBLE, FLOAT, DType
from placesim.formats.tensorflow.attr_value import LARGE_BYTES, NotHeld, read_entry, read_string, write_attr
from placesim.formats.tensorflow.messages import Buffer, Message, UnknownFields, message_class, parse, parser, serialise
from placesim.formats.tensorflow.tensor_proto import raw_content, write_tensor
from placesim.graph.graph import NodeDef
from placesim.ops.attributes import Attrs, AttrValue, TensorValue
from placesim.tensor_fields import value_field
from placesim.wire import BYTES, WireError, field_head, fields, message_field

REST = "_node_def"
"""The attr that holds the rest of a NodeDef."""
_DEVICE, _ATTR = 4, 5  # of a NodeDef
_KEY, _VALUE = 1, 2  # of an entry of its attrs
_TENSOR = 8  # of an AttrValue
_TENSOR_CONTENT = 4  # of a TensorProto
_CACHED_BYTES = 512
_NAME_TAG, _OP_TAG, _INPUT_TAG = (number << 3 | BYTES for number in (1, 2, 3))
_SHORT = 127
"""Bytes of a text whose length is one byte."""
_NUMBERS = (Struct("<f"), Struct("<d"))
_NUMBER_HEADS = {dtype: field_head(value_field(dtype).number, dtype.size) for dtype in (FLOAT, DOUBLE)}
"""What stands before the only number of a constant."""
_MAX_CACHED = 1 << 18


class _Alike(NamedTuple):
    """What nodes have in common whose bytes differ in name and inputs alone; or in the number of the constant `tensor` too."""

    op: str
    device: str
    attrs: Attrs
    tensor: str = ""
    dtype: DType = FLOAT


class NodeReader:
    """Reads nodes one after the other; attrs that are written alike come out as one mapping."""

    def __init__(self) -> None:
        self._outline = message_class("NodeOutline")
        self._parse = parser("NodeOutline")
        self._attrs: dict[tuple[str, tuple[bytes, ...]], Attrs] = {}
        self._entries: dict[bytes, tuple[str, AttrValue, bool]] = {}
        self._alike: dict[tuple[bytes, bytes], _Alike] = {}
        self._texts: dict[str, str] = {"": ""}

    def read(self, data: Buffer) -> NodeDef:
        """One NodeDef.  Raises WireError."""
        if len(data) > _CACHED_BYTES:
            return self._read(data)
        data = bytes(data)
        parts = _named_parts(data)
        if parts is None:
            return self._read(data)
        name, op, inputs, rest = parts
        number: Struct | None = None
        if op != b"Const":
            found = self._alike.get((op, rest))
        else:
            number = next((number for number in _NUMBERS if (op, rest[: -number.size]) in self._alike), None)
            found = None if number is None else self._alike[op, rest[: -number.size]]
        if found is None:
            node = self._read(data)
            self._learn(node, op, rest)
            return node
        if number is None:
            return NodeDef(name, found.op, inputs, found.device, found.attrs)
        value = number.unpack(rest[-number.size :])[0]
        tensor = TensorValue(found.dtype, np.array(value, found.dtype.numpy))
        return NodeDef(name, found.op, inputs, found.device, {**found.attrs, found.tensor: tensor})

    def _learn(self, node: NodeDef, op: bytes, rest: bytes) -> None:
        """What the next node with the same op, device and attrs is like: with all of these, or all but a constant's number."""
        attrs = node.attrs
        if REST in attrs or len(self._alike) >= _MAX_CACHED or not all(f.number in (_DEVICE, _ATTR) for f in fields(rest)):
            return
        if node.op != "Const":
            self._alike[op, rest] = _Alike(node.op, node.device, attrs)
            return
        tensor = next(reversed(list(attrs)), "")
        value = attrs.get(tensor)
        if not isinstance(value, TensorValue) or value.dtype not in _NUMBER_HEADS or value.array.shape:
            return
        # what we write of such a number ends in it, unless that is no number at all
        written = message_field(_ATTR, write_entry(tensor, value))
        size = value.dtype.size
        if rest.endswith(written) and written[-size - 2 : -size] == _NUMBER_HEADS[value.dtype]:
            others = {name: other for name, other in attrs.items() if name != tensor}
            self._alike[op, rest[:-size]] = _Alike(node.op, node.device, others, tensor, value.dtype)

    def _read(self, data: Buffer) -> NodeDef:
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
            attrs = found if found is not None else self._read_attrs(entries)
            if len(UnknownFields(outline)):
                attrs = _with_rest(attrs, slim)
            elif key is not None and found is None and len(self._attrs) < _MAX_CACHED:
                self._attrs[key] = attrs
        except WireError as error:
            raise WireError(f"node '{name}': {error}") from None
        texts = self._texts
        device = texts.get(device) or texts.setdefault(device, device)
        return NodeDef(name, texts.get(op) or texts.setdefault(op, op), tuple(outline.input[:]), device, attrs)

    def _read_attrs(self, entries: Sequence[Buffer]) -> Attrs:
        attrs: dict[str, AttrValue] = {}
        rest: list[bytes] = []
        for entry in entries:
            found = self._entries.get(entry) if entry.__class__ is bytes else None
            if found is None:
                found = self._read_entry(entry)
            name, value, is_all = found
            if value is not NotHeld and name != REST:
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


def _named_parts(data: bytes) -> tuple[str, bytes, tuple[str, ...], bytes] | None:
    """(name, op, inputs, all that follows them) of a NodeDef as it is usually written; None for one that is not."""
    try:
        end = 2 + data[1]
        op = end + 2
        start = op + data[end + 1]
        if data[0] != _NAME_TAG or data[end] != _OP_TAG or end > _SHORT or start - op > _SHORT:
            return None
        name, inputs = data[2:end].decode(), []
        rest = start
        while rest < len(data) and data[rest] == _INPUT_TAG:
            start, rest = rest + 2, rest + 2 + data[rest + 1]
            if rest - start > _SHORT:
                return None
            inputs.append(data[start:rest].decode())
    except (IndexError, UnicodeDecodeError):
        return None
    return (name, data[op : op + data[end + 1]], tuple(inputs), data[rest:]) if rest <= len(data) else None


def _set_attrs_aside(data: Buffer) -> tuple[bytes, list[Buffer]]:
    """A large node without its attrs, and the entries of those where they stand."""
    view = memoryview(data)
    others, entries = [], []
    for field in fields(view):
        if field.number == _ATTR and field.wire_type == BYTES:
            entries.append(view[field.value_start : field.end])
        else:
            others.append(view[field.start : field.end])
    return b"".join(others), [entry if len(entry) > LARGE_BYTES else bytes(entry) for entry in entries]


def _with_rest(attrs: Attrs, data: Buffer) -> Attrs:
    kept = attrs.get(REST, "")
    before = kept.encode() if isinstance(kept, str) else kept
    others = b"".join(bytes(data[field.start : field.end]) for field in fields(data) if field.number > _ATTR)
    return {**attrs, REST: read_string(before + others)}


def set_aside(attrs: Attrs, names: Sequence[str]) -> Attrs:
    """The attrs without some of them, which are kept to be written again.  Raises WireError as `write_entry`."""
    kept = attrs.get(REST, "")
    before = kept.encode() if isinstance(kept, str) else kept
    entries = [write_entry(name, attrs[name]) for name in names]
    rest = before + serialise(message_class("NodeOutline")(attr=entries))
    return {name: value for name, value in attrs.items() if name not in names} | {REST: read_string(rest)}


class NodeWriter:
    """Writes nodes one after the other; attrs that are one mapping are written once."""

    def __init__(self) -> None:
        self._outline = message_class("NodeOutline")
        self._written: dict[int, tuple[Attrs, list[bytes]]] = {}

    def write(self, name: str, op: str, inputs: Sequence[str], device: str, attrs: Attrs) -> list[Buffer]:
        """One NodeDef, in pieces: a large constant is a view of its array.  Raises WireError for what a NodeDef cannot say."""
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
    """What stands before the content of a tensor that is an attr of a node."""
    tensor = serialise(write_tensor(value, without_content=True)) + field_head(_TENSOR_CONTENT, size)
    tensor = field_head(_TENSOR, len(tensor) + size) + tensor
    key = name.encode()
    entry = message_field(_KEY, key) + field_head(_VALUE, len(tensor) + size) + tensor
    return field_head(_ATTR, len(entry) + size) + entry


def read_rest(name: str, value: AttrValue) -> Message | None:
    """The message that was kept in an attr; None where it is none, as where a person wrote it."""
    try:
        return parse(name, value.encode() if isinstance(value, str) else value)
    except (WireError, TypeError):
        return None


def write_entry(name: str, value: AttrValue) -> bytes:
    """One entry of a map of attrs.  Raises WireError for a value that no attr can hold."""
    try:
        entry = message_class("AttrEntry")(key=name)
        entry.value.CopyFrom(write_attr(value))
        return bytes(entry.SerializeToString(deterministic=True))
    except (WireError, ValueError, TypeError) as error:
        raise WireError(f"attr '{name}': {error}") from None
