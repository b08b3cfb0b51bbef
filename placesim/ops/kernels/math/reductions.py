"""Reductions over axes, and the index of the largest or smallest element along one axis."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from functools import partial
from operator import itemgetter
from typing import Any

import numpy as np

from placesim.core.errors import InvalidArgumentError
from placesim.ops.attributes import Attrs
from placesim.ops.kernels.cost_model import REDUCTION, Passes
from placesim.ops.kernels.integers import truncated_quotient
from placesim.ops.kernels.kernel import PLAIN, Kernel, Table, Tensor, Trait, elements, per_element
from placesim.ops.kernels.math.casts import cast
from placesim.ops.kernels.memory_rules import KernelMemory, MemoryRule
from placesim.ops.kernels.precision import highest, is_floating, is_narrow, lowest, wide_dtype
from placesim.ops.kernels.shapes import Dims, ShapeContext, ShapeError, format_dims, unknown_dims, with_rank, with_rank_at_most

Axes = tuple[int, ...]
Reduce = Callable[[Tensor, Axes, bool], Any]
MAX_ARG_RANK = 7
_SEARCH = REDUCTION._replace(passes=Passes(compared=1))
"""Cost of a search, for which all elements are first compared with the lowest number."""


def reduction_axes(x: Tensor, axes: Tensor) -> Axes:
    """Return the axes that a tensor gives, counted from 0. Raises InvalidArgumentError if one is out of range or repeated."""
    found: list[int] = []
    for index in np.reshape(axes, -1).tolist():
        if not -x.ndim <= index < x.ndim:
            # TensorFlow's text does not close the bracket
            raise InvalidArgumentError(f"Invalid reduction dimension ({index} for input with {x.ndim} dimension(s)")
        axis = index + x.ndim if index < 0 else index
        if axis in found:
            raise InvalidArgumentError(f"Invalid reduction arguments: Axes contains duplicate dimension: {axis}")
        found.append(axis)
    return tuple(found)


def reduction_memory(memory: KernelMemory) -> None:
    """A reduction over no axes, or over axes of one element, passes its input on."""
    groups = _groups(memory)
    if not any(is_reduced for is_reduced, _ in groups):
        memory.alias(0, 0)
    else:
        _allocate_reduction(memory, groups)


def norm_memory(memory: KernelMemory) -> None:
    """A norm always allocates, because even over no axes it is an absolute value."""
    _allocate_reduction(memory, _groups(memory))


def _allocate_reduction(memory: KernelMemory, groups: Sequence[tuple[bool, int]]) -> None:
    memory.allocate()
    # for more than three groups TensorFlow moves the kept groups to the front, and reduces the rows of a matrix
    if len(groups) > 3 and memory.outputs[0].elements:
        moved = tuple(size for _, size in sorted(groups, key=itemgetter(0)))
        memory.temporary(memory.inputs[0].size, moved, memory.inputs[0].dtype)


def _groups(memory: KernelMemory) -> list[tuple[bool, int]]:
    """Return groups of axes that are all reduced or all kept, as (is reduced, elements); axes of one element don't count."""
    dims = memory.inputs[0].dims
    axes = {axis % len(dims) for axis in memory.value(1).reshape(-1).tolist()} if dims else ()
    kept = [(axis in axes, dim) for axis, dim in enumerate(dims) if dim != 1]
    return [
        (is_reduced, elements(tuple(dim for _, dim in group))) for is_reduced, group in itertools.groupby(kept, itemgetter(0))
    ]


def reduction(function: Reduce, memory: MemoryRule = reduction_memory, traits: Trait = PLAIN) -> Kernel:
    """Return the table row of a reduction `function(tensor, axes, keep_dims) -> tensor`.

    Its kernel raises InvalidArgumentError for axes that `reduction_axes` refuses.
    """

    def compute(inputs: Sequence[Tensor], attrs: Attrs) -> Sequence[Any]:
        x = inputs[0]
        return (function(x, reduction_axes(x, inputs[1]), attrs["keep_dims"]),)

    return Kernel(compute, infer_reduction, per_element(0), memory=memory, traits=traits, cost=REDUCTION)


def _fold(ufunc: np.ufunc, x: Tensor, axes: Axes, keep: bool, **options: Any) -> Any:
    return ufunc.reduce(x, axes, keepdims=keep, **options)


def _fold_wide(ufunc: np.ufunc, x: Tensor, axes: Axes, keep: bool) -> Any:
    return _fold(ufunc, x, axes, keep, dtype=wide_dtype(x.dtype)).astype(x.dtype)


def _mean(x: Tensor, axes: Axes, keep: bool) -> Any:
    count = elements(tuple(x.shape[axis] for axis in axes))
    if x.dtype.kind not in "iu":
        # the mean of no elements is NaN, but for complex numbers 0
        parts = max(count, 1) if x.dtype.kind == "c" else count
        return (_fold(np.add, x, axes, keep, dtype=wide_dtype(x.dtype)) / parts).astype(x.dtype)
    wide = np.int64 if x.dtype.kind == "i" else np.uint64
    total = _fold(np.add, x, axes, keep, dtype=wide)
    if not count:
        return np.zeros_like(total, x.dtype)
    # as C++ divides integers
    return truncated_quotient(total, np.asarray(count, wide)).astype(x.dtype)


def _largest(x: Tensor, axes: Axes, keep: bool) -> Any:
    initial = x.dtype.type(-np.inf) if is_floating(x.dtype) else lowest(x.dtype)
    return _fold(np.maximum, x, axes, keep, initial=initial)


def _smallest(x: Tensor, axes: Axes, keep: bool) -> Any:
    initial = x.dtype.type(np.inf) if is_floating(x.dtype) else highest(x.dtype)
    return _fold(np.minimum, x, axes, keep, initial=initial)


def _euclidean_norm(x: Tensor, axes: Axes, keep: bool) -> Any:
    """Return the root of the sum of squares; of integers, its whole part."""
    if x.dtype.kind in "iu":
        wide = x.astype(np.int64 if x.dtype.kind == "i" else np.uint64)
        return cast(np.sqrt(_fold(np.add, wide * wide, axes, keep).astype(np.float64)), x.dtype)
    wide = x.astype(wide_dtype(x.dtype))
    # a complex result has an imaginary part of zero
    squares = (wide * np.conj(wide)).real
    return np.sqrt(_fold(np.add, squares, axes, keep)).astype(x.dtype)


# --- the index of an extreme ----------------------------------------------------------------------------------------


def extreme_index(find: Callable[..., Any], bound: Callable[..., Any], limit: Callable[[Any], Any]) -> Kernel:
    """Return the table row of ArgMax or ArgMin, whose result has the input's shape without the axis in the second input.

    The search starts at index 0 with the finite `limit`, and moves only to an element that beats it, so that NaN never wins.
    The kernel raises InvalidArgumentError for an invalid or empty axis, and for a rank above 7.
    """

    def compute(inputs: Sequence[Tensor], attrs: Attrs) -> Sequence[Any]:
        x, axis = inputs[0], _index_axis(inputs[0], inputs[1])
        if is_floating(x.dtype):
            start = limit(x.dtype)
            x = x.astype(np.float32) if is_narrow(x.dtype) else x
            x = bound(x, x.dtype.type(start))
        return (np.asarray(find(x, axis)).astype(attrs["output_type"].numpy),)

    return Kernel(compute, _infer_index, per_element(0), cost=_SEARCH)


def _index_axis(x: Tensor, axis: Tensor) -> int:
    """Return the axis to search. Raises InvalidArgumentError for an invalid axis; the checks are in TensorFlow's order."""
    if axis.ndim:
        raise InvalidArgumentError(f"dim must be a scalar, but received tensor of shape: {format_dims(axis.shape)}")
    index, rank = int(axis), x.ndim
    if not -rank <= index < rank:
        raise InvalidArgumentError(f"Expected dimension in the range [{-rank}, {rank}), but got {index}")
    if not x.shape[index]:
        raise InvalidArgumentError(f"Reduction axis {index} is empty in shape {format_dims(x.shape)}")
    if rank > MAX_ARG_RANK and x.size:
        raise InvalidArgumentError(
            f"Argmax and Argmin only support up to {MAX_ARG_RANK} input dimensions, but got {rank}. "
            f"Inputs shape: {format_dims(x.shape)}"
        )
    return index


# --- shape functions ------------------------------------------------------------------------------------------------


def infer_reduction(context: ShapeContext) -> Sequence[Dims]:
    """Return the input's shape without the reduced axes, or with 1 for each. Raises ShapeError for an axis out of range."""
    dims, keep = context.shapes[0], context.attrs["keep_dims"]
    with_rank_at_most(context.shapes[1], 1)
    axes = context.value(1)
    if dims is None or axes is None:
        return (unknown_dims(len(dims)) if keep and dims is not None else None,)
    reduced = set()
    for index in axes.reshape(-1).tolist():
        if not -len(dims) <= index < len(dims):
            raise ShapeError(f"Invalid reduction dimension {index} for input with {len(dims)} dimensions.")
        # only the kernel refuses an axis named twice
        reduced.add(index % len(dims))
    if keep:
        return (tuple(1 if axis in reduced else dim for axis, dim in enumerate(dims)),)
    return (tuple(dim for axis, dim in enumerate(dims) if axis not in reduced),)


def _infer_index(context: ShapeContext) -> Sequence[Dims]:
    with_rank(context.shapes[1], 0)
    dims = context.shapes[0]
    # for a vector the axis is not checked
    if dims is None or len(dims) <= 1:
        return (None if dims is None else (),)
    axis = context.scalar_value(1)
    if axis is None:
        return ((-1,) * (len(dims) - 1),)
    rank = len(dims)
    if not -rank <= axis < rank:
        raise ShapeError(
            f"Dimension ({axis}) must be in the range [{-rank}, {rank}), where {rank} is the number of dimensions in the input."
        )
    return (dims[: axis % rank] + dims[axis % rank + 1 :],)


TABLE: Table = {
    "Sum": reduction(partial(_fold_wide, np.add), traits=Trait.SUMS | Trait.LINEAR),
    "Mean": reduction(_mean, traits=Trait.AVERAGES | Trait.LINEAR),
    "Prod": reduction(partial(_fold_wide, np.multiply)),
    "Max": reduction(_largest),
    "Min": reduction(_smallest),
    "EuclideanNorm": reduction(_euclidean_norm, norm_memory),
    "All": reduction(partial(_fold, np.logical_and)),
    "Any": reduction(partial(_fold, np.logical_or)),
    "ArgMax": extreme_index(find=np.argmax, bound=np.fmax, limit=lowest),
    "ArgMin": extreme_index(find=np.argmin, bound=np.fmin, limit=highest),
}
