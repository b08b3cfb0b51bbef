"""`tf.IndexedSlices` and `tf.SparseTensor`, the composite tensors."""

from __future__ import annotations

from typing import Any, NamedTuple, TypeAlias

from placesim.tf1.graphs.graph import get_default_graph
from placesim.tf1.graphs.tensor import Operation, OwningGraph, Tensor
from placesim.tf1.graphs.tensor_likes import DTypeLike, TensorLike
from placesim.tf1.ops.conversion import convert_to_tensor, register_tensor_conversion_function
from placesim.tf1.types import dtypes
from placesim.tf1.types.read_only import read_only
from placesim.tf1.types.shapes import StaticShapeLike, TensorShape


class IndexedSlicesValue(NamedTuple):
    """The value of IndexedSlices, as arrays."""

    values: Any
    indices: Any
    dense_shape: Any = None


class SparseTensorValue(NamedTuple):
    """The value of a SparseTensor, as arrays."""

    indices: Any
    values: Any
    dense_shape: Any


class IndexedSlices:
    """Rows `values` at `indices` of a tensor that is zero elsewhere."""

    def __init__(self, values: Tensor, indices: Tensor, dense_shape: Tensor | None = None) -> None:
        self.values = values
        self.indices = indices
        self.dense_shape = dense_shape

    op: Operation = read_only("values.op")
    name: str = read_only("values.name")
    device: str = read_only("values.device")
    dtype: dtypes.DType = read_only("values.dtype")
    graph: OwningGraph = read_only("values.graph")

    @property
    def shape(self) -> TensorShape:
        from placesim.tf1.ops.constant_values import constant_value_as_shape

        return TensorShape(None) if self.dense_shape is None else constant_value_as_shape(self.dense_shape)

    def get_shape(self) -> TensorShape:
        """Static shape of the dense tensor."""
        return self.shape

    def __neg__(self) -> IndexedSlices:
        return IndexedSlices(-self.values, self.indices, self.dense_shape)

    def __str__(self) -> str:
        shape = "" if self.dense_shape is None else f", dense_shape={self.dense_shape}"
        return f"IndexedSlices(indices={self.indices}, values={self.values}{shape})"

    __repr__ = __str__


class SparseTensor:
    """Elements `values` at `indices` of a tensor of shape `dense_shape`."""

    __module__ = "tensorflow.python.framework.sparse_tensor"  # as it is printed

    def __init__(self, indices: TensorLike, values: TensorLike, dense_shape: TensorLike | None) -> None:
        self._static_shape: TensorShape | None = None
        with get_default_graph().name_scope("SparseTensor"):
            self._indices = convert_to_tensor(indices, dtypes.int64, "indices")
            self._values = convert_to_tensor(values, name="values")
            self._dense_shape = convert_to_tensor(dense_shape, dtypes.int64, "dense_shape")
        places, sizes = self._indices.shape.with_rank(2), self._dense_shape.shape.with_rank(1)
        places[0].assert_is_compatible_with(self._values.shape.with_rank(1)[0])
        places[1].assert_is_compatible_with(sizes[0])

    @classmethod
    def from_value(cls, value: Any) -> SparseTensor:
        """Convert a SparseTensorValue to a SparseTensor."""
        if isinstance(value, cls):
            return value
        if not isinstance(value, SparseTensorValue):
            raise TypeError(f"Argument sparse_tensor_value={value} is neither a SparseTensor nor SparseTensorValue.")
        return cls(*value)

    indices: Tensor = read_only("_indices")
    values: Tensor = read_only("_values")
    dense_shape: Tensor = read_only("_dense_shape")
    op: Operation = read_only("_values.op")
    name: str = read_only("_values.name")
    device: str = read_only("_values.device")
    dtype: dtypes.DType = read_only("_values.dtype")
    graph: OwningGraph = read_only("_indices.graph")

    @property
    def shape(self) -> TensorShape:
        from placesim.tf1.ops.constant_values import constant_value_as_shape

        if self._static_shape is None:
            self._static_shape = constant_value_as_shape(self._dense_shape)
        return self._static_shape

    def set_shape(self, shape: StaticShapeLike) -> None:
        """Refine the static shape.  Raises ValueError for a conflict."""
        self._static_shape = self.shape.merge_with(shape)

    def get_shape(self) -> TensorShape:
        """Static shape of the dense tensor."""
        return self.shape

    def with_values(self, new_values: TensorLike) -> SparseTensor:
        """Return a SparseTensor of other values at the same indices."""
        return SparseTensor(self._indices, new_values, self._dense_shape)

    def __mul__(self, other: object) -> SparseTensor:
        return self._combined("SparseDenseCwiseMul", "mul", other)

    def __truediv__(self, other: object) -> SparseTensor:
        return self._combined("SparseDenseCwiseDiv", "truediv", other)

    __div__ = __truediv__

    def _combined(self, op: str, name: str, other: object) -> SparseTensor:
        from placesim.tf1.graphs.default_graph_scopes import name_scope
        from placesim.tf1.ops.generated_functions import gen

        with name_scope(None, name, [self._indices, self._values, self._dense_shape, other]) as scope:
            other = convert_to_tensor(other, self.dtype.base_dtype, name="y")
            return self.with_values(gen(op)(self._indices, self._values, self._dense_shape, other, name=scope))

    def __str__(self) -> str:
        return f"SparseTensor(indices={self._indices}, values={self._values}, dense_shape={self._dense_shape})"

    __repr__ = __str__


SparseTensorLike: TypeAlias = SparseTensor | SparseTensorValue
"""Argument of `SparseTensor.from_value`."""


def _dense_slices(
    value: IndexedSlices, dtype: dtypes.DType | None = None, name: str | None = None, as_ref: bool = False
) -> Tensor:
    """Convert IndexedSlices to a dense tensor."""
    from placesim.tf1.ops.generated_functions import gen

    if dtype is not None and not dtype.is_compatible_with(value.dtype):
        raise ValueError(f"Tensor conversion requested dtype {dtype.name} for IndexedSlices with dtype {value.dtype.name}")
    if value.dense_shape is None:
        raise ValueError(
            "Tensor conversion requested for IndexedSlices for argument `value` without dense_shape: " + str(value)
        )
    rows = value.dense_shape[0]
    return gen("UnsortedSegmentSum")(value.values, value.indices, rows, name=name)  # type: ignore[no-any-return]


register_tensor_conversion_function(IndexedSlices, _dense_slices)


def convert_to_tensor_or_sparse_tensor(value: Any, dtype: DTypeLike | None = None, name: str | None = None) -> Any:
    """Convert a SparseTensorValue to a SparseTensor, other values to a tensor.  Raises RuntimeError for a wrong sparse type."""
    wanted = None if dtype is None else dtypes.as_dtype(dtype)
    if isinstance(value, SparseTensorValue):
        value = SparseTensor.from_value(value)
    if isinstance(value, SparseTensor):
        if wanted is not None and not wanted.is_compatible_with(value.dtype):
            raise RuntimeError(f"Sparse dtype mismatch. Requested: {wanted.name},  Actual: {value.dtype.name}")
        return value
    return convert_to_tensor(value, wanted, name)


def convert_to_tensor_or_indexed_slices(value: TensorLike, dtype: DTypeLike | None = None, name: str | None = None) -> Any:
    """Convert a value other than IndexedSlices and SparseTensors to a tensor.  Raises ValueError for a wrong type."""
    if isinstance(value, IndexedSlices | SparseTensor):
        wanted = None if dtype is None else dtypes.as_dtype(dtype)
        if wanted is not None and not wanted.is_compatible_with(value.dtype):
            raise ValueError(
                f"Incompatible tensor conversion requested to `dtype` {wanted.name} for `value` ({value}) with dtype "
                f"{value.dtype.name}."
            )
        return value
    return convert_to_tensor(value, dtype, name)
