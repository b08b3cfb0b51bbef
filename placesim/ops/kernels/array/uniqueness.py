"""Unique and UniqueWithCounts; and ListDiff, the elements of a vector that another vector lacks.

Distinct values are in the order of their first appearance. A NaN equals nothing; 0.0 equals -0.0.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import partial
from typing import Any

import numpy as np

from placesim.core.errors import InvalidArgumentError
from placesim.ops.attributes import Attrs
from placesim.ops.kernels.kernel import Kernel, Table, Tensor, Trait, as_many_as, elements
from placesim.ops.kernels.memory_rules import allocates
from placesim.ops.kernels.shapes import Dims, ShapeContext, ShapeError, infer_by, unknown_dims, with_rank


def first_appearances(keys: Tensor) -> tuple[Tensor, Tensor]:
    """Number the distinct rows of a matrix: (the row at which each first appears, for each row its number)."""
    if keys.dtype == object or keys.shape[1] != 1:
        return _numbered(map(tuple, keys.tolist()))
    _, first, numbers = np.unique(_comparable(keys[:, 0]), return_index=True, return_inverse=True, equal_nan=False)
    order = np.argsort(first)
    rank = np.empty_like(order)
    rank[order] = np.arange(order.size)
    return first[order], rank[numbers]


def _comparable(values: Tensor) -> Tensor:
    """Convert values to a type that numpy can sort."""
    return values.astype(np.float32) if values.dtype.kind == "V" or values.dtype.num > 255 else values


def _numbered(keys: Iterable[Any]) -> tuple[Tensor, Tensor]:
    numbers: dict[Any, int] = {}
    first: list[int] = []
    found: list[int] = []
    for position, key in enumerate(keys):
        number = numbers.setdefault(key, len(numbers))
        if number == len(first):
            first.append(position)
        found.append(number)
    return np.array(first, np.intp), np.array(found, np.intp)


def find_unique(tensor: Tensor, axis: int, attrs: Attrs) -> tuple[Tensor, Tensor, Tensor]:
    """(the distinct slices along an axis, for each slice its position among these, the count of each distinct slice)."""
    rows = np.moveaxis(tensor, axis, 0)
    first, numbers = first_appearances(rows.reshape(rows.shape[0], elements(rows.shape[1:])))
    dtype = attrs["out_idx"].numpy
    counts = np.bincount(numbers, minlength=first.size).astype(dtype)
    return np.moveaxis(rows[first], 0, axis), numbers.astype(dtype), counts


def unique(inputs: Sequence[Tensor], attrs: Attrs, outputs: int, has_axis: bool) -> Sequence[Tensor]:
    """Return the first `outputs` results of `find_unique`, for a vector or for slices along an axis.

    With `has_axis` the axis is a second input, a vector of at most one element. Raises InvalidArgumentError if there is no axis
    and the input is not a vector, and for an axis that is not such a vector or out of range.
    """
    axis = _unique_axis(inputs[0], inputs[1] if has_axis else np.zeros(0, np.int32))
    return find_unique(inputs[0], axis, attrs)[:outputs]


def _unique_axis(tensor: Tensor, axis: Tensor) -> int:
    if axis.ndim != 1:
        raise InvalidArgumentError("axis expects a 1D vector.")
    if axis.size > 1:
        raise InvalidArgumentError("axis does not support input tensors larger than 1 elements")
    if not axis.size and tensor.ndim != 1:
        raise InvalidArgumentError("unique expects a 1D vector.")
    # an empty tensor as axis means a vector's only axis
    found = int(axis[0]) if axis.size else 0
    if not -tensor.ndim <= found < tensor.ndim:
        # TensorFlow accepts negative axes, despite its message
        raise InvalidArgumentError(f"axis has to be between [0, {tensor.ndim})")
    return found % tensor.ndim


def list_difference(inputs: Sequence[Tensor], attrs: Attrs) -> Sequence[Tensor]:
    """ListDiff: (the elements of `x [n]` that are not in `y [m]`; their positions in x). Order and repeats are kept.

    Raises InvalidArgumentError for inputs that are not vectors.
    """
    values, excluded = inputs
    for name, tensor in (("x", values), ("y", excluded)):
        if tensor.ndim != 1:
            raise InvalidArgumentError(f"{name} should be a 1D vector.")
    if values.dtype == object:
        without = set(excluded.tolist())
        is_kept = np.array([value not in without for value in values.tolist()], bool)
    else:
        is_kept = ~np.isin(_comparable(values), _comparable(excluded))
    positions = np.flatnonzero(is_kept)
    return values[positions], positions.astype(attrs["out_idx"].numpy)


# --- shape functions ------------------------------------------------------------------------------------------------


def _infer_unique(context: ShapeContext) -> Sequence[Dims]:
    with_rank(context.shapes[0], 1)
    return (-1,), context.shapes[0]


def _infer_unique_v2(context: ShapeContext) -> Sequence[Dims]:
    dims = context.shapes[0]
    return (None if dims is None else unknown_dims(len(dims)), (_static_count(context),))


def _static_count(context: ShapeContext) -> int:
    """Size of the axis along which slices are compared, -1 if unknown."""
    dims, axis = context.shapes[0], context.value(1)
    if axis is None:
        return -1
    if axis.ndim != 1:
        raise ShapeError("axis expects a 1D vector.")
    if axis.size > 1:
        raise ShapeError("axis does not support input tensors larger than 1 elements.")
    if dims is None:
        return -1
    if not axis.size:
        if len(dims) != 1:
            raise ShapeError("x expects a 1D vector.")
        return dims[0]
    rank, found = len(dims), int(axis[0])
    if not -rank <= found < rank:
        raise ShapeError(f"axis expects to be in the range [{-rank}, {rank})")
    return dims[found]


def _infer_unique_with_counts_v2(context: ShapeContext) -> Sequence[Dims]:
    return (*_infer_unique_v2(context), (-1,))


def _guess_elements(context: ShapeContext, output: int) -> int | None:
    """Return the size of a vector; None for slices, because their other dimensions are open too."""
    dims = context.shapes[0]
    return dims[0] if dims is not None and len(dims) == 1 else None


TABLE: Table = {
    "Unique": Kernel(
        partial(unique, outputs=2, has_axis=False),
        _infer_unique,
        memory=allocates(1, 0),
        guess=as_many_as(0),
        traits=Trait.GUESSES_MOST,
    ),
    "UniqueV2": Kernel(
        partial(unique, outputs=2, has_axis=True),
        _infer_unique_v2,
        memory=allocates(1, 0),
        guess=_guess_elements,
        traits=Trait.GUESSES_MOST,
    ),
    "UniqueWithCounts": Kernel(
        partial(unique, outputs=3, has_axis=False),
        infer_by("x -> [?], x, [?]"),
        memory=allocates(1, 0, 2),
        guess=as_many_as(0),
        traits=Trait.GUESSES_MOST,
    ),
    "UniqueWithCountsV2": Kernel(
        partial(unique, outputs=3, has_axis=True),
        _infer_unique_with_counts_v2,
        memory=allocates(1, 0, 2),
        guess=_guess_elements,
        traits=Trait.GUESSES_MOST,
    ),
    "ListDiff": Kernel(list_difference, infer_by("[?], [?] -> [?], [?]"), guess=as_many_as(0), traits=Trait.GUESSES_MOST),
}
