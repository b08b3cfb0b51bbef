"""Ops that write slices into tensors other than variables: ScatterNd, TensorScatter* and the Inplace ops.

TensorFlow reuses the input's memory if possible; here the result is always a new tensor.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

import numpy as np

from placesim.core.dtypes import BOOL, RESOURCE, STRING, VARIANT
from placesim.core.errors import InvalidArgumentError
from placesim.ops.attributes import Attrs
from placesim.ops.kernels.array.index_matrices import (
    check_scatter_ranks,
    ignores_bad_indices,
    scatter_nd_dims,
    scatter_slices,
)
from placesim.ops.kernels.array.indices import COMBINATIONS, Combine
from placesim.ops.kernels.kernel import Kernel, Table, Tensor, Trait, per_element, zeros
from placesim.ops.kernels.memory_rules import aliases, forwards
from placesim.ops.kernels.shape_operands import shape_of_values, shape_text
from placesim.ops.kernels.shapes import Dims, ShapeContext, format_dims, unchanged, vector_shape_value, with_rank_at_least

# --- ScatterNd, TensorScatter ---------------------------------------------------------------------------------------


def _check_not_empty(count: int, indices: Tensor, updates: Tensor) -> None:
    """Raises InvalidArgumentError if indices or updates have elements, but one of them or the output (`count`) has none."""
    if (indices.size or updates.size) and not (count and indices.size and updates.size):
        raise InvalidArgumentError("Indices and updates specified for empty output shape")


def scatter_nd(inputs: Sequence[Tensor], attrs: Attrs) -> Sequence[Tensor]:
    """ScatterNd: (indices `[batch..., depth]`, updates `[batch...] + shape[depth:]`, shape) -> zeros with the updates added.

    Raises InvalidArgumentError for shapes that do not fit, and for an index outside of the output unless the policy is IGNORE.
    """
    indices, updates, shape_tensor = inputs
    ignore_bad = ignores_bad_indices(attrs)
    check_scatter_ranks(indices.shape, updates.shape)
    shape = shape_of_values(shape_tensor)
    _check_not_empty(len(shape), indices, updates)
    batch, depth = indices.ndim - 1, indices.shape[-1]
    # ScatterNd checks its shapes before it calls the kernel that it shares with the variables' ops
    named_indices, named_updates = (f"[shape={shape_text(tensor)}]" for tensor in (indices, updates))
    if indices.shape[:batch] != updates.shape[:batch]:
        raise InvalidArgumentError(
            f"Dimensions [0,{batch}) of indices{named_indices} must match dimensions [0,{batch}) of updates{named_updates}"
        )
    if updates.ndim - batch != len(shape) - depth or updates.shape[batch:] != shape[depth:]:
        raise InvalidArgumentError(
            f"Dimensions [{depth},{len(shape)}) of input[shape={format_dims(shape)}] must match "
            f"dimensions [{batch},{updates.ndim}) of updates{named_updates}"
        )
    # TensorFlow checks this last, so a matrix as shape may fail earlier
    if shape_tensor.ndim != 1:
        raise InvalidArgumentError("Shape must be a vector")
    result = zeros(shape, attrs["T"])
    scatter_slices(COMBINATIONS["Add"], result, indices, updates, ignore_bad)
    return (result,)


def scatter_into_copy(inputs: Sequence[Tensor], attrs: Attrs, combine: Combine) -> Sequence[Tensor]:
    """TensorScatter*: a copy of the input with `updates[i]` combined into it at `indices[i]`.

    The shapes are those of `index_matrices`. Raises InvalidArgumentError for other shapes, and for an index outside of the
    input unless the policy is IGNORE.
    """
    tensor, indices, updates = inputs
    ignore_bad = ignores_bad_indices(attrs)
    _check_tensor_scatter(tensor, indices, updates)
    result = np.array(tensor, order="C")  # a transposed layout would be scattered into a copy
    scatter_slices(combine, result, indices, updates, ignore_bad)
    return (result,)


def _check_tensor_scatter(tensor: Tensor, indices: Tensor, updates: Tensor) -> None:
    check_scatter_ranks(indices.shape, updates.shape)
    _check_not_empty(tensor.size, indices, updates)
    batch, depth = indices.ndim - 1, indices.shape[-1]
    if indices.shape[:batch] != updates.shape[:batch]:
        raise InvalidArgumentError(
            "Outer dimensions of indices and update must match. "
            f"Indices shape: {shape_text(indices)}, updates shape:{shape_text(updates)}"
        )
    if updates.ndim - batch != tensor.ndim - depth:
        raise InvalidArgumentError(
            "Inner dimensions of output shape must match inner dimensions of updates shape. "
            f"Output: {shape_text(tensor)} updates: {shape_text(updates)}"
        )
    if updates.shape[batch:] != tensor.shape[depth:]:
        raise InvalidArgumentError(
            f"The inner {tensor.ndim - depth} dimensions of output.shape={shape_text(tensor)} "
            f"must match the inner {updates.ndim - batch} dimensions of updates.shape={shape_text(updates)}"
        )


def add_without_alias(inputs: Sequence[Tensor], attrs: Attrs) -> Sequence[Tensor]:
    """ScatterNdNonAliasingAdd: a copy of the input with `updates[i]` added at `indices[i]`.

    Raises the same errors as `scatter_slices`.
    """
    tensor, indices, updates = inputs
    ignore_bad = ignores_bad_indices(attrs)
    result = np.array(tensor, order="C")  # a transposed layout would be scattered into a copy
    scatter_slices(COMBINATIONS["Add"], result, indices, updates, ignore_bad)
    return (result,)


# --- Inplace --------------------------------------------------------------------------------------------------------


def update_rows(inputs: Sequence[Tensor], attrs: Attrs, combine: Combine) -> Sequence[Tensor]:
    """Inplace*: a copy of `x [rows, ...]` with `v[j]` combined into row `i[j]` modulo `rows`.

    Raises InvalidArgumentError unless `i` is `[n]` and `v` is `[n, ...]`, and for an addition of types without arithmetic.
    """
    tensor, rows, values = inputs
    _check_rows(tensor, rows, values)
    if attrs["T"] in (BOOL, STRING, RESOURCE, VARIANT) and combine is not COMBINATIONS["Update"]:
        raise InvalidArgumentError(f"Unsupported data type: {attrs['T'].name}")
    result = np.array(tensor, order="C")  # a transposed layout would be scattered into a copy
    if tensor.size and values.size:
        # TensorFlow also takes indices modulo the rows, instead of rejecting those out of range
        combine(result, rows % tensor.shape[0], values)
    return (result,)


def _check_rows(tensor: Tensor, rows: Tensor, values: Tensor) -> None:
    if rows.ndim != 1:
        raise InvalidArgumentError(f"i must be a vector. {shape_text(rows)}")
    if tensor.ndim != values.ndim:
        raise InvalidArgumentError(f"x and v shape doesn't match (ranks differ): {shape_text(tensor)} vs. {shape_text(values)}")
    for axis in range(1, tensor.ndim):
        if tensor.shape[axis] != values.shape[axis]:
            raise InvalidArgumentError(
                f"x and v shape doesn't match at index {axis} : {shape_text(tensor)} vs. {shape_text(values)}"
            )
    if rows.shape[:1] != values.shape[:1]:
        raise InvalidArgumentError(f"i and x shape doesn't match at index 0: {shape_text(rows)} vs. {shape_text(values)}")


# --- shape functions ------------------------------------------------------------------------------------------------


def _infer_scatter_nd(context: ShapeContext) -> Sequence[Dims]:
    indices, updates = (with_rank_at_least(dims, 1) for dims in context.shapes[:2])
    return (scatter_nd_dims(indices, updates, vector_shape_value(context, 2)),)


def _infer_tensor_scatter(context: ShapeContext) -> Sequence[Dims]:
    tensor, indices = (with_rank_at_least(dims, 1) for dims in context.shapes[:2])
    return (scatter_nd_dims(indices, context.shapes[2], tensor),)


TABLE: Table = {
    "ScatterNd": Kernel(scatter_nd, _infer_scatter_nd, per_element(1)),
    "ScatterNdNonAliasingAdd": Kernel(add_without_alias, _infer_tensor_scatter, per_element(2), memory=forwards(0)),
    "TensorScatterUpdate": Kernel(partial(scatter_into_copy, combine=COMBINATIONS["Update"]), _infer_tensor_scatter),
    "TensorScatterAdd": Kernel(partial(scatter_into_copy, combine=COMBINATIONS["Add"]), _infer_tensor_scatter, per_element(2)),
    "TensorScatterSub": Kernel(partial(scatter_into_copy, combine=COMBINATIONS["Sub"]), _infer_tensor_scatter, per_element(2)),
    "TensorScatterMin": Kernel(partial(scatter_into_copy, combine=COMBINATIONS["Min"]), _infer_tensor_scatter, per_element(2)),
    "TensorScatterMax": Kernel(partial(scatter_into_copy, combine=COMBINATIONS["Max"]), _infer_tensor_scatter, per_element(2)),
    "InplaceUpdate": Kernel(
        partial(update_rows, combine=COMBINATIONS["Update"]), unchanged, memory=aliases(), traits=Trait.TAKES_OBJECTS
    ),
    "InplaceAdd": Kernel(partial(update_rows, combine=COMBINATIONS["Add"]), unchanged, per_element(2), memory=aliases()),
    "InplaceSub": Kernel(partial(update_rows, combine=COMBINATIONS["Sub"]), unchanged, per_element(2), memory=aliases()),
}
