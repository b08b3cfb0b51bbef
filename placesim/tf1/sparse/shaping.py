"""Concatenate, reshape, split, transpose and mask sparse tensors."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import Any

import numpy as np

from placesim.tf1.graphs.default_graph_scopes import name_scope
from placesim.tf1.graphs.grouping import with_dependencies
from placesim.tf1.graphs.tensor_likes import ShapeLike, TensorLike
from placesim.tf1.importing.namespaces import namespace
from placesim.tf1.ops.arguments import renamed
from placesim.tf1.ops.constant_values import constant_value
from placesim.tf1.ops.conversion import constant
from placesim.tf1.ops.generated_functions import gen
from placesim.tf1.sparse.arithmetic import parts, sparse, sparse_reorder
from placesim.tf1.sparse.values import IndexedSlices, SparseTensor, SparseTensorLike
from placesim.tf1.types import dtypes

tf = namespace("")


def sparse_concat(
    axis: Any,
    sp_inputs: Sequence[SparseTensorLike],
    name: str | None = None,
    expand_nonconcat_dim: bool = False,
    concat_dim: object = None,
    expand_nonconcat_dims: Any = None,
) -> SparseTensor:
    """`tf.sparse.concat`; with `expand_nonconcat_dim`, the other dimensions get the largest of their sizes."""
    # the old name has a default value, so the new one always fails, as in TensorFlow
    expand_nonconcat_dim = renamed("expand_nonconcat_dims", expand_nonconcat_dims, "expand_nonconcat_dim", expand_nonconcat_dim)
    axis = renamed("axis", axis, "concat_dim", concat_dim)
    tensors = [sparse(value) for value in sp_inputs]
    if len(tensors) == 1:
        return tensors[0]
    shapes: list[Any] = [tensor.dense_shape for tensor in tensors]
    if expand_nonconcat_dim:
        shapes = _widened(shapes, axis)
    indices, values, shape = gen("SparseConcat")(
        [tensor.indices for tensor in tensors], [tensor.values for tensor in tensors], shapes, axis, name=name
    )
    known = [tensor.shape for tensor in tensors]
    if all(one.is_fully_defined() for one in known):
        sizes = known[0].as_list()
        if expand_nonconcat_dim:
            sizes = [max(one.as_list()[i] or 0 for one in known) for i in range(len(sizes))]
        sizes[axis] = sum(one.as_list()[axis] or 0 for one in known)
        shape = constant(sizes, dtypes.int64)
    return SparseTensor(indices, values, shape)


def _widened(shapes: list[Any], axis: int) -> list[Any]:
    """Replace sizes by the largest ones, except along the axis."""
    most = tf.reduce_max(tf.concat([tf.reshape(shape, [1, -1]) for shape in shapes], 0), 0)
    if axis == -1:
        return [tf.concat([most[:-1], shape[-1:], []], axis=0) for shape in shapes]
    return [tf.concat([most[:axis], shape[axis : axis + 1], most[axis + 1 :]], axis=0) for shape in shapes]


def sparse_reshape(sp_input: SparseTensorLike, shape: ShapeLike, name: str | None = None) -> SparseTensor:
    """`tf.sparse.reshape`: one size may be -1.  Raises ValueError for another number of elements."""
    sp_input = sparse(sp_input)
    wanted = tf.cast(shape, dtypes.int64)
    with name_scope(name, "SparseReshape", [sp_input]) as scope:
        indices, dims = gen("SparseReshape")(sp_input.indices, sp_input.dense_shape, wanted, name=scope)
        spelled = constant_value(wanted)
        if spelled is not None and sp_input.shape.is_fully_defined():
            dims = constant(_fitting(sp_input.shape.as_list(), [int(size) for size in spelled]), dtypes.int64)
        return SparseTensor(indices, tf.identity(sp_input.values), dims)


def _fitting(sizes: Sequence[Any], wanted: list[int]) -> list[int]:
    """Requested sizes with -1 replaced by the remainder.  Raises ValueError."""
    if wanted.count(-1) > 1:
        raise ValueError(f"At most one dimension can be inferred (-1). Found: {np.array(wanted)}")
    elements = prod(sizes)
    others = prod(size for size in wanted if size != -1)
    if (others == 0 or elements % others) if -1 in wanted else elements != others:
        shown = [None if size == -1 else size for size in wanted]
        raise ValueError(f"Cannot reshape a tensor with {elements} elements to shape {shown} ({others} elements).")
    return [elements // others if size == -1 else size for size in wanted]


def sparse_reset_shape(sp_input: SparseTensorLike, new_shape: ShapeLike | None = None) -> SparseTensor:
    """`tf.sparse.reset_shape`: the smallest possible shape, or a given one.  Raises ValueError if that is too small."""
    sp_input = sparse(sp_input)
    indices, values, old = (tf.identity(part) for part in parts(sp_input))
    if new_shape is None:
        last = tf.reduce_max(indices, axis=0)
        return SparseTensor(indices, values, tf.maximum(constant(0, dtypes.int64), tf.add(last, tf.ones_like(old))))
    wanted = tf.convert_to_tensor(new_shape)
    wanted.shape.assert_has_rank(1)
    wanted = tf.cast(wanted, dtypes.int64)
    wanted.shape.dims[0].assert_is_compatible_with((old.shape.dims or [None])[0])
    spelled = constant_value(wanted)
    if spelled is not None and sp_input.shape.is_fully_defined():
        sizes = np.array(sp_input.shape.as_list())
        if not np.all(sizes <= spelled):
            raise ValueError(
                f"Requested new_shape should have dimension sizes >= sp_input.shape.  Found new_shape ({sizes}), "
                f"sp_input.shape ({spelled})."
            )
        return SparseTensor(indices, values, [int(size) for size in spelled])
    wanted = with_dependencies([tf.assert_equal(tf.shape(old), tf.shape(wanted))], wanted)
    wanted = with_dependencies([tf.assert_less_equal(old, wanted)], wanted)
    return SparseTensor(indices, values, wanted)


def sparse_retain(sp_input: SparseTensorLike, to_retain: object) -> SparseTensor:
    """`tf.sparse.retain`: the selected elements."""
    sp_input = sparse(sp_input)
    chosen = tf.convert_to_tensor(to_retain)
    count = chosen.shape.with_rank(1)[0]
    if sp_input.values.shape.dims is not None:
        sp_input.values.shape.dims[0].assert_is_compatible_with(count)
    places = tf.reshape(tf.where_v2(chosen), [-1])
    indices, values = tf.gather(sp_input.indices, places), tf.gather(sp_input.values, places)
    return SparseTensor(indices, values, tf.identity(sp_input.dense_shape))


def sparse_split(
    keyword_required: object = None,
    sp_input: SparseTensorLike | None = None,
    num_split: int | None = None,
    axis: int | None = None,
    name: str | None = None,
    split_dim: object = None,
) -> list[SparseTensor]:
    """`tf.sparse.split`: equal parts along an axis.  Only keyword arguments are allowed."""
    if keyword_required is not None:
        raise ValueError("Keyword arguments are required for this function.")
    for word, value in (("sp_input", sp_input), ("num_split", num_split)):
        if value is None:
            raise ValueError(f"{word} is required")
    axis = renamed("axis", axis, "split_dim", split_dim)
    if axis is None:
        raise ValueError("axis is required")
    indices, values, shapes = gen("SparseSplit")(axis, *parts(sparse(sp_input)), num_split, name=name)
    return [SparseTensor(*found) for found in zip(indices, values, shapes, strict=True)]


def sparse_transpose(sp_input: SparseTensor, perm: TensorLike | None = None, name: str | None = None) -> SparseTensor:
    """`tf.sparse.transpose`."""
    with name_scope(name, "SparseTranspose", [sp_input]):
        rank = sp_input.shape.rank
        if perm is None:
            if rank is not None:
                perm = np.arange(rank)[::-1]
            else:
                count = gen("Size")(sp_input.dense_shape, name="Rank")
                perm = (count - 1) - tf.range(0, count, 1)
        indices = tf.transpose(tf.gather(tf.transpose(sp_input.indices), perm))
        order = constant_value(tf.convert_to_tensor(perm))
        shape: Any
        if order is not None and sp_input.shape.is_fully_defined():
            sizes = sp_input.shape.as_list()
            shape = [sizes[axis] for axis in order]
        else:
            shape = tf.gather(sp_input.dense_shape, perm)
        return sparse_reorder(SparseTensor(indices, sp_input.values, shape))


def sparse_expand_dims(sp_input: SparseTensor, axis: Any = None, name: str | None = None) -> SparseTensor:
    """`tf.sparse.expand_dims`."""
    axis = -1 if axis is None else axis
    with name_scope(name, "expand_dims", [sp_input]):
        rank = sp_input.shape.rank
        axis = tf.convert_to_tensor(axis, name="axis")
        is_positive = tf.greater_equal(axis, 0)
        if rank is None:
            raise ValueError("Cannot convert unknown Dimension ? to a Tensor.")
        axis = tf.where_v2(is_positive, axis, axis + rank + 1)
        column = tf.zeros([tf.shape(sp_input.indices)[0], 1], dtypes.int64)
        before = tf.slice(sp_input.indices, [0, 0], [-1, axis])
        after = tf.slice(sp_input.indices, [0, axis], [-1, -1])
        indices = tf.concat([before, column, after], axis=1)
        outer = tf.slice(sp_input.dense_shape, [0], [axis])
        inner = tf.slice(sp_input.dense_shape, [axis], [-1])
        shape = tf.concat([outer, tf.constant([1], dtypes.int64, name="new_shape"), inner], axis=0)
        return SparseTensor(indices, sp_input.values, shape)


def sparse_mask(a: IndexedSlices, mask_indices: TensorLike, name: str | None = None) -> IndexedSlices:
    """`tf.sparse_mask`: remove the slices at some indices."""
    with name_scope(name, "sparse_mask", [a, mask_indices]) as scope:
        kept, places = gen("ListDiff")(a.indices, mask_indices, dtypes.int32)
        values = tf.gather(a.values, places, name=scope)
        return IndexedSlices(values, kept, a.dense_shape)
