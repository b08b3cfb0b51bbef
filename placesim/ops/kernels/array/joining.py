"""Joined tensors: Concat, Pack, Tile and related ops."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from placesim.core.dtypes import DTYPES, RESOURCE, VARIANT
from placesim.core.errors import InvalidArgumentError, UnimplementedError
from placesim.ops.attributes import Attrs
from placesim.ops.kernels.cost_model import COPY
from placesim.ops.kernels.kernel import Kernel, Table, Tensor, Trait, zeros
from placesim.ops.kernels.memory_rules import KernelMemory, alias_same_shape, aliases
from placesim.ops.kernels.shape_operands import is_legacy_scalar, shape_text
from placesim.ops.kernels.shapes import (
    Dims,
    ShapeContext,
    ShapeError,
    add_dims,
    concatenate,
    format_dims,
    is_fully_defined,
    merge,
    merge_backwards,
    merge_numbered,
    multiply_dims,
    replace_dim,
    shape_attr,
    subshape,
    unchanged,
    unknown_dims,
    vector_shape_value,
    with_rank,
    with_rank_at_least,
)

TILED_TYPES = frozenset(
    DTYPES[name]
    for name in (
        *("bool", "bfloat16", "half", "float", "double", "uint8", "int8", "int16", "int32", "int64"),
        *("uint32", "uint64", "complex64", "complex128", "string", "variant"),
    )
)
"""The types that Tile supports; for other types its kernel fails."""
MAX_TILED_RANK = 7


# --- Concat ---------------------------------------------------------------------------------------------------------


def concat(inputs: Sequence[Tensor], attrs: Attrs) -> Sequence[Tensor]:
    """Concat: the first input is the axis. Raises the same errors as `concatenate_tensors`."""
    return (concatenate_tensors(inputs[1:], inputs[0], "concat_dim"),)


def concat_v2(inputs: Sequence[Tensor], attrs: Attrs) -> Sequence[Tensor]:
    """ConcatV2: the last input is the axis. Raises the same errors as `concatenate_tensors`."""
    return (concatenate_tensors(inputs[:-1], inputs[-1], "axis"),)


def concatenate_tensors(tensors: Sequence[Tensor], axis_tensor: Tensor, axis_name: str) -> Tensor:
    """Concatenate tensors along an axis; `axis_name` is for messages.

    Raises InvalidArgumentError for an axis that is not a scalar or out of range, for scalars, and for shapes that differ in
    another axis.
    """
    if not is_legacy_scalar(axis_tensor):
        raise InvalidArgumentError(f"{axis_name} tensor should be a scalar integer, but got shape {shape_text(axis_tensor)}")
    given, rank = int(axis_tensor.reshape(-1)[0]), tensors[0].ndim
    axis = given + rank if given < 0 else given
    # for scalars, axis 0 passes this check, and `_check_joinable` fails
    if not 0 <= axis < rank and given != 0:
        raise InvalidArgumentError(
            f"ConcatOp : Expected concatenating dimensions in the range [{-rank}, {rank}), but got {given}"
        )
    for position, tensor in enumerate(tensors):
        _check_joinable(tensors[0], tensor, position, axis)
    return np.concatenate(tensors, axis)


def _check_joinable(first: Tensor, tensor: Tensor, position: int, axis: int) -> None:
    if not first.ndim or not tensor.ndim:
        raise InvalidArgumentError("ConcatOp : Can't concatenate scalars (use tf.stack instead)")
    shapes = f"shape[0] = {shape_text(first)} vs. shape[{position}] = {shape_text(tensor)}"
    if tensor.ndim != first.ndim:
        raise InvalidArgumentError(f"ConcatOp : Ranks of all input tensors should match: {shapes}")
    for other, (a, b) in enumerate(zip(first.shape, tensor.shape, strict=True)):
        if other != axis and a != b:
            raise InvalidArgumentError(f"ConcatOp : Dimension {other} in both shapes must be equal: {shapes}")


def concat_offset(inputs: Sequence[Tensor], attrs: Attrs) -> Sequence[Tensor]:
    """ConcatOffset: (a scalar axis, shape `[rank]` of each input of a Concat) -> each input's start in the result, `[rank]`.

    Raises InvalidArgumentError for an axis that is not a scalar or out of range, and for shapes that are not vectors or differ
    in another axis.
    """
    axis_tensor, *shapes = inputs
    if axis_tensor.ndim:
        raise InvalidArgumentError(f"Concat dim tensor should be a scalar integer, but got shape {shape_text(axis_tensor)}")
    for position, shape in enumerate(shapes, 1):
        if shape.ndim != 1:
            raise InvalidArgumentError(f"input {position} should be a vector, but got shape {shape_text(shape)}")
    given, rank = int(axis_tensor), shapes[0].size
    axis = given + rank if given < 0 else given
    if not 0 <= axis < rank:
        raise InvalidArgumentError(f"Concat dim is out of range: {given} vs. {rank}")
    offsets, position_along = [], np.zeros(1, shapes[0].dtype)
    for position, shape in enumerate(shapes):
        _check_same_elsewhere(shapes[0], shape, position, axis)
        offsets.append(np.zeros_like(shape))
        offsets[-1][axis] = position_along[0]
        # the sum has the type of the shapes, and may overflow
        position_along = position_along + shape[axis : axis + 1]
    return offsets


def _check_same_elsewhere(first: Tensor, shape: Tensor, position: int, axis: int) -> None:
    if shape.size != first.size:
        raise InvalidArgumentError(f"input {position} should contain {first.size} elements, but got {shape.size}")
    if any(a != b for other, (a, b) in enumerate(zip(first, shape, strict=True)) if other != axis):
        one, two = (" ".join(map(str, dims)) for dims in (shape, first))
        raise InvalidArgumentError(
            f"All dimensions except {axis} must match. Input {position} has shape [{one}] "
            f"and doesn't match input 0 with shape [{two}]."
        )


def parallel_concat(inputs: Sequence[Tensor], attrs: Attrs) -> Sequence[Tensor]:
    """ParallelConcat: concatenate inputs `[1, ...]` along the first axis."""
    return (np.concatenate(inputs, 0),)


# --- Pack -----------------------------------------------------------------------------------------------------------


def row_axis(axis: int, rank: int) -> int:
    """Return the axis counted from the front. Raises InvalidArgumentError if it is out of range."""
    if not -rank <= axis < rank:
        raise InvalidArgumentError(f"axis = {axis} not in [{-rank}, {rank})")
    return axis % rank


def pack(inputs: Sequence[Tensor], attrs: Attrs) -> Sequence[Tensor]:
    """Pack: stack inputs of equal shapes along a new axis.

    Raises InvalidArgumentError for an axis out of range and for different shapes.
    """
    if attrs["T"] in (RESOURCE, VARIANT):
        inputs = [np.asarray(holder, object) for holder in inputs]
    axis = row_axis(attrs["axis"], inputs[0].ndim + 1)
    for position, tensor in enumerate(inputs):
        if tensor.shape != inputs[0].shape:
            raise InvalidArgumentError(
                f"Shapes of all inputs must match: values[0].shape = {shape_text(inputs[0])} "
                f"!= values[{position}].shape = {shape_text(tensor)}"
            )
    return (np.stack(inputs, axis),)


# --- Tile -----------------------------------------------------------------------------------------------------------


def tile(inputs: Sequence[Tensor], attrs: Attrs) -> Sequence[Tensor]:
    """Tile: repeat the input `multiples[i]` times along each axis i.

    Raises InvalidArgumentError unless `multiples` is a vector with one nonnegative number per axis, and UnimplementedError for
    a type or rank for which TensorFlow has no kernel.
    """
    tensor, multiples = inputs
    if multiples.ndim != 1:
        raise InvalidArgumentError(f"Expected multiples to be 1-D, but got shape {shape_text(multiples)}")
    if multiples.size != tensor.ndim:
        raise InvalidArgumentError(
            f"Expected multiples argument to be a vector of length {tensor.ndim} but got length {multiples.size}"
        )
    for axis, count in enumerate(multiples):
        if count < 0:
            raise InvalidArgumentError(f"Expected multiples[{axis}] >= 0, but got {int(count)}")
    # TensorFlow checks the type only after this case, which therefore accepts every type
    if all(count == 1 for count in multiples):
        return (tensor,)
    shape = tuple(int(dim * count) for dim, count in zip(tensor.shape, multiples, strict=True))
    if 0 in shape:
        return (zeros(shape, attrs["T"]),)
    if attrs["T"] not in TILED_TYPES or tensor.ndim > MAX_TILED_RANK:
        raise UnimplementedError(
            f"TileOp : The input data type is not supported, DataType : {attrs['T'].name}, Dimension : {tensor.ndim}"
        )
    return (np.tile(tensor, multiples),)


def start_parallel_concat(inputs: Sequence[Tensor], attrs: Attrs) -> Sequence[Tensor]:
    """_ParallelConcatStart: a tensor of zeros with the shape in attr `shape`; updates then write its rows.

    Raises InvalidArgumentError for a shape that is not fully defined.
    """
    dims = attrs["shape"].dims
    if dims is None or not is_fully_defined(dims):
        raise InvalidArgumentError("shape attr must be fully defined.")
    return (np.array(zeros(dims, attrs["dtype"])),)


def update_parallel_concat(inputs: Sequence[Tensor], attrs: Attrs) -> Sequence[Tensor]:
    """_ParallelConcatUpdate: writes the second input `[1, ...]` to row `loc` of the first `[rows, ...]`, in place.

    Returns the first input. Raises InvalidArgumentError for shapes that do not fit.
    """
    value, update = inputs
    row, shapes = attrs["loc"], f"{format_dims(value.shape)} vs. {format_dims(update.shape)}"
    if not value.ndim:
        raise InvalidArgumentError("value should be at least rank 1.")
    if row >= len(value):
        raise InvalidArgumentError(f"0th dimension of value = {len(value)} must be greater than loc_ = {row}")
    if value.ndim != update.ndim:
        raise InvalidArgumentError(f"value and update shape doesn't match: {shapes}")
    if value.shape[1:] != update.shape[1:]:
        raise InvalidArgumentError(f"value and update shape doesn't match {shapes}")
    if len(update) != 1:
        raise InvalidArgumentError(f"update shape doesn't match: {format_dims(update.shape)}")
    value[row] = update[0]
    return (value,)


# --- shape functions and memory -------------------------------------------------------------------------------------


def _infer_concat(context: ShapeContext) -> Sequence[Dims]:
    return (infer_joined(context, range(1, len(context.shapes)), 0),)


def _infer_concat_v2(context: ShapeContext) -> Sequence[Dims]:
    last = len(context.shapes) - 1
    return (infer_joined(context, range(last), last),)


def infer_joined(context: ShapeContext, values: range, axis_index: int) -> Dims:
    """Static shape of inputs `values` concatenated along the axis in input `axis_index`. Raises ShapeError for scalars."""
    with_rank(context.shapes[axis_index], 0)
    shapes = [context.shapes[index] for index in values]
    rank = next((len(dims) for dims in shapes if dims is not None), None)
    if rank == 0:
        raise ShapeError("Can't concatenate scalars (use tf.stack instead)")
    if rank is not None:
        for dims in shapes:
            with_rank(dims, rank)
    axis = context.scalar_value(axis_index)
    return unknown_dims(rank) if axis is None else _infer_joined_along(shapes, axis)


def _infer_joined_along(shapes: Sequence[Dims], axis: int) -> Dims:
    before: Dims = None
    after: Dims = None
    joined = 0
    # TensorFlow merges from last to first, which determines the pair that an error names
    for dims in reversed(shapes):
        with_rank_at_least(dims, -axis if axis < 0 else axis + 1)
        before = merge(subshape(dims, 0, axis), before)
        # nothing follows axis -1, but `axis + 1` would give the whole shape
        after = merge(() if axis == -1 else subshape(dims, axis + 1), after)
        joined = add_dims(joined, -1 if dims is None else dims[axis])
    return concatenate(concatenate(before, (joined,)), after)


def _infer_concat_offset(context: ShapeContext) -> Sequence[Dims]:
    return context.shapes[1:]


def _infer_parallel_concat(context: ShapeContext) -> Sequence[Dims]:
    dims = context.attrs["shape"].dims
    if dims is None or not is_fully_defined(dims):
        raise ShapeError("shape attr must be fully defined.")
    row = replace_dim(dims, 0, 1)
    for index, given in enumerate(context.shapes):
        if given is None or not is_fully_defined(given):
            raise ShapeError("All input shapes must be fully defined.")
        if given[:1] != (1,):
            raise ShapeError("Size of first dimension must be 1.")
        row = merge_numbered(given, row, index)
    return (dims,)


def _infer_pack(context: ShapeContext) -> Sequence[Dims]:
    dims = merge_backwards(context.shapes)
    if dims is None:
        return (None,)
    axis = static_row_axis(context.attrs["axis"], len(dims) + 1)
    return ((*dims[:axis], len(context.shapes), *dims[axis:]),)


def static_row_axis(axis: int, rank: int) -> int:
    """Like `row_axis`, but raises ShapeError."""
    if not -rank <= axis < rank:
        raise ShapeError(f"Invalid axis: {axis}; must be in [{-rank},{rank})")
    return axis % rank


def _infer_tile(context: ShapeContext) -> Sequence[Dims]:
    dims, multiples = context.shapes[0], vector_shape_value(context, 1)
    if dims is not None:
        multiples = with_rank(multiples, len(dims))
        merge(context.shapes[1], (len(dims),))
    if multiples is None:
        return (None,)
    return (tuple(map(multiply_dims, with_rank(dims, len(multiples)), multiples)),)


def pack_memory(memory: KernelMemory) -> None:
    """A single input is not copied: the output is its buffer with another shape."""
    if len(memory.inputs) == 1:
        memory.alias(0, 0)


TABLE: Table = {
    "Concat": Kernel(concat, _infer_concat, traits=Trait.MOVES_ELEMENTS, cost=COPY),
    "ConcatV2": Kernel(concat_v2, _infer_concat_v2, traits=Trait.MOVES_ELEMENTS, cost=COPY),
    "ConcatOffset": Kernel(concat_offset, _infer_concat_offset),
    "ParallelConcat": Kernel(parallel_concat, _infer_parallel_concat),
    "_ParallelConcatStart": Kernel(start_parallel_concat, shape_attr),
    "_ParallelConcatUpdate": Kernel(update_parallel_concat, unchanged, memory=aliases()),
    "Pack": Kernel(pack, _infer_pack, memory=pack_memory, traits=Trait.MOVES_ELEMENTS, cost=COPY),
    "Tile": Kernel(tile, _infer_tile, memory=alias_same_shape, traits=Trait.TAKES_OBJECTS | Trait.LINEAR, cost=COPY),
}
