"""Tensor lists: immutable lists of tensors in variants, and the ops that make or change lists.

An element may be missing (None); it reads as zeros if its shape is known. Source: TensorFlow's list kernels.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from placesim.core.dtypes import BOOL, STRING, DataType
from placesim.core.errors import InvalidArgumentError
from placesim.machine.memory.buffers import Buffer
from placesim.ops.attributes import Attrs
from placesim.ops.kernels.kernel import Kernel, Table, Tensor, zeros
from placesim.ops.kernels.lists import tensor_list_shapes as shapes
from placesim.ops.kernels.lists.growing import popped, pushed
from placesim.ops.kernels.lists.tensor_arrays import indices_of, rows_of
from placesim.ops.kernels.memory_rules import KernelMemory, hold_buffer
from placesim.ops.kernels.partial_shapes import is_compatible, merge_partial, partial_shape_of, show_partial
from placesim.ops.kernels.shapes import Dims, format_dims, is_fully_defined
from placesim.ops.process.memory_limit import check_elements


@dataclass(frozen=True, slots=True)
class TensorList:
    """The value of a variant: tensors of one type whose shapes all fit `element_shape`.

    TensorListPushBack refuses more than `max_elements` elements; -1 means no limit.
    """

    dtype: DataType
    element_shape: Dims
    elements: Sequence[Tensor | None] = ()
    max_elements: int = -1

    # for TensorFlow's messages
    def __repr__(self) -> str:
        return "TensorList"


def list_of(value: Any) -> TensorList:
    """Return the list in a scalar variant. Raises InvalidArgumentError for another value."""
    if isinstance(value, np.ndarray):
        if value.ndim:
            raise InvalidArgumentError(f"Input list must be a scalar saw: {format_dims(value.shape)}")
        value = value.item()
    if not isinstance(value, TensorList):
        raise InvalidArgumentError(f"Input handle is not a list. Saw: '{value!r}'")
    return value


def typed_list(value: Any, attrs: Attrs) -> TensorList:
    """Return the list in a scalar variant. Raises InvalidArgumentError if there is none, or its type is not `element_dtype`."""
    found = list_of(value)
    if found.dtype is not attrs["element_dtype"]:
        raise InvalidArgumentError(
            f"Invalid data types; op elements {attrs['element_dtype'].name} but list elements {found.dtype.name}"
        )
    return found


NEVER_SET: Tensor = np.zeros(0, np.float32)
"""Element that TensorListScatterIntoExistingList adds but does not set: not missing, but C++'s default tensor, a float."""


def add_lists(one: TensorList, two: TensorList) -> TensorList:
    """Return AddN of lists: the sums of their elements; a missing element adds nothing.

    Raises InvalidArgumentError for lists of unequal types, shapes or lengths, and for elements that are bool or strings.
    """
    if one.dtype is not two.dtype:
        raise InvalidArgumentError(
            f"Trying to add two lists of tensors of different dtypes. One is {one.dtype.name} and the other is {two.dtype.name}"
        )
    if not is_compatible(one.element_shape, two.element_shape):
        raise InvalidArgumentError(
            "Trying to add two lists of tensors with incompatible element shapes. "
            f"One is {show_partial(one.element_shape)} and the other is {show_partial(two.element_shape)}"
        )
    if len(one.elements) != len(two.elements):
        raise InvalidArgumentError(
            "Trying to add two lists of tensors with different lengths. "
            f"One is {len(one.elements)} and the other is {len(two.elements)}"
        )
    elements = tuple(_add_elements(one.dtype, a, b) for a, b in zip(one.elements, two.elements, strict=True))
    return TensorList(one.dtype, merge_partial(one.element_shape, two.element_shape), elements)


def _add_elements(dtype: DataType, one: Tensor | None, two: Tensor | None) -> Tensor | None:
    if one is None or two is None:
        return two if one is None else one
    if dtype in (BOOL, STRING):
        raise InvalidArgumentError(f"Trying to add unsupported dtype {dtype.number}")
    return np.asarray(one + two)


def zeros_like_list(given: TensorList) -> TensorList:
    """Return ZerosLike of a list: zeros for elements that are not missing. Raises InvalidArgumentError for strings."""
    if given.dtype is STRING and any(element is not None for element in given.elements):
        raise InvalidArgumentError("Trying to compute zeros_like for unsupported dtype string")
    elements = tuple(None if element is None else zeros(np.shape(element), given.dtype) for element in given.elements)
    return TensorList(given.dtype, given.element_shape, elements)


# --- new lists ------------------------------------------------------------------------------------------------------


def make_empty(inputs: Sequence[Any], attrs: Attrs) -> Sequence[Any]:
    """Return an empty list; the inputs are the element shape, and the maximum number of elements.

    Raises InvalidArgumentError for a number that is not a scalar, and an invalid shape.
    """
    shape, most = inputs
    if np.ndim(most):
        raise InvalidArgumentError(f"max_num_elements expected to be a scalar but got shape: {format_dims(np.shape(most))}")
    return (TensorList(attrs["element_dtype"], partial_shape_of(shape), (), int(most)),)


def reserve(inputs: Sequence[Any], attrs: Attrs) -> Sequence[Any]:
    """Return a list of missing elements; the inputs are the element shape and the number of elements.

    Raises InvalidArgumentError for a number that is not a scalar or is negative, and an invalid shape.
    """
    shape, count = inputs
    element_shape = partial_shape_of(shape)
    if np.ndim(count):
        raise InvalidArgumentError(
            f"The num_elements to reserve must be a tensor size 1, but got {format_dims(np.shape(count))}"
        )
    if count < 0:
        raise InvalidArgumentError(f"The num_elements to reserve must be a non negative number, but got {int(count)}")
    check_elements(int(count))
    return (TensorList(attrs["element_dtype"], element_shape, (None,) * int(count)),)


def from_tensor(inputs: Sequence[Any], attrs: Attrs) -> Sequence[Any]:
    """Return a list of the rows of a tensor; input 1 is the element shape. Raises InvalidArgumentError if they do not fit."""
    tensor, shape = inputs
    if np.ndim(shape) > 1:
        raise InvalidArgumentError(
            f"TensorListFromTensor: element_shape must be at most rank 1 but has the shape of {format_dims(np.shape(shape))}"
        )
    element_shape = partial_shape_of(shape)
    _check_rows(tensor, element_shape)
    return (TensorList(attrs["element_dtype"], element_shape, tuple(rows_of(tensor))),)


def _check_rows(tensor: Tensor, element_shape: Dims) -> None:
    _check_has_rows(tensor)
    if not is_compatible(element_shape, np.shape(tensor)[1:]):
        raise InvalidArgumentError(
            f"Specified a list with shape {show_partial(element_shape)} "
            f"from a tensor with shape {format_dims(np.shape(tensor)[1:])}"
        )


def _check_has_rows(tensor: Tensor) -> None:
    if not np.ndim(tensor):
        raise InvalidArgumentError(f"Tensor must be at least a vector, but saw shape: {format_dims(np.shape(tensor))}")


def split(inputs: Sequence[Any], attrs: Attrs) -> Sequence[Any]:
    """Return a list of pieces of a tensor; the inputs are the tensor, the element shape, and sizes along its first dimension.

    Raises InvalidArgumentError for a scalar, a shape that does not fit, and lengths that are negative or have another sum.
    """
    tensor, shape, lengths = inputs
    element_shape = partial_shape_of(shape)
    if element_shape == ():
        raise InvalidArgumentError("TensorListSplit requires element_shape to be at least of rank 1, but saw: []")
    _check_has_rows(tensor)
    # TensorFlow does not compare the lengths with the element shape's first dimension
    if element_shape is not None and not is_compatible(element_shape[1:], np.shape(tensor)[1:]):
        raise InvalidArgumentError(
            f"tensor shape {format_dims(np.shape(tensor))} is not compatible with element_shape {show_partial(element_shape)}"
        )
    if np.ndim(lengths) != 1:
        raise InvalidArgumentError(f"Expected lengths to be a vector, received shape: {format_dims(np.shape(lengths))}")
    return (TensorList(attrs["element_dtype"], element_shape, _cut(tensor, [int(length) for length in lengths])),)


def _cut(tensor: Tensor, lengths: Sequence[int]) -> tuple[Tensor, ...]:
    pieces: list[Tensor] = []
    end = 0
    for length in lengths:
        if length < 0:
            raise InvalidArgumentError(f"Invalid value in lengths: {length}")
        start, end = end, end + length
        if end > len(tensor):
            raise InvalidArgumentError(f"Attempting to slice [{start}, {end}] from tensor with length {len(tensor)}")
        pieces.append(tensor[start:end])
    if end != len(tensor):
        raise InvalidArgumentError(f"Unused values in tensor. Length of tensor: {len(tensor)} Values used: {end}")
    return tuple(pieces)


def scatter(inputs: Sequence[Any], attrs: Attrs) -> Sequence[Any]:
    """Return a list with the rows of a tensor at indices `[n]`; other elements are missing. Input 2 is the element shape.

    The op's second version takes the number of elements, -1 for the number needed. Raises InvalidArgumentError for rows or
    indices that do not fit.
    """
    tensor, indices, shape = inputs[:3]
    if np.ndim(shape) > 1:
        raise InvalidArgumentError(
            f"TensorListScatter: element_shape must be at most rank 1 but has the shape of {format_dims(np.shape(shape))}"
        )
    element_shape = partial_shape_of(shape)
    count = _scattered_count(inputs[3]) if len(inputs) > 3 else -1
    _check_rows(tensor, element_shape)
    if np.size(indices) != len(tensor):
        raise InvalidArgumentError(
            f"Invalid number of rows in input tensor. Expected: {np.size(indices)} Actual: {len(tensor)}"
        )
    places = [int(index) for index in np.reshape(indices, -1)]
    for place in places:
        if place < 0:
            raise InvalidArgumentError("Indices in TensorListScatter must all be non-negative.")
        if count != -1 and place >= count:
            raise InvalidArgumentError(f"TensorListScatter: Trying to scatter at index {place} in list with size {count}")
    elements = _place_rows([None] * max(max(places, default=-1) + 1, count), places, tensor)
    return (TensorList(attrs["element_dtype"], element_shape, elements),)


def _scattered_count(count: Any) -> int:
    if np.ndim(count):
        raise InvalidArgumentError("num_elements must be a scalar")
    if count < -1:
        raise InvalidArgumentError(f"TensorListScatter expects num_elements >= -1, found: {int(count)}")
    check_elements(int(count))
    return int(count)


def _place_rows(elements: list[Tensor | None], places: Sequence[int], rows: Tensor) -> tuple[Tensor | None, ...]:
    for place, row in zip(places, rows_of(rows), strict=True):
        elements[place] = row
    return tuple(elements)


def scatter_into(inputs: Sequence[Any], attrs: Attrs) -> Sequence[Any]:
    """Return the list with the rows of a tensor at indices `[n]`, grown if needed; the inputs are list, tensor and indices.

    Raises InvalidArgumentError for another type, a scalar tensor, and indices that are not a vector with one for each row.
    """
    found, (tensor, indices) = list_of(inputs[0]), inputs[1:]
    if found.dtype is not attrs["element_dtype"]:
        raise InvalidArgumentError(
            f"Invalid data types; input tensor type: {attrs['element_dtype'].name} list element_type: {found.dtype.name}"
        )
    _check_has_rows(tensor)
    places = indices_of(indices)
    if len(places) != len(tensor):
        raise InvalidArgumentError(f"Expected len(indices) == tensor.shape[0], but saw: {len(places)} vs. {len(tensor)}")
    longer = [NEVER_SET] * (max(places, default=-1) + 1 - len(found.elements))
    return (replace(found, elements=_place_rows([*found.elements, *longer], places, tensor)),)


# --- changed lists --------------------------------------------------------------------------------------------------


def push_back(inputs: Sequence[Any], attrs: Attrs) -> Sequence[Any]:
    """Return the list with a tensor appended. Raises InvalidArgumentError for another shape or type, and a full list."""
    found, tensor = list_of(inputs[0]), inputs[1]
    if not is_compatible(found.element_shape, np.shape(tensor)):
        raise InvalidArgumentError(
            "Tried to append a tensor with incompatible shape to a list. Op element shape: "
            f"{format_dims(np.shape(tensor))} list shape: {show_partial(found.element_shape)}"
        )
    found = typed_list(found, attrs)
    if found.max_elements != -1 and len(found.elements) >= found.max_elements:
        raise InvalidArgumentError(
            f"Tried to push item into a full list list size: {len(found.elements)} max_num_elements: {found.max_elements}"
        )
    return (replace(found, elements=pushed(found.elements, tensor)),)


def push_back_batch(inputs: Sequence[Any], attrs: Attrs) -> Sequence[Any]:
    """Return lists `[n]`, each with a row of the tensor appended.

    Raises InvalidArgumentError for lists not in a vector, another number of rows, and rows of another shape or type.
    """
    lists, tensor = np.asarray(inputs[0], object), inputs[1]
    if not np.ndim(tensor):
        raise InvalidArgumentError(f"Expected tensor to be at least a vector, but saw shape: {format_dims(np.shape(tensor))}")
    if lists.ndim != 1:
        raise InvalidArgumentError(f"Expected input_handles to be a vector, but saw shape: {format_dims(lists.shape)}")
    if len(tensor) != len(lists):
        raise InvalidArgumentError(f"Expected tensor.shape[0] == input_handles.size, but saw {len(tensor)} vs. {len(lists)}")
    for position, found in enumerate(lists):
        _check_batch_entry(position, found, np.shape(tensor)[1:], attrs["element_dtype"])
    # unlike PushBack, it appends to full lists too
    longer = np.empty(len(lists), object)
    longer[:] = [
        replace(found, elements=pushed(found.elements, row)) for found, row in zip(lists, rows_of(tensor), strict=True)
    ]
    return (longer,)


def _check_batch_entry(position: int, found: Any, shape: tuple[int, ...], dtype: DataType) -> None:
    if not isinstance(found, TensorList):
        raise InvalidArgumentError(f"Input handle at index {position} is not a list. Saw: '{found!r}'")
    if not is_compatible(found.element_shape, shape):
        raise InvalidArgumentError(
            f"Tried to append a tensor with incompatible shape to a list at index {position}. Op element shape: "
            f"{format_dims(shape)} list shape: {show_partial(found.element_shape)}"
        )
    if found.dtype is not dtype:
        raise InvalidArgumentError(
            f"Invalid data type at index {position}; op elements {dtype.name} but list elements {found.dtype.name}"
        )


def pop_back(inputs: Sequence[Any], attrs: Attrs) -> Sequence[Any]:
    """Return the list without its last element, and this element (zeros if it is missing). Input 1 is the element shape.

    Raises InvalidArgumentError for another type, an empty list, and a missing element of a shape not fully known.
    """
    found = typed_list(inputs[0], attrs)
    if not found.elements:
        raise InvalidArgumentError("Trying to pop from an empty list.")
    last = found.elements[-1]
    # unlike TensorListGetItem, the other elements' shapes are not used
    if last is None:
        shape = merge_partial(partial_shape_of(inputs[1]), found.element_shape)
        if not is_fully_defined(shape):
            raise InvalidArgumentError(
                f"Trying to read an uninitialized tensor but element_shape is not fully defined.{show_partial(shape)}"
            )
        last = zeros(shape, found.dtype)
    return (replace(found, elements=popped(found.elements)), last)


def set_item(inputs: Sequence[Any], attrs: Attrs) -> Sequence[Any]:
    """Return the list with a tensor at an index, grown if `resize_if_index_out_of_bounds`; new elements before it are missing.

    Raises InvalidArgumentError for an index that is not a scalar or is out of range, and for another shape or type.
    """
    found, (index_tensor, item) = typed_list(inputs[0], attrs), inputs[1:]
    if np.ndim(index_tensor):
        raise InvalidArgumentError("Expected argument 1 to be a scalar. Received" + _debug_text(index_tensor))
    if not is_compatible(found.element_shape, np.shape(item)):
        raise InvalidArgumentError(
            "Tried to set a tensor with incompatible shape at a list index. Item element shape: "
            f"{format_dims(np.shape(item))} list shape: {show_partial(found.element_shape)}"
        )
    index, size = int(index_tensor), len(found.elements)
    may_grow = attrs["resize_if_index_out_of_bounds"]
    if index < 0 or (index >= size and not may_grow):
        raise InvalidArgumentError(f"Trying to modify element {index} in a list with {size} elements.")
    check_elements(index + 1 - size)
    elements = [*found.elements, *[None] * (index + 1 - size)]
    elements[index] = item
    return (replace(found, elements=tuple(elements)),)


def _debug_text(tensor: Tensor) -> str:
    values = " ".join(str(int(value)) for value in np.reshape(tensor, -1)[:3])
    more = "..." if np.size(tensor) > 3 else ""
    return f"Tensor<type: int32 shape: {format_dims(np.shape(tensor))} values: {values}{more}>"


def resize(inputs: Sequence[Any], attrs: Attrs) -> Sequence[Any]:
    """Return the list shortened, or extended by missing elements. Raises InvalidArgumentError for an invalid size."""
    found, size = list_of(inputs[0]), inputs[1]
    if np.ndim(size):
        raise InvalidArgumentError("size must be a scalar")
    if size < 0:
        # TensorFlow's text names this op, which does not exist
        raise InvalidArgumentError(f"TensorListSlice expects size to be non-negative. Got: {int(size)}")
    missing = (None,) * (int(size) - len(found.elements))
    return (replace(found, elements=(*found.elements[: int(size)], *missing)),)


def concat_lists(inputs: Sequence[Any], attrs: Attrs) -> Sequence[Any]:
    """Concatenate lists pairwise: the elements of a list of input 0, then those of its partner in input 1.

    Raises InvalidArgumentError for inputs of unequal shapes, and for lists of unequal types or element shapes.
    """
    one, two = (np.asarray(value, object) for value in inputs)
    if one.shape != two.shape:
        raise InvalidArgumentError(
            f"Incompatible input TensorList tensor shapes: {format_dims(one.shape)} vs. {format_dims(two.shape)}"
        )
    pairs = zip(one.reshape(-1), two.reshape(-1), strict=True)
    joined = [_join_pair(position, a, b, attrs["element_dtype"]) for position, (a, b) in enumerate(pairs)]
    if not one.ndim:
        return (joined[0],)
    result = np.empty(len(joined), object)
    result[:] = joined
    return (result.reshape(one.shape),)


def _join_pair(position: int, one: Any, two: Any, dtype: DataType) -> TensorList:
    for name, found in (("input_a", one), ("input_b", two)):
        if not isinstance(found, TensorList):
            raise InvalidArgumentError(f"{name} is not a TensorList at index {position}.  Saw: '{found!r}'")
    for name, found in (("input_a", one), ("input_b", two)):
        if found.dtype is not dtype:
            raise InvalidArgumentError(f"{name}[{position}].dtype != element_dtype.  Saw: {found.dtype.name} vs. {dtype.name}")
    if one.element_shape != two.element_shape:
        raise InvalidArgumentError(
            f"input_a and input_b TensorList element shapes are not identical at index {position}.  "
            f"Saw {show_partial(one.element_shape)} vs. {show_partial(two.element_shape)}"
        )
    # the first list's limit stays, even if the list is longer
    joined: TensorList = replace(one, elements=(*one.elements, *two.elements))
    return joined


# --- memory -----------------------------------------------------------------------------------------------------------


def empty_memory(memory: KernelMemory) -> None:
    """The output is a list without tensors."""
    memory.make_list()


def reserve_memory(memory: KernelMemory) -> None:
    """The output is a list of missing tensors."""
    elements = memory.make_list()
    elements += [None] * int(memory.value(1))


def from_tensor_memory(memory: KernelMemory) -> None:
    """Each element is a copy, even if its row is aligned."""
    tensor = memory.inputs[0]
    rows, *row = tensor.dims
    elements = memory.make_list()
    for _ in range(rows):
        elements.append(memory.new_buffer(tensor.size // rows, kind=(tuple(row), tensor.dtype)))


def split_memory(memory: KernelMemory) -> None:
    """Each element is a copy."""
    row = memory.inputs[0].size // max(memory.inputs[0].dims[0], 1)
    elements = memory.make_list()
    for length in memory.value(2).reshape(-1).tolist():
        kind = ((length, *memory.inputs[0].dims[1:]), memory.inputs[0].dtype)
        elements.append(memory.new_buffer(length * row, kind=kind))


def scatter_memory(memory: KernelMemory) -> None:
    """Each element is a copy."""
    _put_rows(memory, memory.make_list(), 0)


def scatter_into_memory(memory: KernelMemory) -> None:
    """Each new element is a copy."""
    _put_rows(memory, memory.change_list(), 1)


def _put_rows(memory: KernelMemory, elements: list[Buffer | None], source: int) -> None:
    """Set elements to copies of an input's rows; the next input has their positions."""
    rows = memory.inputs[source]
    for place in memory.value(source + 1).reshape(-1).tolist():
        _set(elements, place, memory.new_buffer(rows.size // rows.dims[0], kind=(rows.dims[1:], rows.dtype)))


def _set(elements: list[Buffer | None], place: int, buffer: Buffer | None) -> None:
    _resize(elements, max(place + 1, len(elements)))
    old, elements[place] = elements[place], buffer
    if old is not None:
        old.release()


def _resize(elements: list[Buffer | None], size: int) -> None:
    elements += [None] * (size - len(elements))
    while len(elements) > size:
        last = elements.pop()
        if last is not None:
            last.release()


def push_back_memory(memory: KernelMemory) -> None:
    """The list holds the tensor's buffer."""
    memory.change_list().append(hold_buffer(memory.inputs[1].buffer))


def pop_back_memory(memory: KernelMemory) -> None:
    """The output is the last element's buffer, or new memory for zeros."""
    memory.give_element(1, -1)
    elements = memory.change_list()
    _resize(elements, max(len(elements) - 1, 0))


def set_item_memory(memory: KernelMemory) -> None:
    """The list holds the item's buffer."""
    buffer = hold_buffer(memory.inputs[2].buffer)
    _set(memory.change_list(), int(memory.value(1)), buffer)


def resize_memory(memory: KernelMemory) -> None:
    """Removed elements are released; new ones are missing."""
    _resize(memory.change_list(), int(memory.value(1)))


def concat_lists_memory(memory: KernelMemory) -> None:
    """The output is the first list, and also holds the buffers of the second."""
    others = list(map(hold_buffer, memory.elements_of(1)))
    elements = memory.change_list()
    elements += others


TABLE: Table = {
    "EmptyTensorList": Kernel(make_empty, shapes.infer_new_list, memory=empty_memory),
    "TensorListReserve": Kernel(reserve, shapes.infer_new_list, memory=reserve_memory),
    "TensorListFromTensor": Kernel(from_tensor, shapes.infer_from_tensor, memory=from_tensor_memory),
    "TensorListSplit": Kernel(split, shapes.infer_split, memory=split_memory),
    "TensorListScatter": Kernel(scatter, shapes.infer_scatter, memory=scatter_memory),
    "TensorListScatterV2": Kernel(scatter, shapes.infer_scatter, memory=scatter_memory),
    "TensorListScatterIntoExistingList": Kernel(scatter_into, shapes.infer_scatter_into, memory=scatter_into_memory),
    "TensorListPushBack": Kernel(push_back, shapes.infer_push, memory=push_back_memory),
    "TensorListPushBackBatch": Kernel(push_back_batch, shapes.infer_push_batch),
    "TensorListPopBack": Kernel(pop_back, shapes.infer_pop, memory=pop_back_memory),
    "TensorListSetItem": Kernel(set_item, shapes.infer_set_item, memory=set_item_memory),
    "TensorListResize": Kernel(resize, shapes.infer_resize, memory=resize_memory),
    "TensorListConcatLists": Kernel(concat_lists, shapes.infer_concat_lists, memory=concat_lists_memory),
}
