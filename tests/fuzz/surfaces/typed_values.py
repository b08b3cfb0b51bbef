"""Values of a type that TensorFlow has: shapes, elements of tensors, and attrs, as a graph file writes them."""

from __future__ import annotations

from random import Random
from typing import Any

from placesim.core.dtypes import DataType
from placesim.ops.attributes import Shape, TensorValue
from placesim.ops.definitions import AttrDef
from tests.fuzz.mutation import odd_text

SHAPES: tuple[list[int], ...] = (
    *([], [], [1], [2], [3], [4], [0], [2, 2], [2, 3], [1, 1], [0, 2], [2, 0], [1, 2, 2], [1, 2, 2, 1], [1, 4, 4, 2]),
    *([1, 2, 2, 2, 1], [2, 2, 2, 2, 2, 2]),
)
_INTS = (0, 1, 1, 1, 2, 2, 3, 5, -1, -2, 127)
_LARGE_INTS = (2**31 - 1, 2**62, -(2**31), 2**20)
_FLOATS = (0.0, 1.0, 0.5, -1.0, 2.5, 1e10, "nan", "inf", "-inf")
TYPES = (
    "float",
    "int32",
    "int64",
    "bool",
    "string",
    "double",
    "half",
    "complex64",
    "uint8",
    "int8",
    "bfloat16",
    "uint64",
    "qint8",
)


def odd_tensor(rng: Random, dtype: str) -> dict[str, Any]:
    """A tensor of one element's value and some shape; a shape of none has no value."""
    shape = rng.choice(SHAPES)
    return {"dtype": dtype, "shape": shape, "value": [] if 0 in shape else element(rng, dtype)}


def element(rng: Random, dtype: str) -> Any:
    """One element, which fills a tensor of any shape."""
    if dtype == "string":
        return rng.choice(("", "a", "1", "a b", "1.5", "(", "日本"))
    if dtype == "bool":
        return rng.random() < 0.5
    if dtype.startswith("complex"):
        return 1.5
    if "int" in dtype:
        value = rng.choice(_INTS if rng.random() < 0.95 else _LARGE_INTS)
        return abs(value) % 4 if dtype.lstrip("qu").startswith(("int4", "int2", "int8")) or "uint" in dtype else value
    return rng.choice(_FLOATS)


def attr_value(rng: Random, attr: AttrDef) -> Any:
    """A value of an attr's type, one of those allowed."""
    kind = attr.type
    if kind.startswith("list("):
        one = attr._replace(type=kind[5:-1], minimum=None)
        return [attr_value(rng, one) for _ in range(max(attr.minimum or 0, rng.choice((0, 1, 1, 2, 4, 5))))]
    if attr.allowed is not None:
        return plain(rng.choice(attr.allowed))
    if kind == "int":
        return max(attr.minimum if attr.minimum is not None else -1, rng.choice(_INTS if rng.random() < 0.97 else _LARGE_INTS))
    choices: dict[str, tuple[Any, ...]] = {
        "type": TYPES,
        "shape": (*SHAPES, [-1], "unknown", [-1, 2]),
        "float": _FLOATS[:6],
        "bool": (True, False),
        "string": ("", "a", "SAME", "ij,jk->ik", "NHWC", odd_text(rng)),
        "func": ({"func": "F"},),
        "tensor": ({"tensor": {"dtype": "float", "shape": [2], "value": 1}},),
    }
    return rng.choice(choices[kind])


def plain(value: Any) -> Any:
    """An attr's value as a graph file has it."""
    if isinstance(value, DataType):
        return value.name
    if isinstance(value, Shape):
        return "unknown" if value.dims is None else list(value.dims)
    if isinstance(value, TensorValue):
        return {"tensor": {"dtype": value.dtype.name, "shape": list(value.array.shape), "value": value.array.tolist()}}
    return [plain(element) for element in value] if isinstance(value, tuple) else value
