"""Arithmetic of quantized integers with their ranges."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from functools import partial

import numpy as np

from placesim.core.dtypes import DataType
from placesim.core.errors import InvalidArgumentError, UnimplementedError
from placesim.ops.attributes import Attrs
from placesim.ops.kernels.broadcasting import check_broadcast
from placesim.ops.kernels.kernel import Compute, Kernel, Table, Tensor, elements, one_per_output
from placesim.ops.kernels.nn.convolution import infer_convolution
from placesim.ops.kernels.nn.correlation import correlate
from placesim.ops.kernels.nn.pooling import check_batch, infer_pool, pool_2d, window_flops
from placesim.ops.kernels.nn.pools import counts, pool_max
from placesim.ops.kernels.nn.windows import UNSTRIDED, check_entries, tap_slices, windows_of
from placesim.ops.kernels.quantized.ranges import dequantize, limits_of, product_range, quantize, quantize_unclamped, step_size
from placesim.ops.kernels.shapes import (
    Dims,
    ShapeContext,
    broadcast,
    check_scalars,
    format_dims,
    infer_by,
    merge_dim,
    with_rank,
)

Range = tuple[np.float32, np.float32]
RANK_REFUSAL = "`{name}` must be rank 0 but is rank {rank}"
SUM_STEPS = 1 << 14
"""The range of a sum is this many times its terms' range, so that its steps are small enough."""


# --- ranges ---------------------------------------------------------------------------------------------------------


def _with_range(output: Tensor, found: Range) -> Sequence[Tensor]:
    return output, np.asarray(found[0], np.float32), np.asarray(found[1], np.float32)


def _read_ranges(bounds: Sequence[Tensor], operands: Sequence[str], refusal: str = RANK_REFUSAL) -> list[Range]:
    """Return the operands' ranges from two scalars each. Raises InvalidArgumentError with text `refusal` for other ranks."""
    for bound, name in zip(bounds, _bound_names(operands), strict=True):
        if bound.ndim != 0:
            raise InvalidArgumentError(refusal.format(name=name, rank=bound.ndim, shape=format_dims(bound.shape)))
    return _pairs(bounds)


def _bound_names(operands: Sequence[str]) -> list[str]:
    return [f"{end}_{name}" for name in operands for end in ("min", "max")]


def _pairs(bounds: Sequence[Tensor]) -> list[Range]:
    values = [np.float32(bound.item()) for bound in bounds]
    return list(zip(values[::2], values[1::2], strict=True))


# --- activations ----------------------------------------------------------------------------------------------------


def _build_clamp(highest: float | None) -> Compute:
    """Return a kernel that raises values below zero to zero, and lowers those above `highest` to it."""

    def compute(inputs: Sequence[Tensor], attrs: Attrs) -> Sequence[Tensor]:
        value, *bounds = inputs
        (found,) = _read_ranges(bounds, ("input",))
        dtype = attrs["Tinput"]
        output = np.maximum(value, quantize(0.0, *found, dtype))
        if highest is not None:
            output = np.minimum(output, quantize(highest, *found, dtype))
        return _with_range(output, found)

    return compute


# --- elementwise ----------------------------------------------------------------------------------------------------


def add(inputs: Sequence[Tensor], attrs: Attrs) -> Sequence[Tensor]:
    """Add x and y, broadcast; return the sum in 32 bits, and its range. The inputs are x, y and the bounds of their ranges.

    Raises InvalidArgumentError for invalid bounds and shapes; UnimplementedError if axes broadcast in more than two runs.
    """
    x, y, *bounds = inputs
    ranges = _read_ranges(bounds, "xy")
    check_broadcast(x, y)
    for name, found in zip("xy", ranges, strict=True):
        _check_order(found, f"max_{name}", f"min_{name}")
    _check_runs(x, y)
    largest = max(abs(end) for found in ranges for end in found)
    limit = np.float32(largest * np.float32(SUM_STEPS))
    target = attrs["Toutput"]
    # TensorFlow scales a single number more exactly than a tensor
    single = 0 if x.size == 1 else 1 if y.size == 1 else None
    terms = [
        _in_sum(value, found, source, limit, target, is_exact=number == single)
        for number, (value, found, source) in enumerate(zip((x, y), ranges, (attrs["T1"], attrs["T2"]), strict=True))
    ]
    return _with_range((terms[0] + terms[1]).astype(np.int32), (-limit, limit))


def _in_sum(value: Tensor, found: Range, source: DataType, limit: np.float32, target: DataType, is_exact: bool) -> Tensor:
    """Convert values to int64 steps of the sum's range, each exactly if `is_exact`, else all by one factor."""

    def steps(numbers: Tensor) -> Tensor:
        return quantize_unclamped(dequantize(numbers, *found, source), -limit, limit, target)

    if is_exact:
        return np.clip(steps(value), *limits_of(target))
    # TensorFlow scales a tensor by the distance of two steps, so that the rounding error grows with the value
    zero, one = (int(step) for step in steps(np.arange(2)))
    return np.clip(zero + value.astype(np.int64) * (one - zero), *limits_of(target))


def multiply(inputs: Sequence[Tensor], attrs: Attrs) -> Sequence[Tensor]:
    """Multiply x and y, broadcast; return 32-bit products that wrap, and their range. Inputs and errors are those of `add`."""
    x, y, *bounds = inputs
    ranges = _read_ranges(bounds, "xy", "{name} must be a scalar")
    check_broadcast(x, y)
    # TensorFlow's messages have these wrong names
    for name, found in zip("ab", ranges, strict=True):
        _check_order(found, "max_x", f"min_{name}")
    _check_runs(x, y)
    sources = attrs["T1"], attrs["T2"]
    one, two = map(_centred, (x, y), ranges, sources)
    return _with_product_range(one * two, ranges, sources, attrs["Toutput"])


def _check_order(found: Range, high: str, low: str) -> None:
    # also refuses NaN
    if not found[1] > found[0]:
        raise InvalidArgumentError(f"{high} must be larger than {low}.")


def _check_runs(x: Tensor, y: Tensor) -> None:
    # TensorFlow's kernels take at most two runs of axes that broadcast alike
    if _count_runs(x.shape, y.shape) > 2:
        raise UnimplementedError(f"Broadcast between {format_dims(x.shape)} and {format_dims(y.shape)} is not supported yet.")


def _count_runs(one: Sequence[int], two: Sequence[int]) -> int:
    """Return the number of axes after neighbours that broadcast alike are merged."""
    pairs = itertools.zip_longest(reversed(one), reversed(two), fillvalue=1)
    return len(list(itertools.groupby((a == 1, b == 1) for a, b in pairs if (a, b) != (1, 1))))


def _with_product_range(
    product: Tensor, ranges: Sequence[Range], sources: Sequence[DataType], target: DataType
) -> Sequence[Tensor]:
    """Return a product, wrapped to int32, and its range, for operands with these ranges and types."""
    one, two = (step_size(*found, source) for found, source in zip(ranges, sources, strict=True))
    return _with_range(product.astype(np.int64, copy=False).astype(np.int32), product_range(one, two, target))


def _centred(value: Tensor, found: Range, source: DataType) -> Tensor:
    """Return values as int64 steps relative to the zero point."""
    return value.astype(np.int64) - quantize_unclamped(0.0, *found, source)


# --- products -------------------------------------------------------------------------------------------------------


def convolve(inputs: Sequence[Tensor], attrs: Attrs) -> Sequence[Tensor]:
    """Return Conv2D of `[batch, rows, columns, channels]` in 32 bits, and its range; inputs: image, filter, bounds of both.

    Raises InvalidArgumentError for attrs, shapes or bounds that do not fit, and for an input or filter without elements.
    """
    value, filters, *bounds = inputs
    _check_convolution_attrs(attrs)
    if value.ndim != 4:
        raise InvalidArgumentError(f"input must be rank 4 but is rank {value.ndim}")
    if filters.ndim != 4:
        raise InvalidArgumentError(f"filter must be rank 4 but is rank {filters.ndim}")
    ranges = _read_ranges(bounds, ("input", "filter"), "{name} must be rank 0 but is rank {rank}")
    if value.size == 0:
        raise InvalidArgumentError("Invalid input: Shapes dimension cannot be 0.")
    if value.shape[3] != filters.shape[2]:
        raise InvalidArgumentError(f"input and filter must have the same depth: {value.shape[3]} vs {filters.shape[2]}")
    windows = windows_of(value.shape[1:3], filters.shape[:2], attrs["strides"][1:3], (1, 1), attrs["padding"])
    if min(filters.shape[:3]) <= 0:
        raise InvalidArgumentError("filter patch must contain at least one element")
    sources = attrs["Tinput"], attrs["Tfilter"]
    # products of bytes are exact in doubles, which numpy multiplies faster than integers
    one, two = (steps.astype(np.float64) for steps in map(_centred, (value, filters), ranges, sources))
    return _with_product_range(correlate(one, two, windows), ranges, sources, attrs["out_type"])


def _check_convolution_attrs(attrs: Attrs) -> None:
    strides, dilations, axes = attrs["strides"], attrs["dilations"], "in the row and column dimensions."
    check_entries(strides, "strides", 4)
    check_entries(dilations, "dilations", 4)
    only, not_yet = "Current implementation only supports", "Current implementation does not yet support"
    if strides[1] != strides[2]:
        raise InvalidArgumentError(f"{only} equal length strides {axes}")
    if not strides[0] == strides[3] == 1:
        raise InvalidArgumentError(UNSTRIDED)
    if not dilations[1] == dilations[2] == 1:
        raise InvalidArgumentError(f"{only} dilated rate as 1 {axes}")
    if not dilations[0] == dilations[3] == 1:
        raise InvalidArgumentError(f"{not_yet} dilations in the batch and depth dimensions.")


def multiply_matrices(inputs: Sequence[Tensor], attrs: Attrs) -> Sequence[Tensor]:
    """Multiply two matrices, transposed if attrs say so; return a 32-bit product and its range. The last inputs are bounds.

    Raises InvalidArgumentError for invalid bounds, and for shapes that do not fit.
    """
    a, b, *bounds = inputs
    ranges = _read_matrix_ranges(bounds)
    if a.ndim != 2:
        raise InvalidArgumentError("In[0] is not a matrix")
    if b.ndim != 2:
        raise InvalidArgumentError("In[1] is not a matrix")
    sources = attrs["T1"], attrs["T2"]
    one, two = (steps.astype(np.float64) for steps in map(_centred, (a, b), ranges, sources))
    one, two = one.T if attrs["transpose_a"] else one, two.T if attrs["transpose_b"] else two
    if one.shape[1] != len(two):
        raise InvalidArgumentError(f"Matrix size-incompatible: In[0]: {format_dims(a.shape)}, In[1]: {format_dims(b.shape)}")
    return _with_product_range(one @ two, ranges, sources, attrs["Toutput"])


def _read_matrix_ranges(bounds: Sequence[Tensor]) -> list[Range]:
    """Return the ranges of two matrices. Tensors of one element count as scalars, except for the first bound."""
    for bound, name in zip(bounds, _bound_names("ab"), strict=True):
        is_scalar = bound.ndim == 0 if name == "min_a" else bound.size == 1
        if not is_scalar:
            raise InvalidArgumentError(f"{name} must be a scalar, but got shape{format_dims(bound.shape)}")
    ranges = _pairs(bounds)
    for name, found in zip("ab", ranges, strict=True):
        _check_order(found, f"max_{name}", f"min_{name}")
    return ranges


# --- pooling --------------------------------------------------------------------------------------------------------


def _read_pooled_range(bounds: Sequence[Tensor]) -> Range:
    (found,) = _read_ranges(bounds, ("input",), "{name} shape must be rank 0 but is rank {rank}, received shape: {shape}")
    return found


def average(inputs: Sequence[Tensor], attrs: Attrs) -> Sequence[Tensor]:
    """Return the mean, rounded toward zero, of each window's cells in the image; the inputs are the image and its bounds.

    Raises InvalidArgumentError for attrs or inputs that do not fit; UnimplementedError for pooling over batch or channels.
    """
    value, *bounds = inputs
    check_batch(attrs)
    pool = pool_2d(value.shape, attrs)
    found = _read_pooled_range(bounds)
    if pool.depth != 1:
        raise UnimplementedError("Non-spatial pooling is not yet supported. Volunteers? :)")
    sums = np.zeros(pool.shape(value.shape), np.int64)
    for outputs, cells in tap_slices(pool.windows):
        sums[:, *outputs] += value[:, *cells]
    means = np.sign(sums) * (np.abs(sums) // counts(pool))
    return _with_range(means.astype(value.dtype), found)


def maximum(inputs: Sequence[Tensor], attrs: Attrs) -> Sequence[Tensor]:
    """Return the maximum of each window over rows and columns, or over channels; the inputs are the image and its bounds.

    Raises InvalidArgumentError for attrs or inputs that do not fit; UnimplementedError for other pooling.
    """
    value, *bounds = inputs
    sizes = attrs["ksize"]
    if min(sizes) <= 0:
        listed = ",".join(map(str, sizes))
        raise InvalidArgumentError(f"Sliding window ksize must be positive. The specified or inferred ksize is: {listed}")
    check_batch(attrs)
    found = _read_pooled_range(bounds)
    return _with_range(pool_max(value, pool_2d(value.shape, attrs)), found)


# --- shape functions ------------------------------------------------------------------------------------------------


def _infer_sum(context: ShapeContext) -> Sequence[Dims]:
    output = broadcast(context.shapes[0], context.shapes[1])
    check_scalars(context, 2)
    return output, (), ()


def _infer_product(context: ShapeContext) -> Sequence[Dims]:
    # TensorFlow checks the bounds' shapes for a sum, but not for a product
    return broadcast(context.shapes[0], context.shapes[1]), (), ()


def _infer_convolve(context: ShapeContext) -> Sequence[Dims]:
    floats = ShapeContext(context.shapes[:2], {**context.attrs, "data_format": "NHWC"})
    (output,) = infer_convolution(floats, spatial=2)
    check_scalars(context, 2)
    return output, (), ()


def _infer_multiply_matrices(context: ShapeContext) -> Sequence[Dims]:
    a, b = with_rank(context.shapes[0], 2), with_rank(context.shapes[1], 2)
    rows, inner = a[::-1] if context.attrs["transpose_a"] else a
    other, columns = b[::-1] if context.attrs["transpose_b"] else b
    merge_dim(inner, other)
    check_scalars(context, 2)
    return (rows, columns), (), ()


def _infer_pooled(context: ShapeContext, op: str) -> Sequence[Dims]:
    (output,) = infer_pool(context, op)
    check_scalars(context, 1)
    return output, (), ()


# --- costs ----------------------------------------------------------------------------------------------------------


def _convolve_flops(inputs: Sequence[Dims], outputs: Sequence[Dims], attrs: Attrs) -> int:
    return 2 * elements(outputs[0]) * elements((inputs[1] or ())[:3])


def _multiply_matrices_flops(inputs: Sequence[Dims], outputs: Sequence[Dims], attrs: Attrs) -> int:
    inner = (inputs[0] or (0, 0))[0 if attrs["transpose_a"] else 1]
    return 2 * inner * elements(outputs[0])


TABLE: Table = {
    "QuantizedAdd": Kernel(add, _infer_sum, one_per_output),
    "QuantizedAvgPool": Kernel(average, partial(_infer_pooled, op="AvgPool"), window_flops),
    "QuantizedConv2D": Kernel(convolve, _infer_convolve, _convolve_flops),
    "QuantizedMatMul": Kernel(multiply_matrices, _infer_multiply_matrices, _multiply_matrices_flops),
    "QuantizedMaxPool": Kernel(maximum, partial(_infer_pooled, op="MaxPool"), window_flops),
    "QuantizedMul": Kernel(multiply, _infer_product, one_per_output),
    "QuantizedRelu": Kernel(_build_clamp(None), infer_by("x, []... -> x, [], []"), one_per_output),
    "QuantizedRelu6": Kernel(_build_clamp(6.0), infer_by("x, []... -> x, [], []"), one_per_output),
}
