"""Conversion of an entry's attrs to attr values: by the op's definition, or by their own form."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from placesim.core.dtypes import OpenType
from placesim.core.suggestions import did_you_mean
from placesim.formats.graph_file.plain_values import (
    INT64_END,
    bool_value,
    bytes_value,
    dtype_value,
    int_value,
    number_value,
    shape_value,
    tensor_value,
    text_value,
)
from placesim.formats.problems import InvalidValue, one_of, spell
from placesim.graph.graph import LibraryFunction
from placesim.ops.attributes import Attrs, AttrValue, FunctionName, Placeholder, Shape, TensorValue
from placesim.ops.definitions import AttrDef
from placesim.ops.registry import Registry


def _string(value: Any) -> str | bytes:
    if isinstance(value, dict) and list(value) == ["bytes"]:
        value = bytes_value(value["bytes"])
    if isinstance(value, bytes):
        try:
            return value.decode()
        except UnicodeDecodeError:
            return value
    return text_value(value, "an attr")


def _float(value: Any) -> float:
    # JSON has no such numbers
    if isinstance(value, str) and value in ("nan", "inf", "-inf"):
        return float(value)
    return number_value(value, "an attr")


def _func(value: Any) -> FunctionName:
    if isinstance(value, FunctionName):
        return value
    if isinstance(value, str) and value:
        return FunctionName(value)
    if isinstance(value, dict) and "func" in value and set(value) <= {"func", "attrs"}:
        attrs = value.get("attrs") or {}
        if isinstance(attrs, dict):
            return FunctionName(text_value(value["func"], "a function"), tuple((k, any_value(v)) for k, v in attrs.items()))
    raise InvalidValue(
        f"wrong type of an attr: got {spell(value)}, expected a function: its name, or {{func: NAME, attrs: ATTRS}}"
    )


_TYPED: dict[str, Callable[[Any], AttrValue]] = {
    "string": _string,
    "int": lambda value: int_value(value, -INT64_END, INT64_END - 1, "an attr"),
    "float": _float,
    "bool": lambda value: bool_value(value, "an attr"),
    "type": dtype_value,
    "shape": shape_value,
    "tensor": lambda value: tensor_value(value["tensor"] if isinstance(value, dict) and list(value) == ["tensor"] else value),
    "func": _func,
}


def any_value(value: Any) -> AttrValue:
    """Return the value of an attr of unknown type: as written, or from `{type: ...}` and similar. Raises InvalidValue."""
    if isinstance(value, list | tuple) and not isinstance(value, Shape | TensorValue | FunctionName | Placeholder):
        return tuple(map(any_value, value))
    if not isinstance(value, dict):
        if value is None:
            raise InvalidValue("wrong type of an attr: got null, expected a value")
        return value
    if len(value) == 1:
        ((kind, inner),) = value.items()
        if kind == "placeholder":
            return Placeholder(text_value(inner, "an attr's placeholder"))
        if kind in ("type", "shape", "tensor"):
            return _TYPED[kind](inner)
        if kind == "bytes":
            return _string(value)
    return _func(value)


def attr_value(attr: AttrDef | None, value: Any) -> AttrValue:
    """Return the value of an attr by its definition; without a definition, by `any_value`. Raises InvalidValue."""
    if attr is None:
        return any_value(value)
    if isinstance(value, dict) and list(value) == ["type"] and attr.type != "type":
        raise InvalidValue(f"wrong type of attr '{attr.name}': got {spell(value)}, expected {attr.type}")
    if isinstance(value, dict) and list(value) in (["placeholder"], ["type"]):
        return any_value(value)
    element = attr.type.removeprefix("list(").removesuffix(")")
    read = _TYPED[element]
    try:
        if not attr.type.startswith("list("):
            return read(value)
        if not isinstance(value, list | tuple):
            raise InvalidValue(f"wrong type of an attr: got {spell(value)}, expected a list")
        return tuple(map(read, value))
    except InvalidValue as wrong:
        raise InvalidValue(str(wrong).replace("an attr", f"attr '{attr.name}'")) from None


def raw_attr_value(attr: AttrDef | None, value: Any) -> AttrValue:
    """Return the value of a NodeDef's attr as `attr_value` does, but accept a value of another attr type too.

    The importer then refuses the value with TensorFlow's message. Raises InvalidValue for a value that no attr can have.
    """
    try:
        return attr_value(attr, value)
    except InvalidValue:
        if attr is None or not _is_of_another_kind(attr.type, value):
            raise
        return any_value(value)


_KINDS = {bool: "bool", int: "int", float: "float", str: "string"}
_PLAIN_TYPES = ("string", "int", "float", "bool", "type", "func")
"""Attr types that are never written as lists."""
_SPELLED_AS_TEXT = ("type", "shape", "tensor", "func")


def _is_of_another_kind(attr_type: str, value: Any) -> bool:
    """Whether a value can't be of an attr type, by its form. Types, shapes and tensors are written as texts or lists."""
    if isinstance(value, dict):
        return True
    if isinstance(value, list | tuple):
        if not attr_type.startswith("list("):
            return attr_type in _PLAIN_TYPES
        return all(_is_of_another_kind(attr_type[5:-1], element) for element in value)
    kind = _KINDS.get(value.__class__, attr_type)
    return kind != attr_type and not (kind == "string" and attr_type in _SPELLED_AS_TEXT)


class AttrReader:
    """A reader of the attrs of nodes; equal mappings share one result.

    With `is_raw`, values are read by `raw_attr_value`. Otherwise, a placeholder becomes one of the `open_types`.
    """

    def __init__(
        self,
        registry: Registry,
        functions: Mapping[str, LibraryFunction],
        report: Callable[[Any, Any, str], None],
        is_raw: bool = False,
        open_types: Mapping[str, OpenType] = {},
    ) -> None:
        self._open_types = open_types
        self._registry = registry
        self._functions = functions
        self._report = report
        self._is_raw = is_raw
        self._read: dict[tuple[Any, ...], Attrs] = {}

    def read(self, op: str, tree: Mapping[Any, Any]) -> Attrs | None:
        """Return a node's attrs; None if one is invalid, after a call of `report(tree, key, message)`."""
        key: tuple[Any, ...] = (op, *[(k, v if v.__class__ is str else _written(v)) for k, v in tree.items()])
        found = self._read.get(key)
        if found is None:
            found = self._read_attrs(op, tree)
            if found is not None and not any(isinstance(value, TensorValue) for value in found.values()):
                self._read[key] = found
        return found

    def _read_attrs(self, op: str, tree: Mapping[Any, Any]) -> Attrs | None:
        attrs: dict[str, AttrValue] = {}
        is_good = True
        read = raw_attr_value if self._is_raw else attr_value
        for name, value in tree.items():
            try:
                attrs[name] = self._settled(read(self._definition(op, name), value))
            except InvalidValue as wrong:
                self._report(tree, name, str(wrong))
                is_good = False
        return attrs if is_good else None

    def _settled(self, value: AttrValue) -> AttrValue:
        if value.__class__ is not Placeholder or self._is_raw:
            return value
        found = self._open_types.get(value.name)
        if found is None:
            expected = one_of(self._open_types) if self._open_types else "none outside of a function with 'type_attr'"
            raise InvalidValue(f"unknown placeholder: got '{value.name}', expected {expected}")
        return found

    def _definition(self, op: str, name: Any) -> AttrDef | None:
        if not isinstance(name, str):
            raise InvalidValue(f"wrong type of an attr's name: got {spell(name)}, expected a string")
        definition = self._registry.op(op)
        if definition is None:
            called = self._functions.get(op)
            typed = called is not None and any(name == arg.type_attr for arg in (*called.inputs, *called.outputs))
            # the attrs of a call are the types that its function leaves open
            return AttrDef(name, "type") if typed else None
        # TensorFlow keeps any attr that begins with an underscore
        if name in definition.attrs or name.startswith("_") or self._is_raw:
            return definition.attrs.get(name)
        known = tuple(definition.attrs)
        expected = one_of(known) if known else "none"
        raise InvalidValue(f"unknown attr of '{op}': got '{name}', expected {expected}{did_you_mean(name, known)}")


_MAX_KEY_ENTRIES = 64


def _written(value: Any) -> Any:
    """Return a cache key of an attr's value. Large values and arrays have a unique key, so that they are never shared."""
    if isinstance(value, np.ndarray | TensorValue) or (isinstance(value, list | tuple) and len(value) > _MAX_KEY_ENTRIES):
        return object()
    if isinstance(value, dict) and "tensor" in value:
        return object()
    return (value.__class__, repr(value))
