"""Convert Python values to tensors: `tf.convert_to_tensor`, and the conversion functions that types register."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from placesim.tf1.graphs.graph import Graph, get_default_graph
from placesim.tf1.graphs.tensor import Operation, SymbolicTensor, Tensor
from placesim.tf1.graphs.tensor_likes import DTypeLike, ShapeLike, TensorLike
from placesim.tf1.ops.constant_literals import make_tensor
from placesim.tf1.types import dtypes
from placesim.tf1.types.dimensions import Dimension
from placesim.tf1.types.shapes import TensorShape

Conversion = Callable[..., Any]
"""`(value, dtype=None, name=None, as_ref=False)` -> a tensor, or NotImplemented."""

_PLAIN = (bool, int, float, str, bytes, complex)
_registered: list[tuple[int, tuple[type, ...], Conversion]] = []
_by_type: dict[type, tuple[Conversion, ...]] = {}


def register_tensor_conversion_function(base_type: object, conversion_func: Conversion, priority: int = 100) -> None:
    """Register the function that converts values of these types; lower priorities are tried first."""
    types = base_type if isinstance(base_type, tuple) else (base_type,)
    _registered.append((priority, types, conversion_func))
    _registered.sort(key=lambda row: row[0])
    _by_type.clear()


def _conversions(kind: type) -> tuple[Conversion, ...]:
    found = _by_type.get(kind)
    if found is None:
        found = _by_type[kind] = tuple(convert for _, types, convert in _registered if issubclass(kind, types))
    return found


def is_tensor_like(value: TensorLike) -> bool:
    """Whether a value is a tensor, or is used as a tensor, like a variable."""
    return isinstance(value, Tensor) or (hasattr(value, "_as_graph_element") and not isinstance(value, Operation))


def convert_to_tensor(
    value: Any,
    dtype: DTypeLike | None = None,
    name: str | None = None,
    preferred_dtype: DTypeLike | None = None,
    dtype_hint: DTypeLike | None = None,
    as_ref: bool = False,
) -> Tensor:
    """The tensor of a value: itself, a variable's value, or a Const.  Raises TypeError or ValueError in TensorFlow's words."""
    if value.__class__ is SymbolicTensor and dtype is None:
        return value
    wanted = None if dtype is None else dtypes.as_dtype(dtype)
    if isinstance(value, Tensor):
        if wanted is not None and not wanted.is_compatible_with(value.dtype):
            told = f"{name}: " if name else ""
            raise ValueError(
                f"{told}Tensor conversion requested dtype {wanted.name} for Tensor with dtype {value.dtype.name}: {value!r}"
            )
        return value
    preferred = preferred_dtype if preferred_dtype is not None else dtype_hint
    for convert in _conversions(type(value)):
        found: Any = NotImplemented
        if wanted is None and preferred is not None:
            try:
                found = convert(value, dtype=dtypes.as_dtype(preferred), name=name, as_ref=as_ref)
            except (TypeError, ValueError):
                found = NotImplemented
        if found is NotImplemented:
            found = convert(value, dtype=wanted, name=name, as_ref=as_ref)
        if found is not NotImplemented:
            return found  # type: ignore[no-any-return]
    told = "" if name is None else f"Error converting {name}: " if name else ""
    raise TypeError(f"{told}Cannot convert {value!r} with type {type(value)} to Tensor: no conversion function registered.")


def convert_named(**values: object) -> list[Tensor]:
    """Convert keyword arguments to tensors that have the arguments' names."""
    return [convert_to_tensor(value, name=name) for name, value in values.items()]


def convert_n_to_tensor(
    values: Sequence[Any],
    dtype: DTypeLike | None = None,
    name: str | None = None,
    preferred_dtype: DTypeLike | None = None,
    as_ref: bool = False,
) -> list[Tensor]:
    """Convert values to tensors; the i-th is named `name_i`."""
    return [
        convert_to_tensor(value, dtype, None if name is None else f"{name}_{i}", preferred_dtype, as_ref=as_ref)
        for i, value in enumerate(values)
    ]


def constant(
    value: object,
    dtype: DTypeLike | None = None,
    shape: ShapeLike | None = None,
    name: str | None = "Const",
    verify_shape: bool = False,
) -> Tensor:
    """`tf.constant`."""
    return get_default_graph().make_constant(make_tensor(value, dtype, shape, verify_shape), name)


# --- conversion functions of built-in types -------------------------------------------------------------------------


def _constant_conversion(
    value: TensorLike, dtype: DTypeLike | None = None, name: str | None = None, as_ref: bool = False
) -> Tensor:
    return constant(value, dtype, name="Const" if name is None else name)


def _shape_conversion(
    value: TensorShape, dtype: dtypes.DType | None = None, name: str | None = None, as_ref: bool = False
) -> Tensor:
    if not value.is_fully_defined():
        raise ValueError(f"Cannot convert a partially known TensorShape {value} to a Tensor.")
    sizes = value.as_list()
    if dtype is None:
        dtype = dtypes.int64 if any(size >= 2**31 for size in value.sizes or ()) else dtypes.int32
    elif dtype not in (dtypes.int32, dtypes.int64):
        raise TypeError(f"Cannot convert TensorShape {value} to dtype {dtype}. Allowed dtypes are tf.int32 and tf.int64.")
    return constant(sizes, dtype, [len(sizes)], name="shape_as_tensor" if name is None else name)


def _dimension_conversion(
    value: Dimension, dtype: dtypes.DType | None = None, name: str | None = None, as_ref: bool = False
) -> Tensor:
    if value.value is None:
        raise ValueError(f"Cannot convert unknown Dimension {value} to a Tensor.")
    if dtype not in (None, dtypes.int32, dtypes.int64):
        raise TypeError(f"Cannot convert Dimension {value} to dtype {dtype}. Allowed dtypes are tf.int32 and tf.int64.")
    return constant(value.value, dtype or dtypes.int32, name="shape_as_tensor" if name is None else name)


def holds_tensors(value: TensorLike) -> bool:
    """Whether a nested list contains tensors or tensor-like objects."""
    if isinstance(value, list | tuple):
        return any(holds_tensors(item) for item in value)
    return is_tensor_like(value)


def _operation_conversion(
    value: Operation, dtype: DTypeLike | None = None, name: str | None = None, as_ref: bool = False
) -> Tensor:
    raise TypeError(f"Can't convert Operation '{value.name}' to Tensor")


register_tensor_conversion_function(TensorShape, _shape_conversion, 100)
register_tensor_conversion_function(Dimension, _dimension_conversion, 100)
register_tensor_conversion_function(Operation, _operation_conversion, 100)
register_tensor_conversion_function((*_PLAIN, list, tuple, np.ndarray, np.generic), _constant_conversion, 100)
register_tensor_conversion_function(object, _constant_conversion, 200)
Graph.to_tensor = staticmethod(convert_to_tensor)
