"""Convert a script's value of an attr to placesim's form."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

from placesim.core.dtypes import DataType as ElementType
from placesim.ops.attributes import UNKNOWN_RANK, AttrValue, FunctionName, Shape, TensorValue
from placesim.ops.definitions import AttrDef
from placesim.tf1.graphs.tensor_likes import TensorLike
from placesim.tf1.ops.signatures import snake_case
from placesim.tf1.types import dtypes
from placesim.tf1.types.shapes import TensorShape, not_a_shape


def held_value(attr: AttrDef, value: TensorLike, op: str) -> AttrValue:
    """Convert a script's value of an attr.  Raises TypeError or ValueError in TensorFlow's words."""
    if not attr.type.startswith("list("):
        return _HOLD[attr.type](value, attr.name, op)
    if not isinstance(value, list | tuple):
        raise TypeError(f"Expected list for '{attr.name}' argument to '{snake_case(op)}' Op, not {value!r}.")
    hold = _HOLD[attr.type[5:-1]]
    return tuple(hold(element, attr.name, op) for element in value)


def _number(kind: type[int] | type[float], value: Any, name: str, op: str) -> int | float:
    try:
        if isinstance(value, str):  # Python would parse it
            raise TypeError
        return kind(value)
    except (TypeError, ValueError):
        raise TypeError(f"Expected {kind.__name__} for argument '{name}' not {value!r}.") from None


def _bool(value: TensorLike, name: str, op: str) -> bool:
    import numpy as np

    if not isinstance(value, bool | np.bool_):
        raise TypeError(f"Expected bool for argument '{name}' not {value!r}.")
    return bool(value)


def _text(value: TensorLike, name: str, op: str) -> str | bytes:
    if isinstance(value, bytes):
        try:
            return value.decode()
        except UnicodeDecodeError:
            return value
    if not isinstance(value, str):
        raise TypeError(f"Expected string for argument '{name}' not {value!r}.")
    return value


def _type(value: TensorLike, name: str, op: str) -> ElementType:
    try:
        return dtypes.as_dtype(value).base_dtype.element
    except TypeError as error:
        raise TypeError(f"Expected DataType for argument '{name}' not {value!r}.") from error


def _shape(value: TensorLike, name: str, op: str) -> Shape:
    if isinstance(value, Shape):
        return value
    try:
        sizes = TensorShape(value).sizes
    except TypeError:
        raise TypeError(f"Error converting {name} to a TensorShape: {not_a_shape(value, value)}.") from None
    except ValueError as error:
        raise ValueError(f"Error converting {name} to a TensorShape: {error}.") from None
    return UNKNOWN_RANK if sizes is None else Shape(sizes)


def _tensor(value: TensorLike, name: str, op: str) -> TensorValue:
    if isinstance(value, TensorValue):
        return value
    if hasattr(value, "tensor_content"):
        from placesim.formats.tensorflow.tensor_proto import read_tensor

        return read_tensor(value)
    from placesim.tf1.ops.constant_literals import make_tensor

    return make_tensor(value)


def _function_name(value: Any, name: str, op: str) -> FunctionName:
    if isinstance(value, FunctionName):
        return value
    if isinstance(value, str):
        return FunctionName(value)
    if hasattr(value, "add_to_graph"):
        from placesim.tf1.graphs.graph import get_default_graph

        value.add_to_graph(get_default_graph())
    if not hasattr(value, "name"):
        raise TypeError(f"Don't know how to convert {value} to a func for argument {name}")
    return FunctionName(value.name)


_HOLD: dict[str, Callable[[Any, str, str], AttrValue]] = {
    "int": partial(_number, int),
    "float": partial(_number, float),
    "bool": _bool,
    "string": _text,
    "type": _type,
    "shape": _shape,
    "tensor": _tensor,
    "func": _function_name,
}
