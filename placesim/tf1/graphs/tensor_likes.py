"""The types of arguments that TensorFlow's Python makes tensors, types and shapes of."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol, TypeAlias

import numpy as np

from placesim.tf1.graphs.tensor import Tensor
from placesim.tf1.types.dimensions import Dimension
from placesim.tf1.types.dtypes import DType
from placesim.tf1.types.shapes import TensorShape


class TensorStandIn(Protocol):
    """An object that stands for a tensor, as a variable does."""

    def _as_graph_element(self) -> Any: ...


Scalar: TypeAlias = bool | int | float | complex | str | bytes | np.generic
TensorLike: TypeAlias = (
    "Tensor | TensorStandIn | Scalar | np.ndarray[Any, Any] | TensorShape | Dimension | Sequence[TensorLike]"
)
"""`convert_to_tensor` takes it: a tensor, a variable, numbers and texts, and lists of these."""
DTypeLike: TypeAlias = "DType | str | int | type | np.dtype[Any]"
"""`as_dtype` takes it."""
ShapeLike: TypeAlias = (
    "TensorShape | Tensor | TensorStandIn | np.ndarray[Any, Any] | int | Sequence[int | Dimension | Tensor | None]"
)
"""A shape, some of whose sizes may be tensors or unknown."""
