"""Ops that reorder elements along an axis: Reverse, ReverseSequence, Roll; and InvertPermutation."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from placesim.core.errors import InvalidArgumentError, UnimplementedError
from placesim.ops.attributes import Attrs
from placesim.ops.kernels.kernel import Kernel, Table, Tensor, Trait, along_dims_in
from placesim.ops.kernels.memory_rules import KernelMemory
from placesim.ops.kernels.shape_operands import shape_text
from placesim.ops.kernels.shapes import (
    Dims,
    ShapeContext,
    ShapeError,
    infer_by,
    merge_dim,
    replace_dim,
    with_rank,
)

MAX_REVERSED_RANK = 8


def _check_reversed_axes(tensor: Tensor, axes: Tensor) -> None:
    if axes.ndim != 1:
        raise InvalidArgumentError(f"'dims' must be 1-dimension, not {axes.ndim}")
    if tensor.ndim > MAX_REVERSED_RANK:
        raise UnimplementedError("reverse is not implemented for tensors of rank > 8.")


def reverse(inputs: Sequence[Tensor], attrs: Attrs) -> Sequence[Tensor]:
    """Reverse: reverse the input along each axis whose flag in the second input `[rank]` is true.

    Raises InvalidArgumentError for flags of another shape and an empty first dimension, and UnimplementedError for a rank
    above 8.
    """
    tensor, flags = inputs
    if tensor.ndim:
        # TensorFlow checks only the first dimension; ReverseV2 accepts empty tensors
        if not tensor.shape[0]:
            raise InvalidArgumentError("Invalid input first dimension. Found 0.")
        _check_reversed_axes(tensor, flags)
        if tensor.ndim != flags.size:
            raise InvalidArgumentError(
                "'dims' must have the same number of values as 'input' has dimensions. "
                f"'input' has {tensor.ndim}'dims' has {flags.size} values"
            )
        tensor = np.flip(tensor, tuple(np.flatnonzero(flags)))
    return (tensor,)


def reverse_v2(inputs: Sequence[Tensor], attrs: Attrs) -> Sequence[Tensor]:
    """ReverseV2: reverse the input along the axes in the second input `[n]`.

    Raises InvalidArgumentError for axes that are not a vector, out of range or repeated, and UnimplementedError for a rank
    above 8.
    """
    tensor, axes = inputs
    # TensorFlow returns scalars and empty tensors before it checks the axes
    if tensor.ndim and tensor.size:
        _check_reversed_axes(tensor, axes)
        tensor = np.flip(tensor, _distinct_axes(axes, tensor.ndim, InvalidArgumentError))
    return (tensor,)


def _distinct_axes(axes: Tensor, rank: int, error: type[InvalidArgumentError]) -> tuple[int, ...]:
    found: list[int] = []
    for position, given in enumerate(axes.tolist()):
        axis = given + rank if given < 0 else given
        if not 0 <= axis < rank:
            # TensorFlow's message does not close the bracket
            raise error(f"'axis'[{position}] = {given} is out of valid range [0, {rank - 1}")
        if axis in found:
            raise error(f"axis {axis} specified more than once.")
        found.append(axis)
    return tuple(found)


def reverse_sequence(inputs: Sequence[Tensor], attrs: Attrs) -> Sequence[Tensor]:
    """ReverseSequence: for each index i of axis `batch_dim`, reverse the first `seq_lengths[i]` elements along axis `seq_dim`.

    Raises InvalidArgumentError for axes that are equal or out of range, and unless `seq_lengths` is `[batch]` with lengths
    within the sequence.
    """
    tensor, lengths = inputs
    sequence, batch = attrs["seq_dim"], attrs["batch_dim"]
    _check_sequences(tensor, lengths, sequence, batch)
    rows = np.moveaxis(tensor, (batch, sequence), (0, 1))  # [batch, time, ...]
    time = np.arange(rows.shape[1])
    source = np.where(time < lengths[:, None], lengths[:, None] - 1 - time, time)
    reversed_rows = rows[np.arange(rows.shape[0])[:, None], source]
    return (np.moveaxis(reversed_rows, (0, 1), (batch, sequence)),)


def _check_sequences(tensor: Tensor, lengths: Tensor, sequence: int, batch: int) -> None:
    for name, axis in (("batch_dim", batch), ("seq_dim", sequence)):
        if axis < 0:
            raise InvalidArgumentError(f"Invalid {name} {axis}")
    if lengths.ndim != 1:
        raise InvalidArgumentError(f"seq_lengths must be 1-dim, not {lengths.ndim}")
    if batch == sequence:
        raise InvalidArgumentError(f"batch_dim == seq_dim == {sequence}")
    for name, axis in (("seq_dim", sequence), ("batch_dim", batch)):
        if axis >= tensor.ndim:
            raise InvalidArgumentError(f"{name} must be < input rank ( {axis} vs. {tensor.ndim})")
    if lengths.size != tensor.shape[batch]:
        raise InvalidArgumentError(f"Length of seq_lengths != input.dims({batch}), ({lengths.size} vs. {tensor.shape[batch]})")
    for position, length in enumerate(lengths.tolist()):
        if length < 0:
            raise InvalidArgumentError(f"seq_lens({position}) < 0")
        if length > tensor.shape[sequence]:
            raise InvalidArgumentError(f"seq_lens({position}) > input.dims({sequence})")


def roll(inputs: Sequence[Tensor], attrs: Attrs) -> Sequence[Tensor]:
    """Roll: shift elements along axes, cyclically; several shifts of an axis add up.

    Raises InvalidArgumentError for a scalar input, an axis out of range, and unless shift and axis are both scalars, or vectors
    of equal length.
    """
    tensor, shift, axis = inputs
    if not tensor.ndim:
        raise InvalidArgumentError("input must be 1-D or higher")
    for name, given in (("shift", shift), ("axis", axis)):
        if given.ndim > 1:
            raise InvalidArgumentError(f"{name} must be a scalar or a 1-D vector. Found: {shape_text(given)}")
    if shift.shape != axis.shape:
        raise InvalidArgumentError("shift and axis must have the same size")
    axes = [int(given) + (tensor.ndim if given < 0 else 0) for given in axis.reshape(-1)]
    for position in axes:
        if not 0 <= position < tensor.ndim:
            raise InvalidArgumentError(f"axis {position} is out of range")
    return (np.roll(tensor, tuple(shift.reshape(-1).tolist()), tuple(axes)),)


def invert_permutation(inputs: Sequence[Tensor], attrs: Attrs) -> Sequence[Tensor]:
    """InvertPermutation: `x [n]` -> `y [n]` with `y[x[i]] = i`.

    Raises InvalidArgumentError for another rank, and for a number that is out of range or repeated.
    """
    (permutation,) = inputs
    if permutation.ndim != 1:
        raise InvalidArgumentError("invert_permutation expects a 1D vector.")
    count = permutation.size
    inverse = np.full(count, -1, permutation.dtype)
    for position, value in enumerate(permutation.tolist()):
        if not 0 <= value < count:
            raise InvalidArgumentError(f"{value} is not between 0 and {count}")
        if inverse[value] != -1:
            raise InvalidArgumentError(f"{value} is duplicated in the input.")
        inverse[value] = position
    return (inverse,)


# --- shape functions and memory -------------------------------------------------------------------------------------


def _marked_dims(context: ShapeContext) -> Sequence[int] | None:
    """Return the dimensions whose flag is true; None if the flags are unknown."""
    flags = context.known_value(1)
    return None if flags is None else [*map(int, flags.nonzero()[0])]


def _infer_reverse(context: ShapeContext) -> Sequence[Dims]:
    (count,) = with_rank(context.shapes[1], 1)
    dims = context.shapes[0]
    return _reversible(with_rank(dims, count) if count >= 0 else dims)


def _infer_reverse_v2(context: ShapeContext) -> Sequence[Dims]:
    dims = context.shapes[0]
    with_rank(context.shapes[1], 1)
    _reversible(dims)
    axes = context.value(1)
    if axes is not None and dims is not None:
        _distinct_axes(axes, len(dims), ShapeError)
    return (dims,)


def _reversible(dims: Dims) -> Sequence[Dims]:
    if dims is not None and len(dims) > MAX_REVERSED_RANK:
        raise ShapeError("reverse does not work on tensors with more than 8 dimensions")
    return (dims,)


def _infer_reverse_sequence(context: ShapeContext) -> Sequence[Dims]:
    dims, sequence, batch = context.shapes[0], context.attrs["seq_dim"], context.attrs["batch_dim"]
    (count,) = with_rank(context.shapes[1], 1)
    if dims is None:
        return (None,)
    for name, axis in (("batch_dim", batch), ("seq_dim", sequence)):
        if axis >= len(dims):
            raise ShapeError(f"{name} must be < input rank: {axis} vs. {len(dims)}")
    if batch < 0:
        raise ShapeError(f"batch_dim must be >=0, got {batch}")
    return (replace_dim(dims, batch, merge_dim(dims[batch], count)),)


def reverse_memory(memory: KernelMemory) -> None:
    """Scalars are forwarded; all other tensors are copied, even along axes that are not reversed."""
    if not memory.inputs[0].dims:
        memory.alias(0, 0)


TABLE: Table = {
    "Reverse": Kernel(reverse, _infer_reverse, memory=reverse_memory, mixes=_marked_dims),
    "ReverseV2": Kernel(reverse_v2, _infer_reverse_v2, memory=reverse_memory, mixes=along_dims_in(1)),
    "ReverseSequence": Kernel(reverse_sequence, _infer_reverse_sequence, mixes=lambda context: (context.attrs["seq_dim"],)),
    "Roll": Kernel(roll, infer_by("x:1+, shift:1-, shift:1- -> x"), traits=Trait.TAKES_OBJECTS, mixes=along_dims_in(2)),
    "InvertPermutation": Kernel(invert_permutation, infer_by("x:1 -> x")),
}
