"""Conversion between AttrValue messages and attr values.

A float32 becomes the float with the shortest decimal text that gives the same float32, such as 0.1.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from typing import Any

import numpy as np

from placesim.core.dtypes import BY_NUMBER, DataType
from placesim.core.protobuf_wire import BYTES, WireError, field_head, fields, message_field
from placesim.formats.tensorflow.messages import (
    Buffer,
    Message,
    UnknownFields,
    has_unknown_fields,
    message_class,
    parse,
    serialise,
)
from placesim.formats.tensorflow.tensor_proto import read_tensor, write_tensor
from placesim.ops.attributes import UNKNOWN_RANK, AttrValue, FunctionName, Placeholder, Shape, TensorValue

LARGE_BYTES = 1 << 14
"""Size in bytes above which a node or an attr is parsed without the content of its tensors."""
_LIST_FIELDS = ("s", "i", "f", "b", "type", "shape", "tensor", "func")
_TENSOR_CONTENT = 4


class UnrepresentableValue(Exception):  # internal: the reader keeps the bytes instead
    """An AttrValue that no attr value can hold: an empty one, or a type with an unknown number."""


# --- reading --------------------------------------------------------------------------------------------------------


def read_attr(message: Message) -> AttrValue:
    """Return the value of an AttrValue. Raises WireError for an invalid tensor, and UnrepresentableValue."""
    kind = message.WhichOneof("value")
    if kind == "list":
        return _read_list(message.list)
    if kind is None:
        raise UnrepresentableValue
    return _READERS[kind](getattr(message, kind))


def _read_list(message: Message) -> tuple[AttrValue, ...]:
    for kind in _LIST_FIELDS:
        values = getattr(message, kind)
        if len(values):
            return tuple(map(_READERS[kind], values))
    return ()


def read_string(data: bytes) -> str | bytes:
    """Return the text if the bytes are UTF-8, else the bytes."""
    try:
        return data.decode()
    except UnicodeDecodeError:
        return data


def _read_float(value: float) -> float:
    return float(str(np.float32(value)))


def _read_dtype(number: int) -> DataType:
    found = BY_NUMBER.get(number)
    if found is None:
        raise UnrepresentableValue
    return found


def read_shape(message: Message) -> Shape:
    """Return the shape of a TensorShapeProto, whose negative dimensions are unknown."""
    if message.unknown_rank:
        return UNKNOWN_RANK
    return Shape(tuple([max(dim.size, -1) for dim in message.dim]))


def _read_function(message: Message) -> FunctionName:
    return FunctionName(message.name, tuple((name, read_attr(message.attr[name])) for name in sorted(message.attr)))


_READERS: dict[str, Callable[[Any], AttrValue]] = {
    "s": read_string,
    "i": int,
    "f": _read_float,
    "b": bool,
    "type": _read_dtype,
    "shape": read_shape,
    "tensor": read_tensor,
    "func": _read_function,
    "placeholder": Placeholder,
}


def read_entry(entry: Buffer) -> tuple[str, AttrValue, bool]:
    """Read an entry of a map of attrs.

    Returns its name, its value (the class UnrepresentableValue if none can hold it), and whether the value holds all of the
    bytes' content. Raises WireError.
    """
    label = bytes(entry[_LABEL:])
    if entry[:_LABEL] == _before_label(len(label)):
        return "_class", (read_string(label),), True
    slim: Buffer = entry
    content = None
    if len(entry) > LARGE_BYTES:
        slim, content = _set_content_aside(entry)
    message = parse("AttrEntry", slim)
    name, value = message.key, message.value
    if value.HasField("tensor"):
        tensor = value.tensor
        return name, read_tensor(tensor, content), _is_plain(tensor) and not len(UnknownFields(value))
    try:
        held = read_attr(value)
    except UnrepresentableValue:
        return name, UnrepresentableValue, False
    return name, held, not has_unknown_fields(message) and _says_the_same(value, held)


@lru_cache
def _before_label(size: int) -> bytes:
    """Return the bytes of a node's only `_class` label before the label, which has so many bytes."""
    label = field_head(2, size)
    labels = field_head(1, len(label) + size) + label
    return message_field(1, b"_class") + field_head(2, len(labels) + size) + labels


_LABEL = len(_before_label(0))
"""Index of a short label in its entry."""


def _says_the_same(message: Message, held: AttrValue) -> bool:
    try:
        return serialise(message) == serialise(write_attr(held))
    except (WireError, ValueError, TypeError):
        return False


def _is_plain(tensor: Message) -> bool:
    """Whether a TensorProto has only a type, a shape and values."""
    shape = tensor.tensor_shape
    if tensor.version_number or len(UnknownFields(tensor)) or len(UnknownFields(shape)):
        return False
    return not any(dim.name or has_unknown_fields(dim) for dim in shape.dim) if shape.dim else True


def _set_content_aside(entry: Buffer) -> tuple[bytes, memoryview | None]:
    """Return an entry without its tensor's content, and a view of that content (None if there is none)."""
    view = memoryview(entry)
    path = []
    start, end = 0, len(view)
    for number in (2, 8, _TENSOR_CONTENT):  # AttrEntry.value, AttrValue.tensor, TensorProto.tensor_content
        found = [field for field in fields(view, start, end) if field.number == number]
        if len(found) != 1 or found[0].wire_type != BYTES:
            return bytes(view), None
        path.append((start, found[0], end))
        start, end = found[0].value_start, found[0].end
    content, rest = view[start:end], b""
    for depth, (outer_start, field, outer_end) in enumerate(reversed(path)):
        inner = rest if depth == 0 else message_field(field.number, rest)
        rest = bytes(view[outer_start : field.start]) + inner + bytes(view[field.end : outer_end])
    return rest, content


# --- writing --------------------------------------------------------------------------------------------------------


def write_attr(value: AttrValue) -> Message:
    """Return the AttrValue of a value. Raises WireError for a value that TensorFlow's attrs can't hold."""
    message = message_class("AttrValue")()
    if value.__class__ is tuple:
        message.list.SetInParent()
        for element in value:
            _append(message.list, element)
        return message
    kind, written = _written(value)
    if kind in ("shape", "tensor", "func"):
        getattr(message, kind).CopyFrom(written)
    else:
        setattr(message, kind, written)
    return message


def _append(message: Message, value: AttrValue) -> None:
    kind, written = _written(value)
    if kind == "placeholder":
        raise WireError("a placeholder inside a list cannot be written")
    getattr(message, kind).append(written)


def _written(value: AttrValue) -> tuple[str, Any]:
    """Return the field of AttrValue for a value that is no list, and the field's content."""
    if isinstance(value, str):
        return "s", value.encode()
    for kind, types, write in _WRITERS:
        if isinstance(value, types):
            return kind, write(value)
    raise WireError(f"unsupported attr value of type {type(value).__name__}")


def write_shape(shape: Shape) -> Message:
    """Return the TensorShapeProto of a shape."""
    message = message_class("TensorShapeProto")()
    if shape.dims is None:
        message.unknown_rank = True
    else:
        for size in shape.dims:
            message.dim.add(size=size)
    return message


def _write_function(function: FunctionName) -> Message:
    message = message_class("NameAttrList")(name=function.name)
    for name, value in function.attrs:
        message.attr[name].CopyFrom(write_attr(value))
    return message


_WRITERS: tuple[tuple[str, Any, Callable[[Any], Any]], ...] = (
    ("s", bytes, bytes),
    ("b", bool, bool),
    ("i", int, int),
    ("f", float, float),
    ("type", DataType, lambda dtype: dtype.number),
    ("shape", Shape, write_shape),
    ("tensor", TensorValue, write_tensor),
    ("func", FunctionName, _write_function),
    ("placeholder", Placeholder, lambda placeholder: placeholder.name),
)
