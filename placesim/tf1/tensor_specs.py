"""`tf.TensorSpec`: what is known of a tensor before it is there."""

from __future__ import annotations

from typing import Any

from placesim.tf1 import dtypes
from placesim.tf1.shapes import TensorShape


class TensorSpec:
    """The static shape, type and name of a tensor."""

    def __init__(self, shape: Any, dtype: Any = dtypes.float32, name: str | None = None) -> None:
        self._shape = TensorShape(shape)
        self._dtype = dtypes.as_dtype(dtype)
        self._name = name

    @property
    def shape(self) -> TensorShape:
        return self._shape

    @property
    def dtype(self) -> dtypes.DType:
        return self._dtype

    @property
    def name(self) -> str | None:
        return self._name

    @classmethod
    def from_tensor(cls, tensor: Any, name: str | None = None) -> TensorSpec:
        """The spec that a tensor has, with its op's name if no other is given."""
        return cls(tensor.shape, tensor.dtype, name or tensor.op.name)

    def is_compatible_with(self, other: Any) -> bool:
        """Whether a tensor, or another spec, can be one of these."""
        return self._dtype.is_compatible_with(other.dtype) and self._shape.is_compatible_with(other.shape)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, TensorSpec) or self._dtype is not other._dtype:
            return False
        return self._name == other._name and self._shape.sizes == other._shape.sizes

    def __hash__(self) -> int:
        return hash((self._dtype.name, self._shape.sizes))

    def __repr__(self) -> str:
        return f"TensorSpec(shape={self._shape}, dtype={self._dtype!r}, name={self._name!r})"
