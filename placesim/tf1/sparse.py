"""Ops on sparse tensors: `tf.sparse_*` and `tf.sparse.*`."""

from __future__ import annotations

import math
from typing import Any

from placesim.tf1 import dtypes
from placesim.tf1.constant_values import constant_value
from placesim.tf1.conversion import convert_to_tensor
from placesim.tf1.generated import gen
from placesim.tf1.namespaces import namespace
from placesim.tf1.scopes import name_scope
from placesim.tf1.sparse_values import SparseTensor

tf: Any = namespace("")


def _sparse(value: Any) -> SparseTensor:
    """Raises TypeError for what is no sparse tensor."""
    if isinstance(value, SparseTensor):
        return value
    if isinstance(value, tuple) and hasattr(value, "dense_shape"):
        return SparseTensor.from_value(value)
    raise TypeError("Input must be a SparseTensor.")


def _known_shape(of: SparseTensor) -> Any:
    """The dense shape where it is known."""
    value = constant_value(of.dense_shape)
    return None if value is None else [int(size) for size in value]


def _parts(of: SparseTensor) -> tuple[Any, Any, Any]:
    return of.indices, of.values, of.dense_shape


def sparse_tensor_dense_matmul(
    sp_a: Any, b: Any, adjoint_a: bool = False, adjoint_b: bool = False, name: str | None = None
) -> Any:
    """`tf.sparse_tensor_dense_matmul`."""
    sp_a = _sparse(sp_a)
    with name_scope(name, "SparseTensorDenseMatMul", [sp_a.indices, sp_a.values, b]):
        b = convert_to_tensor(b, name="b")
        return gen("SparseTensorDenseMatMul")(*_parts(sp_a), b, adjoint_a=adjoint_a, adjoint_b=adjoint_b)


def sparse_to_dense(
    sparse_indices: Any,
    output_shape: Any,
    sparse_values: Any,
    default_value: Any = 0,
    validate_indices: bool = True,
    name: str | None = None,
) -> Any:
    """`tf.sparse_to_dense`."""
    return gen("SparseToDense")(
        sparse_indices, output_shape, sparse_values, default_value, validate_indices=validate_indices, name=name
    )


def sparse_tensor_to_dense(
    sp_input: Any, default_value: Any = None, validate_indices: bool = True, name: str | None = None
) -> Any:
    """`tf.sparse_tensor_to_dense`."""
    sp_input = _sparse(sp_input)
    if default_value is None:
        default_value = tf.zeros([], dtype=sp_input.dtype)
    indices, values, shape = _parts(sp_input)
    return sparse_to_dense(indices, shape, values, default_value, validate_indices, name)


def sparse_add(a: Any, b: Any, threshold: Any = None, thresh: Any = None) -> Any:
    """`tf.sparse_add`."""
    given = threshold if thresh is None else thresh
    if not isinstance(a, SparseTensor):
        a, b = b, a
    a = _sparse(a)
    if not isinstance(b, SparseTensor):
        return gen("SparseTensorDenseAdd")(*_parts(a), b)
    kind = a.dtype.real_dtype.base_dtype
    limit = convert_to_tensor(0 if given is None else given, kind, name="threshold")
    shapes = _known_shape(a), _known_shape(b)
    indices, values, shape = gen("SparseAdd")(*_parts(a), *_parts(b), limit)
    known = shapes[0] if shapes[0] is not None else shapes[1]
    return SparseTensor(indices, values, shape if known is None else known)


def _reduction(op: str, name: str) -> Any:
    def reduction(
        sp_input: Any, axis: Any = None, keepdims: Any = None, reduction_axes: Any = None, keep_dims: Any = None
    ) -> Any:
        sp_input = _sparse(sp_input)
        axis = reduction_axes if axis is None else axis
        if axis is None:
            rank = sp_input.shape.rank
            axis = tf.range(gen("Size")(sp_input.dense_shape)) if rank is None else tf.constant(list(range(rank)), dtypes.int32)
        kept = bool(keep_dims if keepdims is None else keepdims)
        return gen(op)(*_parts(sp_input), axis, keep_dims=kept)

    reduction.__name__ = reduction.__qualname__ = name
    return reduction


sparse_reduce_sum = _reduction("SparseReduceSum", "sparse_reduce_sum")
sparse_reduce_max = _reduction("SparseReduceMax", "sparse_reduce_max")


def sparse_reorder(sp_input: Any, name: str | None = None) -> SparseTensor:
    """`tf.sparse_reorder`."""
    sp_input = _sparse(sp_input)
    indices, values = gen("SparseReorder")(*_parts(sp_input), name=name)
    known = _known_shape(sp_input)
    return SparseTensor(indices, values, tf.identity(sp_input.dense_shape) if known is None else known)


def sparse_softmax(sp_input: Any, name: str | None = None) -> SparseTensor:
    """`tf.sparse_softmax`."""
    with name_scope(name, "SparseSoftmax", [sp_input.indices, sp_input.values]):
        found = gen("SparseSoftmax")(*_parts(sp_input))
        return SparseTensor(sp_input.indices, found, sp_input.dense_shape)


def sparse_slice(sp_input: Any, start: Any, size: Any, name: str | None = None) -> SparseTensor:
    """`tf.sparse_slice`."""
    sp_input = _sparse(sp_input)
    start, size = convert_to_tensor(start, dtypes.int64), convert_to_tensor(size, dtypes.int64)
    with name_scope(name, "SparseSlice", [sp_input]) as scope:
        return SparseTensor(*gen("SparseSlice")(*_parts(sp_input), start, size, name=scope))


def sparse_fill_empty_rows(sp_input: Any, default_value: Any, name: str | None = None) -> Any:
    """`tf.sparse_fill_empty_rows`."""
    sp_input = _sparse(sp_input)
    with name_scope(name, "SparseFillEmptyRows", [sp_input]):
        default_value = convert_to_tensor(default_value, sp_input.dtype)
        indices, values, empty, _ = gen("SparseFillEmptyRows")(*_parts(sp_input), default_value)
        return SparseTensor(indices, values, sp_input.dense_shape), empty


def sparse_reshape(sp_input: Any, shape: Any, name: str | None = None) -> SparseTensor:
    """`tf.sparse_reshape`."""
    sp_input = _sparse(sp_input)
    shape = tf.cast(shape, dtype=dtypes.int64)
    with name_scope(name, "SparseReshape", [sp_input]) as scope:
        indices, reshaped = gen("SparseReshape")(sp_input.indices, sp_input.dense_shape, shape, name=scope)
        known = sp_input.shape.as_list() if sp_input.shape.is_fully_defined() else None
        sizes = _reshaped_sizes(known, constant_value(shape))
        if sizes is not None:
            reshaped = tf.constant(sizes, dtype=dtypes.int64)
        return SparseTensor(indices, tf.identity(sp_input.values), reshaped)


def _reshaped_sizes(given: Any, wanted: Any) -> list[int] | None:
    """The sizes that are asked for, with what -1 stands for; None where this is not known.  Raises ValueError."""
    if wanted is None:
        return None
    sizes = [int(size) for size in wanted]
    if sizes.count(-1) > 1:
        raise ValueError(f"At most one dimension can be inferred (-1). Found: {wanted}")
    if given is None:
        return None if -1 in sizes else sizes
    total = math.prod(given)
    if -1 in sizes:
        sizes[sizes.index(-1)] = total // math.prod(size for size in sizes if size != -1)
    if math.prod(sizes) != total:
        raise ValueError(f"Cannot reshape a tensor with {total} elements to shape {sizes} ({math.prod(sizes)} elements).")
    return sizes


def sparse_retain(sp_input: Any, to_retain: Any) -> SparseTensor:
    """`tf.sparse_retain`."""
    sp_input = _sparse(sp_input)
    to_retain = convert_to_tensor(to_retain)
    known = sp_input.values.shape
    if known.rank is not None and known.as_list()[0] is not None:
        known.dims[0].assert_is_compatible_with(to_retain.shape.with_rank_at_least(1).dims[0])
    places = tf.reshape(tf.where(to_retain), [-1])
    indices = tf.gather(sp_input.indices, places)
    return SparseTensor(indices, tf.gather(sp_input.values, places), tf.identity(sp_input.dense_shape))


def _extreme(op: str, name: str) -> Any:
    def extreme(sp_a: Any, sp_b: Any, name: str | None = None) -> SparseTensor:
        with name_scope(name, op, [sp_a.indices, sp_a.values, sp_b.indices, sp_b.values]) as scope:
            indices, values = gen(op)(*_parts(sp_a), *_parts(sp_b), name=scope)
            return SparseTensor(indices, values, sp_a.dense_shape)

    extreme.__name__ = extreme.__qualname__ = name
    return extreme


sparse_maximum = _extreme("SparseSparseMaximum", "sparse_maximum")
sparse_minimum = _extreme("SparseSparseMinimum", "sparse_minimum")
