"""Fake quantization: floats rounded to the steps of a range, which is moved so that zero is a step; and its gradients.

Source of the moved range: Jacob et al., "Quantization and Training of Neural Networks" (2018), section 3.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np

from placesim.core.errors import InvalidArgumentError
from placesim.ops.attributes import Attrs
from placesim.ops.kernels.kernel import Kernel, KernelContext, Table, Tensor, per_element
from placesim.ops.kernels.memory_rules import forwards
from placesim.ops.kernels.shapes import (
    Dims,
    ShapeContext,
    format_dims,
    infer_by,
    merge,
    merge_dim,
    unchanged,
    with_rank,
    with_rank_at_least,
    with_rank_at_most,
)


class _Range(NamedTuple):
    """The moved range, the size of a step, and its inverse, in float32; `empty` if minimum and maximum are both zero."""

    low: Tensor
    high: Tensor
    scale: Tensor
    inverse: Tensor
    empty: Tensor


# --- ranges ---------------------------------------------------------------------------------------------------------


def _round_away(x: Tensor) -> Tensor:
    """Round halves away from zero, as TensorFlow does for the step of zero."""
    rounded: Tensor = np.trunc(x + np.copysign(np.float32(0.5), x))
    return rounded


def _move(minimum: Tensor | float, maximum: Tensor | float, attrs: Attrs) -> _Range:
    """Return the range moved so that zero is a step."""
    first = np.float32(1 if attrs["narrow_range"] else 0)
    last = np.float32((1 << attrs["num_bits"]) - 1)
    low, high = np.asarray(minimum, np.float32), np.asarray(maximum, np.float32)
    scale = (high - low) / (last - first)
    zero = first - low / scale
    # the step of zero is limited, so that a range without zero is moved to touch it
    zero = np.where(zero < first, first, np.where(zero > last, last, _round_away(zero)))
    inverse = (last - first) / (high - low)
    return _Range((first - zero) * scale, (last - zero) * scale, scale, inverse, (low == 0) & (high == 0))


def _quantize(value: Tensor, moved: _Range, is_multiplied: bool = False) -> Tensor:
    """Round values to steps. With `is_multiplied`, a multiplication replaces the division, and may round differently."""

    def count(x: Tensor) -> Tensor:
        return x * moved.inverse if is_multiplied else x / moved.scale

    # rounds halves up, although `_move` rounds them away from zero
    zero = np.floor(count(-moved.low) + np.float32(0.5))
    clamped = np.maximum(np.minimum(value, moved.high), moved.low) - moved.low
    steps = np.floor(count(clamped) - zero + np.float32(0.5))
    return np.where(moved.empty, np.float32(0), steps * moved.scale).astype(np.float32)


def _is_inside(value: Tensor, moved: _Range) -> Tensor:
    # an empty range passes all gradients on
    return moved.empty | ((value >= moved.low) & (value <= moved.high))


# --- range in attrs -------------------------------------------------------------------------------------------------


def _range_of_attrs(attrs: Attrs) -> _Range:
    low, high = attrs["min"], attrs["max"]
    if low >= high:
        raise InvalidArgumentError(f"min has to be smaller than max, was: {low:g} >= {high:g}")
    _check_bits(attrs)
    return _move(low, high, attrs)


def _check_bits(attrs: Attrs) -> None:
    if not 2 <= attrs["num_bits"] <= 16:
        raise InvalidArgumentError("num_bits must be between 2 and 16, inclusive")


def quantize_by_attrs(inputs: Sequence[Tensor], attrs: Attrs) -> Sequence[Tensor]:
    """Quantize values in the range of attrs. Raises InvalidArgumentError for an empty range or invalid `num_bits`."""
    return (_quantize(inputs[0], _range_of_attrs(attrs), is_multiplied=True),)


def quantize_by_attrs_gradient(inputs: Sequence[Tensor], attrs: Attrs, context: KernelContext) -> Sequence[Tensor]:
    """Return the gradient of each value in the range, and zero for other values; the inputs are gradient and values.

    Raises InvalidArgumentError for unequal shapes, an empty range or invalid `num_bits`.
    """
    gradient, value = inputs
    moved = _range_of_attrs(attrs)
    if gradient.shape != value.shape:
        raise InvalidArgumentError(
            f"Inputs to operation {context.node} of type FakeQuantWithMinMaxArgsGradient must have the same size and shape.  "
            f"Input 0: {format_dims(gradient.shape)} != input 1: {format_dims(value.shape)}"
        )
    return (gradient * _is_inside(value, moved),)


# --- range in tensors -----------------------------------------------------------------------------------------------


def _check_range(value: Tensor, low: Tensor, high: Tensor, rank: int) -> None:
    for name, bound in (("min", low), ("max", high)):
        if np.ndim(bound) != rank:
            raise InvalidArgumentError(f"`{name}` must be rank {rank} but is rank {np.ndim(bound)}")
        if rank:
            if value.ndim == 0:
                raise InvalidArgumentError("Shape must be at least rank 1 but is rank 0")
            size = value.shape[-1]
            if len(bound) != size:
                raise InvalidArgumentError(f"{name} has incorrect size, expected {size} was {len(bound)}")


def _build_quantize(rank: int) -> Callable[[Sequence[Tensor], Attrs], Sequence[Tensor]]:
    """Return a kernel that quantizes values in one range (rank 0), or in a range for each channel (rank 1)."""

    def compute(inputs: Sequence[Tensor], attrs: Attrs) -> Sequence[Tensor]:
        value, low, high = inputs
        _check_bits(attrs)
        _check_range(value, low, high, rank)
        return (_quantize(value, _move(low, high, attrs), is_multiplied=rank == 1),)

    return compute


def _build_quantize_gradient(rank: int) -> Callable[[Sequence[Tensor], Attrs], Sequence[Tensor]]:
    """Return a kernel for the gradients of values and bounds; a bound's gradient is the sum over the values beyond it."""

    def compute(inputs: Sequence[Tensor], attrs: Attrs) -> Sequence[Tensor]:
        gradient, value, low, high = inputs
        _check_bits(attrs)
        if gradient.shape != value.shape:
            raise InvalidArgumentError("gradient and input must be the same size")
        _check_range(value, low, high, rank)
        moved = _move(low, high, attrs)
        axes = tuple(range(value.ndim - rank))
        below, above = ~moved.empty & (value < moved.low), ~moved.empty & (value > moved.high)
        sums = [np.asarray(np.sum(gradient * outside, axis=axes, dtype=np.float32)) for outside in (below, above)]
        return gradient * _is_inside(value, moved), *sums

    return compute


# --- shape functions ------------------------------------------------------------------------------------------------


def _infer_channels(context: ShapeContext) -> Sequence[Dims]:
    value = with_rank_at_least(context.shapes[0], 1)
    bounds = [with_rank(dims, 1) for dims in context.shapes[1:]]
    for (size,) in bounds:
        merge_dim(-1 if value is None else value[-1], size)
    return (value,)


def _infer_one_range_gradient(context: ShapeContext) -> Sequence[Dims]:
    value = merge(context.shapes[0], context.shapes[1])
    bound = merge(with_rank(context.shapes[2], 0), context.shapes[3])
    return value, bound, bound


def _infer_channels_gradient(context: ShapeContext) -> Sequence[Dims]:
    # only this shape function has a limit of rank 4
    value = with_rank_at_most(with_rank_at_least(context.shapes[0], 1), 4)
    value = merge(value, context.shapes[1])
    bound = merge(with_rank(context.shapes[2], 1), (-1,) if value is None else value[-1:])
    bound = merge(context.shapes[3], bound)
    return value, bound, bound


# --- costs ----------------------------------------------------------------------------------------------------------


_FOUR_PER_ELEMENT = per_element(0, 4)

TABLE: Table = {
    "FakeQuantWithMinMaxArgs": Kernel(quantize_by_attrs, unchanged, _FOUR_PER_ELEMENT, memory=forwards(0)),
    "FakeQuantWithMinMaxArgsGradient": Kernel(
        quantize_by_attrs_gradient, unchanged, _FOUR_PER_ELEMENT, needs_context=True, memory=forwards(0, 1)
    ),
    "FakeQuantWithMinMaxVars": Kernel(_build_quantize(0), infer_by("x, []... -> x"), _FOUR_PER_ELEMENT),
    "FakeQuantWithMinMaxVarsGradient": Kernel(_build_quantize_gradient(0), _infer_one_range_gradient, _FOUR_PER_ELEMENT),
    "FakeQuantWithMinMaxVarsPerChannel": Kernel(_build_quantize(1), _infer_channels, _FOUR_PER_ELEMENT),
    "FakeQuantWithMinMaxVarsPerChannelGradient": Kernel(
        _build_quantize_gradient(1), _infer_channels_gradient, _FOUR_PER_ELEMENT
    ),
}
