"""Convert lists that contain tensors to one tensor, with `Pack`."""

from __future__ import annotations

from typing import Any

from placesim.tf1.graphs.graph import get_default_graph
from placesim.tf1.graphs.tensor import Tensor
from placesim.tf1.math.casting import cast
from placesim.tf1.ops.conversion import (
    constant,
    convert_to_tensor,
    holds_tensors,
    is_tensor_like,
    register_tensor_conversion_function,
)
from placesim.tf1.ops.generated_functions import gen
from placesim.tf1.types import dtypes
from placesim.tf1.types.dtypes import DType


def _packing_conversion(value: Any, dtype: DType | None = None, name: str | None = None, as_ref: bool = False) -> Any:
    """Pack a list that contains tensors; its other elements become Consts of the tensors' type."""
    if as_ref or not holds_tensors(value):
        return NotImplemented
    found = _type_of_tensors(value)
    if found is None:
        return NotImplemented
    if dtype is None:
        dtype = found
    elif dtype is not found:
        value = _cast_tensors(value, dtype)
    return pack_nested(value, dtype, "packed" if name is None else name)


def _type_of_tensors(value: Any) -> dtypes.DType | None:
    if isinstance(value, list | tuple):
        return next((found for item in value if (found := _type_of_tensors(item)) is not None), None)
    return value.dtype.base_dtype if is_tensor_like(value) else None


def _cast_tensors(value: Any, dtype: dtypes.DType) -> Any:
    if isinstance(value, list | tuple):
        return [_cast_tensors(item, dtype) for item in value]
    if is_tensor_like(value) and value.dtype.base_dtype is not dtype:
        return cast(value, dtype)
    return value


def pack_nested(value: Any, dtype: dtypes.DType, name: str) -> Tensor:
    """Pack a list.  Inner lists with tensors are packed first, in the outer list's name scope, with their index as name."""
    graph = get_default_graph()
    converted: list[Any] = []
    with graph.name_scope(name) as scope:
        for i, item in enumerate(value):
            if is_tensor_like(item):
                found = convert_to_tensor(item)
                if found.dtype.base_dtype is not dtype:
                    raise TypeError(
                        f"Cannot convert a list containing a tensor of dtype {found.dtype!s} to {dtype!s} "
                        f"(Tensor is: {found!r})"
                    )
                converted.append(found)
            elif isinstance(item, list | tuple):
                converted.append(pack_nested(item, dtype, str(i)) if holds_tensors(item) else _scoped(item, str(i)))
            else:
                converted.append(item)
        tensors = [item if isinstance(item, Tensor) else constant(item, dtype, name=str(i)) for i, item in enumerate(converted)]
        return gen("Pack")(tensors, name=scope)  # type: ignore[no-any-return]


def _scoped(value: Any, name: str) -> Any:
    """Return a list without tensors as it is, but open the name scopes that TensorFlow opens for it and for its inner lists."""
    with get_default_graph().name_scope(name):
        for i, item in enumerate(value):
            if isinstance(item, list | tuple):
                _scoped(item, str(i))
    return value


register_tensor_conversion_function((list, tuple), _packing_conversion, 99)
