"""The types of arguments that TensorFlow's Python makes tensors, types and shapes of."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Protocol, TypeAlias

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
"""`convert_to_tensor` takes it: a tensor, a variable, numbers and texts, and lists of these."""
DTypeLike: TypeAlias = "DType | ElementType | str | int | type | np.dtype[Any]"
"""`as_dtype` takes it."""
ShapeLike: TypeAlias = (
    "TensorShape | Tensor | TensorStandIn | np.ndarray[Any, Any] | int | Sequence[int | Dimension | Tensor | None]"
)
"""A shape with possibly unknown sizes or sizes given by tensors."""
PerDimension: TypeAlias = int | Sequence[int]
"""One number for all dimensions, or one for each: strides, windows, dilations."""
Padding: TypeAlias = str | Sequence[Sequence[int]]
"""A window's padding: `SAME`, `VALID`, or the sizes before and after each dimension."""
InitializerLike: TypeAlias = "Callable[..., Any] | TensorLike"
"""The start of a variable: an initializer or its class, a function without arguments, a value, or Keras' name of one."""
