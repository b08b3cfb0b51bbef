"""Kernels of elementwise functions of one or two tensors, with TensorFlow's error for shapes that do not fit."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from placesim.core.errors import InvalidArgumentError
from placesim.ops.attributes import Attrs
from placesim.ops.kernels.blocks.elementwise_blocks import in_parts
from placesim.ops.kernels.cost_model import ONE_PASS, CostModel, Passes, elementwise_cost
from placesim.ops.kernels.kernel import PLAIN, Kernel, Tensor, Trait, one_per_output
from placesim.ops.kernels.memory_rules import BroadcastForwardingRule, MemoryRule, forwards
from placesim.ops.kernels.shape_operands import broadcast_dims
from placesim.ops.kernels.shapes import broadcasted, format_dims, unchanged

Elementwise = Callable[..., Any]

_OVER_INPUT = forwards(0)


binary_memory: MemoryRule = BroadcastForwardingRule()
"""Memory rule of an op with two inputs: the output overwrites the first input that it may overwrite."""


def unary(
    function: Elementwise,
    passes: Passes = ONE_PASS,
    *,
    is_cut: bool = False,
    has_in_place: bool = False,
    traits: Trait = PLAIN,
) -> Kernel:
    """Return the kernel of `function`, which takes a tensor of any shape and returns one of the same shape.

    With `is_cut`, large tensors are processed in parts. With `has_in_place`, the result may be written to existing memory.
    """
    if is_cut:
        function = in_parts(function)

    def compute(inputs: Sequence[Tensor], attrs: Attrs) -> Sequence[Any]:
        return (function(inputs[0]),)

    in_place = overwriting(function) if has_in_place else None
    cost = elementwise_cost(passes, is_cut=is_cut)
    return Kernel(
        compute, unchanged, one_per_output, direct=function, memory=_OVER_INPUT, traits=traits, in_place=in_place, cost=cost
    )


def overwriting(function: Elementwise) -> Callable[..., object]:
    """Return `function`, of one tensor, in a form that writes its result to `out`."""
    return lambda x, out: np.copyto(out, function(x))


def binary(function: Elementwise, passes: Passes = ONE_PASS, traits: Trait = PLAIN) -> Kernel:
    """Return the kernel of a function of two tensors. It raises InvalidArgumentError if they do not broadcast."""

    def compute(inputs: Sequence[Tensor], attrs: Attrs) -> Sequence[Any]:
        check_broadcast(inputs[0], inputs[1])
        return (function(inputs[0], inputs[1]),)

    cost = CostModel(passes=passes)
    return Kernel(compute, broadcasted, one_per_output, direct=function, memory=binary_memory, traits=traits, cost=cost)


def check_broadcast(x: Tensor, y: Tensor) -> tuple[int, ...]:
    """Return the shape of two tensors broadcast together. Raises InvalidArgumentError if they do not fit."""
    # numpy's message would differ
    common = broadcast_dims(x.shape, y.shape)
    if common is None:
        raise InvalidArgumentError(f"Incompatible shapes: {format_dims(x.shape)} vs. {format_dims(y.shape)}")
    return common
