"""Select and SelectV2, which choose elements of two tensors by a condition; and Where, the coordinates of nonzero elements."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from placesim.core.dtypes import HALF
from placesim.core.errors import InvalidArgumentError, UnimplementedError
from placesim.ops.attributes import Attrs
from placesim.ops.kernels.cost_model import CostModel, Passes
from placesim.ops.kernels.element_selection import choose
from placesim.ops.kernels.kernel import Kernel, KernelContext, Table, Tensor, Trait, as_many_as, one_per_output
from placesim.ops.kernels.memory_rules import KernelMemory, forwards
from placesim.ops.kernels.shape_operands import broadcast_dims, shape_text
from placesim.ops.kernels.shapes import Dims, ShapeContext, broadcast, merge, with_rank_at_least

MAX_WHERE_RANK = 8


def select(inputs: Sequence[Tensor], attrs: Attrs, context: KernelContext) -> Sequence[Tensor]:
    """Select: elements of `then` where `cond` is true, else of `else`; a vector `cond` chooses rows, a scalar a whole tensor.

    Raises InvalidArgumentError for different shapes, or a vector of conditions without one for each row.
    """
    cond, then, other = inputs
    if cond.ndim == 0:
        _check_same_size(then, other)
        return (then if cond else other,)
    # this op does not broadcast: a vector has an element per row, any other condition must have the data's shape
    if cond.ndim == 1 and then.ndim != 1:
        _check_rows(cond, then, other)
        cond = cond.reshape((-1,) + (1,) * (then.ndim - 1))
    else:
        _check_same_shapes(inputs, context.node)
    return (choose(cond, then, other),)


def _check_same_size(then: Tensor, other: Tensor) -> None:
    if then.shape != other.shape:
        raise InvalidArgumentError(
            f"'then' and 'else' must have the same size.  but received: {shape_text(then)} vs. {shape_text(other)}"
        )


def _check_rows(cond: Tensor, then: Tensor, other: Tensor) -> None:
    if not then.ndim:
        raise InvalidArgumentError(f"'then' must be at least a vector, but saw shape: {shape_text(then)}")
    if then.shape[0] != cond.size:
        raise InvalidArgumentError(
            f"Number of batches of 'then' must match size of 'cond', but saw: {then.shape[0]} vs. {cond.size}"
        )
    _check_same_size(then, other)


def _check_same_shapes(inputs: Sequence[Tensor], node: str) -> None:
    for position, tensor in enumerate(inputs):
        if tensor.shape != inputs[0].shape:
            raise InvalidArgumentError(
                f"Inputs to operation {node} of type Select must have the same size and shape.  "
                f"Input 0: {shape_text(inputs[0])} != input {position}: {shape_text(tensor)}"
            )


def select_v2(inputs: Sequence[Tensor], attrs: Attrs) -> Sequence[Tensor]:
    """SelectV2: like Select, with all three inputs broadcast together. Raises InvalidArgumentError if they do not fit."""
    cond, then, other = inputs
    common = broadcast_dims(then.shape, other.shape)
    if common is None or broadcast_dims(cond.shape, common) is None:
        raise InvalidArgumentError(
            f"condition {shape_text(cond)}, then {shape_text(then)}, and else {shape_text(other)} must be broadcastable"
        )
    return (choose(cond, then, other),)


def where(inputs: Sequence[Tensor], attrs: Attrs) -> Sequence[Tensor]:
    """Op `Where`: the coordinates of nonzero elements in row-major order, `[elements, rank]`.

    Raises InvalidArgumentError unless the rank is 1 to 8, and UnimplementedError for half, which TensorFlow's CPU kernel
    rejects.
    """
    (tensor,) = inputs
    if attrs["T"] is HALF:
        raise UnimplementedError(
            "No WhereOp available for float16/half type on CPU; dying in CPU WhereOp to avoid silently creating costly copies "
            "from device."
        )
    if not 1 <= tensor.ndim <= MAX_WHERE_RANK:
        raise InvalidArgumentError(f"WhereOp : Unhandled input dimensions: {tensor.ndim}")
    return (np.argwhere(tensor != 0),)


# --- shape functions and memory -------------------------------------------------------------------------------------


def _infer_select(context: ShapeContext) -> Sequence[Dims]:
    cond, then, other = context.shapes
    dims = merge(then, other)
    if cond is None or dims is None or not cond:
        return (dims,)
    if len(cond) > 1:
        return (merge(dims, cond),)
    with_rank_at_least(dims, 1)
    merge(cond, dims[:1])
    return (dims,)


def _infer_select_v2(context: ShapeContext) -> Sequence[Dims]:
    cond, then, other = context.shapes
    if cond is None or then is None or other is None:
        return (None,)
    return (broadcast(cond, broadcast(then, other)),)


def _infer_where(context: ShapeContext) -> Sequence[Dims]:
    dims = context.shapes[0]
    return ((-1, -1 if dims is None else len(dims)),)


def select_memory(memory: KernelMemory) -> None:
    """With a scalar condition, a CPU returns the chosen input's buffer; otherwise the output reuses a buffer if possible."""
    if memory.inputs[0].dims or memory.is_on_gpu:
        memory.forward(0, 1, 2)
    else:
        memory.alias(0, 1 if memory.value(0) else 2)


_CHOICE = CostModel(passes=Passes(chosen=1))

TABLE: Table = {
    "Select": Kernel(
        select,
        _infer_select,
        one_per_output,
        needs_context=True,
        memory=select_memory,
        traits=Trait.TAKES_OBJECTS | Trait.CONTEXT_NAMES,
        cost=_CHOICE,
    ),
    "SelectV2": Kernel(
        select_v2,
        _infer_select_v2,
        one_per_output,
        direct=choose,
        memory=forwards(1, 2),
        traits=Trait.TAKES_OBJECTS,
        cost=_CHOICE,
    ),
    "Where": Kernel(where, _infer_where, guess=as_many_as(0), traits=Trait.GUESSES_MOST),
}
