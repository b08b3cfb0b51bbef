"""Index matrices, whose rows select elements or slices: checks, and updates of the selected slices.

`indices` is `[batch..., depth]`, `updates` is `[batch...] + params.shape[depth:]`.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from placesim.core.errors import InvalidArgumentError
from placesim.ops.attributes import Attrs
from placesim.ops.kernels.array.indices import Combine, position_text
from placesim.ops.kernels.kernel import Tensor
from placesim.ops.kernels.shapes import Dims, ShapeError, element_count, format_dims, merge, subshape

ERROR_POLICIES = ("", "DEFAULT", "ERROR")
MAX_DEPTH = 7
"""Maximum length of an index row for which TensorFlow has a kernel."""


def ignores_bad_indices(attrs: Attrs) -> bool:
    """Whether updates at indices out of range are ignored. Raises InvalidArgumentError for an unknown policy."""
    policy = attrs["bad_indices_policy"]
    if policy not in (*ERROR_POLICIES, "IGNORE"):
        raise InvalidArgumentError(f"Unknown bad indices handling attribute: {policy}")
    return bool(policy == "IGNORE")


def scatter_slices(combine: Combine, params: Tensor, indices: Tensor, updates: Tensor, ignore_bad: bool) -> None:
    """Combine `updates` with slices of `params`, in place; indices out of range are left out.

    Raises InvalidArgumentError for shapes that do not fit and, unless `ignore_bad`, for the last index out of range, after the
    other updates are written.
    """
    check_scatter_nd(params.shape, indices.shape, updates.shape)
    depth = indices.shape[-1] if indices.ndim > 1 else 1
    # TensorFlow returns here if there is nothing to write, before it checks the depth
    if not params.size:
        return
    if not 1 <= depth <= MAX_DEPTH:
        raise InvalidArgumentError(
            # TensorFlow's message says 5, but it has kernels up to 7
            f"Only indices.shape[-1] values between 1 and 5 are currently supported.  Requested rank: {depth}"
        )
    # the checks treat a vector of indices as a column, but TensorFlow's loop treats it as a row and reads only its first index
    places = indices.reshape(-1, indices.shape[-1])[:, :depth] if indices.size else np.zeros((0, depth), np.int64)
    updates = updates.reshape(indices.size // depth, int(np.prod(params.shape[depth:])))[: len(places)]
    limits = np.array(params.shape[:depth])
    fine = np.asarray(((places >= 0) & (places < limits)).all(axis=1))
    rows = params.reshape(int(np.prod(limits)), -1)
    flat = np.ravel_multi_index(tuple(places[fine].T), params.shape[:depth])
    # the valid updates are written even if the others raise an error below
    combine(rows, flat, updates[fine])
    if not (ignore_bad or fine.all()):
        bad = int(np.flatnonzero(~fine)[-1])
        place = ", ".join(str(int(i)) for i in places[bad])
        raise InvalidArgumentError(
            f"indices{position_text(indices.shape[:-1], bad)} = [{place}] does not index into shape {format_dims(params.shape)}"
        )


def check_scatter_ranks(indices: tuple[int, ...], updates: tuple[int, ...]) -> None:
    """Raises InvalidArgumentError if indices or updates are a scalar."""
    for name, dims in (("Indices", indices), ("Updates", updates)):
        if not dims:
            raise InvalidArgumentError(f"{name} shape must have rank at least one. Found:{format_dims(dims)}")


def check_scatter_nd(params: tuple[int, ...], indices: tuple[int, ...], updates: tuple[int, ...]) -> None:
    """Raises InvalidArgumentError unless the shapes fit (see the module), checked in the kernel's order."""
    if not params:
        raise InvalidArgumentError(f"Output must be at least 1-D, got shape: {format_dims(params)}")
    check_scatter_ranks(indices, updates)
    counts = [element_count(dims) for dims in (params, indices, updates)]
    if any(counts[1:]) and not all(counts):
        raise InvalidArgumentError(f"Indices and updates specified for empty output.  indices shape: {format_dims(indices)}")
    if updates[0] != indices[0]:
        raise InvalidArgumentError(
            f"Dimensions [0,1) of indices[shape={format_dims(indices)}] = {indices[0]} must match "
            f"dimensions [0,1) of updates[shape={format_dims(updates)}] = {updates[0]}"
        )
    # a vector of indices counts as a column
    depth, batch = (indices[-1], len(indices) - 1) if len(indices) > 1 else (1, 1)
    # a wrong rank is reported last, unless the updates lack batch dimensions
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


def scatter_nd_dims(indices: Dims, updates: Dims, params: Dims) -> Dims:
    """Return `params`. Raises ShapeError if the known dimensions of indices and updates do not fit."""
    if element_count(params) == 0 and ((element_count(indices) or 0) > 0 or (element_count(updates) or 0) > 0):
        raise ShapeError("Indices and updates specified for empty input")
    if indices is None or not updates or indices[-1] < 0:
        return params
    batch, depth = len(indices) - 1, indices[-1]
    suffix = None if params is None else params[depth:]
    rank = -1 if params is None else len(params)
    _match(
        _Part(f"[0,{batch}) of indices", whole=indices, dims=indices[:batch]),
        _Part(f"[0,{batch}) of updates", whole=updates, dims=subshape(updates, 0, batch)),
    )
    _match(
        _Part(f"[{depth},{rank}) of input", whole=params, dims=suffix),
        _Part(f"[{batch},{len(updates)}) of updates", whole=updates, dims=updates[batch:]),
    )
    return params


class _Part(NamedTuple):
    """Some dimensions (`dims`) of a shape (`whole`), and their name in errors."""

    name: str
    whole: Dims
    dims: Dims


def _match(one: _Part, two: _Part) -> None:
    try:
        merge(one.dims, two.dims)
    except ShapeError as error:
        named = [f"{part.name}[shape={format_dims(part.whole)}] = {format_dims(part.dims)}" for part in (one, two)]
        raise ShapeError(f"Dimensions {named[0]} must match dimensions {named[1]}: {error.message}") from None
