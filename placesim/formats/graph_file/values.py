"""Values of a graph file: types, shapes, sizes, tensors and attrs, from the tree to the values that they are held as.

Every function raises `Wrong` with what was found and what was expected.
"""

from __future__ import annotations

import base64
import binascii
import re
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from placesim.dtypes import NAMES, DType, parse_dtype
from placesim.errors import GraphBuildError
from placesim.formats.problems import Wrong, one_of, shown
from placesim.graph.constants import make_constant
from placesim.graph.graph import Function
from placesim.ops.attributes import UNKNOWN_RANK, AttrDef, Attrs, AttrValue, FunctionName, Placeholder, Shape, TensorValue
from placesim.ops.registry import Registry
from placesim.suggestions import did_you_mean

_UNITS = {"": 1, "B": 1} | {
    prefix + suffix: base**power for power, prefix in enumerate("KMGT", 1) for suffix, base in (("iB", 1024), ("B", 1000))
}
_SIZE = re.compile(r"\s*([0-9]+(?:\.[0-9]+)?)\s*([A-Za-z]*)\s*")
_INT64 = 1 << 63


def dtype_value(value: Any) -> DType:
    """`float32`, `float`, `DT_FLOAT`."""
    if isinstance(value, DType):
        return value
    try:
        return parse_dtype(value)
    except (KeyError, TypeError):
        raise Wrong(f"unknown type: got {shown(value)}, expected one of TensorFlow's{did_you_mean(value, NAMES)}") from None


def shape_value(value: Any) -> Shape:
    """A list of dimensions, -1 or null an unknown one; `unknown` an unknown rank."""
    if isinstance(value, Shape):
        return value
    if value == "unknown":
        return UNKNOWN_RANK
    if not isinstance(value, list | tuple):
        raise Wrong(f"wrong type of a shape: got {shown(value)}, expected a list of dimensions or 'unknown'")
    dims = tuple(-1 if dim is None else dim for dim in value)
    for dim in dims:
        if type(dim) is not int or not -1 <= dim < _INT64:
            raise Wrong(f"wrong dimension of a shape: got {shown(dim)}, expected a number from 0, or -1 where it is unknown")
    return Shape(dims)


def known_shape(value: Any) -> tuple[int, ...]:
    """A shape of which all is known, as a tensor's."""
    dims = shape_value(value).dims
    if dims is None or -1 in dims:
        raise Wrong(f"unknown shape of a tensor: got {shown(value) if dims is None else list(dims)}, expected known dimensions")
    return dims


def size_value(value: Any) -> int:
    """Bytes: a number, or a text with a unit (`4800MiB`, `12 GiB`, `80GB`)."""
    if type(value) is int and value > 0:
        return value
    found = _SIZE.fullmatch(value) if isinstance(value, str) else None
    unit = None if found is None else next((unit for unit in _UNITS if unit.lower() == found[2].lower()), None)
    if found is None or unit is None:
        raise Wrong(f"bad size: got {shown(value)}, expected bytes, or a number with a unit such as 4800MiB or 12GiB")
    size = int(float(found[1]) * _UNITS[unit])
    if not 0 < size < _INT64:
        raise Wrong(f"bad size: got {shown(value)}, expected more than nothing and less than 8 EiB")
    return size


def int_value(value: Any, low: int, high: int, what: str) -> int:
    """A whole number within bounds."""
    if type(value) is not int:
        raise Wrong(f"wrong type of {what}: got {shown(value)}, expected a whole number from {low} to {high}")
    if not low <= value <= high:
        raise Wrong(f"{what} out of range: got {shown(value)}, expected a number from {low} to {high}")
    return value


def bool_value(value: Any, what: str) -> bool:
    if type(value) is not bool:
        raise Wrong(f"wrong type of {what}: got {shown(value)}, expected true or false")
    return value


def text_value(value: Any, what: str) -> str:
    if not isinstance(value, str):
        raise Wrong(f"wrong type of {what}: got {shown(value)}, expected a text")
    return value


def number_value(value: Any, what: str) -> float:
    if type(value) not in (int, float):
        raise Wrong(f"wrong type of {what}: got {shown(value)}, expected a number")
    try:
        return float(value)
    except OverflowError:
        raise Wrong(f"{what} out of range: got {shown(value)}, expected a number") from None


def bytes_value(value: Any) -> bytes:
    """The text under `bytes:`, in base64."""
    try:
        return base64.b64decode(value, validate=True)
    except (binascii.Error, TypeError, ValueError):
        raise Wrong(f"wrong bytes: got {shown(value)}, expected base64") from None


# --- tensors --------------------------------------------------------------------------------------------------------


def literal(value: Any) -> Any:
    """A literal with its `{bytes: ...}` in place; a `{tensor: ...}` is a TensorValue."""
    if isinstance(value, list | tuple):
        return [literal(part) for part in value] if any(isinstance(part, dict | list | tuple) for part in value) else value
    if not isinstance(value, dict):
        return value
    if list(value) == ["bytes"]:
        return bytes_value(value["bytes"])
    if list(value) == ["tensor"]:
        return tensor_value(value["tensor"])
    raise Wrong("wrong literal: got a mapping, expected a number, a boolean, a text, a list, {bytes: BASE64} or {tensor: ...}")


def constant_value(value: Any, dtype: Any = None, shape: Any = None) -> TensorValue:
    """`value`, `dtype` and `shape` as a `Const` has them; null stands for one that is not given."""
    if value.__class__ is float and dtype is None and not shape and shape.__class__ is not str:
        return make_constant(value)
    value = literal(value)
    if isinstance(value, TensorValue):
        if dtype is not None and dtype_value(dtype) is not value.dtype:
            raise Wrong(f"two types of one tensor: got {value.dtype.python_name}, expected {dtype_value(dtype).python_name}")
        value, dtype = value.array, value.dtype
    try:
        return make_constant(
            value, None if dtype is None else dtype_value(dtype), None if shape is None else known_shape(shape)
        )
    except GraphBuildError as error:
        raise Wrong(error.message) from None


def tensor_value(value: Any) -> TensorValue:
    """`{dtype, shape, value}`."""
    if isinstance(value, TensorValue):
        return value
    if not isinstance(value, dict):
        return constant_value(value)
    for key in value:
        if key not in ("dtype", "shape", "value"):
            raise Wrong(f"unknown key in a tensor: got {shown(key)}, expected dtype, shape or value")
    if "value" not in value:
        raise Wrong("no value of a tensor: got nothing, expected 'value'")
    return constant_value(value["value"], value.get("dtype"), value.get("shape"))


# --- attrs ----------------------------------------------------------------------------------------------------------


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
    if isinstance(value, str) and value in ("nan", "inf", "-inf"):
        return float(value)
    return number_value(value, "an attr")


def _func(value: Any) -> FunctionName:
    if isinstance(value, FunctionName):
        return value
    if isinstance(value, dict) and "func" in value and set(value) <= {"func", "attrs"}:
        attrs = value.get("attrs") or {}
        if isinstance(attrs, dict):
            return FunctionName(text_value(value["func"], "a function"), tuple((k, any_value(v)) for k, v in attrs.items()))
    raise Wrong(f"wrong type of an attr: got {shown(value)}, expected a function: {{func: NAME}}")


_TYPED: dict[str, Callable[[Any], AttrValue]] = {
    "string": _string,
    "int": lambda value: int_value(value, -_INT64, _INT64 - 1, "an attr"),
    "float": _float,
    "bool": lambda value: bool_value(value, "an attr"),
    "type": dtype_value,
    "shape": shape_value,
    "tensor": lambda value: tensor_value(value["tensor"] if isinstance(value, dict) and list(value) == ["tensor"] else value),
    "func": _func,
}


def any_value(value: Any) -> AttrValue:
    """An attr of which no definition says the type: as it is written, or `{type: ...}`, `{shape: ...}` and the like."""
    if isinstance(value, list | tuple) and not isinstance(value, Shape | TensorValue | FunctionName | Placeholder):
        return tuple(map(any_value, value))
    if not isinstance(value, dict):
        if value is None:
            raise Wrong("wrong type of an attr: got null, expected a value")
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
    """An attr by its definition."""
    if attr is None:
        return any_value(value)
    if isinstance(value, dict) and list(value) in (["placeholder"], ["type"]):
        return any_value(value)
    element = attr.type.removeprefix("list(").removesuffix(")")
    read = _TYPED[element]
    try:
        if not attr.type.startswith("list("):
            return read(value)
        if not isinstance(value, list | tuple):
            raise Wrong(f"wrong type of an attr: got {shown(value)}, expected a list")
        return tuple(map(read, value))
    except Wrong as wrong:
        raise Wrong(str(wrong).replace("an attr", f"attr '{attr.name}'")) from None


def raw_attr_value(attr: AttrDef | None, value: Any) -> AttrValue:
    """An attr as a NodeDef has it: by its definition, but of its own kind where that is another, for the importer to refuse."""
    try:
        return attr_value(attr, value)
    except Wrong:
        if attr is None or not _is_of_another_kind(attr.type, value):
            raise
        return any_value(value)


_KINDS = {bool: "bool", int: "int", float: "float", str: "string"}
_PLAIN_TYPES = ("string", "int", "float", "bool", "type", "func")
"""Those that no list spells."""
_SPELLED_AS_TEXT = ("type", "shape", "tensor", "func")


def _is_of_another_kind(attr_type: str, value: Any) -> bool:
    """Whether a value says by itself that it is none of a type: types, shapes and tensors are spelled as texts and lists."""
    if isinstance(value, dict):
        return True
    if isinstance(value, list | tuple):
        if not attr_type.startswith("list("):
            return attr_type in _PLAIN_TYPES
        return all(_is_of_another_kind(attr_type[5:-1], element) for element in value)
    kind = _KINDS.get(value.__class__, attr_type)
    return kind != attr_type and not (kind == "string" and attr_type in _SPELLED_AS_TEXT)


class AttrReader:
    """Reads the attrs of nodes; mappings that are written alike come out as one.

    With `is_raw` what a definition does not allow is read as well, for the importer to refuse in TensorFlow's words.
    """

    def __init__(
        self,
        registry: Registry,
        functions: Mapping[str, Function],
        report: Callable[[Any, Any, str], None],
        is_raw: bool = False,
    ) -> None:
        self._registry = registry
        self._functions = functions
        self._report = report
        self._is_raw = is_raw
        self._read: dict[tuple[Any, ...], Attrs] = {}

    def read(self, op: str, tree: Mapping[Any, Any]) -> Attrs | None:
        """The attrs of a node; None where one is wrong, which `report(tree, key, message)` was told."""
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
                attrs[name] = read(self._definition(op, name), value)
            except Wrong as wrong:
                self._report(tree, name, str(wrong))
                is_good = False
        return attrs if is_good else None

    def _definition(self, op: str, name: Any) -> AttrDef | None:
        if not isinstance(name, str):
            raise Wrong(f"wrong type of an attr's name: got {shown(name)}, expected a text")
        definition = self._registry.op(op)
        if definition is None:
            called = self._functions.get(op)
            typed = called is not None and any(name == arg.type_attr for arg in (*called.inputs, *called.outputs))
            return AttrDef(name, "type") if typed else None
        if name in definition.attrs or name.startswith("_") or self._is_raw:
            return definition.attrs.get(name)
        known = tuple(definition.attrs)
        expected = one_of(known) if known else "none"
        raise Wrong(f"unknown attr of '{op}': got '{name}', expected {expected}{did_you_mean(name, known)}")


_MAX_KEY_ENTRIES = 64


def _written(value: Any) -> Any:
    """What tells one value of a mapping from another; a large one, or one with an array, is never taken for another."""
    if isinstance(value, np.ndarray | TensorValue) or (isinstance(value, list | tuple) and len(value) > _MAX_KEY_ENTRIES):
        return object()
    if isinstance(value, dict) and "tensor" in value:
        return object()
    return (value.__class__, repr(value))
