"""Sets along the last dimension of dense or sparse tensors: sizes, unions, intersections and differences."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

import numpy as np

from placesim.core.dtypes import INT32
from placesim.core.errors import InternalError, InvalidArgumentError
from placesim.ops.attributes import Attrs
from placesim.ops.kernels.kernel import Compute, Kernel, Table, Tensor, as_many_as
from placesim.ops.kernels.shapes import (
    Dims,
    ShapeContext,
    ShapeError,
    merge,
    unknown_shape,
    with_rank,
    with_rank_at_least,
    with_value,
)
from placesim.ops.kernels.sparse.tensors import (
    SparseArray,
    check_indices,
    dense_shape,
    groups,
    make_sparse_tensor,
    merge_sparse_rank,
    pair_groups,
)
from placesim.ops.process.memory_limit import check_room

_Group = tuple[int, ...]
_Pairs = Iterable[tuple[_Group, set[Any], set[Any]]]
"""Each group (the coordinates before the last dimension) with the sets of both operands."""

_OPERATIONS: dict[str, Callable[[set[Any], set[Any]], set[Any]]] = {
    "a-b": lambda a, b: a - b,
    "b-a": lambda a, b: b - a,
    "intersection": lambda a, b: a & b,
    "union": lambda a, b: a | b,
}


def _read_sparse(parts: Sequence[Tensor], attrs: Attrs) -> SparseArray:
    """Return a sparse tensor from its parts. Raises InvalidArgumentError if they do not fit or the rank is below 2."""
    indices, values, dims = parts
    if dims.ndim != 1:
        raise InvalidArgumentError("Shape must be a 1D tensor.")
    dense_shape(dims.tolist())
    if len(dims) < 2:
        raise InvalidArgumentError(f"Invalid rank {len(dims)}.")
    tensor = make_sparse_tensor(indices, values, dims)
    if attrs["validate_indices"]:
        check_indices(indices, tensor.shape)
    return tensor


def _members(group: SparseArray | None) -> set[Any]:
    """Return the set of a group's entries, empty for None. Raises InternalError for an index that is too large."""
    if group is None:
        return set()
    for axis, dim in enumerate(group.shape):
        if dim == 0:
            raise InternalError(f"Invalid dim_size[{axis}] = 0.")
        # TensorFlow does not check for a negative index
        outside = group.indices[:, axis] >= dim
        if outside.any():
            row = int(np.argmax(outside))
            raise InternalError(f"indices[{row}, {axis}] expected < {dim}, got {group.indices[row, axis]}.")
    return set(group.values.tolist())


def _group_shape(one: Sequence[int], two: Sequence[int]) -> tuple[int, ...]:
    for shape in (one, two):
        if len(shape) < 2:
            raise InvalidArgumentError(f"Shape [{','.join(map(str, shape))}] has rank {len(shape)} < 2")
    a, b = tuple(one[:-1]), tuple(two[:-1])
    if a != b:
        raise InvalidArgumentError(f"Mismatched shapes [{','.join(map(str, a))}] vs [{','.join(map(str, b))}]")
    return a


def _build_operation(read: Callable[[Sequence[Tensor], Attrs], tuple[tuple[int, ...], _Pairs]]) -> Compute:
    """Return the kernel of a set operation on the two sets of each group, which `read` returns; each result is sorted."""

    def compute(inputs: Sequence[Tensor], attrs: Attrs) -> Sequence[Tensor]:
        # TensorFlow ignores the name's case, and shows it in lower case
        operation = _OPERATIONS.get(attrs["set_operation"].lower())
        if operation is None:
            raise InvalidArgumentError(f"Invalid set_operation {attrs['set_operation'].lower()}.")
        shape, pairs = read(inputs, attrs)
        found = [(group, sorted(operation(a, b))) for group, a, b in pairs]
        return _sparse_output(found, shape, attrs)

    return compute


def _sparse_output(found: Sequence[tuple[_Group, list[Any]]], shape: tuple[int, ...], attrs: Attrs) -> Sequence[Tensor]:
    rows = [(*group, position) for group, members in found for position in range(len(members))]
    flat = [member for _, members in found for member in members]
    values = np.empty(len(flat), attrs["T"].numpy)
    values[:] = flat
    widest = max((len(members) for _, members in found), default=0)
    indices = np.array(rows, np.int64).reshape(len(rows), len(shape) + 1)
    return indices, values, np.array((*shape, widest), np.int64)


def _read_dense_dense(inputs: Sequence[Tensor], attrs: Attrs) -> tuple[tuple[int, ...], _Pairs]:
    a, b = inputs
    shape = _group_shape(a.shape, b.shape)
    return shape, ((group, set(a[group].tolist()), set(b[group].tolist())) for group in np.ndindex(shape))


def _read_dense_sparse(inputs: Sequence[Tensor], attrs: Attrs) -> tuple[tuple[int, ...], _Pairs]:
    """Return the groups' shape, and the two sets of each group."""
    dense, tensor = inputs[0], _read_sparse(inputs[1:], attrs)
    shape = _group_shape(dense.shape, tensor.shape)

    def pairs() -> _Pairs:
        waiting = groups(tensor)
        following = next(waiting, None)
        for group in np.ndindex(shape):
            # TensorFlow compares with the next sparse group only; a group out of order stays the next, and hides later groups
            members: set[Any] = set()
            if following and following[0] == group:
                members = _members(following[1])
                following = next(waiting, None)
            yield group, set(dense[group].tolist()), members

    return shape, pairs()


def _read_sparse_sparse(inputs: Sequence[Tensor], attrs: Attrs) -> tuple[tuple[int, ...], _Pairs]:
    a, b = _read_sparse(inputs[:3], attrs), _read_sparse(inputs[3:], attrs)
    shape = _group_shape(a.shape, b.shape)
    return shape, ((group, _members(one), _members(two)) for group, one, two in pair_groups(a, b))


def count_members(inputs: Sequence[Tensor], attrs: Attrs) -> Sequence[Tensor]:
    """Return the size of each group's set, as int32; the output has the input's shape without its last dimension.

    Raises InvalidArgumentError if the parts do not fit, the rank is below 2, or with `validate_indices` rows are not valid and
    in order; InternalError for an index that is too large.
    """
    tensor = _read_sparse(inputs, attrs)
    check_room(tensor.shape[:-1], INT32)
    sizes = np.zeros(tensor.shape[:-1], np.int32)
    for group, entries in groups(tensor):
        sizes[group] = len(_members(entries))
    return (sizes,)


# --- shape functions ------------------------------------------------------------------------------------------------


def _sparse_result(rank: int) -> Sequence[Dims]:
    return (-1, rank), (-1,), (rank,)


def _infer_dense_dense(context: ShapeContext) -> Sequence[Dims]:
    one, two = with_rank_at_least(context.shapes[0], 2), context.shapes[1]
    if one is None:
        two = with_rank_at_least(two, 2)
        return _sparse_result(-1 if two is None else len(two))
    if two is not None:
        merge(one[:-1], with_rank(two, len(one))[:-1])
    return _sparse_result(len(one))


def _infer_dense_sparse(context: ShapeContext) -> Sequence[Dims]:
    rank = merge_sparse_rank(*context.shapes[1:4])
    one = with_rank_at_least(context.shapes[0], 2)
    return _sparse_result(rank if one is None else with_value(rank, len(one)))


def _infer_sparse_sparse(context: ShapeContext) -> Sequence[Dims]:
    one, two = merge_sparse_rank(*context.shapes[:3]), merge_sparse_rank(*context.shapes[3:])
    # if the first operand's rank is known, the second operand's rank is only compared with it
    for position, rank in enumerate((one, two)):
        if rank < 0:
            continue
        if rank < 2:
            raise ShapeError(f"Input {position}, expected rank >= 2, got {rank}.")
        if position == 0:
            with_value(two, rank)
        return _sparse_result(rank)
    return _sparse_result(-1)


TABLE: Table = {
    "DenseToDenseSetOperation": Kernel(_build_operation(_read_dense_dense), _infer_dense_dense, guess=as_many_as(0, 1)),
    "DenseToSparseSetOperation": Kernel(_build_operation(_read_dense_sparse), _infer_dense_sparse, guess=as_many_as(0, 2)),
    "SetSize": Kernel(count_members, unknown_shape),
    "SparseToSparseSetOperation": Kernel(_build_operation(_read_sparse_sparse), _infer_sparse_sparse, guess=as_many_as(1, 4)),
}
