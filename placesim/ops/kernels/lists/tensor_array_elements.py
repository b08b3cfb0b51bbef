"""Several elements of a tensor array: stacked or joined to one tensor, or written from one."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

import numpy as np

from placesim.core.errors import InvalidArgumentError, UnimplementedError
from placesim.ops.attributes import Attrs
from placesim.ops.kernels.abstract_tensor import as_array, joined, stacked
from placesim.ops.kernels.kernel import Kernel, KernelContext, Table, Tensor, zeros
from placesim.ops.kernels.lists import tensor_array_shapes as shapes
from placesim.ops.kernels.lists.tensor_arrays import TensorArrayStore, find_array, indices_of, rows_of, three_forms
from placesim.ops.kernels.memory_rules import KernelMemory
from placesim.ops.kernels.partial_shapes import is_compatible, merge_partial, show_partial
from placesim.ops.kernels.shapes import Dims, format_dims, is_fully_defined

# --- reading --------------------------------------------------------------------------------------------------------


def gather_elements(inputs: Sequence[Any], attrs: Attrs, context: KernelContext) -> Sequence[Any]:
    """Return the tensors at `indices` `[n]`, stacked, `[n, ...]`.

    Raises InvalidArgumentError for indices, shapes or a type that do not fit; UnimplementedError for no indices and an unknown
    shape.
    """
    return (_stack(find_array(inputs[0], context), attrs, lambda: indices_of(inputs[1])),)


def pack_elements(inputs: Sequence[Any], attrs: Attrs, context: KernelContext) -> Sequence[Any]:
    """Return all tensors, stacked. Raises the errors of `gather_elements`."""
    array = find_array(inputs[0], context)
    return (_stack(array, attrs, lambda: range(array.joined_size())),)


def _stack(array: TensorArrayStore, attrs: Attrs, find_indices: Callable[[], Iterable[int]]) -> Tensor:
    array.check_dtype(attrs["dtype"], "requested")
    shape: Dims = attrs["element_shape"].dims
    # the array keeps the shape even if the op fails
    array.element_shape = merge_partial(array.element_shape, shape)
    indices = list(find_indices())
    if not indices:
        if not is_fully_defined(shape):
            raise UnimplementedError(
                f"TensorArray has size zero, but element shape {show_partial(shape)} is not fully defined. Currently only "
                "static shapes are supported when packing zero-size TensorArrays."
            )
        return zeros((0, *shape), array.dtype)
    values = [as_array(array.read(index), array.dtype) for index in indices]
    first = values[0].shape
    if not is_compatible(shape, first):
        raise InvalidArgumentError(
            f"TensorArray was passed element_shape {show_partial(shape)} which does not match the Tensor at index 0: "
            f"{format_dims(first)}"
        )
    for position, value in enumerate(values):
        # if the result has no elements, TensorFlow does not check the other shapes
        if value.shape != first and 0 not in first:
            raise InvalidArgumentError(
                f"TensorArray has inconsistent shapes.  Index 0 has shape: {format_dims(first)} "
                f"but index {position} has shape: {format_dims(value.shape)}"
            )
    return zeros((len(values), *first), array.dtype) if 0 in first else stacked(values)


def concat_elements(inputs: Sequence[Any], attrs: Attrs, context: KernelContext) -> Sequence[Any]:
    """Return (all tensors joined along their first dimension, `[sum of n, ...]`; a vector of their lengths n).

    Raises InvalidArgumentError for shapes or a type that do not fit; UnimplementedError for no tensors and an unknown shape.
    """
    array = find_array(inputs[0], context)
    array.check_dtype(attrs["dtype"], "requested")
    rest: Dims = attrs["element_shape_except0"].dims
    size = array.joined_size()
    if size == 0:
        if not is_fully_defined(rest):
            raise UnimplementedError(
                f"TensorArray has size zero, but element_shape_except0 {show_partial(rest)} is not fully defined. Currently "
                "only static shapes are supported when concatenating zero-size TensorArrays."
            )
        return (zeros((0, *rest), array.dtype), np.zeros(0, np.int64))
    values = [as_array(array.read(index), array.dtype) for index in range(size)]
    for position, value in enumerate(values):
        _check_joinable(position, value.shape, values[0].shape, rest)
    return (joined(values), np.array([len(value) for value in values], np.int64))


def _check_joinable(position: int, shape: tuple[int, ...], first: tuple[int, ...], rest: Dims) -> None:
    if not shape:
        raise InvalidArgumentError(
            f"Concat saw a scalar shape at index {position} but requires at least vectors.  Did you mean to call pack?"
        )
    if position == 0 and not is_compatible(rest, shape[1:]):
        raise InvalidArgumentError(
            f"TensorArray was passed element_shape_except0 {show_partial(rest)} but index 0 has (excepting dimension 0) "
            f"shape: {format_dims(shape[1:])} which does not match."
        )
    if shape[1:] != first[1:]:
        raise InvalidArgumentError(
            "TensorArray has inconsistent shapes.  Index 0 has (excepting dimension 0) shape: "
            f"{format_dims(first[1:])} but index {position} has (excepting dimension 0) shape: {format_dims(shape[1:])}"
        )


# --- writing --------------------------------------------------------------------------------------------------------


def scatter_elements(inputs: Sequence[Any], attrs: Attrs, context: KernelContext) -> Sequence[Any]:
    """Write the rows of `value` `[n, ...]` at `indices` `[n]`, and return the flow.

    Raises InvalidArgumentError for indices, a value or a type that do not fit, and the errors of `TensorArrayStore.write`.
    """
    handle, indices_tensor, value, flow = inputs
    array = find_array(handle, context)
    _check_rows(array, attrs, value)
    indices = indices_of(indices_tensor)
    if len(indices) != len(value):
        raise InvalidArgumentError(f"Expected len(indices) == values.shape[0], but saw: {len(indices)} vs. {len(value)}")
    size, highest = array.size(), max(indices, default=-1)
    if highest >= size and not array.dynamic_size:
        raise InvalidArgumentError(f"Max scatter index must be < array size ({highest} vs. {size})")
    for index, row in zip(indices, rows_of(value), strict=True):
        array.write(index, row)
    return (flow,)


def unpack_elements(inputs: Sequence[Any], attrs: Attrs, context: KernelContext) -> Sequence[Any]:
    """Write the rows of `value` `[size, ...]` to the elements in order, and return the flow.

    Raises InvalidArgumentError for a value or a type that does not fit, and the errors of `TensorArrayStore.write`.
    """
    handle, value, flow = inputs
    array = find_array(handle, context)
    _check_rows(array, attrs, value)
    size = max(array.size(), len(value)) if array.dynamic_size else array.size()
    if len(value) != size:
        raise InvalidArgumentError(f"Input value must have first dimension equal to the array size ({len(value)} vs. {size})")
    array.mark_size(size)
    for index, row in enumerate(rows_of(value)):
        array.write(index, row)
    return (flow,)


def _check_rows(array: TensorArrayStore, attrs: Attrs, value: Any) -> None:
    array.check_dtype(attrs["T"], "is trying to write")
    if not np.ndim(value):
        raise InvalidArgumentError(
            f"Input value for unpack must be at least a vector but received shape: {format_dims(np.shape(value))}"
        )


def split_elements(inputs: Sequence[Any], attrs: Attrs, context: KernelContext) -> Sequence[Any]:
    """Write pieces of `value` to the elements in order, and return the flow; `lengths` are sizes along its first dimension.

    Raises InvalidArgumentError for lengths, a value or a type that do not fit, and the errors of `TensorArrayStore.write`.
    """
    handle, value, lengths, flow = inputs
    array = find_array(handle, context)
    if np.ndim(lengths) != 1:
        raise InvalidArgumentError(f"Expected lengths to be a vector, received shape: {format_dims(np.shape(lengths))}")
    if not np.ndim(value):
        raise InvalidArgumentError(
            f"Expected value to be at least a vector, but received shape: {format_dims(np.shape(value))}"
        )
    ends = np.cumsum(lengths)
    total = int(ends[-1]) if len(ends) else 0
    if total != len(value):
        raise InvalidArgumentError(
            f"Expected sum of lengths to be equal to values.shape[0], but sum of lengths is {total} "
            f"and value's shape is: {format_dims(np.shape(value))}"
        )
    size = max(array.size(), len(lengths)) if array.dynamic_size else array.size()
    if size != len(lengths):
        raise InvalidArgumentError(
            f"TensorArray's size is not equal to the size of lengths ({size} vs. {len(lengths)}), "
            "and the TensorArray is not marked as dynamically resizeable"
        )
    array.check_dtype(attrs["T"], "is trying to write")
    array.mark_size(size)
    for index, (end, length) in enumerate(zip(ends, lengths, strict=True)):
        array.write(index, value[int(end - length) : int(end)])
    return (flow,)


# --- memory -----------------------------------------------------------------------------------------------------------


def gather_memory(memory: KernelMemory) -> None:
    """The array releases the elements that were stacked."""
    memory.allocate(0)
    _let_go(memory, memory.value(1).reshape(-1).tolist())


def concat_memory(memory: KernelMemory) -> None:
    """The lengths are allocated first; the array releases all elements."""
    memory.allocate(1)
    memory.allocate(0)
    _let_go(memory, [key for key in memory.store(0).held if isinstance(key, int)])


def _let_go(memory: KernelMemory, places: Iterable[int]) -> None:
    store = memory.store(0)
    if store.clears_after_read:
        for place in places:
            store.drop(place)


def scatter_memory(memory: KernelMemory) -> None:
    """Each element is a copy, which the array holds."""
    places = memory.value(1).reshape(-1).tolist()
    _keep_parts(memory, [(place, memory.inputs[2].size // len(places)) for place in places])
    memory.alias(0, 3)


def split_memory(memory: KernelMemory) -> None:
    """Each element is a copy, which the array holds."""
    lengths = memory.value(2).reshape(-1).tolist()
    row = memory.inputs[1].size // max(memory.inputs[1].dims[0], 1)
    _keep_parts(memory, [(place, length * row) for place, length in enumerate(lengths)])
    memory.alias(0, 3)


def _keep_parts(memory: KernelMemory, parts: Iterable[tuple[int, int]]) -> None:
    store = memory.store(0)
    for place, size in parts:
        store.put([memory.new_buffer(size)], place)


TABLE: Table = {
    **three_forms(
        *("TensorArrayGather", "TensorArrayGatherV2", "TensorArrayGatherV3"),
        compute=gather_elements,
        infer=shapes.infer_gather,
        outputs=1,
        memory=gather_memory,
    ),
    "TensorArrayGatherV2": Kernel(gather_elements, shapes.infer_gather_v2, needs_context=True, memory=gather_memory),
    **three_forms(
        *("TensorArrayScatter", "TensorArrayScatterV2", "TensorArrayScatterV3"),
        compute=scatter_elements,
        infer=shapes.infer_scatter,
        outputs=1,
        memory=scatter_memory,
    ),
    **three_forms(
        *("TensorArrayConcat", "TensorArrayConcatV2", "TensorArrayConcatV3"),
        compute=concat_elements,
        infer=shapes.infer_concat,
        outputs=2,
        memory=concat_memory,
    ),
    **three_forms(
        *("TensorArraySplit", "TensorArraySplitV2", "TensorArraySplitV3"),
        compute=split_elements,
        infer=shapes.infer_split,
        outputs=1,
        memory=split_memory,
    ),
    "TensorArrayPack": Kernel(pack_elements, shapes.build_infer_unknown(1), needs_context=True),
    "TensorArrayUnpack": Kernel(unpack_elements, shapes.build_infer_unknown(1), needs_context=True),
}
