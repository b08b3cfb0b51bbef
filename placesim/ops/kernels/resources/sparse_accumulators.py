"""Conditional accumulators of sparse gradients, which are slices of a tensor and their indices; each slice has its own count.

Source: TensorFlow's `sparse_conditional_accumulator.h`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from placesim.core.dtypes import INT32, INT64
from placesim.core.errors import InvalidArgumentError
from placesim.ops.attributes import Attrs
from placesim.ops.kernels.kernel import Kernel, KernelContext, Table, Tensor
from placesim.ops.kernels.named_resources import both_forms, check_signature, infer_two_strings
from placesim.ops.kernels.resources.accumulators import await_gradients, build_maker, find_accumulator, give, infer_given
from placesim.ops.kernels.shape_operands import shape_text
from placesim.ops.kernels.shapes import Dims, infer_by
from placesim.ops.kernels.sparse.tensors import walk_together


class SparseGradients:
    """The sum of sparse gradients: `indices [n]`, `values [n, ...]`, and the number of gradients for each index."""

    def __init__(self) -> None:
        self._indices: Tensor = np.zeros(0, np.int64)
        self._counts: Tensor = np.zeros(0, np.int64)
        self._values: Tensor = np.zeros((0,))

    def check(self, gradient: Sequence[Tensor], shape: Dims, is_first: bool) -> None:
        indices, values, *dense_shape = gradient
        if indices.ndim != 1:
            raise InvalidArgumentError(f"Input indices should be vector but received shape: {shape_text(indices)}")
        if not values.ndim:
            raise InvalidArgumentError("Values cannot be 0-dimensional.")
        if len(values) != len(indices):
            raise InvalidArgumentError(f"Expected {len(indices)} non-empty input values, got {len(values)}")
        for given in dense_shape:
            _check_dense_shape(given.reshape(-1).tolist(), shape)
        _check_indices(indices, shape)
        expected = shape or () if is_first else self._values.shape
        ranks = f"{len(expected)}, got {values.ndim}"
        if is_first and len(expected) > values.ndim:
            raise InvalidArgumentError(f"Shape mismatch: expected values rank at least {ranks}")
        if not is_first and len(expected) != values.ndim:
            raise InvalidArgumentError(f"Shape mismatch: expected values rank {ranks}")
        for axis, (dim, found) in enumerate(zip(expected, values.shape, strict=False)):
            if axis and dim not in (-1, found):
                raise InvalidArgumentError(f"Shape mismatch: expected values dim {axis} to be {dim}, got {found}")

    def add(self, gradient: Sequence[Tensor], is_first: bool) -> None:
        indices, values = gradient[0], gradient[1]
        counts = np.ones(len(indices), np.int64)
        if not is_first:
            indices, values, counts = self._added(indices, values)
        self._indices, self._values, self._counts = indices, values, counts

    def _added(self, indices: Tensor, values: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Merge the sum with a gradient's sorted slices, and add slices with equal indices."""
        rows, sums, counts = [], [], []
        for mine, other in walk_together(self._indices.tolist(), indices.tolist()):
            rows.append(self._indices[mine] if mine >= 0 else indices[other])
            counts.append((self._counts[mine] if mine >= 0 else 0) + (other >= 0))
            if mine < 0 or other < 0:
                sums.append(self._values[mine] if mine >= 0 else values[other])
            else:
                sums.append(values[other] + self._values[mine])
        summed = np.stack(sums) if sums else values
        return np.array(rows, np.int64), summed, np.array(counts, np.int64)

    def take(self, count: int, is_mean: bool, shape: Dims) -> Sequence[Tensor]:
        values = self._values
        if is_mean:
            divisors = self._counts.astype(values.dtype)
            values = values / divisors.reshape(-1, *(1,) * (values.ndim - 1))
        rows = shape[0] if shape else -1
        return self._indices, values, np.array([rows, *values.shape[1:]], np.int64)


def _check_dense_shape(given: Sequence[int], shape: Dims) -> None:
    expected = shape or ()
    if len(expected) > len(given):
        raise InvalidArgumentError(f"Shape mismatch: expected shape rank at least {len(expected)}, got {len(given)}")
    for axis, (dim, found) in enumerate(zip(expected, given, strict=False)):
        if dim not in (-1, found):
            raise InvalidArgumentError(f"Shape mismatch: expected shape dim {axis} to be {dim}, got {found}")


def _check_indices(indices: Tensor, shape: Dims) -> None:
    if not shape or shape[0] == -1:
        return
    for position, index in enumerate(indices.tolist()):
        if index >= shape[0]:
            raise InvalidArgumentError(
                f"Shape mismatch: index of slice {position} exceeded limits of shape; index is {index} exceeded {shape[0]}"
            )


# --- kernels ----------------------------------------------------------------------------------------------------------


def apply_gradient(inputs: Sequence[Any], attrs: Attrs, context: KernelContext) -> Sequence[Any]:
    """(handle, the step of the gradient, `indices [n]`, `values [n, ...]`, the dense shape) -> nothing.

    Raises InvalidArgumentError for indices out of range, and shapes that do not fit each other or the sum.
    """
    accumulator = find_accumulator(inputs[0], context)
    types = [(INT64, INT64, dtype, INT64) for dtype in (attrs["dtype"], accumulator.dtype)]
    check_signature(inputs[0], (types[0], ()), (types[1], ()))
    gradient = inputs[2:] if attrs["has_known_shape"] else inputs[2:4]
    return give(accumulator, inputs[1], gradient, context)


def take_gradient(inputs: Sequence[Any], attrs: Attrs, context: KernelContext) -> Sequence[Any]:
    """(handle, a scalar: the number of gradients required) -> `indices [n]`, `values [n, ...]`, the dense shape.

    The op waits until there are enough gradients. Raises InvalidArgumentError for a number that is not positive.
    """
    accumulator = find_accumulator(inputs[0], context)
    types = [(INT64, dtype, INT64) for dtype in (attrs["dtype"], accumulator.dtype)]
    check_signature(inputs[0], ((INT32,), types[0]), ((INT32,), types[1]))
    return await_gradients(accumulator, inputs, context)


TABLE: Table = {
    "SparseConditionalAccumulator": Kernel(both_forms(build_maker(SparseGradients))[0], infer_two_strings, needs_context=True),
    "SparseAccumulatorApplyGradient": Kernel(apply_gradient, infer_given, needs_context=True),
    "SparseAccumulatorTakeGradient": Kernel(take_gradient, infer_by("*, [] -> *, *, *"), needs_context=True, may_wait=True),
}
