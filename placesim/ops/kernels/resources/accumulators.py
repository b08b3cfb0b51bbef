"""Conditional accumulators: gradients are summed until as many are there as a take requires; stale ones are dropped.

Synchronous replicas wait at them.  Source: TensorFlow's `conditional_accumulator_base.cc` and what derives from it.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

import numpy as np

from placesim.core.dtypes import INT32, INT64, DataType
from placesim.core.errors import InvalidArgumentError
from placesim.ops.attributes import Attrs
from placesim.ops.kernels.device_resources import ResourceHandle
from placesim.ops.kernels.kernel import KernelContext, KernelWait, Table, Tensor
from placesim.ops.kernels.named_resources import build_finder, check_signature, infer_two_strings, makers, name_resource, users
from placesim.ops.kernels.shape_operands import shape_text
from placesim.ops.kernels.shapes import Dims, ShapeContext, format_dims, with_rank

RESOURCE_TYPE = "N10tensorflow26ConditionalAccumulatorBaseE"


class Gradients(Protocol):
    """Sum of one form of gradients."""

    def check(self, gradient: Sequence[Tensor], shape: Dims, is_first: bool) -> None:
        """Raise InvalidArgumentError unless a gradient fits the accumulator's shape and the sum."""

    def add(self, gradient: Sequence[Tensor], is_first: bool) -> None: ...
    def take(self, count: int, is_mean: bool, shape: Dims) -> Sequence[Tensor]:
        """The sum, or the mean over `count` gradients."""


class DenseGradients:
    """A sum of tensors of one shape."""

    def __init__(self) -> None:
        self._sum: Tensor = np.zeros(())

    def check(self, gradient: Sequence[Tensor], shape: Dims, is_first: bool) -> None:
        (tensor,) = gradient
        for expected in (shape,) if is_first else (self._sum.shape, shape):
            if not _is_compatible(expected, tensor.shape):
                raise InvalidArgumentError(f"Shape mismatch: expected {_partial_text(expected)}, got {shape_text(tensor)}")

    def add(self, gradient: Sequence[Tensor], is_first: bool) -> None:
        self._sum = gradient[0] if is_first else self._sum + gradient[0]

    def take(self, count: int, is_mean: bool, shape: Dims) -> Sequence[Tensor]:
        return (self._sum / self._sum.dtype.type(count) if is_mean else self._sum,)


def _is_compatible(partial: Dims, shape: tuple[int, ...]) -> bool:
    return partial is None or (
        len(partial) == len(shape) and all(dim in (-1, found) for dim, found in zip(partial, shape, strict=True))
    )


def _partial_text(dims: Dims) -> str:
    return "<unknown>" if dims is None else format_dims(dims)


@dataclass(slots=True)
class Accumulator:
    """An accumulator: the gradients counted since the last take, and the step below which one is stale."""

    name: str
    dtype: DataType
    shape: Dims
    is_mean: bool
    gradients: Gradients
    count: int = 0
    global_step: int = 0

    def apply(self, local_step: int, gradient: Sequence[Tensor]) -> None:
        """Add a gradient that is not stale; InvalidArgumentError if its shape does not fit."""
        if local_step < self.global_step:
            return
        self.gradients.check(gradient, self.shape, not self.count)
        self.gradients.add(gradient, not self.count)
        self.count += 1

    def take(self) -> Sequence[Tensor]:
        """Return the sum and begin the next global step."""
        found = self.gradients.take(self.count, self.is_mean, self.shape)
        self.count = 0
        self.global_step += 1
        return found


@dataclass(slots=True)
class TakeAttempt:
    """An op that waits for a number of gradients, with its inputs and result."""

    required: int
    inputs: tuple[Any, ...]
    taken: Sequence[Tensor] | None = None


@dataclass(slots=True)
class TakeQueue:
    """The ops of a step that wait at an accumulator, in the order in which they came, and all that have not ended."""

    line: deque[TakeAttempt] = field(default_factory=deque)
    known: dict[tuple[Any, ...], TakeAttempt] = field(default_factory=dict)


find_accumulator: Callable[[Any, KernelContext], Accumulator] = build_finder(RESOURCE_TYPE)


def build_maker(make_gradients: Callable[[], Gradients]) -> Callable[..., ResourceHandle]:
    """`(inputs, attrs, context) -> handle`, which makes an accumulator of one form of gradients or finds the shared one."""

    def make(inputs: Sequence[Any], attrs: Attrs, context: KernelContext) -> ResourceHandle:
        handle = name_resource(attrs, context, RESOURCE_TYPE)
        shape, is_mean = attrs["shape"].dims, attrs["reduction_type"] == "MEAN"
        context.resources.lookup_or_create(
            handle, lambda: Accumulator(handle.name, attrs["dtype"], shape, is_mean, make_gradients())
        )
        return handle

    return make


# --- using them -----------------------------------------------------------------------------------------------------


def apply_gradient(inputs: Sequence[Any], attrs: Attrs, context: KernelContext) -> Sequence[Any]:
    """(handle, the step at which it was computed, a gradient of any shape): InvalidArgumentError for a shape that differs."""
    accumulator = find_accumulator(inputs[0], context)
    check_signature(inputs[0], ((INT64, attrs["dtype"]), ()), ((INT64, accumulator.dtype), ()))
    return give(accumulator, inputs[1], inputs[2:], context)


def give(accumulator: Accumulator, local_step: Tensor, gradient: Sequence[Tensor], context: KernelContext) -> Sequence[Any]:
    """Add a gradient, and let those that wait take; InvalidArgumentError for a step that is not a scalar, or a wrong shape."""
    _check_scalar("local_step", local_step)
    accumulator.apply(int(local_step), gradient)
    _serve(accumulator, _takers_of(accumulator, context))
    return ()


def take_gradient(inputs: Sequence[Any], attrs: Attrs, context: KernelContext) -> Sequence[Any]:
    """(handle, a scalar: so many gradients) -> their mean or sum; waits until they are there.

    Raises InvalidArgumentError for a number that is not positive.
    """
    accumulator = find_accumulator(inputs[0], context)
    check_signature(inputs[0], ((INT32,), (attrs["dtype"],)), ((INT32,), (accumulator.dtype,)))
    return await_gradients(accumulator, inputs, context)


def await_gradients(accumulator: Accumulator, inputs: Sequence[Any], context: KernelContext) -> Sequence[Any]:
    """Check the second input, a scalar number of gradients; KernelWait while an accumulator has fewer.

    Raises InvalidArgumentError for a number that is not a scalar or is not positive.
    """
    _check_scalar("num_required", inputs[1])
    if inputs[1] <= 0:
        raise InvalidArgumentError(f"Argument num_required must be positive, but was {int(inputs[1])}")
    takers = _takers_of(accumulator, context)
    key = (context.node, *map(id, inputs))
    if key not in takers.known:
        # the inputs are held, so that no other takes their place in memory
        takers.known[key] = TakeAttempt(int(inputs[1]), tuple(inputs))
        takers.line.append(takers.known[key])
    _serve(accumulator, takers)
    taken = takers.known[key].taken
    if taken is None:
        raise KernelWait
    del takers.known[key]
    return taken


def _check_scalar(name: str, tensor: Tensor) -> None:
    if np.ndim(tensor):
        raise InvalidArgumentError(f"Argument {name} must be scalar, but had bad shape {shape_text(tensor)}")


def _takers_of(accumulator: Accumulator, context: KernelContext) -> TakeQueue:
    found: TakeQueue = context.step_resources.setdefault(f"takers at {accumulator.name} {id(accumulator)}", TakeQueue())
    return found


def _serve(accumulator: Accumulator, takers: TakeQueue) -> None:
    """Let the first of those that wait take, as long as there is enough for it."""
    while takers.line and accumulator.count >= takers.line[0].required:
        takers.line.popleft().taken = accumulator.take()


def count_gradients(inputs: Sequence[Any], attrs: Attrs, context: KernelContext) -> Sequence[Any]:
    """Number of accumulated gradients, a scalar."""
    return (np.int32(find_accumulator(inputs[0], context).count),)


def set_global_step(inputs: Sequence[Any], attrs: Attrs, context: KernelContext) -> Sequence[Any]:
    """Gradients computed before this step, a scalar, are stale from now on; InvalidArgumentError for another shape."""
    accumulator = find_accumulator(inputs[0], context)
    _check_scalar("new_global_step", inputs[1])
    accumulator.global_step = int(inputs[1])
    return ()


# --- shape functions ------------------------------------------------------------------------------------------------


def infer_given(context: ShapeContext) -> Sequence[Dims]:
    """No output; the step is a scalar."""
    with_rank(context.shapes[1], 0)
    return ()


def _infer_taken(context: ShapeContext) -> Sequence[Dims]:
    with_rank(context.shapes[1], 0)
    return (None,)


def _infer_count(context: ShapeContext) -> Sequence[Dims]:
    return ((),)


TABLE: Table = {
    **makers("ConditionalAccumulator", "ResourceConditionalAccumulator", build_maker(DenseGradients), infer_two_strings),
    **users("AccumulatorApplyGradient", "ResourceAccumulatorApplyGradient", apply_gradient, infer_given, infer_given),
    **users(
        "AccumulatorTakeGradient", "ResourceAccumulatorTakeGradient", take_gradient, _infer_taken, _infer_taken, may_wait=True
    ),
    **users("AccumulatorNumAccumulated", "ResourceAccumulatorNumAccumulated", count_gradients, _infer_count, _infer_count),
    **users("AccumulatorSetGlobalStep", "ResourceAccumulatorSetGlobalStep", set_global_step, infer_given, infer_given),
}
