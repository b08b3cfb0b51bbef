"""Memory rules of kernels: outputs that are allocated, forwarded, aliased or cut from an input, and temporaries.

A kernel names its rule in `Kernel.memory`: a function that calls a `KernelMemory`'s methods in the kernel's own order. Without
a rule, a kernel allocates its outputs in their order. The same rules serve a real run and a dry run of a step.

Source: the allocate_output, allocate_temp and forward_input calls of TensorFlow's kernels, and recordings of them.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from placesim.core.dtypes import FLOAT, RESOURCE, STRING, VARIANT, DataType
from placesim.machine.memory.buffers import Buffer, BufferSource, OutOfMemory, foreign_buffer
from placesim.ops.attributes import Attrs

INTRA_OP_THREADS = 1
"""Threads inside an op on a simulated CPU; some kernels allocate memory for each."""
STRING_BYTES = 24
"""Size of an element of a string tensor. The bytes of a long string are stored elsewhere, and not counted."""
RESOURCE_BYTES = 200
VARIANT_BYTES = 64
"""Size of a variant without its content."""
ALIGNMENT = 64
"""Part of a tensor can be used without a copy if it starts at a multiple of this number of bytes."""
ITSELF = -1
"""Key of a resource that the node itself creates; other resources have the position of the input that names them."""
_OBJECT_BYTES = {STRING: STRING_BYTES, RESOURCE: RESOURCE_BYTES, VARIANT: VARIANT_BYTES}


Kind = tuple[tuple[int, ...], DataType]
"""Shape and type of a tensor, for TensorFlow's out-of-memory error."""


class UnknownValue(Exception):
    """A rule needs the value of an input that is unknown before the step runs."""


@dataclass(slots=True, eq=False)
class TensorMemory:
    """A tensor's shape, type and buffer, and its value if a memory rule may need it.

    `buffer` is None before the tensor is allocated, and for a tensor without elements that is not part of another. `on_host`
    means host memory instead of the device's.
    """

    dims: tuple[int, ...]
    dtype: DataType
    buffer: Buffer | None = None
    value: np.ndarray[Any, Any] | None = None
    is_ref: bool = False
    on_host: bool = False

    def shared(self) -> TensorMemory:
        """Return another reference to the same tensor."""
        self.hold()
        return TensorMemory(self.dims, self.dtype, self.buffer, self.value, self.is_ref, self.on_host)

    def hold(self) -> None:
        """Add a holder of the tensor's buffer; does nothing for a reference, which holds no buffer."""
        if self.buffer is not None and not self.is_ref:
            self.buffer.holders += 1

    def release(self) -> None:
        """Remove a holder of the tensor's buffer."""
        if self.buffer is not None and not self.is_ref:
            self.buffer.release()

    @property
    def elements(self) -> int:
        return math.prod(self.dims)

    @property
    def kind(self) -> Kind:
        """The tensor's shape and type."""
        return self.dims, self.dtype

    @property
    def size(self) -> int:
        """The tensor's size in bytes."""
        return math.prod(self.dims) * item_size(self.dtype)


def item_size(dtype: DataType) -> int:
    """Return the bytes of one element, as an allocator sees it."""
    return dtype.size or _OBJECT_BYTES[dtype]


@dataclass(slots=True, eq=False)
class VariableMemory:
    """The memory of a variable. `buffer` is None before the variable is initialized.

    After a sparse update `copies_on_read` is true: from then on each read copies the value. `kind` is the value's shape and
    type, if known.
    """

    buffer: Buffer | None = None
    copies_on_read: bool = False
    kind: Kind | None = None


class StoreMemory:
    """The buffers in a stack, tensor array, queue or staging area, by the key of their element, in order of arrival.

    An element has one buffer or more; a tensor without elements has None. Only tensor arrays use `clears_after_read`.
    """

    __slots__ = ("_count", "clears_after_read", "held")

    def __init__(self) -> None:
        self.held: dict[Any, list[Buffer | None]] = {}
        self.clears_after_read = True
        self._count = 0

    def put(self, buffers: list[Buffer | None], key: Any = None) -> None:
        """Keep an element's buffers, of which the store is already a holder, and release an element with the same key."""
        if key is None:
            key, self._count = self._count, self._count + 1
        self.drop(key)
        self.held[key] = buffers

    def drop(self, key: Any) -> None:
        """Release an element, if it exists."""
        for buffer in self.held.pop(key, ()):
            if buffer is not None:
                buffer.release()

    def clear(self) -> None:
        """Release everything, as when the resource is destroyed."""
        for key in list(self.held):
            self.drop(key)

    def oldest(self) -> Any:
        """Return the key of the element that came first, or None."""
        return next(iter(self.held), None)

    def newest(self) -> Any:
        """Return the key of the element that came last, or None."""
        return next(reversed(self.held), None)


class KernelMemory:
    """The memory of one run of one kernel; a rule calls its methods in the kernel's order.

    `inputs` and `outputs` have known shapes. The keys of `variables` and `stores` are the position of the input that names the
    resource, or `ITSELF`. `source` is the device's memory, `host_source` host memory. `is_read` says which outputs have readers
    (None: all). After the rule, the kernel holds each output once.
    """

    def __init__(
        self,
        owner: str,
        inputs: Sequence[TensorMemory],
        outputs: Sequence[TensorMemory],
        attrs: Attrs,
        source: BufferSource,
        *,
        host_source: BufferSource | None = None,
        variables: dict[int, VariableMemory] | None = None,
        stores: dict[int, StoreMemory] | None = None,
        counts_temporaries: bool = True,
        is_read: Sequence[bool] | None = None,
    ) -> None:
        self.owner = owner
        self.inputs = inputs
        self.outputs = outputs
        self.attrs = attrs
        self.variables = {} if variables is None else variables
        self.stores = {} if stores is None else stores
        self._source = source
        self._host_source = host_source or source
        self._counts_temporaries = counts_temporaries
        self._is_read = is_read
        self._temporaries: list[Buffer] = []
        self._forwarded: list[tuple[int, int]] = []
        self.asked: Kind = ((), VARIANT)
        """Shape and type of the last request, for the out-of-memory error."""
        self.asked_temporary = False
        self._is_made = [False] * len(outputs)

    # --- queries of a rule

    def value(self, index: int) -> np.ndarray[Any, Any]:
        """Return the value of an input. Raises UnknownValue if it is unknown."""
        value = self.inputs[index].value
        if value is None:
            raise UnknownValue
        return np.asarray(value)

    def is_read(self, output: int) -> bool:
        """Whether anything reads this output; a few kernels do not even allocate an output without readers."""
        return self._is_read is None or self._is_read[output]

    def is_made(self, output: int) -> bool:
        """Whether the rule has already assigned an output's memory."""
        return self._is_made[output]

    @property
    def is_on_gpu(self) -> bool:
        """Whether the kernel runs on a GPU, where libraries choose its temporaries."""
        return not self._counts_temporaries

    # --- actions of a rule

    def allocate(self, output: int = 0) -> None:
        """Allocate a new buffer for an output, unless it has no elements."""
        tensor = self.outputs[output]
        self._is_made[output] = True
        if tensor.size:
            self.asked, self.asked_temporary = tensor.kind, False
            tensor.buffer = (self._host_source if tensor.on_host else self._source).allocate(tensor.size, self.owner)

    def forward(self, output: int, *inputs: int) -> bool:
        """Reuse the first of these inputs that can become the output; else allocate. Return whether an input was reused.

        An input can be reused if it is not a reference, and if its buffer has no other holder. Its type, number of elements and
        kind of memory must be the output's.
        """
        found = self.find_forwardable(output, *inputs)
        if found is None:
            self.allocate(output)
            return False
        self._is_made[output] = True
        self._forwarded.append((output, found))
        tensor = self.inputs[found]
        self.outputs[output].buffer, tensor.buffer = tensor.buffer, None
        return True

    def find_forwardable(self, output: int, *inputs: int) -> int | None:
        """Return the first of these inputs whose buffer can become the output, or None."""
        return self.find_reusable(self.outputs[output], *inputs)

    def find_reusable(self, wanted: TensorMemory, *inputs: int) -> int | None:
        """Return the first of these inputs whose buffer can be reused for an output or temporary, or None."""
        for index in inputs:
            tensor = self.inputs[index]
            if (
                tensor.buffer is not None
                and tensor.buffer.is_sole
                and not tensor.is_ref
                and tensor.dtype is wanted.dtype
                and tensor.on_host == wanted.on_host
                and tensor.elements == wanted.elements
            ):
                return index
        return None

    def alias(self, output: int, source: int) -> None:
        """Make the output share the input's buffer, even if the buffer has other holders."""
        self._is_made[output] = True
        buffer = self.inputs[source].buffer
        if buffer is not None and not self.outputs[output].is_ref:
            self.outputs[output].buffer = buffer.hold()

    def view(self, output: int, source: int) -> None:
        """Make the output a view of the input's buffer. Even a view without elements keeps the buffer alive."""
        self._is_made[output] = True
        buffer = self.inputs[source].buffer
        if buffer is not None:
            self.outputs[output].buffer = buffer.view(self.outputs[output].size)

    def leave_out(self, output: int) -> None:
        """Note that the kernel does not create an output: nothing reads it, or it is dead."""
        self._is_made[output] = True

    def leave_untracked(self, output: int) -> None:
        """Put the output in memory outside the device's allocator."""
        self._is_made[output] = True
        size = self.outputs[output].size
        self.outputs[output].buffer = foreign_buffer(size) if size else None

    def share_variable(self, output: int, source: int) -> None:
        """Give the output the buffer of the variable that an input names."""
        self.hand_on(output, self.variable(source).buffer)

    def hand_on(self, output: int, buffer: Buffer | None) -> None:
        """Give the output an existing buffer, such as a function's result; None gives it no memory."""
        self._is_made[output] = True
        self.outputs[output].buffer = hold_buffer(buffer)

    def variable(self, source: int) -> VariableMemory:
        """Return the variable that an input names; with `ITSELF`, the node's own."""
        return self.variables.setdefault(source, VariableMemory())

    def store(self, source: int) -> StoreMemory:
        """Return the stack, queue or similar that an input names; with `ITSELF`, the node's own."""
        return self.stores.setdefault(source, StoreMemory())

    def keep(self, source: int, inputs: Sequence[int], key: Any = None) -> None:
        """Add an element to a store, which then holds the inputs' buffers."""
        self.store(source).put([hold_buffer(self.inputs[index].buffer) for index in inputs], key)

    def take(self, source: int, key: Any, stays: bool = False) -> None:
        """Give an element's buffers to the outputs, and remove the element from the store unless it `stays`.

        If the store lacks the element, the outputs get new memory.
        """
        store = self.store(source)
        if key not in store.held:
            return
        for output, buffer in enumerate(store.held[key]):
            self.hand_on(output, buffer)
        if not stays:
            store.drop(key)

    def elements_of(self, source: int) -> list[Buffer | None]:
        """Return the buffers of the tensor list in an input."""
        buffer = self.inputs[source].buffer
        return [] if buffer is None else buffer.contents or []

    def make_list(self) -> list[Buffer | None]:
        """Allocate a new tensor list as output 0; return its buffers, an empty list to fill."""
        self.allocate(0)
        elements: list[Buffer | None] = []
        if (buffer := self.outputs[0].buffer) is not None:
            buffer.contents = elements
        return elements

    def change_list(self) -> list[Buffer | None]:
        """Return the buffers of a tensor list to change: input 0's own list if it has no other holder, else a copy."""
        if self.find_forwardable(0, 0) is not None:
            self.forward(0, 0)
            buffer = self.outputs[0].buffer
            assert buffer is not None  # it was found to be forwardable
            if buffer.contents is None:
                buffer.contents = []
            return buffer.contents
        found = list(map(hold_buffer, self.elements_of(0)))
        elements = self.make_list()
        elements += found
        return elements

    def give_element(self, output: int, place: int) -> None:
        """Give an output an element of the tensor list in input 0; an element that was never set gets new memory."""
        elements = self.elements_of(0)
        buffer = elements[place] if -len(elements) <= place < len(elements) else None
        if buffer is None:
            self.allocate(output)
        else:
            self.hand_on(output, buffer)

    def renew_variable(self, source: int, size: int, kind: Kind | None = None) -> None:
        """Allocate a new buffer for a variable's value of this size and kind (by default the old kind).

        The old buffer is freed when its last reader ends.
        """
        variable = self.variable(source)
        kind = variable.kind if kind is None else kind
        old, variable.buffer = variable.buffer, self.new_buffer(size, kind=kind)
        variable.kind = kind
        if old is not None:
            old.release()

    def share_with_variable(self) -> None:
        """Make the variable in input 0 hold input 1's buffer, even a shared one, and release the variable's old buffer."""
        variable = self.variable(0)
        old, variable.buffer = variable.buffer, hold_buffer(self.inputs[1].buffer)
        variable.kind = self.inputs[1].kind
        if old is not None:
            old.release()

    def write_variable(self, source: int) -> None:
        """Prepare a change of a resource variable in place: renew its buffer first if readers may still hold it."""
        variable = self.variable(source)
        if variable.buffer is not None and (variable.copies_on_read or variable.buffer.is_shared):
            self.renew_variable(source, variable.buffer.size)

    def touch_rows(self, source: int) -> None:
        """Prepare an access to rows of a resource variable: from now on readers get copies, so it can change in place."""
        variable = self.variable(source)
        if variable.buffer is not None and not variable.copies_on_read and variable.buffer.is_shared:
            self.renew_variable(source, variable.buffer.size)
        variable.copies_on_read = True

    def temporary(self, size: int, dims: tuple[int, ...] | None = None, dtype: DataType = FLOAT) -> Buffer | None:
        """Allocate temporary memory, which is freed at the kernel's end or by `release`.

        The out-of-memory error names `dims` and `dtype`, without them a vector of floats. Return None for size 0, and on a
        device whose libraries choose the temporaries.
        """
        if not size or not self._counts_temporaries:
            return None
        self.asked = _vector_of_floats(size) if dims is None else (dims, dtype)
        self.asked_temporary = True
        buffer = self._source.allocate(size, self.owner)
        self._temporaries.append(buffer)
        return buffer

    def temporary_like(self, tensor: TensorMemory, dtype: DataType | None = None) -> Buffer | None:
        """Allocate a temporary with a tensor's shape, and with its type or `dtype`."""
        dtype = dtype or tensor.dtype
        return self.temporary(tensor.elements * item_size(dtype), tensor.dims, dtype)

    def give(self, output: int, temporary: Buffer | None) -> None:
        """Turn a temporary into an output."""
        if temporary is None:
            self.allocate(output)
            return
        self._is_made[output] = True
        self._temporaries.remove(temporary)
        self.outputs[output].buffer = temporary

    def forward_temporary(self, *inputs: int) -> None:
        """As a temporary, use the first of these inputs that may be overwritten; else allocate one like the first input."""
        for index in inputs:
            buffer = self.inputs[index].buffer
            if buffer is not None and buffer.is_sole and not self.inputs[index].is_ref:
                # held until the kernel ends, so that no output is forwarded from there
                self._temporaries.append(buffer.hold())
                return
        self.temporary_like(self.inputs[inputs[0]])

    def release(self, temporary: Buffer | None) -> None:
        """Free a temporary before the kernel ends."""
        if temporary is not None:
            self._temporaries.remove(temporary)
            temporary.release()

    def new_buffer(self, size: int, on_host: bool = False, kind: Kind | None = None) -> Buffer | None:
        """Allocate persistent memory, for example for a variable; return None for zero bytes.

        `kind` is the tensor's shape and type, for the out-of-memory error; without it, the error names a vector of floats.
        """
        if not size:
            return None
        self.asked, self.asked_temporary = _vector_of_floats(size) if kind is None else kind, False
        return (self._host_source if on_host else self._source).allocate(size, self.owner)

    # --- run of a rule

    def run(self, rule: MemoryRule | None) -> None:
        """Run a kernel's rule, then allocate the outputs that the rule did not mention, and free the temporaries.

        A reference output gets no memory. Raises OutOfMemory, after giving back everything allocated before.
        """
        try:
            if rule is not None:
                rule(self)
            for output, is_made in enumerate(self._is_made):
                if not is_made and not self.outputs[output].is_ref:
                    self.allocate(output)
        except (OutOfMemory, UnknownValue):
            self._undo()
            raise
        finally:
            # as C++ destroys the variables of a function
            for buffer in reversed(self._temporaries):
                buffer.release()
            self._temporaries.clear()

    def _undo(self) -> None:
        for output, source in self._forwarded:
            self.inputs[source].buffer, self.outputs[output].buffer = self.outputs[output].buffer, None
        for tensor in self.outputs:
            if tensor.buffer is not None and not tensor.is_ref:
                tensor.buffer.release()
                tensor.buffer = None
        self._forwarded.clear()


def hold_buffer(buffer: Buffer | None) -> Buffer | None:
    """Add a holder to a buffer, if there is one, and return it."""
    return None if buffer is None else buffer.hold()


def _vector_of_floats(size: int) -> Kind:
    return (size // FLOAT.size,), FLOAT


MemoryRule = Callable[[KernelMemory], None]


@dataclass(frozen=True, slots=True)
class ForwardingRule:
    """The rule of an op whose output overwrites the first of `inputs` that may be overwritten."""

    inputs: tuple[int, ...]

    def candidates(self, inputs: Sequence[TensorMemory]) -> tuple[int, ...]:
        """Return the inputs to try, in order."""
        return self.inputs

    def __call__(self, memory: KernelMemory) -> None:
        memory.forward(0, *self.inputs)


@dataclass(frozen=True, slots=True)
class BroadcastForwardingRule:
    """The rule of an op of two inputs that broadcast: the output overwrites the first input that may be overwritten.

    A scalar is not overwritten if the other input is not a scalar, even if that input has only one element.
    """

    def candidates(self, inputs: Sequence[TensorMemory]) -> tuple[int, ...]:
        """Return the inputs to try, in order."""
        x, y = inputs[0].dims, inputs[1].dims
        if x == y or (x and y):
            return (0, 1)
        return (0,) if x else (1,)

    def __call__(self, memory: KernelMemory) -> None:
        memory.forward(0, *self.candidates(memory.inputs))


@dataclass(frozen=True, slots=True)
class AliasRule:
    """The rule of an op whose output is its input's buffer."""

    source: int = 0

    def __call__(self, memory: KernelMemory) -> None:
        memory.alias(0, self.source)


def forwards(*inputs: int) -> MemoryRule:
    """Return the rule of an op whose output overwrites the first of these inputs that may be overwritten."""
    return ForwardingRule(inputs)


def aliases(source: int = 0) -> MemoryRule:
    """Return the rule of an op whose output is its input's buffer."""
    return AliasRule(source)


def alias_same_shape(memory: KernelMemory) -> None:
    """Apply the rule of a reshaping op: the output shares the first input's buffer if the shape does not change."""
    if memory.outputs[0].dims == memory.inputs[0].dims:
        memory.alias(0, 0)


def clear_store(memory: KernelMemory) -> None:
    """Apply the rule of an op that closes a stack or tensor array, named by input 0: release all elements."""
    memory.store(0).clear()


def leaves_untracked(*outputs: int) -> MemoryRule:
    """Return the rule of an op that allocates these outputs outside the device's allocator."""
    return _for_each(KernelMemory.leave_untracked, outputs)


def writes_variables(count: int) -> MemoryRule:
    """Return the rule of an op that changes the resource variables named by its first `count` inputs."""
    return _for_each(KernelMemory.write_variable, range(count))


def allocates(*order: int) -> MemoryRule:
    """Return the rule of an op that allocates its outputs in this order."""
    return _for_each(KernelMemory.allocate, order)


def touches_rows(count: int = 1) -> MemoryRule:
    """Return the rule of an op that reads or changes rows of the resource variables named by its first `count` inputs."""
    return _for_each(KernelMemory.touch_rows, range(count))


def _for_each(method: Callable[[KernelMemory, int], None], numbers: Sequence[int]) -> MemoryRule:
    def rule(memory: KernelMemory) -> None:
        for number in numbers:
            method(memory, number)

    return rule


def has_aligned_rows(tensor: TensorMemory) -> bool:
    """Whether each row of a tensor (along axis 0) starts at an aligned address."""
    return bool(tensor.dims and tensor.dims[0]) and tensor.size // tensor.dims[0] % ALIGNMENT == 0


def has_aligned_bounds(tensor: TensorMemory, *bounds: int) -> bool:
    """Whether rows between these bounds can be used without a copy; for a vector, the bounds themselves must be aligned."""
    if len(tensor.dims) > 1:
        return has_aligned_rows(tensor)
    size = item_size(tensor.dtype)
    return not any(bound * size % ALIGNMENT for bound in bounds)


def share_rows(memory: KernelMemory, output: int, source: int) -> None:
    """Make the output a view of consecutive rows of an input."""
    if memory.outputs[output].elements == memory.inputs[source].elements:
        memory.alias(output, source)
    else:
        memory.view(output, source)


def alias_each(memory: KernelMemory) -> None:
    """Apply the rule of an op that passes each input on as the output of the same position."""
    for output in range(len(memory.outputs)):
        memory.alias(output, output)
