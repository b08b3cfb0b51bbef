"""Concatenation of quantized tensors, and addition of a bias: values are converted to floats, and to the result's range.

Source: TensorFlow's `quantized_concat_op.cc` and `quantized_bias_add_op.cc`.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from placesim.core.dtypes import QINT32, DataType
from placesim.core.errors import InvalidArgumentError
from placesim.ops.attributes import Attrs
from placesim.ops.kernels.array.joining import infer_joined
from placesim.ops.kernels.kernel import Kernel, Table, Tensor, one_per_output
from placesim.ops.kernels.quantized.ranges import dequantize_in_floats, quantize_in_floats, read_bound
from placesim.ops.kernels.shape_operands import shape_text
from placesim.ops.kernels.shapes import Dims, ShapeContext, check_scalars, merge_dim, with_rank, with_rank_at_least

Range = tuple[np.float32, np.float32]

BIAS_STEPS = 1 << 17
"""The range of a sum with a bias is this many times the larger of the two terms' ranges."""


def add_bias(inputs: Sequence[Tensor], attrs: Attrs) -> Sequence[Tensor]:
    """Add a bias `[channels]` to `[..., channels]`; return the sum in 32 bits, and its range. Both terms' bounds are inputs.

    Raises InvalidArgumentError for bounds that are not scalars, other ranks, and another number of biases than channels.
    """
    value, bias, *bounds = inputs
    names = ("min_input", "max_input", "min_bias", "max_bias")
    ends = [read_bound(bound, name) for bound, name in zip(bounds, names, strict=True)]
    if value.ndim < 2:
        raise InvalidArgumentError(f"Input tensor must be at least 2D: {shape_text(value)}")
    if bias.ndim != 1:
        raise InvalidArgumentError(f"Biases must be 1D: {shape_text(bias)}")
    if len(bias) != value.shape[-1]:
        raise InvalidArgumentError(
            f"Must provide as many biases as the last dimension of the input tensor: {shape_text(bias)} vs. {shape_text(value)}"
        )
    limit = np.float32(max(map(abs, ends)) * np.float32(BIAS_STEPS))
    terms = [
        quantize_in_floats(dequantize_in_floats(term, low, high, source), -limit, limit, attrs["out_type"])
        for term, low, high, source in ((value, *ends[:2], attrs["T1"]), (bias, *ends[2:], attrs["T2"]))
    ]
    return terms[0] + terms[1], np.asarray(-limit), np.asarray(limit)


def _first_element(bound: Tensor) -> np.float32:
    if not bound.size:
        raise InvalidArgumentError(f"the end of a range must be a scalar, got shape {shape_text(bound)}")
    return np.float32(bound.reshape(-1)[0])


def concatenate(inputs: Sequence[Tensor], attrs: Attrs) -> Sequence[Tensor]:
    """Join `N` tensors along an axis. Return the result, and its range, which includes their ranges.

    The inputs are axis, tensors, and their bounds. Raises InvalidArgumentError for an invalid axis, or shapes that do not fit.
    """
    count = attrs["N"]
    axis_tensor, values = inputs[0], inputs[1 : 1 + count]
    lows, highs = ([_first_element(bound) for bound in inputs[start : start + count]] for start in (1 + count, 1 + 2 * count))
    axis = _check_joinable(axis_tensor, values)
    low, high = min(lows), max(highs)
    dtype = attrs["T"]
    if dtype is QINT32:
        # a symmetric range
        high = max(abs(low), abs(high))
        low = -high
    # TensorFlow drops an empty tensor, but not its range, so that the next tensors are read with wrong ranges
    filled = [value for value in values if value.size]
    pieces = [
        value if (first, last) == (low, high) else _move_range(value, (first, last), (low, high), dtype)
        for value, first, last in zip(filled, lows, highs, strict=False)
    ]
    return np.concatenate(pieces or values, axis), np.asarray(low), np.asarray(high)


def _move_range(value: Tensor, old: Range, new: Range, dtype: DataType) -> Tensor:
    return quantize_in_floats(dequantize_in_floats(value, *old, dtype), *new, dtype)


def _check_joinable(axis_tensor: Tensor, values: Sequence[Tensor]) -> int:
    if axis_tensor.ndim:
        raise InvalidArgumentError(f"Concat dim tensor should be a scalar integer, but got shape {shape_text(axis_tensor)}")
    axis, first = int(axis_tensor), values[0]
    if not 0 <= axis < first.ndim:
        raise InvalidArgumentError(
            f"ConcatOp : Expected concatenating dimensions in the range [0, {first.ndim}), but got {axis}"
        )
    for position, value in enumerate(values):
        shapes = f"shape[0] = {shape_text(first)} vs. shape[{position}] = {shape_text(value)}"
        if value.ndim != first.ndim:
            raise InvalidArgumentError(f"ConcatOp : Ranks of all input tensors should match: {shapes}")
        if any(a != b for other, (a, b) in enumerate(zip(first.shape, value.shape, strict=True)) if other != axis):
            raise InvalidArgumentError(f"ConcatOp : Dimensions of inputs should match: {shapes}")
    return axis


def _infer_bias(context: ShapeContext) -> Sequence[Dims]:
    value = with_rank_at_least(context.shapes[0], 2)
    bias = with_rank(context.shapes[1], 1)
    if value is not None:
        merge_dim(value[-1], bias[0])
    check_scalars(context, 2)
    return value, (), ()


def _infer_concatenate(context: ShapeContext) -> Sequence[Dims]:
    count = context.attrs["N"]
    joined = infer_joined(context, range(1, 1 + count), 0)
    check_scalars(context, 1 + count)
    return joined, (), ()


TABLE: Table = {
    "QuantizedBiasAdd": Kernel(add_bias, _infer_bias, one_per_output),
    "QuantizedConcat": Kernel(concatenate, _infer_concatenate),
}
