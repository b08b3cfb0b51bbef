"""Gather, GatherV2 and GatherNd, which select elements or slices by a tensor of indices; and UnravelIndex."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from placesim.core.dtypes import INT32, DataType
from placesim.core.errors import InvalidArgumentError
from placesim.ops.attributes import Attrs, TensorValue, format_tensor
from placesim.ops.kernels.array.indices import first_outside, position_text
from placesim.ops.kernels.cost_model import GATHER
from placesim.ops.kernels.kernel import Kernel, KernelContext, Table, Tensor, Trait, along, along_dims_in, elements, zeros
from placesim.ops.kernels.memory_rules import KernelMemory
from placesim.ops.kernels.shape_operands import shape_text
from placesim.ops.kernels.shapes import (
    Dims,
    ShapeContext,
    ShapeError,
    concatenate,
    element_count,
    format_dims,
    subshape,
    unknown_dims,
    with_rank,
    with_rank_at_least,
)

# --- Gather ---------------------------------------------------------------------------------------------------------


def gather(inputs: Sequence[Tensor], attrs: Attrs) -> Sequence[Tensor]:
    """Gather: `params[indices]`, of shape `indices.shape + params.shape[1:]`. Raises the same errors as `gather_slices`."""
    return (gather_slices(inputs[0], inputs[1]),)


def gather_v2(inputs: Sequence[Tensor], attrs: Attrs) -> Sequence[Tensor]:
    """GatherV2: slices of `params` along a scalar `axis`, separately for each batch; see `gather_slices`.

    Raises InvalidArgumentError for scalar params and an axis that is not a scalar, and the errors of `gather_slices`.
    """
    params, indices, axis = inputs
    if not params.ndim:
        raise InvalidArgumentError("params must be at least 1 dimensional")
    if axis.ndim:
        raise InvalidArgumentError("axis must be scalar")
    return (gather_slices(params, indices, int(axis), attrs["batch_dims"]),)


def gather_slices(params: Tensor, indices: Tensor, axis: int | None = None, batch_dims: int = 0) -> Tensor:
    """Select slices of `params` along `axis`, by default the first axis after the batch dimensions.

    The first `batch_dims` dimensions of `params` and `indices` are equal. The result has the shape `params.shape[:axis] +
    indices.shape[batch_dims:] + params.shape[axis + 1:]`. Raises InvalidArgumentError for axes that do not fit and, unless the
    result is empty, for an index out of range.
    """
    if not np.ndim(params):
        raise InvalidArgumentError("params must be at least 1 dimensional")
    place = _gather_axis(params.ndim, axis or 0)
    if batch_dims:
        batch_dims = _gather_batch(params, indices, place if axis is not None else None, batch_dims)
        place = batch_dims if axis is None else place
    limit = params.shape[place]
    result_shape = params.shape[:place] + indices.shape[batch_dims:] + params.shape[place + 1 :]
    # for an empty result TensorFlow does not check the indices
    if not elements(result_shape):
        return np.empty(result_shape, params.dtype)
    bad = first_outside(indices.reshape(-1), limit)
    if bad < indices.size:
        raise InvalidArgumentError(
            f"indices{position_text(indices.shape, bad)} = {int(indices.reshape(-1)[bad])} is not in [0, {limit})"
        )
    if batch_dims:
        return _gather_batches(params, indices, place, batch_dims)
    # one string is an element, no array
    return np.asarray(params.take(indices, place), params.dtype)


def _gather_axis(rank: int, axis: int) -> int:
    least = -axis if axis < 0 else axis + 1
    if rank < least:
        raise InvalidArgumentError(f"Shape must be at least rank {least} but is rank {rank}")
    return axis + rank if axis < 0 else axis


def _gather_batch(params: Tensor, indices: Tensor, axis: int | None, given: int) -> int:
    rank = indices.ndim
    if not -rank <= given <= rank:
        raise InvalidArgumentError(f"Expected batch_dims in the range [{-rank}, {rank}], but got {given}")
    batch_dims = given + rank if given < 0 else given
    if batch_dims >= params.ndim:
        raise InvalidArgumentError(f"batch_dims ({batch_dims}) must be less than rank(params) ({params.ndim}).")
    if axis is not None and axis < batch_dims:
        raise InvalidArgumentError(f"batch_dims ({batch_dims}) must be less than or equal to axis ({axis}).")
    for dim, (one, two) in enumerate(zip(params.shape[:batch_dims], indices.shape, strict=False)):
        if one != two:
            raise InvalidArgumentError(f"params.shape[{dim}]: {one} should be equal to indices.shape[{dim}]: {two}")
    return batch_dims


def _gather_batches(params: Tensor, indices: Tensor, axis: int, batch_dims: int) -> Tensor:
    """Gather from each batch separately: from `params` as `[batch, outer, axis, inner]`, by `indices` as `[batch, index]`."""
    batch, outer, inner = params.shape[:batch_dims], params.shape[batch_dims:axis], params.shape[axis + 1 :]
    count = elements(batch)
    rows = params.reshape(count, elements(outer), params.shape[axis], elements(inner))
    places = indices.reshape(count, elements(indices.shape[batch_dims:]))
    taken = rows[np.arange(count)[:, None], :, places]  # [batch, index, outer, inner]
    return taken.swapaxes(1, 2).reshape(*batch, *outer, *indices.shape[batch_dims:], *inner)


# --- GatherNd -------------------------------------------------------------------------------------------------------


def gather_nd(inputs: Sequence[Tensor], attrs: Attrs, context: KernelContext) -> Sequence[Tensor]:
    """GatherNd: `params[tuple(row)]` for each row of `indices`, where the rows lie along the last axis.

    The result has the shape `indices.shape[:-1] + params.shape[indices.shape[-1]:]`. Raises InvalidArgumentError for scalars,
    for rows longer than the rank of `params`, and for a row out of range, which gives zeros with policy IGNORE.
    """
    params, indices = inputs
    _check_gather_nd(params, indices)
    depth, batch = indices.shape[-1], indices.shape[:-1]
    if not elements(batch):
        return (zeros(batch + params.shape[depth:], attrs["Tparams"]),)
    if not params.size:
        raise InvalidArgumentError(f"Requested more than 0 entries, but params is empty.  Params shape: {shape_text(params)}")
    if not depth:
        return (np.broadcast_to(params, batch + params.shape),)
    places = indices.reshape(-1, depth)
    fine = np.asarray(((places >= 0) & (places < np.array(params.shape[:depth]))).all(axis=1))
    if not fine.all():
        if attrs["bad_indices_policy"] != "IGNORE":
            # GatherNd reports the last bad row, Gather the first bad index
            _refuse_row(params, indices, int(np.flatnonzero(~fine)[-1]), context.node)
        return (_gather_fine_rows(params, places, fine, attrs["Tparams"]).reshape(batch + params.shape[depth:]),)
    return (params[tuple(np.moveaxis(indices, -1, 0))],) if batch else (params[(*indices.tolist(), ...)],)


def _check_gather_nd(params: Tensor, indices: Tensor) -> None:
    for name, tensor in (("params", params), ("indices", indices)):
        if not tensor.ndim:
            raise InvalidArgumentError(f"{name} must be at least a vector")
    if indices.shape[-1] > params.ndim:
        raise InvalidArgumentError(
            f"index innermost dimension length must be <= params rank; saw: {indices.shape[-1]} vs. {params.ndim}"
        )


def _refuse_row(params: Tensor, indices: Tensor, row: int, node: str) -> None:
    place = ", ".join(map(str, indices.reshape(-1, indices.shape[-1])[row].tolist()))
    raise InvalidArgumentError(
        f"indices{position_text(indices.shape[:-1], row)} = [{place}] "
        f"does not index into param shape {shape_text(params)}, node name: {node}"
    )


def _gather_fine_rows(params: Tensor, places: Tensor, fine: Tensor, dtype: DataType) -> Tensor:
    """For each row of `places` its slice of `params`, or zeros if the row is not marked in `fine`."""
    result = zeros((len(places), *params.shape[places.shape[1] :]), dtype)
    result[fine] = params[tuple(places[fine].T)]
    return result


# --- UnravelIndex ---------------------------------------------------------------------------------------------------


def unravel_index(inputs: Sequence[Tensor], attrs: Attrs) -> Sequence[Tensor]:
    """UnravelIndex: the coordinates of flat indices in a tensor of shape `dims`.

    `dims` is `[rank]`. A scalar index gives `[rank]`, a vector `[rank, indices]`. Raises InvalidArgumentError for indices of
    rank above 1 or without elements, `dims` that is not a vector or has a dimension below 1, and an index that is too large.
    """
    indices, dims = inputs
    if indices.ndim > 1:
        raise InvalidArgumentError(f'The indices can only be scalar or vector, got "{shape_text(indices)}"')
    if not indices.size:
        raise InvalidArgumentError(f"received empty tensor indices: {format_tensor(TensorValue(attrs['Tidx'], indices))}")
    if dims.ndim != 1:
        raise InvalidArgumentError(f'The indices can only be 1-D, got "{shape_text(dims)}"')
    for position, dim in enumerate(dims.tolist()):
        if dim == 0:
            raise InvalidArgumentError(f"Input dims cannot contain a dim of zero, but dims contains zero at index {position}")
        if dim < 0:
            raise InvalidArgumentError(f"Input dims cannot be negative. Got dim = {dim} at index {position}")
    if elements(tuple(dims.tolist())) > np.iinfo(dims.dtype).max:
        raise InvalidArgumentError("Input dims product is causing integer overflow")
    sizes = np.append(np.cumprod(dims[::-1], dtype=dims.dtype)[::-1], dims.dtype.type(1))  # sizes of dims[i:]
    if np.any(indices >= sizes[0]):
        raise InvalidArgumentError("index is out of bound as with dims")
    column = (-1,) + (1,) * indices.ndim
    # as in C, division and remainder round toward zero, so a negative index has negative coordinates
    rest, stride = np.fmod(indices, sizes[:-1].reshape(column)), sizes[1:].reshape(column)
    return (np.asarray(np.sign(rest) * (np.abs(rest) // stride), dims.dtype),)


# --- shape functions and memory -------------------------------------------------------------------------------------


def _infer_gather(context: ShapeContext) -> Sequence[Dims]:
    params, indices = context.shapes
    with_rank_at_least(params, 1)
    return (concatenate(indices, subshape(params, 1)),)


def _infer_gather_v2(context: ShapeContext) -> Sequence[Dims]:
    params, indices, axis_dims = context.shapes
    with_rank_at_least(params, 1)
    with_rank(axis_dims, 0)
    value, batch_dims = context.value(2), context.attrs["batch_dims"]
    # without the axis only the rank can be inferred
    if value is None and (params is None or indices is None):
        return (None,)
    if value is None:
        assert params is not None
        assert indices is not None
        shared = batch_dims + len(indices) if batch_dims < 0 else batch_dims
        return (unknown_dims(len(params) + len(indices) - 1 - shared),)
    axis = int(value)
    with_rank_at_least(params, -axis if axis < 0 else axis + 1)
    with_rank_at_least(indices, abs(batch_dims))
    if batch_dims < 0 and indices is not None:
        batch_dims += len(indices)
    with_rank_at_least(params, batch_dims + 1)
    # nothing follows axis -1, but `axis + 1` would give the whole shape
    inner = () if axis == -1 else subshape(params, axis + 1)
    return (concatenate(concatenate(subshape(params, 0, axis), subshape(indices, batch_dims)), inner),)


def infer_gather_nd(context: ShapeContext) -> Sequence[Dims]:
    """Static shape `indices.shape[:-1] + params.shape[depth:]`, where depth is the last dimension of the indices.

    Raises ShapeError if the depth is more than the rank of `params`.
    """
    params, indices = context.shapes
    with_rank_at_least(indices, 1)
    if params is None or indices is None or indices[-1] < 0:
        return (None,)
    if indices[-1] > len(params):
        raise ShapeError(
            "indices.shape[-1] must be <= params.rank, "
            f"but saw indices shape: {format_dims(indices)} and params shape: {format_dims(params)}"
        )
    return (indices[:-1] + params[indices[-1] :],)


def _infer_unravel_index(context: ShapeContext) -> Sequence[Dims]:
    indices = context.shapes[0]
    (rank,) = with_rank(context.shapes[1], 1)
    if indices is None:
        return (None,)
    count = element_count(indices)
    return ((rank, -1 if count is None else count) if indices else (rank,),)


def gather_nd_memory(memory: KernelMemory) -> None:
    """The output, and as a temporary an int32 scalar: the position of an index out of range."""
    memory.allocate()
    if elements(memory.inputs[1].dims[:-1]):
        memory.temporary(INT32.size, (), INT32)


def unravel_index_memory(memory: KernelMemory) -> None:
    """Temporaries: the strides of the dimensions, and a copy without the first stride."""
    for _ in range(2):
        memory.temporary_like(memory.inputs[1])


TABLE: Table = {
    "Gather": Kernel(gather, _infer_gather, traits=Trait.TAKES_OBJECTS | Trait.MOVES_ELEMENTS, cost=GATHER, mixes=along(0)),
    "GatherV2": Kernel(
        gather_v2,
        _infer_gather_v2,
        traits=Trait.TAKES_OBJECTS | Trait.MOVES_ELEMENTS,
        cost=GATHER,
        mixes=along_dims_in(2),
    ),
    "GatherNd": Kernel(
        gather_nd,
        infer_gather_nd,
        needs_context=True,
        memory=gather_nd_memory,
        traits=Trait.TAKES_OBJECTS | Trait.CONTEXT_NAMES,
        cost=GATHER,
        mixes=along(0),
    ),
    "UnravelIndex": Kernel(unravel_index, _infer_unravel_index, memory=unravel_index_memory),
}
