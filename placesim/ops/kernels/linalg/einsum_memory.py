"""Memory of Einsum: the copies of its operands and of its product.

Source: TensorFlow's `einsum_op_impl.h`.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from math import prod
from typing import NamedTuple

from placesim.machine.memory.buffers import Buffer
from placesim.ops.kernels.linalg.equations import ELLIPSIS, Labels, broadcast_rank, expand, parse_equation, split_labels
from placesim.ops.kernels.memory_rules import KernelMemory, item_size
from placesim.ops.kernels.shape_operands import broadcast_dims

_BROADCAST, _BATCH, _FREE, _INNER, _SUMMED = range(5)
"""Kinds of axes of an operand, in the order to which TensorFlow's kernel transposes them."""
_FREE_LAST = {_BROADCAST: 0, _BATCH: 1, _INNER: 2, _FREE: 3, _SUMMED: 4}
"""Another order of the kinds, which the product accepts without a transpose."""


class _Part(NamedTuple):
    """A tensor in the kernel, and the number of its temporary, None for an input."""

    labels: Labels
    dims: tuple[int, ...]
    temporary: int | None


class _Plan:
    """Temporaries of an equation: `steps` are (number, dims) for allocations and (number, None) for releases."""

    def __init__(self) -> None:
        self.steps: list[tuple[int, tuple[int, ...] | None]] = []

    def make(self, labels: Labels, dims: Sequence[int]) -> _Part:
        """Allocate a tensor."""
        number = len(self.steps)
        self.steps.append((number, tuple(dims)))
        return _Part(labels, tuple(dims), number)

    def transpose(self, part: _Part, order: Sequence[int]) -> _Part:
        """Transpose, which is a copy unless the order is unchanged; moving an axis of size 1 is a copy too."""
        if len(order) < 2 or list(order) == list(range(len(order))):
            return part
        labels, dims = tuple(part.labels[axis] for axis in order), tuple(part.dims[axis] for axis in order)
        return self.make(labels, dims) if prod(dims) else _Part(labels, dims, part.temporary)


def einsum_memory(memory: KernelMemory) -> None:
    """Each step of the kernel allocates a new tensor, and the last tensor becomes the output.

    The steps are: transposing operands, taking diagonals, summing, multiplying, and ordering the axes. If no step is needed,
    the output shares the input's buffer.
    """
    steps, result = _plan_memory(memory.attrs["equation"], tuple(tensor.dims for tensor in memory.inputs))
    dtype = memory.inputs[0].dtype
    held: dict[int, Buffer | None] = {}
    for number, dims in steps:
        if dims is None:
            memory.release(held[number])
        else:
            held[number] = memory.temporary(prod(dims) * item_size(dtype), dims, dtype)
    if result is None:
        memory.alias(0, 0)
    else:
        memory.give(0, held[result])


@lru_cache(maxsize=1024)
def _plan_memory(text: str, shapes: tuple[tuple[int, ...], ...]) -> tuple[list[tuple[int, tuple[int, ...] | None]], int | None]:
    """(the steps of a `_Plan`; the number of the temporary that is the output, None if an input is the output)."""
    equation = parse_equation(text)
    split = [split_labels(subscript) for subscript in equation.inputs]
    named = [expand(labels, len(dims) - len(labels) + 1) for labels, dims in zip(split, shapes, strict=True)]
    output = expand(split_labels(equation.output), max(map(broadcast_rank, named)))
    kinds = {label: _kind_of_axis(label, named, output) for labels in named for label in labels}
    plan = _Plan()
    operands = [_plan_operand(plan, _Part(labels, dims, None), kinds) for labels, dims in zip(named, shapes, strict=True)]
    part = operands[0] if len(operands) == 1 else _plan_product(plan, operands, kinds)
    if len(set(output)) < len(output):
        labels = tuple(label for label in part.labels for _time in range(output.count(label)))
        part = plan.make(labels, [part.dims[part.labels.index(label)] for label in labels])
    seen: dict[str, int] = {}
    order = []
    for label in output:
        order.append(part.labels.index(label, seen.get(label, 0)))
        seen[label] = order[-1] + 1
    return plan.steps, plan.transpose(part, order).temporary


def _kind_of_axis(label: str, named: list[Labels], output: Labels) -> int:
    if label.startswith(ELLIPSIS):
        return _BROADCAST
    is_shared = len(named) == 2 and label in named[0] and label in named[1]
    if label in output:
        return _BATCH if is_shared else _FREE
    return _INNER if is_shared else _SUMMED


def _plan_operand(plan: _Plan, part: _Part, kinds: dict[str, int]) -> _Part:
    """Plan the steps of one operand: order its axes, take diagonals, and sum over labels that only this operand has."""
    appearance = {label: place for place, label in enumerate(kinds)}
    parts = [part]
    if list(part.labels) != sorted(part.labels, key=lambda label: (_FREE_LAST[kinds[label]], appearance[label])):
        keys = [(kinds[label], appearance[label]) for label in part.labels]
        parts.append(part := plan.transpose(part, sorted(range(len(keys)), key=keys.__getitem__)))
    size = dict(zip(part.labels, part.dims, strict=True))
    if len(size) < len(part.labels):
        parts.append(part := plan.make(tuple(size), tuple(size.values())))
    kept = tuple(label for label in size if kinds[label] != _SUMMED)
    if prod(size.values()) != prod(size[label] for label in kept):
        part = plan.make(kept, [size[label] for label in kept])
    for done in reversed(parts):
        if done.temporary not in (None, part.temporary):
            plan.steps.append((done.temporary, None))
    return _Part(kept, tuple(size[label] for label in kept), part.temporary)


def _plan_product(plan: _Plan, operands: Sequence[_Part], kinds: dict[str, int]) -> _Part:
    """Plan the product of two operands: batch axes first, then the free axes of the first and of the second operand."""
    sizes = [dict(zip(operand.labels, operand.dims, strict=True)) for operand in operands]
    along = [tuple(label for label in operand.labels if kinds[label] in (_BROADCAST, _BATCH)) for operand in operands]
    dims = broadcast_dims(*(tuple(size[label] for label in labels) for size, labels in zip(sizes, along, strict=True)))
    free = [(label, size[label]) for size in sizes for label in size if kinds[label] == _FREE]
    return plan.make(
        max(along, key=len) + tuple(label for label, _dim in free), (dims or ()) + tuple(dim for _label, dim in free)
    )
