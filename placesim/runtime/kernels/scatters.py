"""Scatter ops: update rows of a variable that a tensor of indices names.

A combination (`COMBINATIONS`) writes updates into rows of an array that nobody else holds, an index that comes twice twice and
in order.  The ref and the resource op of a combination are two rows of one kernel.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from placesim.errors import InvalidArgumentError
from placesim.ops.attributes import Attrs
from placesim.runtime.kernels.kernel import Kernel, KernelContext, Table, Tensor, per_element
from placesim.runtime.kernels.variables import find_variable, ref_output, typed_handle_shape, value_of
from placesim.runtime.resources import Variable
from placesim.runtime.shapes import Dims, ShapeContext, concatenate, format_dims, merge, subshape

Combine = Callable[[Tensor, Tensor, Tensor], None]
"""`(rows, index, updates)`: writes `updates[i]` into `rows[index[i]]`, for each i in order."""

MANY_TURNS = 64
"""With more turns numpy's own unbuffered loop is the faster one."""


# --- combinations -----------------------------------------------------------------------------------------------------


def split_turns(index: Tensor) -> list[Any]:
    """Positions of `index` in turns, each of which names a row at most once; a row's earlier position has the earlier turn."""
    order = np.argsort(index, kind="stable")
    ordered = index[order]
    is_first = np.r_[True, ordered[1:] != ordered[:-1]][: len(index)]
    if is_first.all():
        return [slice(None)]
    starts = np.flatnonzero(is_first)
    turn = np.arange(len(index)) - np.repeat(starts, np.diff(np.r_[starts, len(index)]))
    return np.split(order[np.argsort(turn, kind="stable")], np.cumsum(np.bincount(turn))[:-1])


def combination(operation: Callable[[Tensor, Tensor], Tensor]) -> Combine:
    """The combination `rows[index[i]] = operation(rows[index[i]], updates[i])`."""

    def combine(rows: Tensor, index: Tensor, updates: Tensor) -> None:
        turns = split_turns(index)
        if len(turns) > MANY_TURNS and isinstance(operation, np.ufunc):
            operation.at(rows, index, updates)
            return
        updates = np.broadcast_to(updates, index.shape + rows.shape[1:])
        for turn in turns:
            rows[index[turn]] = operation(rows[index[turn]], updates[turn])

    return combine


def _set_rows(rows: Tensor, index: Tensor, updates: Tensor) -> None:
    rows[index] = updates


_SUBTRACT, _EXCLUDE = combination(np.subtract), combination(np.logical_xor)


def _subtract_rows(rows: Tensor, index: Tensor, updates: Tensor) -> None:
    # C++ subtracts truth values as integers, numpy refuses to
    (_EXCLUDE if rows.dtype == np.bool_ else _SUBTRACT)(rows, index, updates)


def _quotient(dividend: Tensor, divisor: Tensor) -> Tensor:
    if dividend.dtype.kind not in "iu":
        return np.asarray(dividend / divisor)
    # C rounds toward zero, numpy down
    quotient = dividend // divisor
    inexact = (quotient * divisor != dividend) & ((dividend < 0) != (divisor < 0))
    return np.asarray(quotient + inexact.astype(quotient.dtype))


COMBINATIONS: dict[str, Combine] = {
    "Update": _set_rows,
    "Add": combination(np.add),
    "Sub": _subtract_rows,
    "Mul": combination(np.multiply),
    "Div": combination(_quotient),
    "Min": combination(np.minimum),
    "Max": combination(np.maximum),
}


# --- kernels ----------------------------------------------------------------------------------------------------------


def position_text(dims: tuple[int, ...], flat: int) -> str:
    """`[1,2]`: where an element is in a tensor of this shape; nothing for a scalar."""
    return "[" + ",".join(str(int(i)) for i in np.unravel_index(flat, dims)) + "]" if dims else ""


def first_outside(index: Tensor, limit: int) -> int:
    """The position of the first index not in [0, limit); the number of indices where there is none."""
    outside = (index < 0) | (index >= limit)
    return int(outside.argmax()) if outside.any() else index.size


def build_scatter(combine: Combine) -> Callable[..., Sequence[Any]]:
    """The kernel `params[indices[i]] = combination of it with updates[i]`; updates may be one scalar."""

    def scatter(inputs: Sequence[Any], attrs: Attrs, context: KernelContext) -> Sequence[Any]:
        variable = find_variable(inputs[0], context)
        indices, updates = np.asarray(inputs[1]), np.asarray(inputs[2])
        params = np.array(value_of(variable, context))
        _check_shapes(params.shape, indices.shape, updates.shape, is_ref=isinstance(inputs[0], Variable))
        if combine is COMBINATIONS["Div"] and not isinstance(inputs[0], Variable) and (updates == 0).any():
            raise InvalidArgumentError("updates must not contain 0")
        if indices.size and updates.ndim and updates.shape[: indices.ndim] != indices.shape:
            raise InvalidArgumentError(
                f"The shape of indices ({format_dims(indices.shape)}) must be a prefix of "
                f"the shape of updates ({format_dims(updates.shape)})"
            )
        # TensorFlow finds a bad index on its way: rows before it are updated
        bad = first_outside(indices.reshape(-1), params.shape[0])
        _scatter_rows(combine, params, indices.reshape(-1)[:bad], updates, indices.size)
        variable.value = params
        if bad < indices.size:
            raise InvalidArgumentError(
                f"indices{position_text(indices.shape, bad)} = {indices.reshape(-1)[bad]} is not in [0, {params.shape[0]})"
            )
        return ref_output(inputs[0])

    return scatter


def _check_shapes(params: tuple[int, ...], indices: tuple[int, ...], updates: tuple[int, ...], is_ref: bool) -> None:
    fits = updates == indices + params[1:] if is_ref else len(updates) == len(indices) + len(params) - 1
    if updates and not fits and (params or not is_ref):
        raise InvalidArgumentError(
            "Must have updates.shape = indices.shape + params.shape[1:] or updates.shape = [], got "
            f"updates.shape {format_dims(updates)}, indices.shape {format_dims(indices)}, params.shape {format_dims(params)}"
        )
    if not params:
        raise InvalidArgumentError(f"params must be at least 1-D, got shape {format_dims(params)}")


def _scatter_rows(combine: Combine, params: Tensor, index: Tensor, updates: Tensor, count: int) -> None:
    if not index.size or not params.size:
        return
    rows = params.reshape(params.shape[0], -1)
    if not updates.ndim:
        combine(rows, index, updates)
        return
    given = updates.reshape(count, -1)
    if given.shape[1] == rows.shape[1]:
        combine(rows, index, given[: len(index)])
    elif combine is _set_rows and rows.dtype != object:
        _copy_runs(rows, index, given)
    else:
        _combine_prefixes(combine, rows, index, given)


def _copy_runs(rows: Tensor, index: Tensor, given: Tensor) -> None:
    # the resource kernel does not compare inner shapes: it copies as much memory as an update has, past the row's end
    flat = rows.reshape(-1)
    for row, update in zip(index, given, strict=False):
        target = flat[int(row) * rows.shape[1] :][: given.shape[1]]
        target[:] = update[: len(target)]


def _combine_prefixes(combine: Combine, rows: Tensor, index: Tensor, given: Tensor) -> None:
    # likewise, but it reads as much of an update as the row needs, past the update's end
    flat = given.reshape(-1)
    sources = np.arange(len(index))[:, None] * given.shape[1] + np.arange(rows.shape[1])
    combine(rows, index, flat[np.minimum(sources, flat.size - 1)] if flat.size else np.zeros_like(rows, shape=sources.shape))


# --- shape functions --------------------------------------------------------------------------------------------------


def _check_update_shapes(params: Dims, context: ShapeContext) -> None:
    expected = concatenate(context.shapes[1], subshape(params, 1))
    if context.shapes[2] != ():
        merge(context.shapes[2], expected)


def _ref_shape(context: ShapeContext) -> Sequence[Dims]:
    _check_update_shapes(context.shapes[0], context)
    return (context.shapes[0],)


def _resource_shape(context: ShapeContext) -> Sequence[Dims]:
    _check_update_shapes(typed_handle_shape(context), context)
    return ()


TABLE: Table = {}
for _name, _combine in COMBINATIONS.items():
    _scatter = build_scatter(_combine)
    _flops = None if _combine is _set_rows else per_element(2)
    TABLE["Scatter" + _name] = Kernel(_scatter, _ref_shape, _flops, needs_context=True)
    TABLE["ResourceScatter" + _name] = Kernel(_scatter, _resource_shape, _flops, needs_context=True)
