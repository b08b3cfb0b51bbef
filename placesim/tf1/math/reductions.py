"""Reductions such as `tf.reduce_sum`."""

from __future__ import annotations

from typing import Any

import numpy as np

from placesim.tf1.array.creation import range as make_range
from placesim.tf1.array.creation import zeros
from placesim.tf1.array.shaping import rank
from placesim.tf1.graphs.default_graph_scopes import name_scope
from placesim.tf1.graphs.tensor_likes import DTypeLike, TensorLike, is_ragged
from placesim.tf1.math.casting import cast, conj, real
from placesim.tf1.ops.arguments import renamed
from placesim.tf1.ops.conversion import constant, convert_to_tensor
from placesim.tf1.ops.generated_functions import gen
from placesim.tf1.sparse.values import SparseTensor
from placesim.tf1.types import dtypes


def reduction_axes(x: TensorLike, axis: Any) -> Any:
    """The given axes, or all axes: a Const for a known rank above 0, else a Range."""
    if axis is not None:
        return axis
    known = getattr(getattr(x, "shape", None), "rank", None)
    if isinstance(x, SparseTensor):
        known = x.dense_shape.shape.as_list()[0] if x.dense_shape.shape.is_fully_defined() else None
    if known:
        return constant(np.arange(known, dtype=np.int32))
    return make_range(0, rank(x))


def _reduction(op: str) -> Any:
    """Make the function of a reduction op."""

    def call(
        input_tensor: TensorLike,
        axis: TensorLike | None = None,
        keepdims: bool | None = None,
        name: str | None = None,
        reduction_indices: object = None,
        keep_dims: bool | None = None,
    ) -> Any:
        axis = renamed("axis", axis, "reduction_indices", reduction_indices)
        keepdims = renamed("keepdims", keepdims, "keep_dims", keep_dims)
        return reduce(op, input_tensor, axis, bool(keepdims), name)

    return call


def reduce(op: str, x: Any, axis: Any, keepdims: bool, name: str | None) -> Any:
    """A reduction over axes.  A reduction over all axes has a scalar's shape, even if the input's rank is unknown."""
    if is_ragged(x):
        from placesim.tf1.ragged.computing import reduce as reduce_rows  # few scripts have ragged tensors

        return reduce_rows(op, x, axis, keepdims, name)
    found = gen(op)(x, reduction_axes(x, axis), keepdims, name=name)
    if axis is None and not keepdims:
        found.set_shape(())
    return found


reduce_sum, reduce_mean, reduce_prod = _reduction("Sum"), _reduction("Mean"), _reduction("Prod")
reduce_max, reduce_min = _reduction("Max"), _reduction("Min")
reduce_all, reduce_any = _reduction("All"), _reduction("Any")


def reduce_euclidean_norm(
    input_tensor: TensorLike, axis: TensorLike | None = None, keepdims: bool = False, name: str | None = None
) -> Any:
    """`tf.math.reduce_euclidean_norm`."""
    return reduce("EuclideanNorm", input_tensor, axis, bool(keepdims), name)


def reduce_logsumexp(
    input_tensor: TensorLike,
    axis: TensorLike | None = None,
    keepdims: bool | None = None,
    name: str | None = None,
    reduction_indices: object = None,
    keep_dims: bool | None = None,
) -> Any:
    """`tf.reduce_logsumexp`; the maximum is subtracted first, and added to the result."""
    axis = renamed("axis", axis, "reduction_indices", reduction_indices)
    keepdims = bool(renamed("keepdims", keepdims, "keep_dims", keep_dims))
    with name_scope(name, "ReduceLogSumExp", [input_tensor]) as scope:
        largest = reduce_max(input_tensor, axis, True)
        shift = gen("StopGradient")(gen("SelectV2")(gen("IsFinite")(largest), largest, 0))
        found = gen("Log")(reduce_sum(gen("Exp")(gen("Sub")(input_tensor, shift)), axis, keepdims))
        if not keepdims:
            shift = gen("Reshape")(shift, gen("Shape")(found))
        return gen("AddV2")(found, shift, name=scope)


def count_nonzero(
    input_tensor: TensorLike | None = None,
    axis: TensorLike | None = None,
    keepdims: bool | None = None,
    dtype: DTypeLike = dtypes.int64,
    name: str | None = None,
    reduction_indices: object = None,
    keep_dims: bool | None = None,
    input: TensorLike | None = None,
) -> Any:
    """`tf.count_nonzero`."""
    keepdims = bool(renamed("keepdims", keepdims, "keep_dims", keep_dims))
    input_tensor = renamed("input", input, "input_tensor", input_tensor)
    axis = renamed("axis", axis, "reduction_indices", reduction_indices)
    with name_scope(name, "count_nonzero", [input_tensor]):
        x = convert_to_tensor(input_tensor, name="input")
        is_counted = x if x.dtype.base_dtype is dtypes.bool_ else gen("NotEqual")(x, zeros([], x.dtype.base_dtype))
        return cast(reduce_sum(cast(is_counted, dtypes.int64), axis, keepdims), dtype)


def reduce_variance(
    input_tensor: TensorLike, axis: TensorLike | None = None, keepdims: bool = False, name: str | None = None
) -> Any:
    """`tf.math.reduce_variance`."""
    with name_scope(name or "reduce_variance"):
        x = convert_to_tensor(input_tensor)
        means = reduce_mean(x, axis, True)
        if means.dtype.is_integer:
            raise TypeError(f"Input must be either real or complex. Received integer type {means.dtype}.")
        difference = x - means
        squared = real(gen("Mul")(conj(difference), difference)) if difference.dtype.is_complex else gen("Square")(difference)
        return reduce_mean(squared, axis, keepdims)


def reduce_std(
    input_tensor: TensorLike, axis: TensorLike | None = None, keepdims: bool = False, name: str | None = None
) -> Any:
    """`tf.math.reduce_std`."""
    with name_scope(name or "reduce_std"):
        x = convert_to_tensor(input_tensor)
        return gen("Sqrt")(reduce_variance(x, axis, keepdims))
