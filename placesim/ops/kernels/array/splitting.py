"""Split and SplitV, which cut a tensor into pieces along an axis; and Unpack, which takes all its slices along an axis."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import accumulate, pairwise
from typing import Any

from placesim.core.errors import InvalidArgumentError
from placesim.ops.attributes import Attrs
from placesim.ops.kernels.array.joining import row_axis, static_row_axis
from placesim.ops.kernels.cost_model import VIEW
from placesim.ops.kernels.kernel import Kernel, Table, Tensor, Trait
from placesim.ops.kernels.memory_rules import KernelMemory, has_aligned_bounds, has_aligned_rows, share_rows
from placesim.ops.kernels.shape_operands import shape_text
from placesim.ops.kernels.shapes import (
    Dims,
    ShapeContext,
    ShapeError,
    divide_dim,
    replace_dim,
    scalar_axis,
    unknown_dims,
    with_value,
)

# --- Unpack ---------------------------------------------------------------------------------------------------------


def unpack(inputs: Sequence[Tensor], attrs: Attrs) -> Sequence[Tensor]:
    """Unpack: the input's `num` slices along an axis, without that axis.

    Raises InvalidArgumentError for an axis that is out of range or not of size `num`.
    """
    (tensor,) = inputs
    axis = row_axis(attrs["axis"], tensor.ndim)
    if tensor.shape[axis] != attrs["num"]:
        raise InvalidArgumentError(f"Input shape axis {axis} must equal {attrs['num']}, got shape {shape_text(tensor)}")
    before: tuple[Any, ...] = (slice(None),) * axis
    return [tensor[(*before, row, ...)] for row in range(attrs["num"])]


# --- Split ----------------------------------------------------------------------------------------------------------


def _split_axis(given: int, rank: int) -> int:
    if not -rank <= given < rank:
        raise InvalidArgumentError(f"-input rank(-{rank}) <= split_dim < input rank ({rank}), but got {given}")
    return given % rank


def split(inputs: Sequence[Tensor], attrs: Attrs) -> Sequence[Tensor]:
    """Split: (a scalar axis, tensor) -> `num_split` equal pieces along the axis.

    Raises InvalidArgumentError for an axis that is not a scalar, is out of range, or cannot be split evenly.
    """
    axis_tensor, tensor = inputs
    count = attrs["num_split"]
    if axis_tensor.ndim:
        raise InvalidArgumentError(f"split_dim must be a scalar but has rank {axis_tensor.ndim}")
    axis = _split_axis(int(axis_tensor), tensor.ndim)
    size = tensor.shape[axis]
    if size % count:
        raise InvalidArgumentError(
            "Number of ways to split should evenly divide the split dimension, "
            f"but got split_dim {axis} (size = {size}) and num_split {count}"
        )
    return cut(tensor, axis, [size // count] * count)


def cut(tensor: Tensor, axis: int, sizes: Sequence[int]) -> list[Tensor]:
    """Consecutive pieces of a tensor along an axis."""
    before = (slice(None),) * axis
    return [tensor[(*before, slice(start, end))] for start, end in pairwise(accumulate(sizes, initial=0))]


def split_v(inputs: Sequence[Tensor], attrs: Attrs) -> Sequence[Tensor]:
    """SplitV: pieces of the sizes `size_splits [num_split]` along an axis; one size may be -1 for the rest.

    Raises InvalidArgumentError for an axis out of range, another number of sizes, and sizes that do not add up.
    """
    tensor, sizes, axis_tensor = inputs
    if axis_tensor.size != 1:
        raise InvalidArgumentError("split_dim_tensor must have exactly one element.")
    if sizes.ndim != 1 or sizes.size != attrs["num_split"]:
        raise InvalidArgumentError(
            "size of the split_tensor must be 1-D and have the same elements as outputs "
            f"got {sizes.ndim} -D and {sizes.size} elements"
        )
    axis = _split_axis(int(axis_tensor.reshape(-1)[0]), tensor.ndim)
    if sizes.size == 1 and sizes[0] not in (-1, tensor.shape[axis]):
        raise InvalidArgumentError(
            "If there is only one output, it must have the same size as the input. "
            f"Input size: {tensor.shape[axis]} output size: {int(sizes[0])}"
        )
    return cut(tensor, axis, _piece_sizes([int(size) for size in sizes], tensor.shape[axis]))


def _piece_sizes(sizes: list[int], total: int) -> list[int]:
    open_ends = [position for position, size in enumerate(sizes) if size == -1]
    if len(open_ends) > 1:
        raise InvalidArgumentError("There can only be one -1 in the input.")
    given = sum(size for size in sizes if size != -1)
    if given > total or (given < total and not open_ends):
        raise InvalidArgumentError(
            "Determined shape must either match input shape along split_dim exactly if fully specified, "
            "or be less than the size of the input along split_dim if not fully specified.  "
            f"Got: {given}"
        )
    sizes = [total - given if size == -1 else size for size in sizes]
    for position, size in enumerate(sizes):
        if size < 0:
            raise InvalidArgumentError(f"Split size at index {position} must be >= 0. Got: {size}")
    return sizes


# --- shape functions and memory -------------------------------------------------------------------------------------


def _infer_unpack(context: ShapeContext) -> Sequence[Dims]:
    dims, count = context.shapes[0], int(context.attrs["num"])
    if dims is None:
        return (None,) * count
    axis = static_row_axis(context.attrs["axis"], len(dims))
    with_value(dims[axis], count)
    return (dims[:axis] + dims[axis + 1 :],) * count


def _infer_split(context: ShapeContext) -> Sequence[Dims]:
    dims, count = context.shapes[1], int(context.attrs["num_split"])
    axis = scalar_axis(context, 0, None if dims is None else len(dims))
    if axis is None:
        return (None if dims is None else unknown_dims(len(dims)),) * count
    if dims is None:
        return (None,) * count
    try:
        size = divide_dim(dims[axis], count)
    except ShapeError as error:
        raise ShapeError(f"{error.message}\n\tNumber of ways to split should evenly divide the split dimension") from None
    return (replace_dim(dims, axis, size),) * count


def _infer_split_v(context: ShapeContext) -> Sequence[Dims]:
    dims, count = context.shapes[0], int(context.attrs["num_split"])
    sizes = context.value(1)
    axis = scalar_axis(context, 2, None if dims is None else len(dims))
    if dims is None:
        return (None,) * count
    if not dims:
        raise ShapeError("Can't split scalars")
    if sizes is None:
        return (replace_dim(dims, axis, -1) if axis is not None else unknown_dims(len(dims)),) * count
    # of a `size_splits` with n rows, TensorFlow reads the first n elements, even if it is a matrix
    flat = sizes.reshape(-1)[: sizes.shape[0] if sizes.ndim else 0].tolist()
    if len(flat) != count:
        raise ShapeError("Length of size_splits should be equal to num_outputs")
    axis = -1 if axis is None else axis  # TensorFlow treats an unknown axis as -1
    return [replace_dim(dims, axis, size) for size in _static_sizes(flat, dims[axis])]


def _static_sizes(sizes: Sequence[int], total: int) -> Sequence[int]:
    if sizes.count(-1) > 1:
        raise ShapeError("size_splits can only have one -1")
    given = sum(size for size in sizes if size != -1)
    known = [total - given if size == -1 and total >= 0 else size for size in sizes]
    for position, size in enumerate(known):
        if size < -1 or (size == -1 and total >= 0):
            raise ShapeError(f"Split size at index {position} must be >= 0. Got: {size}")
    if total >= 0 and -1 not in sizes and given != total:
        raise ShapeError(f"can't split axis of size {total} into pieces of size [{','.join(map(str, sizes))}]")
    return known


def unpack_memory(memory: KernelMemory) -> None:
    """Slices along the first axis that are aligned share the input's buffer; other slices are copies."""
    tensor = memory.inputs[0]
    if memory.attrs["axis"] in (0, -len(tensor.dims)) and has_aligned_rows(tensor):
        for output in range(len(memory.outputs)):
            share_rows(memory, output, 0)


def split_memory(memory: KernelMemory) -> None:
    """A single piece shares the input's buffer, and so do aligned pieces along the first axis."""
    _split(memory, 1, has_aligned_rows(memory.inputs[1]))


def split_v_memory(memory: KernelMemory) -> None:
    """As for Split, except that pieces of a vector share its buffer if their bounds are aligned; Split copies them."""
    bounds = accumulate((piece.dims[0] for piece in memory.outputs), initial=0)
    _split(memory, 0, has_aligned_bounds(memory.inputs[0], *bounds))


def _split(memory: KernelMemory, source: int, is_aligned: bool) -> None:
    tensor, pieces = memory.inputs[source], memory.outputs
    if len(pieces) == 1:
        memory.alias(0, source)
    elif is_aligned and any(piece.dims[0] != tensor.dims[0] for piece in pieces):
        for output in range(len(pieces)):
            share_rows(memory, output, source)


_GIVES_PARTS = Trait.HANDS_ON | Trait.TAKES_OBJECTS | Trait.MOVES_ELEMENTS

TABLE: Table = {
    "Unpack": Kernel(unpack, _infer_unpack, memory=unpack_memory, traits=_GIVES_PARTS, cost=VIEW),
    "Split": Kernel(split, _infer_split, memory=split_memory, traits=_GIVES_PARTS, cost=VIEW),
    "SplitV": Kernel(split_v, _infer_split_v, memory=split_v_memory, traits=Trait.HANDS_ON | Trait.TAKES_OBJECTS, cost=VIEW),
}
