"""Parts of variables: rows and slices gathered from a resource variable, and assignments to strided slices."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import Any

import numpy as np

from placesim.core.dtypes import INT32
from placesim.core.errors import InvalidArgumentError
from placesim.ops.attributes import Attrs
from placesim.ops.kernels.array.gathering import gather_nd, infer_gather_nd
from placesim.ops.kernels.array.indices import first_outside, position_text
from placesim.ops.kernels.array.slicing import update_strided_slice
from placesim.ops.kernels.cost_model import GATHER
from placesim.ops.kernels.kernel import Kernel, KernelContext, Table
from placesim.ops.kernels.memory_rules import KernelMemory, touches_rows
from placesim.ops.kernels.shapes import (
    Dims,
    ShapeContext,
    ShapeError,
    concatenate,
    element_count,
    format_dims,
    no_outputs,
    subshape,
    unchanged,
    with_rank_at_least,
)
from placesim.ops.kernels.state.variables import find_variable, ref_output, typed_handle_shape, typed_value


def assign_slice(inputs: Sequence[Any], attrs: Attrs, context: KernelContext) -> Sequence[Any]:
    """Write `value`, broadcast, to a strided slice of a variable; the inputs are variable, begin, end, strides and value.

    Raises InvalidArgumentError for an invalid slice, and for a value that does not broadcast to it.
    """
    holder, *rest = inputs
    (updated,) = update_strided_slice((typed_value(holder, context, attrs["T"]), *rest), attrs)
    find_variable(holder, context).value = updated
    return ref_output(holder)


def gather_rows(inputs: Sequence[Any], attrs: Attrs, context: KernelContext) -> Sequence[Any]:
    """Return `params[batch..., indices, ...]`, shaped `params[:batch_dims] + indices[batch_dims:] + params[batch_dims + 1:]`.

    An index too large for its batch finds a row of a later batch. Indices of another shape than the batches select slices that
    share the result's elements equally. Raises InvalidArgumentError for params of too low a rank, an index beyond the last
    batch, and slices that are not equal.
    """
    params, indices = typed_value(inputs[0], context, attrs["dtype"]), np.asarray(inputs[1])
    batch_dims: int = attrs["batch_dims"]
    if batch_dims < 0:
        raise InvalidArgumentError(f"batch_dims is negative ({batch_dims})")
    if not params.ndim:
        raise InvalidArgumentError("params must be at least 1 dimensional")
    if params.ndim == batch_dims:
        raise InvalidArgumentError(
            f"params and indices must have more than {batch_dims} (batch_dims) dimensions, but have shapes "
            f"{format_dims(params.shape)} and {format_dims(indices.shape)}"
        )
    if params.ndim < batch_dims:
        raise InvalidArgumentError(
            f"params must have at least {batch_dims} (batch_dims) dimensions but it has shape {format_dims(params.shape)}"
        )
    shape = params.shape[:batch_dims] + indices.shape[batch_dims:] + params.shape[batch_dims + 1 :]
    if not indices.size:
        return (np.empty(shape, params.dtype),)
    if 0 in params.shape[:batch_dims]:
        raise InvalidArgumentError(
            "Inner size of indices would result in batch_size of 0 and a division by 0 in the implementation. This is illegal"
        )
    flat = _count_on(indices, params.shape, batch_dims)
    limit = element_count(params.shape[: batch_dims + 1]) or 0
    bad = first_outside(flat, limit)
    # the message has the index into the flattened variable, but the limit of the first axis
    if bad < flat.size:
        raise InvalidArgumentError(f"indices{position_text(indices.shape, bad)} = {flat[bad]} is not in [0, {params.shape[0]})")
    size, rest = divmod(prod(shape), flat.size)
    if rest:
        raise InvalidArgumentError(f"cannot divide {prod(shape)} elements into slices: got {flat.size} indices")
    if size * limit == params.size:
        return (params.reshape(limit, -1)[flat].reshape(shape),)
    places = flat[:, None] * size + np.arange(size)
    return (params.reshape(-1)[np.minimum(places, params.size - 1)].reshape(shape),)


def _count_on(indices: Any, params: tuple[int, ...], batch_dims: int) -> Any:
    found = indices.reshape(-1).copy()
    batches = element_count(params[:batch_dims]) or 1
    in_batches = found[: found.size // batches * batches].reshape(batches, -1)
    in_batches += np.arange(batches, dtype=found.dtype)[:, None] * (params[batch_dims] if batch_dims else 0)
    return found


def gather_slices(inputs: Sequence[Any], attrs: Attrs, context: KernelContext) -> Sequence[Any]:
    """Return `params[tuple(indices[i])]`, shaped `[batch...] + params.shape[depth:]`; `indices` are `[batch..., depth]`.

    Raises InvalidArgumentError for params or indices that are scalars, too large a depth, and an index out of range.
    """
    params, indices = typed_value(inputs[0], context, attrs["dtype"]), np.asarray(inputs[1])
    return gather_nd((params, indices), {"Tparams": attrs["dtype"], "bad_indices_policy": ""}, context)


def _infer_gathered_rows(context: ShapeContext) -> Sequence[Dims]:
    params = typed_handle_shape(context)
    batch_dims: int = context.attrs["batch_dims"]
    if batch_dims < 0:
        raise ShapeError(f"batch_dims is negative ({batch_dims})")
    params = with_rank_at_least(params, batch_dims + 1)
    indices = with_rank_at_least(context.shapes[1], batch_dims)
    outer = concatenate(subshape(params, 0, batch_dims), subshape(indices, batch_dims))
    return (concatenate(outer, subshape(params, batch_dims + 1)),)


def _infer_gathered_slices(context: ShapeContext) -> Sequence[Dims]:
    return infer_gather_nd(ShapeContext((typed_handle_shape(context), context.shapes[1]), context.attrs))


def gather_rows_memory(memory: KernelMemory) -> None:
    """With batches, a temporary has the indices into the flattened variable."""
    memory.touch_rows(0)
    memory.allocate(0)
    if memory.attrs["batch_dims"]:
        memory.temporary_like(memory.inputs[1])


def gather_slices_memory(memory: KernelMemory) -> None:
    """A temporary scalar has the position of the first index that is out of range."""
    memory.touch_rows(0)
    memory.allocate(0)
    if prod(memory.inputs[1].dims[:-1]):
        memory.temporary(INT32.size, (), INT32)


TABLE: Table = {
    "ResourceGather": Kernel(gather_rows, _infer_gathered_rows, needs_context=True, memory=gather_rows_memory, cost=GATHER),
    "ResourceGatherNd": Kernel(
        gather_slices, _infer_gathered_slices, needs_context=True, memory=gather_slices_memory, cost=GATHER
    ),
    "StridedSliceAssign": Kernel(assign_slice, unchanged, needs_context=True),
    "ResourceStridedSliceAssign": Kernel(assign_slice, no_outputs, needs_context=True, memory=touches_rows()),
}
