"""Arithmetic of two tensors that broadcast: sums, products, divisions, remainders, powers, extremes."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import reduce
from typing import Any

import numpy as np

from placesim.core.dtypes import VARIANT
from placesim.core.errors import InternalError, InvalidArgumentError
from placesim.ops.attributes import Attrs
from placesim.ops.kernels.broadcasting import binary, check_broadcast
from placesim.ops.kernels.cost_model import ONE_PASS, CostModel, Passes
from placesim.ops.kernels.element_selection import choose
from placesim.ops.kernels.integers import truncated_quotient
from placesim.ops.kernels.kernel import PLAIN, Kernel, KernelContext, Table, Tensor, Trait, elements, one_per_output
from placesim.ops.kernels.memory_rules import KernelMemory, forwards
from placesim.ops.kernels.precision import widened
from placesim.ops.kernels.shapes import (
    Dims,
    HandleShape,
    ShapeContext,
    format_dims,
    merge_backwards,
    shape_attr,
    unchanged,
)

Division = Callable[[Tensor, Tensor], Any]


def _is_integer(x: Tensor) -> bool:
    return x.dtype.kind in "iu"


def _add_numbers(x: Tensor, y: Tensor) -> Any:
    if x.dtype == object:
        raise TypeError("`compute` adds strings")
    return np.add(x, y)


def _add(inputs: Sequence[Tensor], attrs: Attrs) -> Sequence[Any]:
    """Add numbers, or concatenate strings. Raises InvalidArgumentError for shapes that do not broadcast."""
    x, y = inputs
    shape = check_broadcast(x, y)
    if x.dtype != object:
        return (np.add(x, y),)
    result = np.empty(shape, object)
    result[...] = x + y
    return (result,)


# --- division -------------------------------------------------------------------------------------------------------


def divide(x: Tensor, y: Tensor) -> Any:
    """Return x / y of real or complex numbers, broadcast; a complex number divided by zero gives NaN in both parts."""
    quotient = np.divide(x, y)
    return np.where(y == 0, complex(np.nan, np.nan), quotient).astype(x.dtype) if x.dtype.kind == "c" else quotient


def _floored_quotient(x: Tensor, y: Tensor) -> Any:
    # the rounded quotient can be a whole number just above the exact one
    return np.floor(np.divide(x, y))


def _floored_remainder(x: Tensor, y: Tensor) -> Any:
    """Return the remainder with the sign of y; a remainder of zero has the sign of x."""
    # numpy's own remainder gives a zero the sign of y
    remainder = np.fmod(x, y)
    return np.where((remainder != 0) & ((y < 0) != (remainder < 0)), remainder + y, remainder)


def _checked(on_integers: Division, on_reals: Division) -> Division:
    """Return a division of integers or reals that raises InvalidArgumentError for an integer divisor of zero."""

    def checked(x: Tensor, y: Tensor) -> Any:
        if not _is_integer(x):
            return on_reals(x, y)
        # without elements to divide, a zero divisor is no error
        if x.size and not np.all(y):
            raise InvalidArgumentError("Integer division by zero")
        return on_integers(x, y)

    return checked


def _unchecked(on_integers: Division, on_reals: Division) -> Division:
    """Return a truncating division. As in TensorFlow, it raises InternalError for an integer divisor of zero."""
    checked = _checked(on_integers, on_reals)

    def unchecked(x: Tensor, y: Tensor) -> Any:
        try:
            return checked(x, y)
        except InvalidArgumentError:
            message = "Unexpected error in binary operator (only integer div and mod should have errors)"
            raise InternalError(message) from None

    return unchecked


def divide_or_zero(x: Tensor, y: Tensor) -> Any:
    """Return x / y, broadcast, and 0 wherever y is 0, even for NaN x."""
    return choose(y == 0, np.zeros((), x.dtype), divide(x, y))


def multiply_or_zero(x: Tensor, y: Tensor) -> Any:
    """Return x * y, broadcast, and 0 wherever y is 0, even for infinite or NaN x."""
    return choose(y == 0, np.zeros((), x.dtype), np.multiply(x, y))


def zero_where_zero(function: Callable[[Tensor, Tensor], Any]) -> Callable[[Tensor, Tensor], Any]:
    """Return `function` of two tensors that broadcast, but 0 wherever x is 0, even for NaN y."""

    def compute(x: Tensor, y: Tensor) -> Any:
        return choose(x == 0, np.zeros((), x.dtype), function(x, y))

    return compute


# --- powers, differences, bounds ------------------------------------------------------------------------------------


def _power(x: Tensor, y: Tensor) -> Any:
    """Return x ** y. Raises InvalidArgumentError for an integer to a negative power."""
    if _is_integer(x) and x.size and np.any(y < 0):
        raise InvalidArgumentError("Integers to negative integer powers are not allowed")
    if x.dtype.kind == "c":  # by its definition, so that 0 to the power of 0 is NaN
        return np.exp(y * np.log(x.astype(complex))).astype(x.dtype)
    if np.any(y == 0.5):  # for one exponent of 0.5 numpy takes the square root, which differs at -0 and -inf
        shape = np.broadcast_shapes(x.shape, y.shape)
        return np.power(x, np.full(shape or (1,), y)).reshape(shape)
    return np.power(x, y)


def _squared_difference(x: Tensor, y: Tensor) -> Any:
    # for complex numbers the square of the absolute value
    difference = x - y
    return difference * np.conj(difference) if difference.dtype.kind == "c" else difference * difference


def _next_after(x: Tensor, y: Tensor) -> Any:
    """Return the neighbour of x towards y; from zero, the smallest denormal."""
    smallest = np.ones((), f"u{x.dtype.itemsize}").view(x.dtype)
    start = np.broadcast_to(x, np.broadcast_shapes(x.shape, y.shape))
    moved = np.where((start == 0) & (y < 0), _negated(smallest), np.where((start == 0) & (y > 0), smallest, start))
    return np.where((start == 0) & ~np.isnan(y), moved, np.nextafter(x, y))


def _negated(x: Tensor) -> Tensor:
    sign = np.array(1 << (8 * x.dtype.itemsize - 1), f"u{x.dtype.itemsize}")
    negated: Tensor = (x.view(sign.dtype) | sign).view(x.dtype)
    return negated


def _clip(inputs: Sequence[Tensor], attrs: Attrs) -> Sequence[Any]:
    """Return x limited to bounds. Raises InvalidArgumentError for a bound that is neither a scalar nor shaped as x."""
    x, low, high = inputs
    if (low.ndim and low.shape != x.shape) or (high.ndim and high.shape != x.shape):
        raise InvalidArgumentError(
            "clip_value_min and clip_value_max must be either of the same shape as input, or a scalar. "
            f"input shape: {format_dims(x.shape)}clip_value_min shape: {format_dims(low.shape)}"
            f"clip_value_max shape: {format_dims(high.shape)}"
        )
    if x.dtype.kind != "c":
        return (_bounded(x, low, high),)
    result = np.empty_like(x)
    result.real = _bounded(x.real, low.real, high.real)
    result.imag = _bounded(x.imag, low.imag, high.imag)
    return (result,)


def _bounded(x: Tensor, low: Tensor, high: Tensor) -> Any:
    """Limit x by comparisons: unlike minimum and maximum, a NaN bound has no effect, and a NaN in x stays."""
    below = choose(high < x, high, x)
    return choose(below < low, low, below)


# --- sums of many ---------------------------------------------------------------------------------------------------


def _sum_of_tensors(inputs: Sequence[Any], attrs: Attrs, context: KernelContext) -> Sequence[Any]:
    """Return the sum of tensors of one shape, or of tensor lists. Raises InvalidArgumentError for unequal shapes."""
    if attrs["T"] is VARIANT:
        from placesim.ops.kernels.variants import add_variants  # rarely needed

        return (reduce(add_variants, inputs),)
    first = inputs[0]
    for index, tensor in enumerate(inputs):
        if tensor.shape != first.shape:
            raise InvalidArgumentError(
                f"Inputs to operation {context.node} of type AddN must have the same size and shape.  "
                f"Input 0: {format_dims(first.shape)} != input {index}: {format_dims(tensor.shape)}"
            )
    return (_total(inputs),)


def _accumulate(inputs: Sequence[Tensor], attrs: Attrs) -> Sequence[Any]:
    """Return the sum of tensors of one shape. Raises InvalidArgumentError for unequal shapes."""
    if any(tensor.shape != inputs[0].shape for tensor in inputs):
        raise InvalidArgumentError("Parameters and update must be the same size")
    return (_total(inputs),)


def _total(inputs: Sequence[Tensor]) -> Tensor:
    if len(inputs) == 1:
        return inputs[0]
    # the sum of the first two is a new tensor, to which the others are added in place and in order
    total = np.asarray(inputs[0] + inputs[1])
    for tensor in inputs[2:]:
        np.add(total, tensor, out=total)
    return total


# --- shape functions ------------------------------------------------------------------------------------------------


def _infer_sum(context: ShapeContext) -> Sequence[Dims]:
    # for lists, the element shapes are merged too
    known = [handle for handle in context.handles if handle is not None]
    if context.attrs["T"] is VARIANT and known:
        context.output_handles[0] = HandleShape(known[0].dtype, merge_backwards([handle.shape for handle in known]))
    return (merge_backwards(context.shapes),)


# --- memory ---------------------------------------------------------------------------------------------------------


def sum_memory(memory: KernelMemory) -> None:
    """AddN passes on a single input; the sum of several inputs overwrites the first that may be overwritten.

    A sum of variants is outside the device's allocator.
    """
    if len(memory.inputs) == 1:
        memory.alias(0, 0)
    elif memory.outputs[0].dtype is VARIANT:
        memory.leave_untracked(0)
    else:
        memory.forward(0, *range(len(memory.inputs)))


def accumulate_memory(memory: KernelMemory) -> None:
    """TensorFlow rewrites the op to a variable of zeros to which every input is added."""
    zeros = memory.temporary_like(memory.outputs[0])
    memory.allocate()
    memory.release(zeros)


# --- costs ----------------------------------------------------------------------------------------------------------


def _one_per_addition(inputs: Sequence[Dims], outputs: Sequence[Dims], attrs: Attrs) -> int:
    return (len(inputs) - 1) * elements(outputs[0])


def _arithmetic(ufunc: np.ufunc, passes: Passes = ONE_PASS, traits: Trait = PLAIN) -> Kernel:
    """Return the table row of a ufunc whose result has its inputs' type."""
    return binary(ufunc, passes, traits)._replace(in_place=ufunc)


TABLE: Table = {
    "Add": _arithmetic(np.add, traits=Trait.ADDS)._replace(compute=_add, direct=_add_numbers),
    "AddV2": _arithmetic(np.add, traits=Trait.ADDS),
    "Sub": _arithmetic(np.subtract, traits=Trait.ADDS),
    "Mul": _arithmetic(np.multiply, traits=Trait.MULTIPLIES),
    "Div": binary(_checked(truncated_quotient, divide), Passes(divided=1), Trait.DIVIDES),
    "RealDiv": binary(divide, Passes(divided=1), Trait.DIVIDES),
    "FloorDiv": binary(_checked(np.floor_divide, _floored_quotient), Passes(divided=3)),
    "TruncateDiv": binary(_unchecked(truncated_quotient, lambda x, y: np.trunc(np.divide(x, y))), Passes(divided=3)),
    "DivNoNan": binary(divide_or_zero, Passes(divided=1), Trait.DIVIDES),
    "Mod": binary(_checked(np.fmod, np.fmod), Passes(divided=3)),
    "FloorMod": binary(_checked(np.remainder, widened(_floored_remainder)), Passes(divided=3)),
    "TruncateMod": binary(_unchecked(np.fmod, np.fmod), Passes(divided=3)),
    "Pow": binary(widened(_power), Passes(exponential=3)),
    "Maximum": _arithmetic(np.maximum, Passes(compared=1)),
    "Minimum": _arithmetic(np.minimum, Passes(compared=1)),
    "SquaredDifference": binary(_squared_difference, Passes(plain=2)),
    "MulNoNan": binary(multiply_or_zero),
    "Atan2": binary(widened(np.arctan2), Passes(special=1)),
    "Xdivy": binary(zero_where_zero(divide)),
    "Xlogy": binary(widened(zero_where_zero(lambda x, y: x * np.log(y)))),
    "Xlog1py": binary(widened(zero_where_zero(lambda x, y: x * np.log1p(y)))),
    "NextAfter": binary(_next_after),
    "ClipByValue": Kernel(_clip, unchanged, one_per_output, memory=forwards(0), cost=CostModel(passes=Passes(plain=2))),
    "AddN": Kernel(
        _sum_of_tensors,
        _infer_sum,
        _one_per_addition,
        needs_context=True,
        memory=sum_memory,
        traits=Trait.CONTEXT_NAMES | Trait.ADDS,
    ),
    "AccumulateNV2": Kernel(_accumulate, shape_attr, _one_per_addition, memory=accumulate_memory, traits=Trait.ADDS),
}
