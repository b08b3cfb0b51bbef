"""Attr values: their representation in Python, and TensorFlow's text for them.

| attr type | Python type |
|---|---|
| string | `str`, or `bytes` if it is not UTF-8 |
| int, float, bool | `int`, `float`, `bool` |
| type | `DataType` |
| shape | `Shape`, with -1 for unknown dimensions; `UNKNOWN_RANK` if the rank is unknown |
| tensor | `TensorValue` |
| func | `FunctionName` |
| list(...) | a tuple of these |
"""

from __future__ import annotations

import math
import struct
from collections.abc import Hashable, Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

from placesim.core.dtypes import BOOL, DOUBLE, STRING, DataType, parse_dtype
from placesim.ops.farmhash import fingerprint64

if TYPE_CHECKING:
    import numpy as np

AttrValue = Any
Attrs = Mapping[str, Any]


_FLOAT_MAX = 3.4028234663852886e38
_PRINTED_TYPES = frozenset(
    (
        *("half", "bfloat16", "float", "double", "float8_e5m2", "float8_e4m3fn", "float8_e4m3b11fnuz"),
        *("int4", "int8", "int16", "int32", "int64", "uint4", "uint8", "uint16", "uint32", "uint64"),
        *("qint8", "qint16", "quint8", "quint16", "bool", "string"),
    )
)
"""Types whose elements TensorFlow prints; elements of other types are shown as question marks."""


class Shape(NamedTuple):
    """A shape as an attr: `dims` with -1 for an unknown dimension, or None if the rank is unknown."""

    dims: tuple[int, ...] | None

    def __str__(self) -> str:
        if self.dims is None:
            return "<unknown>"
        return "[" + ",".join("?" if dim < 0 else str(dim) for dim in self.dims) + "]"


UNKNOWN_RANK = Shape(None)


class TensorValue(NamedTuple):
    """A constant tensor: TensorFlow's element type and an array of the values (for strings, an object array of bytes)."""

    dtype: DataType
    array: np.ndarray[Any, Any]


class FunctionName(NamedTuple):
    """A function as an attr: its name in the library, and the attrs of its instantiation."""

    name: str
    attrs: tuple[tuple[str, AttrValue], ...] = ()

    @property
    def key(self) -> Hashable:
        """A hashable key, equal for equal instantiations."""
        return self.name, tuple((name, _hashable(value)) for name, value in self.attrs)


def _hashable(value: AttrValue) -> Hashable:
    if isinstance(value, TensorValue):
        array = value.array
        return value.dtype, array.shape, tuple(array.flat) if array.dtype.hasobject else array.tobytes()
    if isinstance(value, FunctionName):
        return value.key
    return tuple(map(_hashable, value)) if type(value) is tuple else (type(value), value)


class Placeholder(NamedTuple):
    """An attr `$T` of a node in a function body: the caller's attr of that name replaces it."""

    name: str


def decode_attr_value(facts: Any, attr_type: str) -> AttrValue:
    """Convert an attr's value from the JSON of the data file."""
    if not isinstance(facts, dict):
        return facts
    if "list" in facts:
        element = attr_type.removeprefix("list(").removesuffix(")")
        return tuple(decode_attr_value(value, element) for value in facts["list"])
    if "type" in facts:
        return parse_dtype(facts["type"])
    if "shape" in facts and "tensor" not in facts:
        return Shape(None if facts["shape"] is None else tuple(facts["shape"]))
    if "tensor" in facts:
        import numpy as np

        dtype = parse_dtype(facts["tensor"])
        found = np.zeros(facts["shape"], dtype.numpy)
        found.reshape(-1)[:] = facts.get("values", 0)
        return TensorValue(dtype, found)
    return facts["s"] if "s" in facts else FunctionName(facts.get("func", ""))


def type_values(allowed: Any) -> tuple[AttrValue, ...]:
    """Decode the values that a kernel constraint allows; in the data file they are names of types, or `{"list": values}`."""
    if isinstance(allowed, dict):
        return tuple(decode_attr_value(value, "") for value in allowed["list"])
    return tuple(map(parse_dtype, allowed))


# --- printing (5.9) -------------------------------------------------------------------------------------------------


def format_attr_value(value: AttrValue) -> str:
    """Return a value as TensorFlow's SummarizeAttrValue prints it."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, str | bytes):
        escaped = c_escape(value)
        return f'"{escaped}"' if len(escaped) < 80 else f'"{escaped[:10]}...{escaped[-10:]}"'
    if isinstance(value, float):
        return format_float(value)
    if isinstance(value, DataType):
        return value.enum_name
    if isinstance(value, TensorValue):
        return format_tensor(value)
    if isinstance(value, FunctionName):
        return value.name + "[" + ", ".join(f"{k}={format_attr_value(v)}" for k, v in sorted(value.attrs)) + "]"
    if isinstance(value, Placeholder):
        return "$" + value.name
    if isinstance(value, Shape):
        return str(value)
    if isinstance(value, tuple):
        return _format_list(value)
    return str(value)


def _format_list(values: tuple[AttrValue, ...]) -> str:
    pieces = [format_attr_value(value) for value in values]
    if len(pieces) < 30:
        return f"[{', '.join(pieces)}]"
    fingerprint = fingerprint64(",".join(pieces).encode())
    return f"[{', '.join([*pieces[:5], '...', *pieces[-5:]])}]{{attr_hash={fingerprint}}}"


def c_escape(text: str | bytes) -> str:
    """Return a text with C escapes like absl::CEscape: octal for bytes that are not printable."""
    data = text.encode() if isinstance(text, str) else text
    named = {9: "\\t", 10: "\\n", 13: "\\r", 34: '\\"', 39: "\\'", 92: "\\\\"}
    return "".join(named.get(b) or (chr(b) if 32 <= b < 127 else f"\\{b:03o}") for b in data)


def format_float(value: float) -> str:
    """Format a float like TensorFlow: `%g` with 6 digits, or 9 if 6 don't read back as the same float32."""
    if value != value or abs(value) > _FLOAT_MAX:
        return "nan" if value != value else "inf" if value > 0 else "-inf"
    short = f"{value:.6g}"
    return short if as_float32(float(short)) == as_float32(value) else f"{as_float32(value):.9g}"


def format_double(value: float) -> str:
    """Format a double like TensorFlow: with 15 digits, or 17 if 15 don't read back as the same number."""
    short = f"{value:.15g}"
    return short if value != value or float(short) == value else f"{value:.17g}"


def as_float32(value: float) -> float:
    """Return the float32 nearest to a number; infinity beyond the largest float32."""
    if not abs(value) <= _FLOAT_MAX:
        return value if math.isnan(value) else math.copysign(math.inf, value)
    single: float = struct.unpack("f", struct.pack("f", value))[0]
    return single


def as_held_by_kernel(value: AttrValue) -> AttrValue:
    """Return an attr as TensorFlow's kernels read it: floats, also in a list, become float32."""
    if isinstance(value, float):
        return as_float32(value)
    if type(value) is tuple and value and isinstance(value[0], float):
        return tuple(map(as_held_by_kernel, value))
    return value


def format_tensor(tensor: TensorValue) -> str:
    """Return `Tensor<type: float shape: [2] values: 1 2>`, with at most three values (5.9)."""
    array = tensor.array
    shape = ",".join(map(str, array.shape))
    return f"Tensor<type: {tensor.dtype.name} shape: [{shape}] values: {format_elements(tensor)}>"


def format_elements(tensor: TensorValue, max_elements: int = 3) -> str:
    """Return a tensor's elements as TensorFlow's SummarizeValue prints them; -1 for `max_elements` means all."""
    array = tensor.array
    total = array.size
    limit = total if max_elements < 0 else min(total, max_elements)
    cut = "..." if total > limit else ""
    if tensor.dtype.name not in _PRINTED_TYPES:
        return " ".join("?" * limit) + cut
    flat = [_format_element(value, tensor.dtype) for value in array.reshape(-1)[:limit]]
    return (" ".join(flat) if array.ndim <= 1 else _format_nested(flat, array.shape)) + cut


def _format_nested(flat: list[str], shape: tuple[int, ...]) -> str:
    """Return the first elements of a tensor, with each sub-array in brackets; an incomplete row ends in `...`."""
    size = shape[0]
    if len(shape) == 1:
        return " ".join(flat[:size]) + ("..." if len(flat) < size else "")
    step = math.prod(shape[1:])
    starts = range(0, min(size * step, len(flat)), step) if step else ()
    return "".join(f"[{_format_nested(flat[start : start + step], shape[1:])}]" for start in starts)


def _format_element(value: Any, dtype: DataType) -> str:
    if dtype is STRING:
        return c_escape(value)
    if dtype is BOOL:
        return "1" if value else "0"
    if dtype is DOUBLE:
        return format_double(float(value))
    return format_float(float(value)) if dtype.is_floating else str(int(value))


def names_functions(attrs: Attrs) -> bool:
    """Whether an attr is a function, or a list with a function."""
    return any(
        isinstance(value, FunctionName) or (isinstance(value, tuple) and any(isinstance(v, FunctionName) for v in value))
        for value in attrs.values()
    )
