"""TensorFlow's protocol buffer messages: tables of fields, from which protobuf makes classes on demand.

Only this module imports protobuf, which keeps fields that the tables do not have.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping
from functools import cache
from pathlib import Path
from typing import Any

from google.protobuf import descriptor_pb2, descriptor_pool, message_factory, text_format
from google.protobuf.message import DecodeError
from google.protobuf.unknown_fields import UnknownFieldSet

from placesim.core.dtypes import DTYPES, REF_OFFSET
from placesim.core.protobuf_wire import WireError
from placesim.formats.recognition import is_text as looks_like_text

PACKAGE = "tensorflow"
Buffer = bytes | memoryview
Message = Any
"""A message of a class that is created at run time, and therefore has no static type."""


def _read_tables(file: str) -> tuple[dict[str, str], dict[str, dict[str, int]]]:
    """Return the messages of a table with their fields, and its enums with their values."""
    lines = Path(__file__).with_name(file).read_text("utf-8").replace("\n    ", " ").splitlines()
    rows = dict(line.split(":", 1) for line in lines if line and not line.startswith("#"))
    enums = {name.removeprefix("enum "): rows.pop(name) for name in list(rows) if name.startswith("enum ")}
    return rows, {
        name: {value: int(number) for value, number in map(str.split, values.split(","))} for name, values in enums.items()
    }


MESSAGES, _enums = _read_tables("messages.txt")
SESSION_MESSAGES, SESSION_ENUMS = _read_tables("session-messages.txt")
ENUMS: dict[str, dict[str, int]] = {
    "DataType": {
        "DT_INVALID": 0,
        **{dtype.enum_name: dtype.number for dtype in DTYPES.values()},
        **{dtype.enum_name + "_REF": dtype.number + REF_OFFSET for dtype in DTYPES.values()},
    },
    **_enums,
}

_Field = descriptor_pb2.FieldDescriptorProto
_SCALARS = ("double", "float", "int64", "uint64", "int32", "fixed64", "fixed32", "bool", "string", "bytes", "uint32", "sint64")


# --- descriptors ----------------------------------------------------------------------------------------------------


@cache
def message_class(name: str) -> Any:
    """Return the class of a message in the tables."""
    pool = _pool() if name in MESSAGES else _session_pool()
    return message_factory.GetMessageClass(pool.FindMessageTypeByName(f"{PACKAGE}.{name}"))


@cache
def ordered_class(name: str) -> Any:
    """Return the class of a message with lists of entries in place of maps, which keep their order; its files are the same."""
    return message_factory.GetMessageClass(_ordered_pool().FindMessageTypeByName(f"{PACKAGE}.{name}"))


@cache
def _ordered_pool() -> descriptor_pool.DescriptorPool:
    pool = descriptor_pool.DescriptorPool()
    pool.Add(_file("tensorflow.proto", MESSAGES, ENUMS, has_maps=False))
    return pool


def enum_wrapper(name: str) -> Any:
    """Return a top-level enum, which has protobuf's methods `Name` and `Value`. Raises KeyError for an unknown name."""
    home = _home(name)
    pool = _pool() if name in ENUMS else _session_pool()
    return getattr(message_factory.GetMessageClass(pool.FindMessageTypeByName(f"{PACKAGE}.{home}")), name)


def enum_value(name: str) -> int:
    """Return the number of a value of a top-level enum, by the value's name. Raises KeyError for an unknown name."""
    for enum, numbers in (ENUMS | SESSION_ENUMS).items():
        if "." not in enum and name in numbers:
            return numbers[name]
    raise KeyError(name)


@cache
def _pool() -> descriptor_pool.DescriptorPool:
    pool = descriptor_pool.DescriptorPool()
    pool.Add(_file("tensorflow.proto", MESSAGES, ENUMS))
    return pool


@cache
def _session_pool() -> descriptor_pool.DescriptorPool:
    """Return the pool extended by the messages of sessions, which few commands need."""
    file = _file("session.proto", SESSION_MESSAGES, SESSION_ENUMS)
    file.dependency.append("tensorflow.proto")
    _pool().Add(file)
    return _pool()


def _file(
    name: str, messages: Mapping[str, str], enums: Mapping[str, Mapping[str, int]], *, has_maps: bool = True
) -> descriptor_pb2.FileDescriptorProto:
    file = descriptor_pb2.FileDescriptorProto(name=name, package=PACKAGE, syntax="proto3")
    found: dict[str, descriptor_pb2.DescriptorProto] = {}

    def message(name: str) -> descriptor_pb2.DescriptorProto:
        """Return the descriptor of a message, which is nested in the message before the last dot of its name."""
        if name not in found:
            outer, _, own = name.rpartition(".")
            found[name] = message(outer).nested_type.add(name=own) if outer else file.message_type.add(name=own)
        return found[name]

    for name, fields in messages.items():
        _describe(message(name), name, fields, has_maps)
    for name, numbers in enums.items():
        # The values of a file's top-level enums would share a namespace, so each such enum gets a message around it.
        enum = message(_home(name)).enum_type.add(name=name.rpartition(".")[2])
        for value, number in numbers.items():
            enum.value.add(name=value, number=number)
    return file


def _home(enum: str) -> str:
    """Return the name of the message that contains an enum."""
    return enum.rpartition(".")[0] or enum + "Names"


def _describe(message: descriptor_pb2.DescriptorProto, full_name: str, fields: str, has_maps: bool) -> None:
    groups: dict[str, int] = {}
    for line in filter(None, map(str.strip, fields.split(","))):
        number, name, kind = line.split()
        kind, _, group = kind.partition("|")
        field = message.field.add(name=name, number=int(number), label=_Field.LABEL_OPTIONAL)
        if group:
            if group not in groups:
                groups[group] = len(groups)
                message.oneof_decl.add(name=group)
            field.oneof_index = groups[group]
        if kind.startswith("{"):
            kind = _describe_map_entry(message, full_name, name, kind, has_maps)
        if kind.endswith("*"):
            field.label = _Field.LABEL_REPEATED
        _set_type(field, kind.removesuffix("*"))


def _describe_map_entry(message: descriptor_pb2.DescriptorProto, full_name: str, name: str, kind: str, has_maps: bool) -> str:
    key, value = kind[1:-1].split(":")
    entry = message.nested_type.add(name="".join(part.capitalize() for part in name.split("_")) + "Entry")
    entry.options.map_entry = has_maps
    for number, (part, part_kind) in enumerate((("key", key), ("value", value)), 1):
        field = entry.field.add(name=part, number=number, label=_Field.LABEL_OPTIONAL)
        _set_type(field, part_kind)
        if not has_maps:  # a map writes keys and values that are 0 or empty, too; so must the list
            field.proto3_optional, field.oneof_index = True, len(entry.oneof_decl)
            entry.oneof_decl.add(name=f"_{part}")
    return f"{full_name}.{entry.name}*"


def _set_type(field: descriptor_pb2.FieldDescriptorProto, kind: str) -> None:
    if kind in _SCALARS:
        field.type = getattr(_Field, "TYPE_" + kind.upper())
    elif kind in ENUMS or kind in SESSION_ENUMS:
        field.type, field.type_name = _Field.TYPE_ENUM, f".{PACKAGE}.{_home(kind)}.{kind.rpartition('.')[2]}"
    else:
        field.type, field.type_name = _Field.TYPE_MESSAGE, f".{PACKAGE}.{kind}"


# --- the wire format and the text format ----------------------------------------------------------------------------


def parse(name: str, data: Buffer) -> Message:
    """Parse bytes as a message of that name. Raises WireError."""
    return parser(name)(data)


@cache
def parser(name: str) -> Callable[[Buffer], Message]:
    """Return a function that parses bytes as a message of that name, faster than `parse` for many messages."""
    from_bytes = message_class(name).FromString

    def parse_one(data: Buffer) -> Message:
        try:
            return from_bytes(data)
        except DecodeError as error:
            raise WireError(f"invalid {name}: {error}") from None

    return parse_one


def parse_text(name: str, data: Buffer, *, keeps_order: bool = False) -> Message:
    """Parse text format in UTF-8 as a message of that name, with `keeps_order` of the `ordered_class`.

    Raises WireError with the line and column.
    """
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # protobuf warns about unknown escapes
            return text_format.Parse(bytes(data).decode(), (ordered_class if keeps_order else message_class)(name)())
    except text_format.ParseError as error:
        text_only = str(error).partition(" : ")[2] or str(error)
        raise WireError(f"invalid {name}: {text_only}", error.GetLine() or 0, error.GetColumn() or 0) from None
    except RecursionError:
        raise WireError(f"invalid {name}: nested too deeply") from None
    except ValueError as error:  # such as a number out of a field's range
        raise WireError(f"invalid {name}: {error}") from None


def as_binary(name: str, data: Buffer, is_text: bool | None = None) -> Buffer:
    """Return a message in binary form from its binary or text form; `is_text` None detects the form. Raises WireError.

    Entries of maps keep their order.
    """
    is_text = looks_like_text(data) if is_text is None else is_text
    return serialise(parse_text(name, data, keeps_order=True)) if is_text else data


def as_text(name: str, data: Buffer) -> str:
    """Return a message's binary form in text format, with the entries of maps in their order; unknown fields are left out."""
    return to_text(ordered_class(name).FromString(bytes(data)))


def loses_fields_as_text(name: str, data: Buffer) -> bool:
    """Whether a message in binary form has unknown fields, also in messages inside it."""
    message = parse(name, data)
    whole = message.ByteSize()
    message.DiscardUnknownFields()
    return bool(message.ByteSize() != whole)


def serialise(message: Message) -> bytes:
    """Serialise a message deterministically: maps in key order."""
    return bytes(message.SerializeToString(deterministic=True))


def to_text(message: Message) -> str:
    """Return a message in text format, in ASCII. Unknown fields are left out."""
    return str(text_format.MessageToString(message, as_utf8=False))


def has_unknown_fields(message: Message) -> bool:
    """Whether a message has fields that the table does not have. Messages inside it are not examined."""
    return len(UnknownFields(message)) > 0


UnknownFields: Any = UnknownFieldSet
"""The fields of a message that the table does not have, counted by `len`."""
