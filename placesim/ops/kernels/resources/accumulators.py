"""Conditional accumulators, which sum gradients until there are enough for a waiting take, and drop stale gradients.

Synchronous replicas use them.  Source: TensorFlow's `conditional_accumulator_base.cc` and its subclasses.
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
from placesim.ops.kernels.partial_shapes import is_compatible, show_partial
from placesim.ops.kernels.shape_operands import shape_text
from placesim.ops.kernels.shapes import Dims, infer_by, scalar

RESOURCE_TYPE = "N10tensorflow26ConditionalAccumulatorBaseE"


class Gradients(Protocol):
    """The sum of dense or sparse gradients."""

    def check(self, gradient: Sequence[Tensor], shape: Dims, is_first: bool) -> None:
        """Raise InvalidArgumentError unless a gradient fits the accumulator's shape and the sum."""

    def add(self, gradient: Sequence[Tensor], is_first: bool) -> None: ...
    def take(self, count: int, is_mean: bool, shape: Dims) -> Sequence[Tensor]:
        """The sum, or the mean over `count` gradients."""


class DenseGradients:
    """The sum of dense gradients."""

    def __init__(self) -> None:
        self._sum: Tensor = np.zeros(())

    def check(self, gradient: Sequence[Tensor], shape: Dims, is_first: bool) -> None:
        (tensor,) = gradient
        for expected in (shape,) if is_first else (self._sum.shape, shape):
            if not is_compatible(expected, tensor.shape):
                raise InvalidArgumentError(f"Shape mismatch: expected {show_partial(expected)}, got {shape_text(tensor)}")

    def add(self, gradient: Sequence[Tensor], is_first: bool) -> None:
        self._sum = gradient[0] if is_first else self._sum + gradient[0]

    def take(self, count: int, is_mean: bool, shape: Dims) -> Sequence[Tensor]:
        return (self._sum / self._sum.dtype.type(count) if is_mean else self._sum,)


@dataclass(slots=True)
class Accumulator:
    """An accumulator: the gradients since the last take, and the step below which a gradient is stale (`global_step`)."""

    name: str
    dtype: DataType
    shape: Dims
    is_mean: bool
    gradients: Gradients
    count: int = 0
    global_step: int = 0

    def apply(self, local_step: int, gradient: Sequence[Tensor]) -> None:
        """Add a gradient unless it is stale. Raises InvalidArgumentError if its shape does not fit."""
        if local_step < self.global_step:
            return
        self.gradients.check(gradient, self.shape, not self.count)
        self.gradients.add(gradient, not self.count)
        self.count += 1

    def take(self) -> Sequence[Tensor]:
        """Return the sum or mean, and begin the next global step."""
        found = self.gradients.take(self.count, self.is_mean, self.shape)
        self.count = 0
        self.global_step += 1
        return found


@dataclass(slots=True)
class TakeAttempt:
    """An op that waits for `required` gradients, with its inputs and, later, its result."""

    required: int
    inputs: tuple[Any, ...]
    taken: Sequence[Tensor] | None = None


@dataclass(slots=True)
class TakeQueue:
    """The ops of a step that wait at an accumulator, in order of arrival (`line`), and the ops not yet finished (`known`)."""

    line: deque[TakeAttempt] = field(default_factory=deque)
    known: dict[tuple[Any, ...], TakeAttempt] = field(default_factory=dict)


find_accumulator: Callable[[Any, KernelContext], Accumulator] = build_finder(RESOURCE_TYPE)


def build_maker(make_gradients: Callable[[], Gradients]) -> Callable[..., ResourceHandle]:
    """Build a function `(inputs, attrs, context) -> handle` that finds the shared accumulator or creates it."""

    def make(inputs: Sequence[Any], attrs: Attrs, context: KernelContext) -> ResourceHandle:
        handle = name_resource(attrs, context, RESOURCE_TYPE)
        shape, is_mean = attrs["shape"].dims, attrs["reduction_type"] == "MEAN"
        context.resources.lookup_or_create(
            handle, lambda: Accumulator(handle.name, attrs["dtype"], shape, is_mean, make_gradients())
        )
        return handle

    return make


# --- use ------------------------------------------------------------------------------------------------------------


def apply_gradient(inputs: Sequence[Any], attrs: Attrs, context: KernelContext) -> Sequence[Any]:
    """(handle, the step of the gradient, gradient) -> nothing. Raises InvalidArgumentError for a shape that does not fit."""
    accumulator = find_accumulator(inputs[0], context)
    check_signature(inputs[0], ((INT64, attrs["dtype"]), ()), ((INT64, accumulator.dtype), ()))
    return give(accumulator, inputs[1], inputs[2:], context)


def give(accumulator: Accumulator, local_step: Tensor, gradient: Sequence[Tensor], context: KernelContext) -> Sequence[Any]:
    """Add a gradient, and complete waiting takes. Raises InvalidArgumentError for a step or gradient of a wrong shape."""
    _check_scalar("local_step", local_step)
    accumulator.apply(int(local_step), gradient)
    _serve(accumulator, _takers_of(accumulator, context))
    return ()


def take_gradient(inputs: Sequence[Any], attrs: Attrs, context: KernelContext) -> Sequence[Any]:
    """(handle, a scalar: the number of gradients required) -> the mean or sum of the gradients.

    The op waits until there are enough gradients. Raises InvalidArgumentError for a number that is not positive.
    """
    accumulator = find_accumulator(inputs[0], context)
    check_signature(inputs[0], ((INT32,), (attrs["dtype"],)), ((INT32,), (accumulator.dtype,)))
    return await_gradients(accumulator, inputs, context)


def await_gradients(accumulator: Accumulator, inputs: Sequence[Any], context: KernelContext) -> Sequence[Any]:
    """Take the gradients of an accumulator if it has at least the number that the second input requires.

    Raises KernelWait if it has fewer, and InvalidArgumentError for a number that is not a scalar or is not positive.
    """
    _check_scalar("num_required", inputs[1])
    if inputs[1] <= 0:
        raise InvalidArgumentError(f"Argument num_required must be positive, but was {int(inputs[1])}")
    takers = _takers_of(accumulator, context)
    key = (context.node, *map(id, inputs))
    if key not in takers.known:
        # a reference to the inputs keeps their ids from being reused
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
    """Complete waiting takes in order, while there are enough gradients for the first."""
    while takers.line and accumulator.count >= takers.line[0].required:
        takers.line.popleft().taken = accumulator.take()


def count_gradients(inputs: Sequence[Any], attrs: Attrs, context: KernelContext) -> Sequence[Any]:
    """handle -> the number of accumulated gradients, a scalar."""
    return (np.int32(find_accumulator(inputs[0], context).count),)


def set_global_step(inputs: Sequence[Any], attrs: Attrs, context: KernelContext) -> Sequence[Any]:
    """(handle, a scalar step): gradients from before this step become stale. Raises InvalidArgumentError for another shape."""
    accumulator = find_accumulator(inputs[0], context)
    _check_scalar("new_global_step", inputs[1])
    accumulator.global_step = int(inputs[1])
    return ()


# --- shape functions ------------------------------------------------------------------------------------------------


infer_given = infer_by("*, [] ->")
"""The shape function of an op without outputs, whose second input is a scalar step."""
_INFER_TAKEN = infer_by("*, [] -> *")

TABLE: Table = {
    **makers("ConditionalAccumulator", "ResourceConditionalAccumulator", build_maker(DenseGradients), infer_two_strings),
    **users("AccumulatorApplyGradient", "ResourceAccumulatorApplyGradient", apply_gradient, infer_given, infer_given),
    **users(
        "AccumulatorTakeGradient", "ResourceAccumulatorTakeGradient", take_gradient, _INFER_TAKEN, _INFER_TAKEN, may_wait=True
    ),
    **users("AccumulatorNumAccumulated", "ResourceAccumulatorNumAccumulated", count_gradients, scalar, scalar),
    **users("AccumulatorSetGlobalStep", "ResourceAccumulatorSetGlobalStep", set_global_step, infer_given, infer_given),
}
