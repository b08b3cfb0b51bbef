"""ScatterNd ops on variables: update elements or slices that rows of an index matrix name.

`indices` is `[batch..., depth]`, `updates` is `[batch...] + params.shape[depth:]`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from placesim.errors import InvalidArgumentError
from placesim.ops.attributes import Attrs
from placesim.runtime.kernels.kernel import Kernel, KernelContext, Table, Tensor, per_element
from placesim.runtime.kernels.scatters import COMBINATIONS, Combine, position_text
from placesim.runtime.kernels.variables import find_variable, held_shape, ref_output, value_of
from placesim.runtime.shapes import (
    Dims,
    ShapeContext,
    ShapeError,
    element_count,
    format_dims,
    merge,
    subshape,
    with_rank_at_least,
)

KnownDims = tuple[int, ...]
ERROR_POLICIES = ("", "DEFAULT", "ERROR")
MAX_DEPTH = 7
"""TensorFlow's kernel is compiled for no deeper indices."""


# --- kernels ----------------------------------------------------------------------------------------------------------


def build_scatter_nd(combine: Combine) -> Callable[..., Sequence[Any]]:
    """The kernel `params[tuple(indices[i])] = combination of it with updates[i]`."""

    def scatter_nd(inputs: Sequence[Any], attrs: Attrs, context: KernelContext) -> Sequence[Any]:
        ignore_bad = ignores_bad_indices(attrs)
        variable = find_variable(inputs[0], context)
        params = np.array(value_of(variable, context))
        try:
            scatter_slices(combine, params, np.asarray(inputs[1]), np.asarray(inputs[2]), ignore_bad)
        finally:
            variable.value = params
        return ref_output(inputs[0])

    return scatter_nd


def ignores_bad_indices(attrs: Attrs) -> bool:
    """Whether updates at indices out of range are left out; InvalidArgumentError for a policy that is none."""
    policy = attrs["bad_indices_policy"]
    if policy not in (*ERROR_POLICIES, "IGNORE"):
        raise InvalidArgumentError(f"Unknown bad indices handling attribute: {policy}")
    return bool(policy == "IGNORE")


def scatter_slices(combine: Combine, params: Tensor, indices: Tensor, updates: Tensor, ignore_bad: bool) -> None:
    """Combine `updates` into slices of `params`, which is changed; InvalidArgumentError for shapes that do not fit.

    An index out of range is left out; unless `ignore_bad`, InvalidArgumentError then names the last such one.
    """
    check_scatter_nd(params.shape, indices.shape, updates.shape)
    depth = indices.shape[-1] if indices.ndim > 1 else 1
    if not params.size:
        return
    if not 1 <= depth <= MAX_DEPTH:
        raise InvalidArgumentError(
            f"Only indices.shape[-1] values between 1 and 5 are currently supported.  Requested rank: {depth}"
        )
    # a vector of indices passes the checks as a column, but the loop takes it for a row and sees the first
    places = indices.reshape(-1, indices.shape[-1])[:, :depth] if indices.size else np.zeros((0, depth), np.int64)
    updates = updates.reshape(indices.size // depth, int(np.prod(params.shape[depth:])))[: len(places)]
    limits = np.array(params.shape[:depth])
    fine = np.asarray(((places >= 0) & (places < limits)).all(axis=1))
    rows = params.reshape(int(np.prod(limits)), -1)
    flat = np.ravel_multi_index(tuple(places[fine].T), params.shape[:depth])
    combine(rows, flat, updates[fine])
    if not (ignore_bad or fine.all()):
        bad = int(np.flatnonzero(~fine)[-1])
        place = ", ".join(str(int(i)) for i in places[bad])
        raise InvalidArgumentError(
            f"indices{position_text(indices.shape[:-1], bad)} = [{place}] does not index into shape {format_dims(params.shape)}"
        )


def check_scatter_nd(params: KnownDims, indices: KnownDims, updates: KnownDims) -> None:
    """InvalidArgumentError unless the shapes fit, in the kernel's words and order."""
    if not params:
        raise InvalidArgumentError(f"Output must be at least 1-D, got shape: {format_dims(params)}")
    if not indices:
        raise InvalidArgumentError(f"Indices shape must have rank at least one. Found:{format_dims(indices)}")
    if not updates:
        raise InvalidArgumentError(f"Updates shape must have rank at least one. Found:{format_dims(updates)}")
    counts = [element_count(dims) for dims in (params, indices, updates)]
    if any(counts[1:]) and not all(counts):
        raise InvalidArgumentError(f"Indices and updates specified for empty output.  indices shape: {format_dims(indices)}")
    if updates[0] != indices[0]:
        raise InvalidArgumentError(
            f"Dimensions [0,1) of indices[shape={format_dims(indices)}] = {indices[0]} must match "
            f"dimensions [0,1) of updates[shape={format_dims(updates)}] = {updates[0]}"
        )
    depth, batch = (indices[-1], len(indices) - 1) if len(indices) > 1 else (1, 1)
    rank_fits = len(updates) == batch + len(params) - depth
    if len(updates) < batch or (rank_fits and updates[:batch] != indices[:batch]):
        raise InvalidArgumentError(
            f"Dimensions [0,{batch}) of indices[shape={format_dims(indices)}] must match "
            f"dimensions [0,{batch}) of updates[shape={format_dims(updates)}]"
        )
    if not rank_fits or updates[batch:] != params[depth:]:
        raise InvalidArgumentError(
            f"Dimensions [{depth},{len(params)}) of input[shape={format_dims(params)}] must match "
            f"dimensions [{depth},{len(updates)}) of updates[shape={format_dims(updates)}]"
        )


# --- shape functions --------------------------------------------------------------------------------------------------


def scatter_nd_dims(indices: Dims, updates: Dims, params: Dims) -> Dims:
    """The shape of `params`, with which the shapes of indices and updates must agree as far as they are known."""
    if element_count(params) == 0 and ((element_count(indices) or 0) > 0 or (element_count(updates) or 0) > 0):
        raise ShapeError("Indices and updates specified for empty input")
    if indices is None or not updates or indices[-1] < 0:
        return params
    batch, depth = len(indices) - 1, indices[-1]
    _match(f"[0,{batch}) of indices", indices, indices[:batch], f"[0,{batch}) of updates", updates, subshape(updates, 0, batch))
    suffix = None if params is None else params[depth:]
    rank = -1 if params is None else len(params)
    _match(
        *(f"[{depth},{rank}) of input", params, suffix),
        *(f"[{batch},{len(updates)}) of updates", updates, updates[batch:]),
    )
    return params


def _match(one_name: str, one_whole: Dims, one: Dims, two_name: str, two_whole: Dims, two: Dims) -> None:
    try:
        merge(one, two)
    except ShapeError as error:
        raise ShapeError(
            f"Dimensions {one_name}[shape={format_dims(one_whole)}] = {format_dims(one)} must match "
            f"dimensions {two_name}[shape={format_dims(two_whole)}] = {format_dims(two)}: {error.message}"
        ) from None


def _variable_shape(context: ShapeContext) -> Dims:
    indices, updates = (with_rank_at_least(context.shapes[i], 1) for i in (1, 2))
    return scatter_nd_dims(indices, updates, held_shape(context))


def _ref_shape(context: ShapeContext) -> Sequence[Dims]:
    return (_variable_shape(context),)


def _resource_shape(context: ShapeContext) -> Sequence[Dims]:
    _variable_shape(context)
    return ()


TABLE: Table = {}
for _name in ("Update", "Add", "Sub", "Min", "Max"):
    _scatter_nd = build_scatter_nd(COMBINATIONS[_name])
    _flops = None if _name == "Update" else per_element(2)
    TABLE["ScatterNd" + _name] = Kernel(_scatter_nd, _ref_shape, _flops, needs_context=True)
    TABLE["ResourceScatterNd" + _name] = Kernel(_scatter_nd, _resource_shape, _flops, needs_context=True)
