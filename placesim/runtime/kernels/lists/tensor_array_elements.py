"""Many elements of a tensor array at once: stacked or joined to one tensor, or written from one."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

import numpy as np

from placesim.errors import InvalidArgumentError, UnimplementedError
from placesim.ops.attributes import Attrs
from placesim.runtime.kernels.kernel import Kernel, KernelContext, Table, Tensor, zeros
from placesim.runtime.kernels.lists import tensor_array_shapes as shapes
from placesim.runtime.kernels.lists.tensor_arrays import TensorArray, find_array, rows_of, three_forms
from placesim.runtime.kernels.partial_shapes import is_compatible, is_full, merge_partial, show_partial
from placesim.runtime.shapes import Dims, format_dims


def _vector_of_indices(indices: Any) -> list[int]:
    if np.ndim(indices) != 1:
        raise InvalidArgumentError(f"Expected indices to be a vector, but received shape: {format_dims(np.shape(indices))}")
    return [int(index) for index in indices]


def gather_elements(inputs: Sequence[Any], attrs: Attrs, context: KernelContext) -> Sequence[Any]:
    """The tensors at `indices`, stacked."""
    return (_stack(find_array(inputs[0], context), attrs, lambda: _vector_of_indices(inputs[1])),)


def pack_elements(inputs: Sequence[Any], attrs: Attrs, context: KernelContext) -> Sequence[Any]:
    """All tensors, stacked."""
    array = find_array(inputs[0], context)
    return (_stack(array, attrs, lambda: range(array.joined_size())),)


def _stack(array: TensorArray, attrs: Attrs, find_indices: Callable[[], Iterable[int]]) -> Tensor:
    array.check_dtype(attrs["dtype"], "requested")
    shape: Dims = attrs["element_shape"].dims
    array.element_shape = merge_partial(array.element_shape, shape)
    indices = list(find_indices())
    if not indices:
        if shape is None or not is_full(shape):
            raise UnimplementedError(
                f"TensorArray has size zero, but element shape {show_partial(shape)} is not fully defined. Currently only "
                "static shapes are supported when packing zero-size TensorArrays."
            )
        return zeros((0, *shape), array.dtype)
    values = [np.asarray(array.read(index), array.dtype.numpy) for index in indices]
    first = values[0].shape
    if not is_compatible(shape, first):
        raise InvalidArgumentError(
            f"TensorArray was passed element_shape {show_partial(shape)} which does not match the Tensor at index 0: "
            f"{format_dims(first)}"
        )
    for position, value in enumerate(values):
        if value.shape != first and 0 not in first:
            raise InvalidArgumentError(
                f"TensorArray has inconsistent shapes.  Index 0 has shape: {format_dims(first)} "
                f"but index {position} has shape: {format_dims(value.shape)}"
            )
    return zeros((len(values), *first), array.dtype) if 0 in first else np.stack(values)


def concat_elements(inputs: Sequence[Any], attrs: Attrs, context: KernelContext) -> Sequence[Any]:
    """All tensors, joined along their first dimension, and the lengths that they had."""
    array = find_array(inputs[0], context)
    array.check_dtype(attrs["dtype"], "requested")
    rest: Dims = attrs["element_shape_except0"].dims
    size = array.joined_size()
    if size == 0:
        if rest is None or not is_full(rest):
            raise UnimplementedError(
                f"TensorArray has size zero, but element_shape_except0 {show_partial(rest)} is not fully defined. Currently "
                "only static shapes are supported when concatenating zero-size TensorArrays."
            )
        return (zeros((0, *rest), array.dtype), np.zeros(0, np.int64))
    values = [np.asarray(array.read(index), array.dtype.numpy) for index in range(size)]
    for position, value in enumerate(values):
        _check_joinable(position, value.shape, values[0].shape, rest)
    return (np.concatenate(values), np.array([len(value) for value in values], np.int64))


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


def scatter_elements(inputs: Sequence[Any], attrs: Attrs, context: KernelContext) -> Sequence[Any]:
    """Write the rows of `value` at `indices`."""
    handle, indices_tensor, value, flow = inputs
    array = find_array(handle, context)
    _check_rows(array, attrs, value)
    indices = _vector_of_indices(indices_tensor)
    if len(indices) != len(value):
        raise InvalidArgumentError(f"Expected len(indices) == values.shape[0], but saw: {len(indices)} vs. {len(value)}")
    size, highest = array.size(), max(indices, default=-1)
    if highest >= size and not array.dynamic_size:
        raise InvalidArgumentError(f"Max scatter index must be < array size ({highest} vs. {size})")
    for index, row in zip(indices, rows_of(value), strict=True):
        array.write(index, row)
    return (flow,)


def unpack_elements(inputs: Sequence[Any], attrs: Attrs, context: KernelContext) -> Sequence[Any]:
    """Write the rows of `value`, one in each place."""
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


def _check_rows(array: TensorArray, attrs: Attrs, value: Any) -> None:
    array.check_dtype(attrs["T"], "is trying to write")
    if not np.ndim(value):
        raise InvalidArgumentError(
            f"Input value for unpack must be at least a vector but received shape: {format_dims(np.shape(value))}"
        )


def split_elements(inputs: Sequence[Any], attrs: Attrs, context: KernelContext) -> Sequence[Any]:
    """Write pieces of `value`, of these lengths along its first dimension, one in each place."""
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
    for index, piece in enumerate(np.split(value, ends[:-1])[:size]):
        array.write(index, piece)
    return (flow,)


TABLE: Table = {
    **three_forms(("TensorArrayGather", "TensorArrayGatherV2", "TensorArrayGatherV3"), gather_elements, shapes.infer_gather, 1),
    "TensorArrayGatherV2": Kernel(gather_elements, shapes.infer_gather_v2, needs_context=True),
    **three_forms(
        ("TensorArrayScatter", "TensorArrayScatterV2", "TensorArrayScatterV3"), scatter_elements, shapes.infer_scatter, 1
    ),
    **three_forms(("TensorArrayConcat", "TensorArrayConcatV2", "TensorArrayConcatV3"), concat_elements, shapes.infer_concat, 2),
    **three_forms(("TensorArraySplit", "TensorArraySplitV2", "TensorArraySplitV3"), split_elements, shapes.infer_split, 1),
    "TensorArrayPack": Kernel(pack_elements, shapes.unknown_outputs(1), needs_context=True),
    "TensorArrayUnpack": Kernel(unpack_elements, shapes.unknown_outputs(1), needs_context=True),
}
