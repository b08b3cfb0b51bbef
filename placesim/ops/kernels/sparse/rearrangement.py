"""Sparse tensors made dense, reshaped, sorted, concatenated, split and sliced."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from placesim.core.errors import InternalError, InvalidArgumentError
from placesim.ops.attributes import Attrs
from placesim.ops.kernels.kernel import Kernel, Table, Tensor, Trait, as_many_as
from placesim.ops.kernels.memory_rules import KernelMemory, leaves_untracked
from placesim.ops.kernels.shape_operands import shape_of_values
from placesim.ops.kernels.shapes import (
    Dims,
    ShapeContext,
    add_dims,
    element_count,
    format_dims,
    infer_by,
    merge,
    merge_dim,
    with_rank,
)
from placesim.ops.kernels.sparse.tensors import (
    check_indices,
    check_parts,
    check_rank,
    check_sizes,
    dense_shape,
    group_starts,
    make_sparse_tensor,
    part_dims,
    row_order,
)

# --- to dense -------------------------------------------------------------------------------------------------------


def to_dense(inputs: Sequence[Tensor], attrs: Attrs) -> Sequence[Tensor]:
    """Return the dense tensor with these values at these indices, and the default elsewhere; the last repeated entry wins.

    The inputs are indices (`[entries, rank]`, `[entries]` or `[]`), a shape, values (`[entries]` or `[]`), and a default.
    Raises InvalidArgumentError if they do not fit, and with `validate_indices` for rows out of order or repeated.
    """
    indices, dims, values, default = inputs
    if indices.ndim > 2:
        raise InvalidArgumentError(
            f"sparse_indices should be a scalar, vector, or matrix, got shape {format_dims(indices.shape)}"
        )
    rows = indices.reshape(-1, 1) if indices.ndim < 2 else indices
    check_rank(dims, 1, "output_shape must be rank 1, got shape ")
    if dims.size != rows.shape[1]:
        raise InvalidArgumentError(f"output_shape has incorrect number of elements: {dims.size} should be: {rows.shape[1]}")
    if values.ndim != 0 and values.shape != (len(rows),):
        raise InvalidArgumentError(
            f"sparse_values has incorrect shape {format_dims(values.shape)}, should be [] or [{len(rows)}]"
        )
    if default.ndim != 0:
        raise InvalidArgumentError("default_value should be a scalar.")
    shape = shape_of_values(dims)
    if attrs["validate_indices"]:
        check_indices(rows, shape)
    # without validation TensorFlow has another message
    if not np.all((rows >= 0) & (rows < np.array(shape, np.int64))):
        raise InvalidArgumentError(f"Indices are not valid (out of bounds).  Shape: {format_dims(shape)}")
    output = np.full(shape, default, values.dtype)
    output[tuple(rows.T)] = values
    return (output,)


# --- reshape and reorder --------------------------------------------------------------------------------------------


def reshape(inputs: Sequence[Tensor], attrs: Attrs) -> Sequence[Tensor]:
    """Return coordinates `[entries, new rank]` in another dense shape, and that shape with its -1 replaced.

    Raises InvalidArgumentError if the parts do not fit, and for a shape with another number of elements.
    """
    indices, dims, target = inputs
    if indices.ndim != 2:
        raise InvalidArgumentError("Input must be a matrix.")
    if dims.ndim != 1:
        raise InvalidArgumentError("Input shape must be a vector.")
    if len(dims) != indices.shape[1]:
        raise InvalidArgumentError("Input tensor rank must match input shape length.")
    check_rank(target, 1, "Target shape should be a vector but received shape ")
    old = dense_shape(dims.tolist())
    new = _complete_shape(old, target.tolist())
    # if the shape does not change, indices are not checked
    if old == new:
        return indices, dims
    size = math.prod(old)
    if len(indices) and size <= 0:
        raise InvalidArgumentError(
            f"Input tensor has {len(indices)} non zero elements but input shape ({format_dims(old)}) "
            f"or output shape ({format_dims(new)}) is empty"
        )
    flat = indices @ _strides(old)
    output = np.zeros((len(indices), len(new)), np.int64)
    for axis, stride in enumerate(_strides(new) if size else ()):
        # as C, divide a negative index rounding towards zero
        rest = np.fmod(flat, stride)
        output[:, axis], flat = (flat - rest) // stride, rest
    return output, np.array(new, np.int64)


def _complete_shape(old: Sequence[int], target: Sequence[int]) -> tuple[int, ...]:
    """Return the target shape with its -1 replaced. Raises InvalidArgumentError if the number of elements differs."""
    unknown = -1
    for axis, dim in enumerate(target):
        if dim == -1:
            if unknown >= 0:
                raise InvalidArgumentError(f"only one output dimension may be -1, not both {unknown} and {axis}")
            unknown = axis
        elif dim < 0:
            raise InvalidArgumentError(f"size {axis} must be non-negative, not {dim}")
    size = math.prod(old)
    new = list(dense_shape([1 if dim == -1 else dim for dim in target]))
    product = math.prod(new)
    shapes = f"input_shape={format_dims(tuple(old))} output_shape={format_dims(tuple(new))}"
    if unknown >= 0:
        if product <= 0:
            raise InvalidArgumentError(
                "reshape cannot infer the missing input size for an empty tensor unless all specified input sizes are non-zero"
            )
        if size % product != 0:
            raise InvalidArgumentError(
                f"Input to reshape is a SparseTensor with {size} dense values, "
                f"but the requested shape requires a multiple of {product}. {shapes}"
            )
        new[unknown] = size // product
        return tuple(new)
    if product != size:
        raise InvalidArgumentError(
            f"Input to reshape is a tensor with {size} dense values, but the requested shape has {product}. {shapes}"
        )
    return tuple(new)


def _strides(shape: Sequence[int]) -> Tensor:
    return np.array([np.prod(shape[axis + 1 :], dtype=np.int64) for axis in range(len(shape))], np.int64)


def reorder(inputs: Sequence[Tensor], attrs: Attrs) -> Sequence[Tensor]:
    """Return indices and values sorted by rows. Raises InvalidArgumentError if the parts do not fit."""
    indices, values, dims = inputs
    check_sizes(indices, values, dims)
    order = row_order(indices)
    return indices[order], values[order]


# --- concat, split, slice -------------------------------------------------------------------------------------------


def concat(inputs: Sequence[Tensor], attrs: Attrs) -> Sequence[Tensor]:
    """Join sparse tensors along attr `concat_dim`, sorted by rows; the inputs are all indices, all values, all shapes.

    Raises InvalidArgumentError if parts or shapes do not fit; InternalError for an invalid shape.
    """
    count = len(inputs) // 3
    parts = inputs[:count], inputs[count : 2 * count], inputs[2 * count :]
    _check_parts(*parts)
    indices, values, shapes = parts
    for dims in shapes:
        _check_size(dims)
    axis = _check_concat_shapes([tuple(dims.tolist()) for dims in shapes], attrs["concat_dim"])
    for part in zip(*parts, strict=True):
        make_sparse_tensor(*part)
    sizes = np.array([dims[axis] for dims in shapes], np.int64)
    rows = np.concatenate(indices)
    rows[:, axis] += np.repeat(np.cumsum(sizes) - sizes, [len(part) for part in indices])
    order = row_order(rows)
    shape = shapes[0].copy()
    shape[axis] = sizes.sum()
    return rows[order], np.concatenate(values)[order], shape


def _check_parts(indices: Sequence[Tensor], values: Sequence[Tensor], shapes: Sequence[Tensor]) -> None:
    kinds = (("indices", "a matrix", 2, indices), ("values", "a vector", 1, values), ("shapes", "a vector", 1, shapes))
    for noun, kind, rank, tensors in kinds:
        for position, tensor in enumerate(tensors):
            if tensor.ndim != rank:
                raise InvalidArgumentError(
                    f"Input {noun} should be {kind} but received shape {format_dims(tensor.shape)} at position {position}"
                )


def _check_size(dims: Tensor) -> None:
    """Raise InternalError for an invalid shape."""
    try:
        dense_shape(dims.tolist())
    except InvalidArgumentError:
        raise InternalError("Encountered overflow from large input shape.") from None


def _check_concat_shapes(shapes: Sequence[tuple[int, ...]], concat_dim: int) -> int:
    """Return the axis to join along. Raises InvalidArgumentError unless the shapes are equal in the other axes."""
    rank = len(shapes[0])
    axis = concat_dim + rank if concat_dim < 0 else concat_dim
    if not 0 <= axis < rank:
        raise InvalidArgumentError(f"Concat dimension must be in range [{-rank}, {rank}), got {concat_dim}")
    for position, shape in enumerate(shapes[1:], 1):
        if len(shape) != rank:
            raise InvalidArgumentError(
                f"Ranks of all input tensors must match: expected {rank} but got {len(shape)} at position {position}"
            )
        for other, (one, two) in enumerate(zip(shapes[0], shape, strict=True)):
            if other != axis and one != two:
                raise InvalidArgumentError(
                    f"Input shapes must match: expected {one} for dimension {other} but got {two} at position {position}"
                )
    return axis


def split(inputs: Sequence[Tensor], attrs: Attrs) -> Sequence[Tensor]:
    """Return the indices, values and shapes of pieces along an axis; the first are larger if the size cannot be divided evenly.

    Raises InvalidArgumentError if inputs do not fit, and for more pieces than the axis has elements.
    """
    axis_tensor, indices, values, dims = inputs
    check_rank(axis_tensor, 0, "Input axis should be a scalar but received shape ")
    check_rank(indices, 2, "Input indices should be a matrix but received shape ")
    # TensorFlow's message has the shape of the indices
    if values.ndim != 1:
        raise InvalidArgumentError(f"Input values should be a vector but received shape {format_dims(indices.shape)}")
    check_rank(dims, 1, "Input shape should be a vector but received shape ")
    check_parts(indices, values, dims)
    rank, count = len(dims), attrs["num_split"]
    axis = int(axis_tensor) + rank if axis_tensor < 0 else int(axis_tensor)
    if not 0 <= axis < rank:
        raise InvalidArgumentError(f"Input axis should be in range [{-rank}, {rank}), got {int(axis_tensor)}")
    size = int(dims[axis])
    if not 1 <= count <= size:
        raise InvalidArgumentError(
            f"Input num_split should be between 1 and the splitting dimension size ({size}), got {count}"
        )
    dense_shape(dims.tolist())
    sizes = size // count + (np.arange(count) < size % count)
    starts = np.cumsum(sizes) - sizes
    piece = np.searchsorted(starts, indices[:, axis], side="right") - 1
    pieces = [piece == number for number in range(count)]
    rows = [indices[chosen] for chosen in pieces]
    shapes = [dims.copy() for _ in pieces]
    for number, part in enumerate(rows):
        part[:, axis] -= starts[number]
        shapes[number][axis] = sizes[number]
    return [*rows, *(values[chosen] for chosen in pieces), *shapes]


def cut(inputs: Sequence[Tensor], attrs: Attrs) -> Sequence[Tensor]:
    """Return the entries in a box from `start` `[rank]` with `size` `[rank]`; coordinates are relative to its start.

    The box ends at the tensor's end. Raises InvalidArgumentError if parts, start or size do not fit, or a size is negative.
    """
    indices, values, dims, start, size = inputs
    check_sizes(indices, values, dims)
    check_rank(start, 1, "Input start should be a vector but received shape ")
    check_rank(size, 1, "Input size should be a vector but received shape ")
    for noun, tensor in (("start", start), ("size", size)):
        if len(tensor) != len(dims):
            raise InvalidArgumentError(f"Expected {noun} to be a vector of length {len(dims)} but got length {len(tensor)}")
    dense_shape(dims.tolist())
    # a box that begins after the tensor's end is empty
    shape = np.where(start + size < dims, size, np.maximum(dims - start, 0))
    for dim in shape.tolist():
        if dim < 0:
            raise InvalidArgumentError(f"Expected a non-negative size, got {dim}")
    inside = np.all((indices >= start) & (indices < start + size), axis=1)
    return indices[inside] - start, values[inside], shape


def cut_gradient(inputs: Sequence[Tensor], attrs: Attrs) -> Sequence[Tensor]:
    """Return the gradient of the input's entries `[entries]`, which is zero outside the slice.

    Raises InvalidArgumentError if the inputs do not fit; InternalError if an entry of the slice is missing or out of order.
    """
    gradient, indices, start, output_indices = inputs
    _check_cut_gradient(inputs)
    wanted, used = (output_indices + start).tolist(), 0
    found = np.zeros(len(indices), gradient.dtype)
    # as TensorFlow, assume that both lists are sorted
    for position, row in enumerate(indices.tolist()):
        if used < len(wanted) and row == wanted[used]:
            found[position] = gradient[used]
            used += 1
    if used < len(gradient):
        raise InternalError(f"Elements of backprop_val_grad aren't all propagated. Num elements:{len(gradient)}, used: {used}")
    return (found,)


def _check_cut_gradient(inputs: Sequence[Tensor]) -> None:
    gradient, indices, start, output_indices = inputs
    if not indices.ndim == output_indices.ndim == 2:
        raise InvalidArgumentError(
            "Input and output indices should be matrices but received shapes: "
            f"{format_dims(indices.shape)} and {format_dims(output_indices.shape)}"
        )
    check_rank(gradient, 1, "Input backprop_val_grad should be a vector but received shape: ")
    (rows, rank), (output_rows, output_rank) = indices.shape, output_indices.shape
    if rank != output_rank:
        raise InvalidArgumentError(f"The input and output should have the same ndims: got: {rank} and {output_rank}")
    if output_rows > rows:
        raise InvalidArgumentError(
            f"# rows of output_indices should be not greater than of input_indices, got {output_rows} and {rows}"
        )
    if len(gradient) != output_rows:
        raise InvalidArgumentError(
            "# elements of backprop_val_grad and # rows of output_indices should match (#nnz of sum): got "
            f"{len(gradient)} and {output_rows}"
        )
    check_rank(start, 1, "The input_start should be a vector but received shape ")
    if len(start) != rank:
        raise InvalidArgumentError(f"Expected input_start to be a vector of length {rank} but got length {len(start)}")


# --- shape functions ------------------------------------------------------------------------------------------------


def _infer_to_dense(context: ShapeContext) -> Sequence[Dims]:
    with_rank(context.shapes[1], 1)
    return (context.shape_value(1),)


def _infer_reorder(context: ShapeContext) -> Sequence[Dims]:
    return part_dims(context)[:2]


def _infer_concat(context: ShapeContext) -> Sequence[Dims]:
    count = len(context.shapes) // 3
    rows, columns, shape = 0, -1, None
    for position in range(count):
        indices = with_rank(context.shapes[position], 2)
        values = with_rank(context.shapes[position + count], 1)
        dims = with_rank(context.shapes[position + 2 * count], 1)
        rows = add_dims(rows, merge_dim(indices[0], values[0]))
        columns = merge_dim(columns, indices[1])
        shape = merge(shape, dims)
    return (rows, columns), (rows,), shape


def _infer_split(context: ShapeContext) -> Sequence[Dims]:
    count = context.attrs["num_split"]
    shape = context.shapes[3]
    rank = element_count(shape)
    # TensorFlow takes the number of elements as the rank, so that it accepts a matrix too
    indices: Dims = (-1, -1 if rank is None else rank)
    return [indices] * count + [(-1,)] * count + [shape] * count


def _infer_cut(context: ShapeContext) -> Sequence[Dims]:
    shape = context.shapes[2]
    rank = element_count(shape)
    return (-1, -1 if rank is None else rank), (-1,), shape


# --- memory ---------------------------------------------------------------------------------------------------------


untracked_parts_memory = leaves_untracked(0, 1)
"""TensorFlow's SparseTensor class makes coordinates and values outside the device's allocator."""


def split_memory(memory: KernelMemory) -> None:
    """TensorFlow's SparseTensor class makes each piece's coordinates and values outside the device's allocator."""
    for output in range(len(memory.outputs) * 2 // 3):
        memory.leave_untracked(output)


def reorder_memory(memory: KernelMemory) -> None:
    """Ordered entries without repetitions are passed on; others are copied outside the device's allocator."""
    indices, dims = memory.value(0), memory.value(2)
    is_ordered = len(group_starts(indices)) == len(indices) and bool((np.diff(row_order(indices)) > 0).all())
    if is_ordered and bool(((indices >= 0) & (indices < dims)).all()):
        memory.alias(0, 0)
        memory.alias(1, 1)
    else:
        untracked_parts_memory(memory)


def reshape_memory(memory: KernelMemory) -> None:
    """If the shape does not change, both inputs are passed on; else the shape is allocated first."""
    old, target = memory.value(1).tolist(), memory.value(2).tolist()
    if len(old) == len(target) and all(size in (-1, dim) for dim, size in zip(old, target, strict=True)):
        memory.alias(0, 0)
        memory.alias(1, 1)
    else:
        memory.allocate(1)
        memory.allocate(0)


TABLE: Table = {
    "SparseConcat": Kernel(concat, _infer_concat, memory=untracked_parts_memory, traits=Trait.TAKES_OBJECTS),
    "SparseReorder": Kernel(reorder, _infer_reorder, memory=reorder_memory, traits=Trait.TAKES_OBJECTS),
    "SparseReshape": Kernel(reshape, infer_by("[n, ?], [?], [rank] -> [n, rank], [rank]"), memory=reshape_memory),
    "SparseSlice": Kernel(cut, _infer_cut, memory=untracked_parts_memory, traits=Trait.TAKES_OBJECTS, guess=as_many_as(1)),
    "SparseSliceGrad": Kernel(cut_gradient, infer_by("*, [n, ?] -> [n]")),
    "SparseSplit": Kernel(split, _infer_split, memory=split_memory),
    "SparseToDense": Kernel(to_dense, _infer_to_dense),
}
