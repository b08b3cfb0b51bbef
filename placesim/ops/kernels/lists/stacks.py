"""Stacks: tensors that a loop's forward steps push and its gradient's steps pop; a stack ends with the step.

An older op's handle is a ref to two strings, a newer op's a resource. Source: TensorFlow's stack kernels.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from placesim.core.dtypes import STRING, DataType
from placesim.core.errors import InvalidArgumentError
from placesim.ops.attributes import Attrs
from placesim.ops.kernels.device_resources import ResourceHandle, VariableResource, check_kind
from placesim.ops.kernels.kernel import Kernel, KernelContext, Table, Tensor, undeclared_type
from placesim.ops.kernels.memory_rules import KernelMemory, clear_store
from placesim.ops.kernels.named_resources import STEP_CONTAINER, find_in_step, infer_takes_two_strings, infer_two_strings
from placesim.ops.kernels.shapes import format_dims, infer_by, unknown_shape

CONTAINER = "_stacks"
RESOURCE_TYPE = "N10tensorflow5StackE"


@dataclass(slots=True)
class Stack:
    """A stack of tensors of one type; `max_size` None means no limit."""

    name: str
    dtype: DataType
    max_size: int | None = None
    tensors: list[Tensor] = field(default_factory=list)
    closed: bool = False

    def push(self, tensor: Tensor) -> None:
        """Push a tensor. Raises InvalidArgumentError if the stack is full or closed."""
        self._check_open()
        if self.max_size is not None and len(self.tensors) >= self.max_size:
            raise InvalidArgumentError(f"Stack[{self.name}] overflowed its max_size ({self.max_size})")
        self.tensors.append(tensor)

    def pop(self) -> Tensor:
        """Remove and return the top tensor. Raises InvalidArgumentError if the stack is empty or closed."""
        self._check_open()
        if not self.tensors:
            raise InvalidArgumentError(f"Stack[{self.name}] is empty when calling Pop().")
        return self.tensors.pop()

    def _check_open(self) -> None:
        if self.closed:
            raise InvalidArgumentError(f"Stack[{self.name}] has already been closed.")


# --- making ---------------------------------------------------------------------------------------------------------


def _make_stack(attrs: Attrs, context: KernelContext, max_size: int | None) -> Stack:
    # the number distinguishes stacks that a node makes in several iterations of a loop
    count = sum(isinstance(resource, Stack) for resource in context.step_resources.values())
    stack = Stack(f"{attrs['stack_name'] or context.node}_{count}", attrs["elem_type"], max_size)
    context.step_resources[CONTAINER + stack.name] = stack
    return stack


def make_stack(inputs: Sequence[Any], attrs: Attrs, context: KernelContext) -> Sequence[Any]:
    """Return a new stack's resource; a negative `max_size` means no limit. Raises InvalidArgumentError if it is no scalar."""
    size = np.asarray(inputs[0])
    if size.ndim:
        raise InvalidArgumentError(f"Stack size must be a scalar, but had shape: {format_dims(size.shape)}")
    stack = _make_stack(attrs, context, int(size) if size >= 0 else None)
    return (ResourceHandle(context.device, STEP_CONTAINER, CONTAINER + stack.name, RESOURCE_TYPE, stack.dtype),)


def make_ref_stack(inputs: Sequence[Any], attrs: Attrs, context: KernelContext) -> Sequence[Any]:
    """Return a ref to the two strings `[2]` that name a new stack without a limit."""
    stack = _make_stack(attrs, context, None)
    return (VariableResource(stack.name, STRING, np.array([CONTAINER.encode(), stack.name.encode()], object)),)


def find_stack(handle: Any, context: KernelContext) -> Stack:
    """Return a handle's stack. Raises NotFoundError if the step has none, InvalidArgumentError for another resource."""
    if isinstance(handle, ResourceHandle):
        check_kind(handle, RESOURCE_TYPE)
        key = handle.name
    else:
        key = _strings_key(handle)
    found: Stack = find_in_step(key, RESOURCE_TYPE, context)
    return found


def _strings_key(handle: Any) -> str:
    strings = np.asarray(handle.value if isinstance(handle, VariableResource) else handle)
    if strings.size != 2:
        raise InvalidArgumentError(f"Stack handle must have two elements, but had shape: {format_dims(strings.shape)}")
    return "".join(part.decode() for part in strings.reshape(-1))


# --- use ------------------------------------------------------------------------------------------------------------


def push(inputs: Sequence[Any], attrs: Attrs, context: KernelContext) -> Sequence[Any]:
    """Push a tensor of any shape, and return it. Raises InvalidArgumentError for another type, and a full or closed stack."""
    stack = find_stack(inputs[0], context)
    if attrs["T"] is not stack.dtype:
        raise InvalidArgumentError(f"Must have type {stack.dtype.number} but got {attrs['T'].number}")
    stack.push(inputs[1])
    return (inputs[1],)


def pop(inputs: Sequence[Any], attrs: Attrs, context: KernelContext) -> Sequence[Any]:
    """Remove and return the top tensor.

    Raises InvalidArgumentError for an empty or closed stack; InternalError for another type, although the tensor is removed.
    """
    stack = find_stack(inputs[0], context)
    found = stack.pop()
    if attrs["elem_type"] is not stack.dtype:
        raise undeclared_type(context, stack.dtype.name, attrs["elem_type"])
    return (found,)


def close(inputs: Sequence[Any], attrs: Attrs, context: KernelContext) -> Sequence[Any]:
    """Release all tensors; later pushes and pops raise InvalidArgumentError."""
    stack = find_stack(inputs[0], context)
    stack.tensors, stack.closed = [], True
    return ()


# --- memory -----------------------------------------------------------------------------------------------------------


def push_memory(memory: KernelMemory) -> None:
    """The stack holds the tensor's buffer until it is popped, and the output shares the buffer.

    `swap_memory`, by which TensorFlow moves tensors of a nearly full GPU to the host, is ignored.
    """
    memory.keep(0, [1])
    memory.alias(0, 1)


def pop_memory(memory: KernelMemory) -> None:
    """The output is the pushed buffer."""
    memory.take(0, memory.store(0).newest())


TABLE: Table = {
    "Stack": Kernel(make_ref_stack, infer_two_strings, needs_context=True),
    # TensorFlow infers the older handle's shape, although the newer one is a scalar
    "StackV2": Kernel(make_stack, infer_two_strings, needs_context=True),
    **dict.fromkeys(("StackPush", "StackPushV2"), Kernel(push, infer_by("*, x -> x"), needs_context=True, memory=push_memory)),
    **dict.fromkeys(("StackPop", "StackPopV2"), Kernel(pop, unknown_shape, needs_context=True, memory=pop_memory)),
    **dict.fromkeys(
        ("StackClose", "StackCloseV2"), Kernel(close, infer_takes_two_strings, needs_context=True, memory=clear_store)
    ),
}
