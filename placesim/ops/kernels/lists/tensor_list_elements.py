"""Reads of tensor lists: one element, several or all, stacked or joined; a missing element reads as zeros."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from placesim.core.dtypes import FLOAT, DataType
from placesim.core.errors import InvalidArgumentError
from placesim.machine.memory.buffers import Buffer
from placesim.ops.attributes import Attrs
from placesim.ops.kernels.abstract_tensor import Sketch, joined, stacked
from placesim.ops.kernels.kernel import Kernel, KernelContext, Table, Tensor, undeclared_type, zeros
from placesim.ops.kernels.lists import tensor_list_shapes as shapes
from placesim.ops.kernels.lists.tensor_lists import NEVER_SET, list_of, typed_list
from placesim.ops.kernels.memory_rules import KernelMemory, allocates
from placesim.ops.kernels.partial_shapes import merge_partial, merge_shapes, partial_shape_of, show_partial
from placesim.ops.kernels.shapes import Dims, format_dims, is_fully_defined, scalar

# --- length and element shape ---------------------------------------------------------------------------------------


def tell_length(inputs: Sequence[Any], attrs: Attrs) -> Sequence[Any]:
    """Return the number of elements, a scalar. Raises InvalidArgumentError if the input is no list."""
    return (np.int32(len(list_of(inputs[0]).elements)),)


def tell_element_shape(inputs: Sequence[Any], attrs: Attrs) -> Sequence[Any]:
    """Return the element shape: a vector, or -1 for an unknown rank. Raises InvalidArgumentError if the input is no list."""
    shape = list_of(inputs[0]).element_shape
    return (np.array(-1 if shape is None else shape, attrs["shape_type"].numpy),)


# --- elements -------------------------------------------------------------------------------------------------------


def take_item(inputs: Sequence[Any], attrs: Attrs, context: KernelContext) -> Sequence[Any]:
    """Return the element at an index, or zeros if it is missing; the inputs are list, index and element shape.

    Raises InvalidArgumentError for an invalid type, index or shape; InternalError for an element that a scatter never set.
    """
    found, index = typed_list(inputs[0], attrs), int(np.reshape(inputs[1], -1)[0])
    if not 0 <= index < len(found.elements):
        raise InvalidArgumentError(f"Trying to access element {index} in a list with {len(found.elements)} elements.")
    element = found.elements[index]
    if element is NEVER_SET:
        raise undeclared_type(context, FLOAT.name, found.dtype)
    if element is not None:
        return (element,)
    shape = merge_partial(partial_shape_of(inputs[2]), found.element_shape)
    # the other elements may tell the shape
    if not is_fully_defined(shape):
        shape = merge_shapes(shape, found.elements)
    if not is_fully_defined(shape):
        raise InvalidArgumentError(
            "Trying to read an uninitialized tensor but element_shape is not fully defined: "
            f"{show_partial(shape)} and no list element is set."
        )
    return (zeros(shape, found.dtype),)


def stack(inputs: Sequence[Any], attrs: Attrs) -> Sequence[Any]:
    """Return all n elements, stacked, `[n, ...]`; missing ones are zeros. The inputs are a list and the element shape.

    Raises InvalidArgumentError for another type or number of elements, and shapes that differ or are not fully known.
    """
    found, count = typed_list(inputs[0], attrs), attrs["num_elements"]
    if count not in (-1, len(found.elements)):
        raise InvalidArgumentError(
            f"Operation expected a list with {count} elements but got a list with {len(found.elements)} elements."
        )
    shape = merge_partial(partial_shape_of(inputs[1]), found.element_shape)
    if not is_fully_defined(shape) and not found.elements:
        raise InvalidArgumentError(
            f"Tried to stack elements of an empty list with non-fully-defined element_shape: {show_partial(shape)}"
        )
    if not is_fully_defined(found.element_shape):
        shape = merge_shapes(shape, found.elements)
    if not is_fully_defined(shape):
        raise InvalidArgumentError(
            "Tried to stack list which only contains uninitialized tensors and has a non-fully-defined "
            f"element_shape: {show_partial(shape)}"
        )
    return (_stack(found.elements, shape, found.dtype),)


def _stack(elements: Sequence[Tensor | None], shape: tuple[int, ...], dtype: DataType) -> Tensor:
    if not elements:
        return zeros((0, *shape), dtype)
    found: Tensor = stacked([_shaped(element, shape, dtype) for element in elements])
    return found


def _shaped(element: Tensor | None, shape: tuple[int, ...], dtype: DataType) -> Tensor:
    if element is None:
        return zeros(shape, dtype)
    if np.size(element) != math.prod(shape):  # TensorFlow reads beyond the end of such an element
        raise InvalidArgumentError(
            f"A list element has shape {format_dims(np.shape(element))}, but the element shape is {format_dims(shape)}"
        )
    return element.with_shape(shape) if isinstance(element, Sketch) else np.asarray(element, dtype.numpy).reshape(shape)


def gather(inputs: Sequence[Any], attrs: Attrs) -> Sequence[Any]:
    """Return the elements at n indices, stacked, `[n, ...]`, zeros if missing; the inputs are list, indices and element shape.

    Raises InvalidArgumentError for another type, an index out of range, and shapes that differ or are not fully known.
    """
    found = typed_list(inputs[0], attrs)
    size = len(found.elements)
    places = [int(index) for index in np.reshape(inputs[1], -1)]
    shape = merge_partial(partial_shape_of(inputs[2]), found.element_shape)
    if not is_fully_defined(shape) and not places:
        raise InvalidArgumentError(
            f"Tried to gather 0-elements from a list with non-fully-defined shape: {show_partial(shape)}"
        )
    if not is_fully_defined(found.element_shape):
        for place in places:
            if not 0 <= place < size:
                raise InvalidArgumentError(f"Trying to gather element {place} in a list with {size} elements.")
            shape = merge_shapes(shape, [found.elements[place]])
    if not is_fully_defined(shape):
        raise InvalidArgumentError(
            f"Tried to gather uninitialized tensors from a list with non-fully-defined element_shape: {show_partial(shape)}"
        )
    # if elements have size 0, indices are not checked
    if 0 in shape:
        return (zeros((len(places), *shape), found.dtype),)
    for place in places:
        if not 0 <= place < size:
            # TensorFlow's spelling
            raise InvalidArgumentError(f"Index {place} out o range; list only has {size} elements.")
    return (_stack([found.elements[place] for place in places], shape, found.dtype),)


def concat(inputs: Sequence[Any], attrs: Attrs) -> Sequence[Any]:
    """Return (all elements joined along their first dimension, `[sum of n, ...]`; a vector of their lengths n).

    The op's second version also takes the element shape and `leading_dims`, the lengths of missing elements, which are zeros.
    Raises InvalidArgumentError for another type, and for shapes or lengths that do not fit or are unknown.
    """
    first, rest = -1, None
    if len(inputs) == 1 and attrs["element_shape"].dims is not None:
        if attrs["element_shape"].dims == ():
            raise InvalidArgumentError("element_shape must not be empty")
        rest = attrs["element_shape"].dims[1:]
    found = typed_list(inputs[0], attrs)
    if len(inputs) > 1:
        given = merge_partial(partial_shape_of(inputs[1]), found.element_shape)
        if given == ():
            raise InvalidArgumentError("Concat requires elements to be at least vectors, found scalars instead.")
        first, rest = (-1, None) if given is None else (given[0], given[1:])
    if not found.elements and not is_fully_defined(rest):
        raise InvalidArgumentError(
            "All except the first dimension must be fully defined when concating an empty tensor list. "
            f"element_shape: {show_partial(rest)}"
        )
    if not is_fully_defined(found.element_shape):
        first, rest = _agree(found.elements, first, rest)
    if not is_fully_defined(rest):
        raise InvalidArgumentError(
            "Trying to concat list with only uninitialized tensors but element_shape_except_first_dim is not fully "
            f"defined: {show_partial(rest)}"
        )
    lengths = [_length(position, element, first, inputs[2:]) for position, element in enumerate(found.elements)]
    pieces = [
        zeros((length, *rest), found.dtype) if element is None else element
        for element, length in zip(found.elements, lengths, strict=True)
    ]
    whole = joined(pieces) if pieces else zeros((0, *rest), found.dtype)
    return (whole, np.array(lengths, np.int64))


def _agree(elements: Sequence[Tensor | None], first: int, rest: Dims) -> tuple[int, Dims]:
    """Return the common first dimension of all elements (-1 if they differ), and their common other dimensions."""
    seen: list[int] = []
    for position, element in enumerate(elements):
        if element is None:
            continue
        shape = np.shape(element)
        if not shape:
            raise InvalidArgumentError(f"Concat saw a scalar shape at index {position} but requires at least vectors.")
        rest = merge_partial(rest, shape[1:])
        if first not in (-1, shape[0]):
            raise InvalidArgumentError(
                "First entry of element_shape input does not match the first dim of list element at index: "
                f"{position} Expected: {first} Actual: {shape[0]}"
            )
        seen.append(shape[0])
    return (seen[0] if first == -1 and len(set(seen)) == 1 else first), rest


def _length(position: int, element: Tensor | None, first: int, leading_dims: Sequence[Tensor]) -> int:
    if element is not None:
        return len(element)
    given = leading_dims[0] if leading_dims else ()
    # a length that is not given is the common length of all elements
    if position >= len(given) and first != -1:
        return first
    if not leading_dims:
        raise InvalidArgumentError(
            "Concating lists with uninitialized tensors is not supported in this version of TensorListConcat. "
            "Consider updating your GraphDef to run the newer version."
        )
    if position >= len(given):
        raise InvalidArgumentError(
            f"List contains uninitialized tensor at index {position} but leading_dims has only {len(given)} elements."
        )
    return int(given[position])


# --- memory -----------------------------------------------------------------------------------------------------------


def item_memory(memory: KernelMemory) -> None:
    """The output is the element's buffer, or new memory for zeros."""
    memory.give_element(0, int(memory.value(1)))


def stack_memory(memory: KernelMemory) -> None:
    """A temporary has the zeros for missing elements."""
    memory.allocate(0)
    _make_zeros(memory, memory.elements_of(0))


def gather_memory(memory: KernelMemory) -> None:
    """A temporary has the zeros for missing elements."""
    elements = memory.elements_of(0)
    memory.allocate(0)
    _make_zeros(memory, [elements[place] for place in memory.value(1).reshape(-1).tolist() if place < len(elements)])


def _make_zeros(memory: KernelMemory, elements: Sequence[Buffer | None]) -> None:
    if None in elements:
        memory.temporary(memory.outputs[0].size // memory.outputs[0].dims[0])


TABLE: Table = {
    "TensorListLength": Kernel(tell_length, scalar),
    "TensorListElementShape": Kernel(tell_element_shape, shapes.infer_element_shape),
    "TensorListGetItem": Kernel(take_item, shapes.infer_item, needs_context=True, memory=item_memory),
    "TensorListStack": Kernel(stack, shapes.infer_stack, memory=stack_memory),
    "TensorListGather": Kernel(gather, shapes.infer_gather, memory=gather_memory),
    "TensorListConcat": Kernel(concat, shapes.infer_concat, memory=allocates(1, 0)),
    "TensorListConcatV2": Kernel(concat, shapes.infer_concat, memory=allocates(1, 0)),
}
