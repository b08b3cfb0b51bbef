"""Stacks: tensors pushed by a loop's forward steps and popped by its gradient's, gone when the step ends.

The older ops hold a stack by a ref to two strings, the newer ones by a resource.  Source: TensorFlow's stack kernels.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from placesim.dtypes import STRING, DType
from placesim.errors import InvalidArgumentError, NotFoundError
from placesim.ops.attributes import Attrs
from placesim.runtime.kernels.kernel import Kernel, KernelContext, Table, Tensor, undeclared_type
from placesim.runtime.kernels.named_resources import infer_two_strings
from placesim.runtime.resources import ResourceHandle, Variable
from placesim.runtime.shapes import Dims, ShapeContext, as_second, format_dims, unknown_shape, with_rank, with_value

CONTAINER = "_stacks"
STEP_CONTAINER = "__per_step_0"
RESOURCE_TYPE = "N10tensorflow5StackE"


@dataclass(slots=True)
class Stack:
    """Tensors of one type, at most `max_size` unless that is None."""

    name: str
    dtype: DType
    max_size: int | None = None
    tensors: list[Tensor] = field(default_factory=list)
    closed: bool = False

    def push(self, tensor: Tensor) -> None:
        self._check_open()
        if self.max_size is not None and len(self.tensors) >= self.max_size:
            raise InvalidArgumentError(f"Stack[{self.name}] overflowed its max_size ({self.max_size})")
        self.tensors.append(tensor)

    def pop(self) -> Tensor:
        self._check_open()
        if not self.tensors:
            raise InvalidArgumentError(f"Stack[{self.name}] is empty when calling Pop().")
        return self.tensors.pop()

    def _check_open(self) -> None:
        if self.closed:
            raise InvalidArgumentError(f"Stack[{self.name}] has already been closed.")


def _make_stack(attrs: Attrs, context: KernelContext, max_size: int | None) -> Stack:
    count = sum(isinstance(resource, Stack) for resource in context.step_resources.values())
    stack = Stack(f"{attrs['stack_name'] or context.node}_{count}", attrs["elem_type"], max_size)
    context.step_resources[CONTAINER + stack.name] = stack
    return stack


def make_stack(inputs: Sequence[Any], attrs: Attrs, context: KernelContext) -> Sequence[Any]:
    """A new stack's resource; a negative `max_size` means no limit."""
    size = np.asarray(inputs[0])
    if size.ndim:
        raise InvalidArgumentError(f"Stack size must be a scalar, but had shape: {format_dims(size.shape)}")
    stack = _make_stack(attrs, context, int(size) if size >= 0 else None)
    return (ResourceHandle(context.device, STEP_CONTAINER, CONTAINER + stack.name, RESOURCE_TYPE, stack.dtype),)


def make_ref_stack(inputs: Sequence[Any], attrs: Attrs, context: KernelContext) -> Sequence[Any]:
    """A ref to the two strings that name a new stack."""
    stack = _make_stack(attrs, context, None)
    return (Variable(stack.name, STRING, np.array([CONTAINER.encode(), stack.name.encode()], object)),)


def find_stack(handle: Any, context: KernelContext) -> Stack:
    """The stack of a handle of either form; NotFoundError where the step has none."""
    key = handle.name if isinstance(handle, ResourceHandle) else _strings_key(handle)
    found: Stack | None = context.step_resources.get(key)
    if found is None:
        raise NotFoundError(f"Resource {STEP_CONTAINER}/{key}/{RESOURCE_TYPE} does not exist.")
    return found


def _strings_key(handle: Any) -> str:
    strings = np.asarray(handle.value if isinstance(handle, Variable) else handle)
    if strings.size != 2:
        raise InvalidArgumentError(f"Stack handle must have two elements, but had shape: {format_dims(strings.shape)}")
    return "".join(part.decode() for part in strings.reshape(-1))


def push(inputs: Sequence[Any], attrs: Attrs, context: KernelContext) -> Sequence[Any]:
    """Push a tensor, and give it on."""
    stack = find_stack(inputs[0], context)
    if attrs["T"] is not stack.dtype:
        raise InvalidArgumentError(f"Must have type {stack.dtype.number} but got {attrs['T'].number}")
    stack.push(inputs[1])
    return (inputs[1],)


def pop(inputs: Sequence[Any], attrs: Attrs, context: KernelContext) -> Sequence[Any]:
    """The tensor that was pushed last of those still there."""
    stack = find_stack(inputs[0], context)
    found = stack.pop()
    if attrs["elem_type"] is not stack.dtype:
        raise undeclared_type(context, stack.dtype, attrs["elem_type"])
    return (found,)


def close(inputs: Sequence[Any], attrs: Attrs, context: KernelContext) -> Sequence[Any]:
    """Let go of all tensors; every later push or pop is an error."""
    stack = find_stack(inputs[0], context)
    stack.tensors, stack.closed = [], True
    return ()


def _infer_close(context: ShapeContext) -> Sequence[Dims]:
    with_value(with_rank(context.shapes[0], 1)[0], 2)
    return ()


TABLE: Table = {
    "Stack": Kernel(make_ref_stack, infer_two_strings, needs_context=True),
    "StackV2": Kernel(make_stack, infer_two_strings, needs_context=True),
    **dict.fromkeys(("StackPush", "StackPushV2"), Kernel(push, as_second, needs_context=True)),
    **dict.fromkeys(("StackPop", "StackPopV2"), Kernel(pop, unknown_shape, needs_context=True)),
    **dict.fromkeys(("StackClose", "StackCloseV2"), Kernel(close, _infer_close, needs_context=True)),
}
