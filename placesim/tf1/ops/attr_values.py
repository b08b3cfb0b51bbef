"""Value given by a script for an attr -> the value as placesim holds it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from placesim.core.dtypes import DataType as ElementType
from placesim.ops.attributes import UNKNOWN_RANK, AttrValue, FunctionName, Shape, TensorValue
from placesim.ops.definitions import AttrDef
from placesim.tf1.graphs.tensor_likes import TensorLike
from placesim.tf1.ops.signatures import snake_case
from placesim.tf1.types import dtypes
from placesim.tf1.types.shapes import TensorShape


def held_value(attr: AttrDef, value: TensorLike, op: str) -> AttrValue:
    """The value of an attr of an op's function.  Raises TypeError or ValueError in TensorFlow's words."""
    if not attr.type.startswith("list("):
        return _HOLD[attr.type](value, attr.name, op)
    if not isinstance(value, list | tuple):
        raise TypeError(f"Expected list for '{attr.name}' argument to '{snake_case(op)}' Op, not {value!r}.")
    hold = _HOLD[attr.type[5:-1]]
    return tuple(hold(element, attr.name, op) for element in value)


def _int(value: Any, name: str, op: str) -> int:
    if isinstance(value, str):
        raise TypeError(f"Expected int for argument '{name}' not {value!r}.")
    try:
        return int(value)
    except (TypeError, ValueError):
        raise TypeError(f"Expected int for argument '{name}' not {value!r}.") from None


def _float(value: Any, name: str, op: str) -> float:
    if isinstance(value, str):
        raise TypeError(f"Expected float for argument '{name}' not {value!r}.")
    try:
        return float(value)
    except (TypeError, ValueError):
        raise TypeError(f"Expected float for argument '{name}' not {value!r}.") from None


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
        message = f"Failed to convert '{value!r}' to a shape: '{value!r}'could not be converted to a dimension. A shape should "
        message += "either be single dimension (e.g. 10), or an iterable of dimensions (e.g. [1, 10, None])."
        raise TypeError(f"Error converting {name} to a TensorShape: {message}.") from None
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
    return FunctionName(value.name)


_HOLD: dict[str, Callable[[Any, str, str], AttrValue]] = {
    "int": _int,
    "float": _float,
    "bool": _bool,
    "string": _text,
    "type": _type,
    "shape": _shape,
    "tensor": _tensor,
    "func": _function_name,
}
