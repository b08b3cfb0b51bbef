"""Floats to quantized integers and back, quantized integers to another range, and both ways at once."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from placesim.dtypes import BFLOAT16, QINT32, QUINT8, DType
from placesim.errors import InvalidArgumentError, UnimplementedError
from placesim.ops.attributes import Attrs
from placesim.runtime.kernels.kernel import Kernel, Table, Tensor, one_per_output, per_element
from placesim.runtime.kernels.quantized.ranges import (
    cast_to_integer,
    dequantize,
    dequantize_in_floats,
    limits_of,
    quantize_in_floats,
    read_bound,
    round_away,
)
from placesim.runtime.shapes import (
    Dims,
    ShapeContext,
    ShapeError,
    merge,
    merge_dim,
    rank_of,
    unchanged,
    with_rank,
    with_rank_at_least,
)

_Range = tuple[np.float32, np.float32]

# --- QuantizeV2 -------------------------------------------------------------------------------------------------------


def quantize_tensor(inputs: Sequence[Tensor], attrs: Attrs) -> Sequence[Tensor]:
    """(floats, lows, highs) -> steps shaped as the floats, and the range that they really stand for.

    The range is one, or one for each slice along attr `axis`.  InvalidArgumentError for ends that are not as many, an upper end
    below the lower, and a rounding that the mode does not have; UnimplementedError for mode MIN_FIRST along an axis.
    """
    value, lows, highs = inputs
    axis, mode = attrs["axis"], attrs["mode"]
    if attrs["round_mode"] == "HALF_TO_EVEN" and mode != "SCALED":
        raise InvalidArgumentError(f"Round mode 'HALF_TO_EVEN' only supported for mode 'SCALED', but mode is '{mode}'.")
    _check_quantize_ranges(value, lows, highs, axis)
    slices = value.shape[axis] if axis > -1 else 1
    # one slice is quantized as a whole, in every mode
    if slices == 1:
        output, low, high = _quantize_slice(value, lows.reshape(-1)[0], highs.reshape(-1)[0], attrs)
        return output, np.asarray(low), np.asarray(high)
    if mode == "MIN_FIRST":
        raise UnimplementedError("MIN_FIRST mode is not implemented for Quantize with axis != -1.")
    output = np.empty(value.shape, attrs["T"].numpy)
    found_lows, found_highs = np.empty_like(lows), np.empty_like(highs)
    for number in range(slices):
        where = (slice(None),) * axis + (number,)
        output[where], found_lows[number], found_highs[number] = _quantize_slice(
            value[where], lows[number], highs[number], attrs
        )
    return output, found_lows, found_highs


def _check_quantize_ranges(value: Tensor, lows: Tensor, highs: Tensor, axis: int) -> None:
    if axis < 0:
        for name, bound in (("min_range", lows), ("max_range", highs)):
            if bound.size != 1:
                raise InvalidArgumentError(
                    f"If axis is not specified, {name} must contain a single float element, "
                    f"but it contains {bound.size} elements"
                )
        return
    if value.ndim <= axis:
        raise InvalidArgumentError(
            "Axis is on a zero-based index, so its value must always be less than number of input's dims, "
            f"but given axis value was {axis} and input's dims was {value.ndim}"
        )
    for name, bound in (("min_range", lows), ("max_range", highs)):
        rule = (
            f"If axis is specified, {name} must be a 1-D tensor whose size matches the axis dimension "
            f"of the input and output tensors, but {name}"
        )
        if bound.ndim != 1:
            raise InvalidArgumentError(f"{rule} dims are {bound.ndim}")
        if len(bound) != value.shape[axis]:
            raise InvalidArgumentError(
                f"{rule} is a 1-D tensor of size {len(bound)} and input's axis dimension is of size {value.shape[axis]}"
            )


def _quantize_slice(value: Tensor, low: np.float32, high: np.float32, attrs: Attrs) -> tuple[Tensor, Any, Any]:
    """One range: it is made to include zero and not to be too small.

    The order of what is compared decides on NaN: `max` takes its second value only where that is larger.
    """
    if high < low:
        raise InvalidArgumentError("input_max_range must be larger than input_min_range.")
    zero = np.float32(0)
    largest = max(abs(low), abs(high))
    least = max(np.float32(1), largest) * np.float32(attrs["ensure_minimum_range"])
    low = min(zero, low)
    enough = max(high, np.float32(low + least))
    high = max(zero, enough)
    if attrs["mode"] == "MIN_COMBINED":
        return _quantize_combined(value, low, high, attrs["T"]), low, high
    if attrs["mode"] == "MIN_FIRST":
        return quantize_in_floats(value, low, high, attrs["T"]), low, high
    return _quantize_scaled(value, low, high, attrs)


def _clamp(value: Tensor, low: np.float32, high: np.float32) -> Tensor:
    clamped: Tensor = np.maximum(np.minimum(value, high), low)
    return clamped


def _quantize_combined(value: Tensor, low: np.float32, high: np.float32, dtype: DType) -> Tensor:
    lowest, highest = limits_of(dtype)
    scale = np.float32(np.float64(highest - lowest) / np.float64(high - low))
    steps = (_clamp(value, low, high) - low) * scale
    # unsigned steps are cut after a half is added, signed ones rounded away from zero
    if lowest == 0:
        return cast_to_integer(steps + np.float32(0.5), dtype)
    return cast_to_integer(round_away(steps - _half_range(dtype)), dtype)


def _half_range(dtype: DType) -> np.float32:
    """What is taken off so that the steps of a signed type are centred."""
    lowest, highest = limits_of(dtype)
    return np.float32(0 if lowest == 0 else (highest - lowest + 1) / 2)


def _quantize_scaled(value: Tensor, low: np.float32, high: np.float32, attrs: Attrs) -> tuple[Tensor, Any, Any]:
    """Zero stays zero: only the side that needs the larger steps sets the scale."""
    lowest, highest = limits_of(attrs["T"])
    first, last = np.float32(lowest + attrs["narrow_range"]), np.float32(highest)
    largest = np.finfo(np.float32).max
    scale = min(first / low if first * low > 0 else largest, last / high if last * high > 0 else largest)
    low, high = np.float32(first / scale), np.float32(last / scale)
    steps = _clamp(value, low, high) * scale
    rounded = np.rint(steps) if attrs["round_mode"] == "HALF_TO_EVEN" else round_away(steps)
    return cast_to_integer(rounded, attrs["T"]), low, high


# --- Dequantize -------------------------------------------------------------------------------------------------------


def dequantize_tensor(inputs: Sequence[Tensor], attrs: Attrs) -> Sequence[Tensor]:
    """(steps, lows, highs) -> floats shaped as the steps, in one range or in one for each slice along attr `axis`.

    InvalidArgumentError for ends that are not as many, an axis that is none, and bfloat16 in another mode than MIN_COMBINED;
    UnimplementedError for mode MIN_FIRST along an axis.
    """
    value, lows, highs = inputs
    axis, mode = attrs["axis"], attrs["mode"]
    if attrs["dtype"] is BFLOAT16 and mode != "MIN_COMBINED":
        raise InvalidArgumentError(f"When output type is bfloat16, Mode string must be 'MIN_COMBINED', is '{mode}'")
    if axis >= value.ndim:
        raise InvalidArgumentError(f"Axis must be less than input dimension({value.ndim}), got {axis}")
    slices = value.shape[axis] if axis > -1 else 1
    for name, bound in (("input_min_tensor", lows), ("input_max_tensor", highs)):
        if bound.size != slices:
            raise InvalidArgumentError(
                f"{name} must have as many elements as input on the dequantization axis ({axis}), "
                f"got {bound.size}, expected {slices}"
            )
    # one slice along an axis is as good as none
    if slices != 1 and mode == "MIN_FIRST":
        raise UnimplementedError("MIN_FIRST mode is not implemented for Dequantize with axis != -1.")
    shape = (slices, *[1] * (value.ndim - axis - 1)) if slices != 1 else ()
    found = _dequantize_steps(value, lows.reshape(shape), highs.reshape(shape), attrs)
    return (found.astype(attrs["dtype"].numpy, copy=False),)


def _dequantize_steps(value: Tensor, low: Tensor, high: Tensor, attrs: Attrs) -> Tensor:
    dtype = attrs["T"]
    lowest, highest = limits_of(dtype)
    steps = value.astype(np.float32)
    if attrs["mode"] == "MIN_COMBINED":
        scale = (high - low) / np.float32(highest - lowest)
        return (steps + _half_range(dtype)) * scale + low
    if attrs["mode"] == "MIN_FIRST":
        return dequantize_in_floats(value, np.float32(low), np.float32(high), dtype)
    from_high = high / np.float32(highest)
    # unsigned steps begin at zero, whatever the range's lower end
    if lowest == 0:
        return steps * from_high
    return steps * np.maximum(low / np.float32(lowest + attrs["narrow_range"]), from_high)


# --- QuantizeAndDequantize --------------------------------------------------------------------------------------------


def round_trip(inputs: Sequence[Tensor], attrs: Attrs) -> Sequence[Tensor]:
    """(values, low, high) -> values rounded to the steps of the range, or of their own where none is given.

    The range can be given only for the tensor as a whole.  InvalidArgumentError for ends that are no scalars or out of order,
    an axis that is none, and a number of bits out of range.
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
    """`round_trip` with the number of bits in a fourth tensor, a scalar, and a range for each slice along attr `axis`.

    InvalidArgumentError likewise, and for ends that are not one for each slice.
    """
    value, lows, highs, bits = inputs
    axis = attrs["axis"]
    # without an axis too, a scalar is refused
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
    """`round_trip` with a range in attrs, in the first version of the op; values of any shape.

    InvalidArgumentError for ends out of order, and a number of bits out of range.
    """
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
                # the last number is TensorFlow's: the size that is wrong, not that of the input
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
    # a range that was found holds all values already
    clamped = np.maximum(np.minimum(value, high), low) if attrs["range_given"] else value
    steps = clamped * scale
    # the third version of the op does not ask how to round; HALF_UP rounds halves up below zero too
    to_even = attrs.get("round_mode", "HALF_TO_EVEN") == "HALF_TO_EVEN"
    rounded: Tensor = np.rint(steps) if to_even else np.floor(steps + value.dtype.type(0.5))
    return (rounded * inverse).astype(value.dtype, copy=False)


def _scale_range(lows: Tensor, highs: Tensor, bits: int, attrs: Attrs, dtype: Any) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """The range that the steps reach, what a value is multiplied by to be in steps, and what brings it back."""
    signed = attrs["signed_input"]
    last = dtype.type((1 << (bits - 1)) - 1 if signed else (1 << bits) - 1)
    first = dtype.type(-(1 << (bits - 1)) + attrs["narrow_range"] if signed else 0)
    largest = np.finfo(dtype).max
    from_low = np.where(first * lows > 0, first / lows, largest)
    from_high = np.where(last * highs > 0, last / highs, largest)
    # the side that needs the larger steps sets the scale, and keeps its end exactly
    by_low = from_low < from_high
    inverse = np.where(by_low, lows / first, highs / last)
    scale = np.where(by_low, from_low, from_high)
    return np.where(by_low, lows, first * inverse), np.where(by_low, last * inverse, highs), scale, inverse


def round_trip_gradient(inputs: Sequence[Tensor], attrs: Attrs) -> Sequence[Tensor]:
    """(gradient, values, low, high) -> the gradient where the value is in the range, and zeros for the range's ends.

    InvalidArgumentError where shapes do not fit: gradient and values are of one, ends are scalars or as long as the axis.
    """
    gradient, value, lows, highs = inputs
    axis = attrs["axis"]
    if axis >= value.ndim:
        # the missing blank is TensorFlow's
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
    # the ends count as inside, and get no gradient of their own
    inside = (value >= lows.reshape(shape)) & (value <= highs.reshape(shape))
    return gradient * inside, np.zeros_like(lows), np.zeros_like(highs)


# --- other ranges -----------------------------------------------------------------------------------------------------


def requantize(inputs: Sequence[Tensor], attrs: Attrs) -> Sequence[Tensor]:
    """(steps, low, high, new low, new high) -> steps of the new range, shaped as those that are given, and that range.

    InvalidArgumentError for an end that is no scalar, a new range that begins above zero, or one whose ends are out of order.
    """
    value, *bounds = inputs
    names = ("input_min", "input_max", "requested_output_min", "requested_output_max")
    low, high, new_low, new_high = map(read_bound, bounds, names)
    # asked so that NaN is refused too
    if not new_low <= 0:
        raise InvalidArgumentError(f"requested_output_min must be <= 0, but got {new_low:g}")
    if not new_high >= new_low:
        raise InvalidArgumentError(
            f"requested_output_max must be >= requested_output_min, but got {new_high:g} and {new_low:g}"
        )
    output = _change_range(value, (low, high), (new_low, new_high), attrs["Tinput"], attrs["out_type"])
    return output, np.asarray(new_low), np.asarray(new_high)


def _change_range(value: Tensor, old: _Range, new: _Range, source: DType, target: DType) -> Tensor:
    # TensorFlow has a faster way for this pair, with other roundings
    if source is QINT32 and target is QUINT8:
        return _change_range_in_fixed_point(value, old, new)
    return quantize_in_floats(dequantize_in_floats(value, *old, source), *new, target)


def _change_range_in_fixed_point(value: Tensor, old: _Range, new: _Range) -> Tensor:
    """32 bits to 8 with 16 binary digits behind the point."""
    one = 1 << 16
    size, new_size = old[1] - old[0], new[1] - new[0]
    if new_size == 0:
        return np.zeros(value.shape, np.uint8)
    scale = _as_int64(255.0 * one * np.float64(size) / np.float64(new_size))
    middle = np.float32(np.float64(old[0] + old[1]) / 2.0)
    shift = _as_int64(np.float64(middle * np.float32(255.0 / np.float64(new_size)) * np.float32(one)))
    start = _as_int64(one * (np.float64(new[0]) * 255.0) / np.float64(new_size))
    fixed = (value.astype(np.int64) * scale >> 32) + (shift - start + np.int64(one // 2))
    clamped: Tensor = np.clip(fixed >> 16, 0, 255)
    return clamped.astype(np.uint8)


def _as_int64(value: np.float64) -> np.int64:
    """As a processor rounds to an integer: what is none, or has no place in 64 bits, becomes the least one."""
    return np.int64(value) if abs(value) < 2.0**63 else np.int64(-(2**63))


def find_range(inputs: Sequence[Tensor], attrs: Attrs) -> Sequence[Tensor]:
    """(steps, low, high) -> the ends, scalars, of the range that the steps really use; the lower is at most zero.

    InvalidArgumentError for an end without elements; of several the first counts.
    """
    value, low, high = inputs
    if low.size == 0:
        raise InvalidArgumentError("Input min must not be empty.")
    if high.size == 0:
        raise InvalidArgumentError("Input max must not be empty.")
    used = _used_range(value, low.reshape(-1)[0], high.reshape(-1)[0], attrs["Tinput"])
    return np.asarray(used[0]), np.asarray(used[1])


def shrink_range(inputs: Sequence[Tensor], attrs: Attrs) -> Sequence[Tensor]:
    """(steps, low, high) -> the steps in the range that they really use, in a smaller type, and that range's ends.

    InvalidArgumentError for an end that is no scalar.
    """
    value, low, high = inputs
    old = read_bound(low, "input_min"), read_bound(high, "input_max")
    used = _used_range(value, *old, attrs["Tinput"])
    output = _change_range(value, old, used, attrs["Tinput"], attrs["out_type"])
    return output, np.asarray(used[0]), np.asarray(used[1])


def _used_range(value: Tensor, low: np.float32, high: np.float32, dtype: DType) -> _Range:
    lowest, highest = limits_of(dtype)
    # no steps at all leave the limits crossed, and so a range from its upper to its lower end
    ends = np.array([value.min(initial=highest), value.max(initial=lowest)])
    first, last = dequantize(ends, low, high, dtype)
    return min(np.float32(0), first), last


# --- shape functions --------------------------------------------------------------------------------------------------


def _check_axis(context: ShapeContext) -> None:
    axis = context.attrs["axis"]
    if axis < -1:
        raise ShapeError(f"axis should be at least -1, got {axis}")


def _bound(context: ShapeContext, index: int) -> tuple[int, ...]:
    """The shape of an end of the range: a scalar, or a vector along the axis."""
    return with_rank(context.shapes[index], 0 if context.attrs["axis"] == -1 else 1)


def _merge_slices(context: ShapeContext, bound: Sequence[int]) -> None:
    """ShapeError where an end of the range is not as long as the axis."""
    axis = context.attrs["axis"]
    if axis != -1:
        value = with_rank_at_least(context.shapes[0], axis + 1)
        merge_dim(bound[0], -1 if value is None else value[axis])


def _infer_quantize(context: ShapeContext) -> Sequence[Dims]:
    _check_axis(context)
    _, bound = _bound(context, 1), _bound(context, 2)
    _merge_slices(context, bound)
    return context.shapes[0], bound, bound


def _infer_dequantize(context: ShapeContext) -> Sequence[Dims]:
    _check_axis(context)
    # an unknown rank counts as -1: then every axis is too large
    axis, rank = context.attrs["axis"], rank_of(context.shapes[0])
    known = -1 if rank is None else rank
    if axis > known:
        raise ShapeError(f"Axis must be less than input dimension({known}), got {axis}")
    return _infer_quantize(context)[:1]


def _merged_bound(context: ShapeContext, low: int, high: int) -> Dims:
    """The shape of both ends of the range, the inputs of these numbers."""
    bound = merge(context.shapes[high], _bound(context, low))
    _check_axis(context)
    _merge_slices(context, with_rank(bound, 0 if context.attrs["axis"] == -1 else 1))
    return bound


def _infer_round_trip(context: ShapeContext) -> Sequence[Dims]:
    _merged_bound(context, 1, 2)
    for bits in context.shapes[3:]:
        with_rank(bits, 0)
    return (context.shapes[0],)


def _infer_round_trip_gradient(context: ShapeContext) -> Sequence[Dims]:
    bound = _merged_bound(context, 2, 3)
    return merge(context.shapes[0], context.shapes[1]), bound, bound


def _infer_requantize(context: ShapeContext) -> Sequence[Dims]:
    for dims in context.shapes[1:]:
        with_rank(dims, 0)
    return context.shapes[0], (), ()


def _infer_find_range(context: ShapeContext) -> Sequence[Dims]:
    for dims in context.shapes[1:]:
        with_rank(dims, 0)
    return (), ()


# --- costs ------------------------------------------------------------------------------------------------------------

_TWO_PER_ELEMENT = per_element(0, 2)

TABLE: Table = {
    "Dequantize": Kernel(dequantize_tensor, _infer_dequantize, one_per_output),
    "QuantizeAndDequantize": Kernel(round_trip_by_attrs, unchanged, _TWO_PER_ELEMENT),
    "QuantizeAndDequantizeV2": Kernel(round_trip, _infer_round_trip, _TWO_PER_ELEMENT),
    "QuantizeAndDequantizeV3": Kernel(round_trip_by_bits, _infer_round_trip, _TWO_PER_ELEMENT),
    "QuantizeAndDequantizeV4": Kernel(round_trip, _infer_round_trip, _TWO_PER_ELEMENT),
    "QuantizeAndDequantizeV4Grad": Kernel(round_trip_gradient, _infer_round_trip_gradient, one_per_output),
    "QuantizeDownAndShrinkRange": Kernel(shrink_range, _infer_requantize, one_per_output),
    "QuantizeV2": Kernel(quantize_tensor, _infer_quantize, one_per_output),
    "RequantizationRange": Kernel(find_range, _infer_find_range),
    "Requantize": Kernel(requantize, _infer_requantize, one_per_output),
}
