"""Floats rounded to the steps of a quantized type and back (QuantizeAndDequantize), and the gradient."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from placesim.core.errors import InvalidArgumentError
from placesim.ops.attributes import Attrs
from placesim.ops.kernels.kernel import Kernel, Table, Tensor, one_per_output, per_element
from placesim.ops.kernels.memory_rules import KernelMemory, item_size
from placesim.ops.kernels.quantized.quantization import bound_dims, check_axis, merge_slices
from placesim.ops.kernels.shapes import Dims, ShapeContext, check_scalars, merge, unchanged, with_rank


def round_trip(inputs: Sequence[Tensor], attrs: Attrs) -> Sequence[Tensor]:
    """Round values to the steps of the given range, or of the range that they span; the inputs are values and bounds.

    Raises InvalidArgumentError for invalid bounds, axis or number of bits.
    """
    value, lows, highs = inputs
    axis, bits = attrs["axis"], attrs["num_bits"]
    _check_bits(bits, attrs, "signed_input_")
    if axis >= value.ndim:
        raise InvalidArgumentError(f"Shape must be at least rank {axis + 1} but is rank {value.ndim}")
    if attrs["range_given"]:
        if lows.ndim != 0:
            raise InvalidArgumentError("input_min must be a scalar.")
        if highs.ndim != 0:
            raise InvalidArgumentError("input_max must be a scalar.")
        if axis != -1:
            raise InvalidArgumentError("Shape must be rank 1 for input_min_tensor when the axis is specified")
        _check_order(lows, highs)
    return (_round_trip(value, lows, highs, bits, attrs),)


def round_trip_by_bits(inputs: Sequence[Tensor], attrs: Attrs) -> Sequence[Tensor]:
    """As `round_trip`, with the number of bits as an input, and a range for each slice along attr `axis`.

    Raises the errors of `round_trip`, and InvalidArgumentError unless there is a bound for each slice.
    """
    value, lows, highs, bits = inputs
    axis = attrs["axis"]
    # a scalar is refused even without an axis
    if max(axis, 0) >= value.ndim:
        raise InvalidArgumentError(
            f"Axis requested is larger than input dimensions. Axis: {axis} Input Dimensions: {value.ndim}"
        )
    if bits.ndim != 0:
        raise InvalidArgumentError(f"Invalid shape. The `num_bits` tensor should be a scalar. Got dimensions: {bits.ndim}")
    _check_bits(int(bits), attrs, "`signed_input_`")
    if attrs["range_given"]:
        if axis > -1:
            _check_slices(lows, highs, axis, value.shape[axis])
        else:
            _check_order(lows, highs)
    return (_round_trip(value, lows, highs, int(bits), attrs),)


def round_trip_by_attrs(inputs: Sequence[Tensor], attrs: Attrs) -> Sequence[Tensor]:
    """As `round_trip`, with a range in attrs. Raises InvalidArgumentError for an invalid range or number of bits."""
    (value,) = inputs
    lows, highs = (np.asarray(attrs[name], value.dtype) for name in ("input_min", "input_max"))
    _check_bits(attrs["num_bits"], attrs, "signed_input_")
    if attrs["range_given"]:
        _check_order(lows, highs)
    return (_round_trip(value, lows, highs, attrs["num_bits"], {"narrow_range": False, "axis": -1, **attrs}),)


def _check_bits(bits: int, attrs: Attrs, name: str) -> None:
    signed = attrs["signed_input"]
    if not 0 < bits < (62 if signed else 63):
        raise InvalidArgumentError(f"num_bits is out of range: {bits} with {name} {int(signed)}")


def _check_slices(lows: Tensor, highs: Tensor, axis: int, slices: int) -> None:
    named = (("input_min_tensor", lows), ("input_max_tensor", highs))
    for name, bound in named:
        if bound.ndim != 1:
            raise InvalidArgumentError(f"Shape must be rank 1 for {name} when the axis is specified")
    for name, bound in named:
        size = len(bound)
        if size != slices:
            raise InvalidArgumentError(
                # TensorFlow's text has the wrong size last, instead of the input's size
                f"{name} has incorrect size, was {size} expected {slices} to match dim {axis} of the input [{size}]"
            )


def _check_order(lows: Tensor, highs: Tensor) -> None:
    for name, bound in (("input_min", lows), ("input_max", highs)):
        if bound.size != 1:
            raise InvalidArgumentError(f"{name} must be a scalar, got {bound.size} elements")
    low, high = lows.item(), highs.item()
    if low > high:
        raise InvalidArgumentError(f"Invalid range: input_min {low:g} > input_max {high:g}")


def _round_trip(value: Tensor, lows: Tensor, highs: Tensor, bits: int, attrs: Attrs) -> Tensor:
    axis = attrs["axis"]
    if not value.size:
        return value
    shape = (-1, *[1] * (value.ndim - axis - 1)) if axis > -1 else ()
    if attrs["range_given"]:
        lows, highs = lows.reshape(shape), highs.reshape(shape)
    else:
        axes = tuple(other for other in range(value.ndim) if other != axis)
        lows, highs = value.min(axis=axes).reshape(shape), value.max(axis=axes).reshape(shape)
    low, high, scale, inverse = _scale_range(lows, highs, bits, attrs, value.dtype)
    clamped = np.maximum(np.minimum(value, high), low) if attrs["range_given"] else value
    steps = clamped * scale
    # the op's third version has no `round_mode`
    to_even = attrs.get("round_mode", "HALF_TO_EVEN") == "HALF_TO_EVEN"
    rounded: Tensor = np.rint(steps) if to_even else np.floor(steps + value.dtype.type(0.5))
    return (rounded * inverse).astype(value.dtype, copy=False)


def _scale_range(lows: Tensor, highs: Tensor, bits: int, attrs: Attrs, dtype: Any) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Return the lower and upper bound of the steps, the factor to steps, and its inverse."""
    signed = attrs["signed_input"]
    last = dtype.type((1 << (bits - 1)) - 1 if signed else (1 << bits) - 1)
    first = dtype.type(-(1 << (bits - 1)) + attrs["narrow_range"] if signed else 0)
    largest = np.finfo(dtype).max
    from_low = np.where(first * lows > 0, first / lows, largest)
    from_high = np.where(last * highs > 0, last / highs, largest)
    # the side that needs larger steps determines the scale, and keeps its bound exactly
    by_low = from_low < from_high
    inverse = np.where(by_low, lows / first, highs / last)
    scale = np.where(by_low, from_low, from_high)
    return np.where(by_low, lows, first * inverse), np.where(by_low, last * inverse, highs), scale, inverse


def round_trip_gradient(inputs: Sequence[Tensor], attrs: Attrs) -> Sequence[Tensor]:
    """Return the gradient of each value in the range, and zeros for the bounds; the inputs are gradient, values and bounds.

    Raises InvalidArgumentError unless gradient and values have one shape, and bounds are scalars or as long as the axis.
    """
    gradient, value, lows, highs = inputs
    axis = attrs["axis"]
    if axis >= value.ndim:
        # TensorFlow's text lacks the space
        raise InvalidArgumentError(
            f"Axis should be -1 or 0 or a positive value less than {value.ndim}but given axis value was {axis}"
        )
    if gradient.shape != value.shape:
        raise InvalidArgumentError("gradient and input must be the same size")
    bounds = (("min", lows), ("max", highs))
    for name, bound in bounds:
        if bound.ndim >= 2:
            raise InvalidArgumentError(f"Input {name} tensor must have dimension 0 or 1. Received {bound.ndim}.")
    for name, bound in bounds:
        if bound.ndim != (axis > -1):
            raise InvalidArgumentError(
                f"Shape must be rank 1 for input_{name}_tensor when the axis is specified"
                if axis > -1
                else f"input_{name} must be a scalar if axis is unspecified"
            )
    for name, bound in bounds if axis > -1 else ():
        size = value.shape[axis]
        if len(bound) != size:
            raise InvalidArgumentError(f"{name} has incorrect size, expected {size} was {len(bound)}")
    shape = (lows.size, *[1] * (value.ndim - axis - 1)) if axis > -1 else ()
    inside = (value >= lows.reshape(shape)) & (value <= highs.reshape(shape))
    return gradient * inside, np.zeros_like(lows), np.zeros_like(highs)


# --- shape functions ------------------------------------------------------------------------------------------------


def _merged_bound(context: ShapeContext, low: int, high: int) -> Dims:
    """Return the common shape of the bounds, inputs `low` and `high`."""
    bound = merge(context.shapes[high], bound_dims(context, low))
    check_axis(context)
    merge_slices(context, with_rank(bound, 0 if context.attrs["axis"] == -1 else 1))
    return bound


def _infer_round_trip(context: ShapeContext) -> Sequence[Dims]:
    _merged_bound(context, 1, 2)
    check_scalars(context, 3)
    return (context.shapes[0],)


def _infer_round_trip_gradient(context: ShapeContext) -> Sequence[Dims]:
    bound = _merged_bound(context, 2, 3)
    return merge(context.shapes[0], context.shapes[1]), bound, bound


# --- costs ----------------------------------------------------------------------------------------------------------


_TWO_PER_ELEMENT = per_element(0, 2)


# --- memory ---------------------------------------------------------------------------------------------------------


def round_trip_memory(memory: KernelMemory) -> None:
    """If no range is given, temporaries have the lowest and the highest value of the tensor or of each slice."""
    memory.allocate()
    if not memory.attrs["range_given"]:
        value, axis = memory.inputs[0], memory.attrs["axis"]
        slices = 1 if axis == -1 else value.dims[axis]
        for _bound in range(2):
            memory.temporary(slices * item_size(value.dtype), () if axis == -1 else (slices,), value.dtype)


TABLE: Table = {
    "QuantizeAndDequantize": Kernel(round_trip_by_attrs, unchanged, _TWO_PER_ELEMENT),
    "QuantizeAndDequantizeV2": Kernel(round_trip, _infer_round_trip, _TWO_PER_ELEMENT, memory=round_trip_memory),
    "QuantizeAndDequantizeV3": Kernel(round_trip_by_bits, _infer_round_trip, _TWO_PER_ELEMENT, memory=round_trip_memory),
    "QuantizeAndDequantizeV4": Kernel(round_trip, _infer_round_trip, _TWO_PER_ELEMENT, memory=round_trip_memory),
    "QuantizeAndDequantizeV4Grad": Kernel(round_trip_gradient, _infer_round_trip_gradient, one_per_output),
}
