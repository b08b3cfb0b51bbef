"""Slice, and StridedSlice with its gradient and its update.

`parse_strided_slice` interprets the five masks for all ops that have them.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from placesim.core.errors import InvalidArgumentError
from placesim.ops.attributes import Attrs
from placesim.ops.kernels.cost_model import SLICE
from placesim.ops.kernels.kernel import Kernel, Table, Tensor, Trait, elements, zeros
from placesim.ops.kernels.memory_rules import KernelMemory, forwards, has_aligned_bounds, has_aligned_rows
from placesim.ops.kernels.shape_operands import broadcast_dims, shape_of_values, shape_text
from placesim.ops.kernels.shapes import (
    Dims,
    ShapeContext,
    ShapeError,
    format_dims,
    merge,
    shape_of_first_value,
    subtract_dims,
    unchanged,
    unknown_dims,
    vector_shape_value,
    with_rank,
)

Region = tuple[Any, ...]
"""Index of a numpy array: a slice for each axis."""

MAX_SPEC_LENGTH = 32
"""Number of bits of a mask, which has a bit for each entry of begin, end and strides."""


# --- Slice ----------------------------------------------------------------------------------------------------------


def slice_tensor(inputs: Sequence[Tensor], attrs: Attrs) -> Sequence[Tensor]:
    """Slice: `size[i]` elements from `begin[i]` on along each axis i; both are `[rank]`. A size of -1 means all that follow.

    Raises InvalidArgumentError for inputs of other shapes, and a slice that is not inside of the input.
    """
    tensor, begin, size = inputs
    if begin.ndim != 1 or size.ndim != 1 or not begin.size == size.size == tensor.ndim:
        raise InvalidArgumentError(
            f"Expected begin and size arguments to be 1-D tensors of size {tensor.ndim}, "
            f"but got shapes {shape_text(begin)} and {shape_text(size)} instead."
        )
    region: Region = tuple(map(_axis_slice, range(tensor.ndim), tensor.shape, begin.tolist(), size.tolist()))
    return (tensor[(*region, ...)],)


def _axis_slice(axis: int, dim: int, begin: int, size: int) -> slice:
    size = dim - begin if size == -1 else size
    # TensorFlow first checks for an axis without elements, then checks the bounds
    if dim == 0 and (begin or size):
        raise InvalidArgumentError(
            f"Expected begin[{axis}] == 0 (got {begin}) and size[{axis}] == 0 (got {size}) when input.dim_size({axis}) == 0"
        )
    if not 0 <= begin <= dim:
        raise InvalidArgumentError(f"Expected begin[{axis}] in [0, {dim}], but got {begin}")
    if not 0 <= size <= dim - begin:
        raise InvalidArgumentError(f"Expected size[{axis}] in [0, {dim - begin}], but got {size}")
    return slice(begin, begin + size)


# --- StridedSlice ---------------------------------------------------------------------------------------------------


class StridedSlice(NamedTuple):
    """Region of a strided slice: `tensor[region]` has shape `processing`; after adding and dropping axes, shape `final`.

    In both shapes -1 is an unknown dimension; `region` is then invalid.
    """

    region: Region
    processing: tuple[int, ...]
    final: tuple[int, ...]


class _Axis(NamedTuple):
    """The slice of one input axis: begin and end as given, None if masked. `shrink` takes one element and drops the axis."""

    begin: int | None = None
    end: int | None = None
    stride: int = 1
    shrink: bool = False


def parse_strided_slice(
    shape: Sequence[int], begin: Tensor | None, end: Tensor | None, strides: Tensor, attrs: Attrs
) -> StridedSlice:
    """Interpret a strided slice of a tensor of this shape; -1 is an unknown dimension, None an unknown `begin` or `end`.

    Raises InvalidArgumentError for inputs that are not vectors of equal length, two ellipses, more entries than axes, a stride
    of 0, and an index out of range. A range beyond the axis is no error: its bounds are limited.
    """
    _check_spec(begin, end, strides)
    axes, gather = _dense_spec(shape, begin, end, strides, attrs)
    is_known = begin is not None and end is not None
    parts = [_resolve(position, axis, dim, is_known) for position, (axis, dim) in enumerate(zip(axes, shape, strict=True))]
    processing = tuple(size for _, size in parts)
    final = tuple(1 if position is None else processing[position] for position in gather)
    return StridedSlice(tuple(index for index, _ in parts), processing, final)


def _check_spec(begin: Tensor | None, end: Tensor | None, strides: Tensor) -> None:
    given = [tensor for tensor in (begin, end, strides) if tensor is not None]
    if all(tensor.ndim == 1 and tensor.size == strides.size < MAX_SPEC_LENGTH for tensor in given):
        return
    shapes = [shape_text(tensor) for tensor in given]
    listed = "{}, {}, and {} instead.".format(*shapes) if len(shapes) == 3 else f"{shapes[-1]} for strides."
    raise InvalidArgumentError(f"Expected begin, end, and strides to be 1D equal size tensors, but got shapes {listed}")


def _dense_spec(
    shape: Sequence[int], begin: Tensor | None, end: Tensor | None, strides: Tensor, attrs: Attrs
) -> tuple[list[_Axis], list[int | None]]:
    """(the slice of each input axis; the input axis of each result axis, or None for a new axis)."""
    ellipsis, new_axis, shrink = attrs["ellipsis_mask"], attrs["new_axis_mask"], attrs["shrink_axis_mask"]
    if ellipsis & (ellipsis - 1) and ellipsis:
        raise InvalidArgumentError("Multiple ellipses in slice spec not allowed")
    count = strides.size
    # without an ellipsis the spec implicitly ends in one: all remaining axes are taken whole
    at = ellipsis.bit_length() - 1 if ellipsis and ellipsis.bit_length() <= count else count
    # new axes after the ellipsis use no axis of the input
    new_after = sum(new_axis >> bit & 1 for bit in range(at + 1, count))
    axes: list[_Axis] = []
    gather: list[int | None] = []
    for entry in range(max(count, at + 1)):
        if entry == at:
            following = max(count, at + 1) - entry - 1 - new_after
            fill = range(len(axes), max(len(axes), len(shape) - following))
            axes += [_Axis() for _ in fill]
            gather += fill
        elif new_axis >> entry & 1:
            gather.append(None)
        else:
            _check_room(len(axes), len(shape))
            if not shrink >> entry & 1:
                gather.append(len(axes))
            axes.append(_entry(entry, begin, end, strides, attrs))
    return axes, gather


def _check_room(position: int, rank: int) -> None:
    if position >= rank:
        raise InvalidArgumentError(
            f"Index out of range using input dim {position}; input has only {rank} dims"
            if rank
            else "Attempting to slice scalar input."
        )


def _entry(entry: int, begin: Tensor | None, end: Tensor | None, strides: Tensor, attrs: Attrs) -> _Axis:
    def bound(tensor: Tensor | None, mask: int) -> int | None:
        return None if mask >> entry & 1 else 0 if tensor is None else int(tensor[entry])

    shrink = bool(attrs["shrink_axis_mask"] >> entry & 1)
    # TensorFlow ignores `begin_mask` for an axis that is dropped
    begin_mask = 0 if shrink else attrs["begin_mask"]
    return _Axis(bound(begin, begin_mask), bound(end, attrs["end_mask"]), int(strides[entry]), shrink)


def _resolve(position: int, axis: _Axis, dim: int, is_known: bool) -> tuple[slice, int]:
    """(the numpy slice of one axis; its length, or -1 if unknown)."""
    begin, end, stride, shrink = axis
    if stride == 0:
        raise InvalidArgumentError(f"strides[{position}] must be non-zero")
    if dim < 0:
        return slice(None), 1 if shrink else -1
    if shrink and stride < 0:
        raise InvalidArgumentError("only stride 1 allowed on non-range indexing.")
    if not is_known:
        whole = begin is None and end is None
        return slice(None), 1 if shrink else -(-dim // abs(stride)) if whole else -1
    if shrink:
        first = _shrunk_index(begin or 0, dim, position)
        return slice(first, first + 1), 1
    # with a negative stride, a range may end before the first element
    low, high = (0, dim) if stride > 0 else (-1, dim - 1)
    first, last = (low, high) if stride > 0 else (high, low)
    if begin is not None:
        first = min(max(begin + dim if begin < 0 else begin, low), high)
    if end is not None:
        last = min(max(end + dim if end < 0 else end, low), high)
    size = max(0, -((first - last) // stride))
    return slice(first, None if last < 0 else last, stride) if size else slice(0, 0), size


def _shrunk_index(begin: int, dim: int, position: int) -> int:
    index = begin + dim if begin < 0 else begin
    if not 0 <= index < dim:
        raise InvalidArgumentError(f"slice index {index} of dimension {position} out of bounds.")
    return index


def take_strided_slice(tensor: Tensor, spec: StridedSlice) -> Tensor:
    """The slice of a tensor, with its final shape."""
    return tensor[(*spec.region, ...)].reshape(spec.final)


def assign_strided_slice(tensor: Tensor, spec: StridedSlice, value: Tensor) -> None:
    """Assign a value, broadcast to the final shape, to a slice of a tensor, in place."""
    tensor[(*spec.region, ...)] = np.broadcast_to(value, spec.final).reshape(spec.processing)


def strided_slice(inputs: Sequence[Tensor], attrs: Attrs) -> Sequence[Tensor]:
    """StridedSlice: (tensor, begin, end, strides) -> the slice. Raises the same errors as `parse_strided_slice`."""
    tensor, begin, end, strides = inputs
    return (take_strided_slice(tensor, parse_strided_slice(tensor.shape, begin, end, strides, attrs)),)


def strided_slice_grad(inputs: Sequence[Tensor], attrs: Attrs) -> Sequence[Tensor]:
    """StridedSliceGrad: zeros of the shape in the first input, with `dy` in the slice.

    Raises InvalidArgumentError for a shape that is not a vector, and for a `dy` that is not shaped as the slice. Also raises
    the errors of `parse_strided_slice`.
    """
    shape_tensor, begin, end, strides, dy = inputs
    if shape_tensor.ndim != 1:
        raise InvalidArgumentError(f"shape must be 1-D, got shape.shape = {shape_text(shape_tensor)}")
    shape = shape_of_values(shape_tensor)
    spec = parse_strided_slice(shape, begin, end, strides, attrs)
    if spec.final != dy.shape:
        raise InvalidArgumentError(f"shape of dy was {shape_text(dy)} instead of {format_dims(spec.final)}")
    result = zeros(shape, attrs["T"])
    assign_strided_slice(result, spec, dy)
    return (result,)


def update_strided_slice(inputs: Sequence[Tensor], attrs: Attrs) -> Sequence[Tensor]:
    """TensorStridedSliceUpdate: a copy of the input with `value` in the slice. `value` may have extra leading dimensions of 1.

    Raises InvalidArgumentError for a value that does not broadcast to the slice, and the errors of `parse_strided_slice`.
    """
    tensor, begin, end, strides, value = inputs
    spec = parse_strided_slice(tensor.shape, begin, end, strides, attrs)
    if not elements(spec.final):  # TensorFlow then does not check the value
        return (tensor,)
    extra = max(value.ndim - len(spec.final), 0)
    if broadcast_dims(value.shape, spec.final) != (1,) * extra + spec.final:
        raise InvalidArgumentError(
            f"Cannot broadcast input shape {shape_text(value)} into final shape {format_dims(spec.final)}"
        )
    result = tensor.copy()
    assign_strided_slice(result, spec, value.reshape(value.shape[extra:]))
    return (result,)


# --- shape functions and memory -------------------------------------------------------------------------------------


def _infer_slice(context: ShapeContext) -> Sequence[Dims]:
    dims, begin_dims, size_dims = context.shapes
    count = with_rank(merge(with_rank(begin_dims, 1), with_rank(size_dims, 1)), 1)[0]
    if count >= 0:
        dims = with_rank(dims, count)
    begin, partial, sizes = vector_shape_value(context, 1), vector_shape_value(context, 2), context.value(2)
    if sizes is not None:
        begin, dims = with_rank(begin, sizes.size), with_rank(dims, sizes.size)
        return (tuple(map(_static_size, dims, begin, sizes.tolist())),)
    # in partly known sizes, -1 counts as unknown
    if partial is not None:
        with_rank(begin, len(partial))
        return (partial,)
    return (None if dims is None else unknown_dims(len(dims)),)


def _static_size(dim: int, begin: int, size: int) -> int:
    return subtract_dims(dim, begin) if size == -1 else size


def _infer_strided_slice(context: ShapeContext) -> Sequence[Dims]:
    dims = context.shapes[0]
    begin_dims, end_dims, stride_dims = (with_rank(given, 1) for given in context.shapes[1:4])
    (count,) = with_rank(merge(merge(begin_dims, end_dims), stride_dims), 1)
    strides = context.value(3)
    if dims is None or count < 0 or strides is None:
        return (None,)
    try:
        # TensorFlow first checks the strides alone, and names only them in an error
        parse_strided_slice(dims, None, None, strides, context.attrs)
        spec = parse_strided_slice(dims, context.value(1), context.value(2), strides, context.attrs)
    except ShapeError:
        raise
    except InvalidArgumentError as error:
        raise ShapeError(error.message) from None
    return (spec.final,)


def slice_memory(memory: KernelMemory) -> None:
    """A slice that is the whole tensor shares its buffer; aligned rows are a view of the buffer; other slices are copies."""
    tensor, part = memory.inputs[0], memory.outputs[0]
    if part.dims == tensor.dims:
        memory.alias(0, 0)
    elif part.dims[1:] == tensor.dims[1:]:
        begin = int(memory.value(1)[0]) if len(tensor.dims) == 1 else 0
        if has_aligned_bounds(tensor, begin, part.dims[0]):
            memory.view(0, 0)


def strided_slice_memory(memory: KernelMemory) -> None:
    """As for Slice, even if axes are added or dropped; but a vector's slice must have an aligned end, not an aligned size."""
    tensor, part = memory.inputs[0], memory.outputs[0]
    if part.elements != tensor.elements and len(tensor.dims) > 1 and not has_aligned_rows(tensor):
        return  # copied, wherever it starts
    spec = parse_strided_slice(tensor.dims, memory.value(1), memory.value(2), memory.value(3), memory.attrs)
    steps = [taken.step or 1 for taken in spec.region]
    is_whole = [
        step == 1 and taken.start == 0 and taken.stop == dim
        for taken, step, dim in zip(spec.region, steps, tensor.dims, strict=True)
    ]
    if all(is_whole):
        memory.alias(0, 0)
    elif all(is_whole[1:]) and steps[0] == 1 and has_aligned_bounds(tensor, spec.region[0].start, spec.region[0].stop):
        memory.view(0, 0)


TABLE: Table = {
    "Slice": Kernel(slice_tensor, _infer_slice, memory=slice_memory, traits=Trait.HANDS_ON | Trait.MOVES_ELEMENTS, cost=SLICE),
    "StridedSlice": Kernel(
        strided_slice,
        _infer_strided_slice,
        memory=strided_slice_memory,
        traits=Trait.HANDS_ON | Trait.TAKES_OBJECTS | Trait.MOVES_ELEMENTS,
        cost=SLICE,
    ),
    "StridedSliceGrad": Kernel(strided_slice_grad, shape_of_first_value, traits=Trait.TAKES_OBJECTS),
    "TensorStridedSliceUpdate": Kernel(update_strided_slice, unchanged, memory=forwards(0), traits=Trait.TAKES_OBJECTS),
}
