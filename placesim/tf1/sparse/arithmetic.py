"""Ops on sparse tensors: `tf.sparse_*` and `tf.sparse.*`."""

from __future__ import annotations

from typing import Any

from placesim.tf1.graphs.default_graph_scopes import name_scope
from placesim.tf1.graphs.tensor_likes import ShapeLike, TensorLike
from placesim.tf1.importing.namespaces import namespace
from placesim.tf1.ops.conversion import convert_to_tensor
from placesim.tf1.ops.generated_functions import gen
from placesim.tf1.sparse.values import SparseTensor, SparseTensorLike, SparseTensorValue
from placesim.tf1.types import dtypes

tf = namespace("")


def sparse(value: object) -> SparseTensor:
    """Convert a sparse tensor or its value to a SparseTensor.  Raises TypeError for other values."""
    if isinstance(value, SparseTensor):
        return value
    if isinstance(value, tuple) and hasattr(value, "dense_shape"):
        return SparseTensor.from_value(value)
    raise TypeError("Input must be a SparseTensor.")


def _known_shape(of: SparseTensor) -> Any:
    """Dense shape if known."""
    return of.shape.as_list() if of.shape.is_fully_defined() else None


def parts(of: SparseTensorLike) -> tuple[Any, Any, Any]:
    """Indices, values and shape, as ops take them."""
    return of.indices, of.values, of.dense_shape


def sparse_tensor_dense_matmul(
    sp_a: Any, b: TensorLike, adjoint_a: bool = False, adjoint_b: bool = False, name: str | None = None
) -> Any:
    """`tf.sparse_tensor_dense_matmul`; for a dense times a sparse matrix, the transposed product is computed."""
    if isinstance(b, SparseTensor) and not isinstance(sp_a, SparseTensor):
        return tf.transpose(sparse_tensor_dense_matmul(b, sp_a, not adjoint_b, not adjoint_a))
    sp_a = sparse(sp_a)
    with name_scope(name, "SparseTensorDenseMatMul", [sp_a.indices, sp_a.values, b]):
        b = convert_to_tensor(b, name="b")
        return gen("SparseTensorDenseMatMul")(*parts(sp_a), b, adjoint_a=adjoint_a, adjoint_b=adjoint_b)


def sparse_to_dense(
    sparse_indices: object,
    output_shape: ShapeLike,
    sparse_values: object,
    default_value: object = 0,
    validate_indices: bool = True,
    name: str | None = None,
) -> Any:
    """`tf.sparse_to_dense`."""
    return gen("SparseToDense")(
        sparse_indices, output_shape, sparse_values, default_value, validate_indices=validate_indices, name=name
    )


def sparse_tensor_to_dense(
    sp_input: SparseTensorLike, default_value: object = None, validate_indices: bool = True, name: str | None = None
) -> Any:
    """`tf.sparse_tensor_to_dense`."""
    sp_input = sparse(sp_input)
    if default_value is None:
        default_value = tf.zeros([], dtype=sp_input.dtype)
    indices, values, shape = parts(sp_input)
    return sparse_to_dense(indices, shape, values, default_value, validate_indices, name)


def sparse_add(a: Any, b: Any, threshold: object = None, thresh: object = None) -> Any:
    """`tf.sparse_add`."""
    given = threshold if thresh is None else thresh
    if not isinstance(a, SparseTensor):
        a, b = b, a
    if not isinstance(a, SparseTensor | SparseTensorValue):
        raise TypeError("At least one input should be SparseTensor; do you mean to use tf.add()?")
    a = sparse(a)
    if not isinstance(b, SparseTensor):
        return gen("SparseTensorDenseAdd")(*parts(a), b)
    kind = a.dtype.real_dtype.base_dtype
    limit = convert_to_tensor(0 if given is None else given, kind, name="threshold")
    shapes = _known_shape(a), _known_shape(b)
    indices, values, shape = gen("SparseAdd")(*parts(a), *parts(b), limit)
    known = shapes[0] if shapes[0] is not None else shapes[1]
    return SparseTensor(indices, values, shape if known is None else known)


def _reduction(op: str, name: str) -> Any:
    def reduction(
        sp_input: SparseTensorLike,
        axis: TensorLike | None = None,
        keepdims: bool | None = None,
        reduction_axes: TensorLike | None = None,
        keep_dims: bool | None = None,
    ) -> Any:
        sp_input = sparse(sp_input)
        axis = reduction_axes if axis is None else axis
        if axis is None:
            axis = _all_axes(sp_input)
        kept = bool(keep_dims if keepdims is None else keepdims)
        return gen(op)(*parts(sp_input), axis, keep_dims=kept)

    reduction.__name__ = reduction.__qualname__ = name
    return reduction


def _all_axes(of: SparseTensor) -> Any:
    rank = of.shape.rank
    return tf.range(gen("Size")(of.dense_shape, name="Rank")) if rank is None else tf.constant(list(range(rank)), dtypes.int32)


def _sparse_reduction(op: str, name: str) -> Any:
    reduce = _reduction(op, name)

    def reduction(
        sp_input: object,
        axis: TensorLike | None = None,
        keepdims: bool | None = None,
        reduction_axes: object = None,
        keep_dims: bool | None = None,
    ) -> SparseTensor:
        return SparseTensor(*reduce(sp_input, axis, keepdims, reduction_axes, keep_dims))

    reduction.__name__ = reduction.__qualname__ = name
    return reduction


sparse_reduce_sum_sparse = _sparse_reduction("SparseReduceSumSparse", "sparse_reduce_sum_sparse")
sparse_reduce_max_sparse = _sparse_reduction("SparseReduceMaxSparse", "sparse_reduce_max_sparse")
sparse_reduce_sum = _reduction("SparseReduceSum", "sparse_reduce_sum")
sparse_reduce_max = _reduction("SparseReduceMax", "sparse_reduce_max")


def sparse_reorder(sp_input: SparseTensorLike, name: str | None = None) -> SparseTensor:
    """`tf.sparse_reorder`."""
    sp_input = sparse(sp_input)
    indices, values = gen("SparseReorder")(*parts(sp_input), name=name)
    known = _known_shape(sp_input)
    return SparseTensor(indices, values, tf.identity(sp_input.dense_shape) if known is None else known)


def sparse_softmax(sp_input: SparseTensorLike, name: str | None = None) -> SparseTensor:
    """`tf.sparse_softmax`."""
    with name_scope(name, "SparseSoftmax", [sp_input.indices, sp_input.values]):
        found = gen("SparseSoftmax")(*parts(sp_input))
        return SparseTensor(sp_input.indices, found, sp_input.dense_shape)


def sparse_slice(sp_input: SparseTensorLike, start: TensorLike, size: TensorLike, name: str | None = None) -> SparseTensor:
    """`tf.sparse_slice`."""
    sp_input = sparse(sp_input)
    start, size = convert_to_tensor(start, dtypes.int64), convert_to_tensor(size, dtypes.int64)
    with name_scope(name, "SparseSlice", [sp_input]) as scope:
        return SparseTensor(*gen("SparseSlice")(*parts(sp_input), start, size, name=scope))


def sparse_fill_empty_rows(sp_input: SparseTensorLike, default_value: TensorLike, name: str | None = None) -> Any:
    """`tf.sparse_fill_empty_rows`."""
    sp_input = sparse(sp_input)
    with name_scope(name, "SparseFillEmptyRows", [sp_input]):
        default_value = convert_to_tensor(default_value, sp_input.dtype)
        indices, values, empty, _ = gen("SparseFillEmptyRows")(*parts(sp_input), default_value)
        return SparseTensor(indices, values, sp_input.dense_shape), empty


def _extreme(op: str, name: str) -> Any:
    def extreme(sp_a: SparseTensorLike, sp_b: SparseTensorLike, name: str | None = None) -> SparseTensor:
        with name_scope(name, op, [sp_a.indices, sp_a.values, sp_b.indices, sp_b.values]) as scope:
            indices, values = gen(op)(*parts(sp_a), *parts(sp_b), name=scope)
        return SparseTensor(indices, values, sp_a.dense_shape)

    extreme.__name__ = extreme.__qualname__ = name
    return extreme


sparse_maximum = _extreme("SparseSparseMaximum", "sparse_maximum")
sparse_minimum = _extreme("SparseSparseMinimum", "sparse_minimum")
