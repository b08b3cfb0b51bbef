"""Conversion of a YAML tree to types, shapes, sizes, numbers, texts and tensors, from which `node_attrs` makes attrs.

Functions raise `InvalidValue` with the found and the expected value, unless they return None for an invalid text.
"""

from __future__ import annotations

import base64
import binascii
import re
from collections.abc import Mapping
from typing import Any

from placesim.core.dtypes import NAMES, DataType, parse_dtype
from placesim.core.errors import GraphBuildError
from placesim.core.escaping import escape_line
from placesim.core.suggestions import did_you_mean
from placesim.formats.problems import InvalidValue, spell
from placesim.graph.constants import make_constant
from placesim.ops.attributes import UNKNOWN_RANK, Shape, TensorValue

_UNITS = {"": 1, "B": 1} | {
    prefix + suffix: base**power for power, prefix in enumerate("KMGT", 1) for suffix, base in (("iB", 1024), ("B", 1000))
}
# texts, which `re` compiles on first use: few graphs have sizes and amounts
_SIZE = r"\s*+([0-9]+(?:\.[0-9]+)?)\s*+([A-Za-z]*)\s*+"
_SECONDS = {"": 1.0, "s": 1.0, "ms": 1e-3, "us": 1e-6, "µs": 1e-6, "μs": 1e-6, "ns": 1e-9, "min": 60.0}
_AMOUNT = r"\s*+([-+]?(?:[0-9]+(?:\.[0-9]*)?|\.[0-9]+)(?:[eE][-+]?[0-9]+)?)\s*+([A-Za-zµμ/]*)\s*+"
INT64_END = 1 << 63
"""The first number that does not fit into an int64."""
_OTHER_NAMES = {
    "fp16": "float16",
    "fp32": "float32",
    "fp64": "float64",
    "bf16": "bfloat16",
    "int": "int32",
    "long": "int64",
    "short": "int16",
    "byte": "uint8",
    "char": "int8",
    "uint": "uint32",
    "boolean": "bool",
    "str": "string",
    "text": "string",
    "bytes": "string",
    "complex": "complex64",
}
"""Names of TensorFlow's types in other languages and libraries."""


def dtype_value(value: Any) -> DataType:
    """Return the type called `float32`, `float` or `DT_FLOAT`."""
    if isinstance(value, DataType):
        return value
    try:
        return parse_dtype(value)
    except (KeyError, TypeError):
        other = _OTHER_NAMES.get(value) if isinstance(value, str) else None
        near = f"; did you mean '{other}'?" if other else did_you_mean(value, NAMES)
        raise InvalidValue(f"unknown type: got {spell(value)}, expected a TensorFlow type{near}") from None


def shape_value(value: Any) -> Shape:
    """Return a shape from a list of dimensions or `unknown`. A dimension of -1 or null is unknown."""
    if isinstance(value, Shape):
        return value
    if value == "unknown":
        return UNKNOWN_RANK
    if not isinstance(value, list | tuple):
        raise InvalidValue(f"wrong type of a shape: got {spell(value)}, expected a list of dimensions or 'unknown'")
    dims = tuple(-1 if dim is None else dim for dim in value)
    for dim in dims:
        if type(dim) is not int or not -1 <= dim < INT64_END:
            raise InvalidValue(
                f"wrong dimension of a shape: got {spell(dim)}, expected a whole number, 0 or more, or -1 if unknown"
            )
    return Shape(dims)


def known_shape(value: Any) -> tuple[int, ...]:
    """Return the fully known shape of a tensor."""
    dims = shape_value(value).dims
    if dims is None or -1 in dims:
        got = spell(value) if dims is None else f"[{', '.join('null' if dim is None else str(dim) for dim in value)}]"
        raise InvalidValue(f"unknown shape of a tensor: got {got}, expected known dimensions")
    return dims


def size_value(value: Any) -> int:
    """Return a number of bytes from a number, or a text with a unit (`4800MiB`, `12 GiB`, `80GB`)."""
    if type(value) is int:
        return _checked_size(value, value)
    found = re.fullmatch(_SIZE, value) if isinstance(value, str) else None
    unit = None if found is None else next((unit for unit in _UNITS if unit.lower() == found[2].lower()), None)
    if found is None or unit is None:
        raise InvalidValue(f"bad size: got {spell(value)}, expected bytes, or a number with a unit such as 4800MiB or 12GiB")
    return _checked_size(float(found[1]) * _UNITS[unit], value)


def _checked_size(size: float, value: Any) -> int:
    if not 1 <= size < INT64_END:
        raise InvalidValue(f"bad size: got {spell(value)}, expected at least 1 byte and less than 8 EiB")
    return int(size)


def read_amount(text: str, units: Mapping[str, float]) -> float | None:
    """Return the value of a text such as `5ms`: the number times its unit's factor ("" for no unit); None for another form."""
    found = re.fullmatch(_AMOUNT, text)
    factor = None if found is None else units.get(found[2])
    return None if found is None or factor is None else float(found[1]) * factor


def read_seconds(text: str) -> float | None:
    """Return the seconds of a text such as `5ms`, `1.5 s` or `200us`; None for another form."""
    return read_amount(text, _SECONDS)


def seconds_value(value: Any) -> float:
    """Return seconds from a number, or a text with a unit (`5ms`, `1.5 s`, `200us`)."""
    seconds = read_seconds(value) if isinstance(value, str) else None
    if type(value) in (int, float):
        seconds = float(value) if abs(value) < INT64_END else float("inf")
    if seconds is None:
        raise InvalidValue(f"bad time: got {spell(value)}, expected seconds, or a number with a unit such as 5ms or 200us")
    if not 0 <= seconds < INT64_END:
        raise InvalidValue(f"bad time: got {spell(value)}, expected 0 seconds or more, and less than 2**63")
    return seconds


def int_value(value: Any, low: int, high: int, what: str) -> int:
    """Return a whole number within bounds."""
    if type(value) is not int:
        raise InvalidValue(f"wrong type of {what}: got {spell(value)}, expected a whole number from {low} to {high}")
    if not low <= value <= high:
        raise InvalidValue(f"{what} out of range: got {spell(value)}, expected a number from {low} to {high}")
    return value


def bool_value(value: Any, what: str) -> bool:
    if type(value) is not bool:
        raise InvalidValue(f"wrong type of {what}: got {spell(value)}, expected true or false")
    return value


def text_value(value: Any, what: str) -> str:
    if not isinstance(value, str):
        raise InvalidValue(f"wrong type of {what}: got {spell(value)}, expected a string")
    return value


def line_value(value: Any, what: str) -> str:
    """Return a text that can be part of a line of a report. Raises InvalidValue if it has control characters."""
    text = text_value(value, what)
    if escape_line(text) != text:
        raise InvalidValue(f"bad {what}: got {spell(text)}, expected a text without control characters")
    return text


def number_value(value: Any, what: str) -> float:
    if type(value) not in (int, float):
        raise InvalidValue(f"wrong type of {what}: got {spell(value)}, expected a number")
    try:
        return float(value)
    except OverflowError:
        raise InvalidValue(f"{what} out of range: got {spell(value)}, expected a number") from None


def figure_value(value: Any, what: str) -> int | float:
    """Return a number; an int stays an int."""
    number = number_value(value, what)
    return value if type(value) is int else number


def bytes_value(value: Any) -> bytes:
    """Return the bytes of a text in base64, which is the value of `bytes:`."""
    try:
        return base64.b64decode(value, validate=True)
    except (binascii.Error, TypeError, ValueError):
        raise InvalidValue(f"wrong bytes: got {spell(value)}, expected base64") from None


# --- tensors --------------------------------------------------------------------------------------------------------


def literal(value: Any) -> Any:
    """Return a literal in which `{bytes: ...}` is replaced by bytes, and `{tensor: ...}` by a TensorValue."""
    if isinstance(value, list | tuple):
        return [literal(part) for part in value] if any(isinstance(part, dict | list | tuple) for part in value) else value
    if not isinstance(value, dict):
        return value
    if list(value) == ["bytes"]:
        return bytes_value(value["bytes"])
    if list(value) == ["tensor"]:
        return tensor_value(value["tensor"])
    expected = "a number, a boolean, a text, a list, {bytes: BASE64} or {tensor: ...}"
    raise InvalidValue(f"wrong literal: got a mapping, expected {expected}")


def constant_value(value: Any, dtype: Any = None, shape: Any = None) -> TensorValue:
    """Return the tensor of a `Const`. A `dtype` or `shape` of None follows from the value."""
    if value.__class__ is float and dtype is None and not shape and shape.__class__ is not str:
        return make_constant(value)
    value = literal(value)
    if isinstance(value, TensorValue):
        if dtype is not None and dtype_value(dtype) is not value.dtype:
            got, expected = value.dtype.python_name, dtype_value(dtype).python_name
            raise InvalidValue(f"conflicting types of a tensor: got {got}, expected {expected}")
        value, dtype = value.array, value.dtype
    try:
        return make_constant(
            value, None if dtype is None else dtype_value(dtype), None if shape is None else known_shape(shape)
        )
    except GraphBuildError as error:
        raise InvalidValue(error.message) from None


def tensor_value(value: Any) -> TensorValue:
    """Return the tensor of a mapping `{dtype, shape, value}`."""
    if isinstance(value, TensorValue):
        return value
    if not isinstance(value, dict):
        return constant_value(value)
    for key in value:
        if key not in ("dtype", "shape", "value"):
            raise InvalidValue(f"unknown key in a tensor: got {spell(key)}, expected dtype, shape or value")
    if "value" not in value:
        raise InvalidValue("no value of a tensor: got nothing, expected 'value'")
    return constant_value(value["value"], value.get("dtype"), value.get("shape"))
