"""Types of arguments that TensorFlow's Python converts to tensors, element types and shapes."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Protocol, TypeAlias, TypeGuard

import numpy as np

from placesim.core.dtypes import DataType as ElementType
from placesim.tf1.graphs.tensor import Operation, Tensor
from placesim.tf1.types.dimensions import Dimension
from placesim.tf1.types.dtypes import DType
from placesim.tf1.types.shapes import TensorShape


class TensorStandIn(Protocol):
    """An object convertible to a tensor, such as a variable."""

    def _as_graph_element(self) -> Any: ...


class TypedTensor(Protocol):
    """A tensor or a variable: an object whose element type and static shape are known."""

    @property
    def name(self) -> str: ...
    @property
    def dtype(self) -> DType: ...
    @property
    def shape(self) -> TensorShape: ...
    @property
    def op(self) -> Operation: ...
    def get_shape(self) -> TensorShape: ...


Scalar: TypeAlias = bool | int | float | complex | str | bytes | np.generic
TensorLike: TypeAlias = (
    "Tensor | TensorStandIn | Scalar | np.ndarray[Any, Any] | TensorShape | Dimension | Sequence[TensorLike]"
)
"""Argument of `convert_to_tensor`: a tensor, a variable, numbers and strings, and lists of these."""
DTypeLike: TypeAlias = "DType | ElementType | str | int | type | np.dtype[Any]"
"""Argument of `as_dtype`."""
ShapeLike: TypeAlias = (
    "TensorShape | Tensor | TensorStandIn | np.ndarray[Any, Any] | int | Sequence[int | Dimension | Tensor | None]"
)
"""A shape with possibly unknown sizes or sizes given by tensors."""
PerDimension: TypeAlias = int | Sequence[int]
"""One number for all dimensions, or one for each: strides, windows, dilations."""
Padding: TypeAlias = str | Sequence[Sequence[int]]
"""A window's padding: `SAME`, `VALID`, or the sizes before and after each dimension."""
InitializerLike: TypeAlias = "Callable[..., Any] | TensorLike"
"""Initial value of a variable: an initializer, its class or Keras name, a function without arguments, or a value."""


def is_ragged(value: object) -> TypeGuard[Any]:
    """Whether a value is a RaggedTensor, whose module only scripts with such tensors import."""
    return hasattr(value, "nested_row_splits")
