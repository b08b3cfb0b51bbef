"""`tf.TensorSpec` and related classes: static descriptions of values."""

from __future__ import annotations

from typing import Any

from placesim.tf1.graphs.tensor import Tensor
from placesim.tf1.graphs.tensor_likes import DTypeLike
from placesim.tf1.sparse.values import SparseTensor, SparseTensorValue
from placesim.tf1.types import dtypes
from placesim.tf1.types.read_only import read_only
from placesim.tf1.types.shapes import StaticShapeLike, TensorShape


class TypeSpec:
    """Type and shape of a kind of value."""

    __slots__ = ()

    @property
    def value_type(self) -> type:
        """The class of the values."""
        raise NotImplementedError

    def _parts(self) -> tuple[Any, ...]:
        raise NotImplementedError

    def __eq__(self, other: object) -> bool:
        return type(self) is type(other) and self._parts() == other._parts()

    def __hash__(self) -> int:
        return hash((type(self), self._parts()))

    def is_compatible_with(self, spec_or_value: object) -> bool:
        """Whether a value, or the values of another spec, match this spec."""
        other = spec_or_value if isinstance(spec_or_value, TypeSpec) else type_spec_of(spec_or_value)
        if type(other) is not type(self) or not isinstance(other, _ShapedSpec) or not isinstance(self, _ShapedSpec):
            return self == other
        return self.dtype is other.dtype and self.shape.is_compatible_with(other.shape)


class NoneTensorSpec(TypeSpec):
    """`tf.NoneTensorSpec`: the spec of None, which a dataset's element may contain."""

    __slots__ = ()

    @property
    def value_type(self) -> type:
        return type(None)

    def _parts(self) -> tuple[Any, ...]:
        return ()

    def __repr__(self) -> str:
        return "NoneTensorSpec()"


class _ShapedSpec(TypeSpec):
    """A spec of a shape and an element type."""

    __slots__ = ("_dtype", "_shape")

    def __init__(self, shape: StaticShapeLike | None = None, dtype: DTypeLike = dtypes.float32) -> None:
        self._shape = TensorShape(shape)
        self._dtype = dtypes.as_dtype(dtype)

    shape: TensorShape = read_only("_shape")
    dtype: dtypes.DType = read_only("_dtype")
    rank: int | None = read_only("_shape.rank")

    def _parts(self) -> tuple[Any, ...]:
        return self._shape.sizes, self._dtype


class TensorSpec(_ShapedSpec):
    """`tf.TensorSpec`: a tensor's shape and type."""

    __slots__ = ("_name",)

    def __init__(self, shape: StaticShapeLike, dtype: DTypeLike = dtypes.float32, name: str | None = None) -> None:
        super().__init__(shape, dtype)
        self._name = name

    @classmethod
    def from_spec(cls, spec: _ShapedSpec, name: str | None = None) -> TensorSpec:
        """The spec with the shape and type of another spec."""
        return cls(spec.shape, spec.dtype, name or getattr(spec, "name", None))

    @classmethod
    def from_tensor(cls, tensor: Tensor, name: str | None = None) -> TensorSpec:
        """The spec of a tensor.  Its default name is the operation's."""
        return cls(tensor.shape, tensor.dtype, name or tensor.op.name)

    name: str | None = read_only("_name")

    @property
    def value_type(self) -> type:
        return Tensor

    def _parts(self) -> tuple[Any, ...]:
        return (*super()._parts(), self._name)

    def __repr__(self) -> str:
        return f"TensorSpec(shape={self._shape}, dtype={self._dtype!r}, name={self._name!r})"


class SparseTensorSpec(_ShapedSpec):
    """`tf.SparseTensorSpec`: dense shape and type of a SparseTensor."""

    __slots__ = ()

    @property
    def value_type(self) -> type:
        return SparseTensor

    def __repr__(self) -> str:
        return f"SparseTensorSpec({self._shape!r}, {self._dtype!r})"


def type_spec_of(value: object) -> TypeSpec:
    """The spec of a value.  Raises TypeError or ValueError if the value can't become a tensor."""
    spec = getattr(value, "_type_spec", None)
    if isinstance(spec, TypeSpec):
        return spec
    if isinstance(value, SparseTensor):
        return SparseTensorSpec(value.shape, value.dtype)
    if isinstance(value, SparseTensorValue):
        return SparseTensorSpec(value.dense_shape, value.values.dtype)
    if not isinstance(value, Tensor):
        from placesim.tf1.ops.conversion import convert_to_tensor

        value = convert_to_tensor(value)
    return TensorSpec(value.shape, value.dtype)
