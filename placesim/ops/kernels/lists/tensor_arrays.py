"""Tensor arrays: arrays of tensors, each written once, that end with the step; in the three versions of TensorFlow's ops.

The versions differ in the handle: a ref to two strings, two strings, or a resource. The gradients of an array are an array too,
named by the forward array and attr `source`; several writes to one of its elements are summed. Source: TensorFlow's tensor
array kernels.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from placesim.core.dtypes import BOOL, FLOAT, STRING, VARIANT, DataType
from placesim.core.errors import InvalidArgumentError
from placesim.ops.attributes import Attrs
from placesim.ops.kernels.device_resources import ResourceHandle, VariableResource, check_kind
from placesim.ops.kernels.kernel import Compute, Kernel, KernelContext, Table, Tensor, zeros
from placesim.ops.kernels.lists import tensor_array_shapes as shapes
from placesim.ops.kernels.memory_rules import ITSELF, STRING_BYTES, KernelMemory, MemoryRule, clear_store
from placesim.ops.kernels.named_resources import (
    STEP_CONTAINER,
    find_in_step,
    infer_scalar_of_two_strings,
    infer_takes_two_strings,
)
from placesim.ops.kernels.partial_shapes import is_compatible, show_partial
from placesim.ops.kernels.shapes import Dims, ShapeFunction, concatenate, format_dims, is_fully_defined
from placesim.ops.process.memory_limit import check_elements

FORWARD, GRADIENTS = "_tensor_arrays", "_tensor_array_grads"
RESOURCE_TYPE = "N10tensorflow11TensorArrayE"


# --- the array ------------------------------------------------------------------------------------------------------


@dataclass(slots=True)
class Element:
    """One element. If it is written without a tensor, it has zeros of `shape`."""

    tensor: Tensor | None = None
    shape: tuple[int, ...] = ()
    written: bool = False
    read: bool = False
    cleared: bool = False


@dataclass(slots=True)
class TensorArrayStore:
    """An array of tensors of one type; messages use its `name`.

    `marked_size` is the number of elements that the last split or unpack wrote, or -1. For an array of
    gradients, pack and concat join this number of elements.
    """

    name: str
    dtype: DataType
    elements: list[Element]
    element_shape: Dims
    identical_shapes: bool
    dynamic_size: bool
    clear_after_read: bool
    is_gradient: bool = False
    marked_size: int = -1
    closed: bool = False
    added_up: bool = False

    def size(self) -> int:
        """Return the number of elements. Raises InvalidArgumentError if the array is closed."""
        if self.closed:
            raise InvalidArgumentError(f"TensorArray {self.name} has already been closed.")
        return len(self.elements)

    def joined_size(self) -> int:
        """Return the number of elements that pack and concat join. Raises InvalidArgumentError if the array is closed."""
        size = self.size()
        # gradients join the number of elements that were split, even if another number was written
        return self.marked_size if self.is_gradient else size

    def mark_size(self, size: int) -> None:
        """Note that a split or unpack writes `size` elements. Raises InvalidArgumentError if the array is closed."""
        self.size()
        if not self.is_gradient:
            self.marked_size = size

    def check_dtype(self, dtype: DataType, what: str) -> None:
        """Raise InvalidArgumentError unless an op reads or writes the array's type."""
        if dtype is not self.dtype:
            raise InvalidArgumentError(f"TensorArray dtype is {self.dtype.name} but Op {what} dtype {dtype.name}.")

    def write(self, index: int, value: Tensor) -> None:
        """Write a tensor to an element; gradients are summed.

        Raises InvalidArgumentError for an invalid index or shape, an element that was read or written, and a closed array.
        """
        size = self.size()
        if index < 0 or (not self.dynamic_size and index >= size):
            raise InvalidArgumentError(
                f"TensorArray {self.name}: Tried to write to index {index} but array is not resizeable and size is: {size}"
            )
        check_elements(index + 1 - size)
        self.elements += [Element() for _ in range(index + 1 - size)]
        self._check_write(index, np.shape(value))
        element = self.elements[index]
        if element.written:
            self._add(index, value)
        else:
            self.elements[index] = Element(value, np.shape(value), written=True)

    def _check_write(self, index: int, shape: tuple[int, ...]) -> None:
        place = f"TensorArray {self.name}: Could not write to TensorArray index {index} because "
        if not is_compatible(self.element_shape, shape):
            raise InvalidArgumentError(
                f"{place}the value shape is {format_dims(shape)} which is incompatible with the TensorArray's inferred "
                f"element shape: {show_partial(self.element_shape)} (consider setting infer_shape=False)."
            )
        # the first tensor determines the shape
        if self.identical_shapes and not is_fully_defined(self.element_shape):
            self.element_shape = shape
        if self.elements[index].read:
            raise InvalidArgumentError(f"{place}it has already been read.")
        if not self.is_gradient and self.elements[index].written:
            raise InvalidArgumentError(f"{place}it has already been written to.")

    def _add(self, index: int, value: Tensor) -> None:
        element = self.elements[index]
        if np.shape(value) != element.shape:
            raise InvalidArgumentError(
                f"TensorArray {self.name}: Could not aggregate to TensorArray index {index} because the existing shape is "
                f"{format_dims(element.shape)} but the new input shape is {format_dims(np.shape(value))}."
            )
        if element.tensor is None or not np.size(element.tensor):
            element.tensor = value
            return
        if self.dtype in (STRING, BOOL, VARIANT):
            raise InvalidArgumentError(f"tensor_array::AddToTensor type not supported: {self.dtype.name}")
        element.tensor = np.asarray(element.tensor + value)
        self.added_up = True

    def read(self, index: int) -> Tensor:
        """Return an element, and clear it if `clear_after_read`; an unwritten element has zeros.

        Raises InvalidArgumentError for an index out of range, a cleared element, zeros of an unknown shape, and a closed array.
        """
        size = self.size()
        # elements without a gradient have zeros, even beyond the end
        if index < 0 or (not self.is_gradient and index >= size):
            raise InvalidArgumentError(f"Tried to read from index {index} but array size is: {size}")
        if index >= size or not self.elements[index].written:
            self._fill_with_zeros(index)
        element = self.elements[index]
        if element.cleared:
            raise InvalidArgumentError(
                f"TensorArray {self.name}: Could not read index {index} twice because it was cleared after a previous read "
                "(perhaps try setting clear_after_read = false?)."
            )
        found = self._zeros(element.shape) if element.tensor is None else element.tensor
        element.tensor, element.cleared = (None, True) if self.clear_after_read else (found, False)
        element.read = True
        return found

    def _zeros(self, shape: tuple[int, ...]) -> Tensor:
        # TensorFlow makes no zeros of strings, except a tensor without elements
        if self.dtype is STRING and 0 not in shape:
            raise InvalidArgumentError("tensor_array::TensorSetZero type not supported: string")
        return zeros(shape, self.dtype)

    def _fill_with_zeros(self, index: int) -> None:
        size = len(self.elements)
        shape: Dims = self.element_shape
        if self.is_gradient and index < size and self.elements[index].shape:
            shape = self.elements[index].shape
        if not is_fully_defined(shape):
            raise InvalidArgumentError(
                f"TensorArray {self.name}: Could not read from TensorArray index {index}.  Furthermore, the element shape is "
                f"not fully defined: {show_partial(shape)}.  It is possible you are working with a resizeable TensorArray "
                "and stop_gradients is not allowing the gradients to be written.  If you set the full element_shape "
                "property on the forward TensorArray, the proper all-zeros tensor will be returned instead of incurring "
                "this error."
            )
        check_elements(index + 1 - size)
        self.elements += [Element(shape=shape, written=True) for _ in range(index + 1 - size)]
        self.elements[index].shape, self.elements[index].written = shape, True

    def close(self) -> None:
        """Release all tensors."""
        self.elements, self.closed = [], True


def rows_of(tensor: Tensor) -> list[Tensor]:
    """Return the rows of a tensor; scalar rows are arrays too."""
    return [tensor[index, ...] for index in range(len(tensor))]


# --- handles --------------------------------------------------------------------------------------------------------


def _make_handle(form: str, container: str, array: TensorArrayStore, context: KernelContext) -> Any:
    context.step_resources[container + array.name] = array
    if form == "V3":
        return ResourceHandle(context.device, STEP_CONTAINER, container + array.name, RESOURCE_TYPE, array.dtype)
    strings = np.array([container.encode(), array.name.encode()], object)
    return strings if form == "V2" else VariableResource(array.name, STRING, strings)


def _handle_key(handle: Any) -> tuple[str, str]:
    """Return container and name of a handle of any version."""
    if isinstance(handle, ResourceHandle):
        check_kind(handle, RESOURCE_TYPE)
        return "", handle.name
    strings = np.asarray(handle.value if isinstance(handle, VariableResource) else handle)
    if strings.size != 2:
        raise InvalidArgumentError(f"Tensor array handle must be 2-element vector, but had shape: {format_dims(strings.shape)}")
    container, name = (part.decode() for part in strings.reshape(-1))
    return container, name


def find_array(handle: Any, context: KernelContext) -> TensorArrayStore:
    """Return the tensor array of a handle of any version. Raises NotFoundError if the step has none."""
    found: TensorArrayStore = find_in_step("".join(_handle_key(handle)), RESOURCE_TYPE, context)
    return found


# --- making ---------------------------------------------------------------------------------------------------------


def _make_array(inputs: Sequence[Any], attrs: Attrs, context: KernelContext, form: str) -> Sequence[Any]:
    """Return the handle of a new array of `size` elements, and in version V3 also a scalar, the flow."""
    size = np.asarray(inputs[0])
    if size.ndim:
        raise InvalidArgumentError(f"TensorArray size must be scalar, but had shape: {format_dims(size.shape)}")
    if size < 0:
        raise InvalidArgumentError("Size should be >= 0.")
    check_elements(int(size))
    # the number distinguishes arrays that a node makes in several iterations of a loop
    count = sum(
        isinstance(resource, TensorArrayStore) and not resource.is_gradient for resource in context.step_resources.values()
    )
    array = TensorArrayStore(
        name=f"{attrs['tensor_array_name'] or context.node}_{count}",
        dtype=attrs["dtype"],
        elements=[Element() for _ in range(int(size))],
        element_shape=attrs["element_shape"].dims,
        identical_shapes=attrs.get("identical_element_shapes", False),
        dynamic_size=attrs["dynamic_size"],
        clear_after_read=attrs["clear_after_read"],
    )
    return _with_flow(form, _make_handle(form, FORWARD, array, context))


def _with_flow(form: str, handle: Any) -> Sequence[Any]:
    return (handle, np.zeros((), FLOAT.numpy)) if form == "V3" else (handle,)


def _make_gradients(inputs: Sequence[Any], attrs: Attrs, context: KernelContext, form: str) -> Sequence[Any]:
    """Return the handle of an array's gradients, and in version V3 a flow; ops with the same attr `source` share them."""
    container, name = _handle_key(inputs[0])
    if container and container != FORWARD:
        raise InvalidArgumentError(f"Input container should be '{FORWARD}',  but received '{container}'")
    if not container and not name.startswith(FORWARD):
        raise InvalidArgumentError(f"Wrong input container. {name}")
    forward = find_array(inputs[0], context)
    # the gradients have the current number of elements
    forward.dynamic_size = False
    forward.size()
    if forward.added_up:
        raise InvalidArgumentError(
            f"Unable to create a gradients TensorArray for {forward.name}.  Perhaps you used the multiple_writes_aggregate "
            "flag on a previous write?  Gradient calculation is impossible when multiple writes are performed to the same "
            "index."
        )
    prefix = tuple(map(int, inputs[2])) if len(inputs) > 2 else ()
    gradient_name = f"{forward.name}@{attrs['source']}"
    array = context.step_resources.get(GRADIENTS + gradient_name) or _gradients_of(forward, gradient_name, prefix)
    return _with_flow(form, _make_handle(form, GRADIENTS, array, context))


def _gradients_of(forward: TensorArrayStore, name: str, prefix: tuple[int, ...]) -> TensorArrayStore:
    elements = [
        Element(shape=prefix + element.shape, written=True) if element.written else Element() for element in forward.elements
    ]
    return TensorArrayStore(
        name=name,
        dtype=forward.dtype,
        elements=elements,
        element_shape=concatenate(prefix, forward.element_shape),
        identical_shapes=forward.identical_shapes,
        dynamic_size=False,
        clear_after_read=True,
        is_gradient=True,
        marked_size=forward.marked_size,
    )


# --- one element ----------------------------------------------------------------------------------------------------


def indices_of(indices: Any) -> list[int]:
    """Return the indices in a vector. Raises InvalidArgumentError for another rank."""
    if np.ndim(indices) != 1:
        raise InvalidArgumentError(f"Expected indices to be a vector, but received shape: {format_dims(np.shape(indices))}")
    return [int(index) for index in indices]


def _scalar_index(index: Any) -> int:
    if np.ndim(index):
        raise InvalidArgumentError(f"TensorArray index must be scalar, but had shape: {format_dims(np.shape(index))}")
    return int(index)


def write_element(inputs: Sequence[Any], attrs: Attrs, context: KernelContext) -> Sequence[Any]:
    """Write `value` at `index`, and return the flow. Raises the errors of `TensorArrayStore.write`."""
    handle, index_tensor, value, flow = inputs
    index = _scalar_index(index_tensor)
    array = find_array(handle, context)
    array.check_dtype(attrs["T"], "is trying to write")
    array.write(index, value)
    return (flow,)


def read_element(inputs: Sequence[Any], attrs: Attrs, context: KernelContext) -> Sequence[Any]:
    """Return the tensor at `index`. Raises InvalidArgumentError for a bad index, and the errors of `TensorArrayStore.read`."""
    handle, index_tensor, _ = inputs
    index = _scalar_index(index_tensor)
    array = find_array(handle, context)
    array.check_dtype(attrs["dtype"], "requested")
    return (array.read(index),)


# --- the array as a whole -------------------------------------------------------------------------------------------


def tell_size(inputs: Sequence[Any], attrs: Attrs, context: KernelContext) -> Sequence[Any]:
    """Return the number of elements, a scalar. Raises InvalidArgumentError if the array is closed."""
    return (np.int32(find_array(inputs[0], context).size()),)


def close_array(inputs: Sequence[Any], attrs: Attrs, context: KernelContext) -> Sequence[Any]:
    """Release all tensors; every later use is an error."""
    find_array(inputs[0], context).close()
    return ()


# --- memory -----------------------------------------------------------------------------------------------------------


def array_memory(memory: KernelMemory) -> None:
    """An array allocates its name, two strings; gradients that exist already need only a temporary name."""
    store = memory.store(ITSELF)
    if _NAME in store.held:
        memory.temporary(2 * STRING_BYTES)
    else:
        store.put([memory.new_buffer(2 * STRING_BYTES, on_host=True)], _NAME)
        store.clears_after_read = bool(memory.attrs.get("clear_after_read", True))


def write_memory(memory: KernelMemory) -> None:
    """The array holds the value's buffer; a second write to a gradient's element allocates the sum of both."""
    store, place = memory.store(0), int(memory.value(1))
    if place not in store.held:
        memory.keep(0, [2], place)
    elif (place, _SUM) not in store.held:
        store.put([memory.new_buffer(memory.inputs[2].size, kind=memory.inputs[2].kind)], place)
        store.put([], (place, _SUM))
    memory.alias(0, 3)


def read_memory(memory: KernelMemory) -> None:
    """The output is the written buffer, or new memory for zeros. The array releases the buffer unless it may be read again."""
    store, place = memory.store(0), int(memory.value(1))
    memory.take(0, place, stays=not store.clears_after_read)


_NAME = "name"
"""Key of the buffer with an array's name."""
_SUM = "sum"
"""The key `(position, _SUM)` marks an element that is a sum in its own memory."""


# --- rows -----------------------------------------------------------------------------------------------------------


def three_forms(*ops: str, compute: Compute, infer: ShapeFunction, outputs: int, memory: MemoryRule | None = None) -> Table:
    """Return the table rows of an op in three versions, oldest first; the oldest has no shape inference for its `outputs`."""
    oldest, older, newest = ops
    kernel = Kernel(compute, infer, needs_context=True, memory=memory)
    return {oldest: kernel._replace(shape=shapes.build_infer_unknown(outputs)), older: kernel, newest: kernel}


TABLE: Table = {
    "TensorArrayV3": Kernel(partial(_make_array, form="V3"), shapes.infer_array, needs_context=True, memory=array_memory),
    "TensorArrayV2": Kernel(
        partial(_make_array, form="V2"), shapes.build_infer_first(shapes.infer_array), needs_context=True, memory=array_memory
    ),
    "TensorArray": Kernel(
        partial(_make_array, form=""), shapes.build_infer_unknown(1), needs_context=True, memory=array_memory
    ),
    "TensorArrayGradWithShape": Kernel(
        partial(_make_gradients, form="V3"), shapes.infer_gradients, needs_context=True, memory=array_memory
    ),
    "TensorArrayGradV3": Kernel(
        partial(_make_gradients, form="V3"), shapes.infer_gradients, needs_context=True, memory=array_memory
    ),
    "TensorArrayGradV2": Kernel(
        partial(_make_gradients, form="V2"),
        shapes.build_infer_first(shapes.infer_gradients),
        needs_context=True,
        memory=array_memory,
    ),
    "TensorArrayGrad": Kernel(
        partial(_make_gradients, form=""), shapes.build_infer_unknown(1), needs_context=True, memory=array_memory
    ),
    **three_forms(
        *("TensorArrayWrite", "TensorArrayWriteV2", "TensorArrayWriteV3"),
        compute=write_element,
        infer=shapes.infer_write,
        outputs=1,
        memory=write_memory,
    ),
    **three_forms(
        *("TensorArrayRead", "TensorArrayReadV2", "TensorArrayReadV3"),
        compute=read_element,
        infer=shapes.infer_read,
        outputs=1,
        memory=read_memory,
    ),
    **three_forms(
        *("TensorArraySize", "TensorArraySizeV2", "TensorArraySizeV3"),
        compute=tell_size,
        infer=infer_scalar_of_two_strings,
        outputs=1,
    ),
    **three_forms(
        *("TensorArrayClose", "TensorArrayCloseV2", "TensorArrayCloseV3"),
        compute=close_array,
        infer=infer_takes_two_strings,
        outputs=0,
        memory=clear_store,
    ),
}
