"""DynamicPartition, which distributes a tensor's rows; and DynamicStitch, which assembles rows by their indices."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from placesim.core.errors import InvalidArgumentError
from placesim.ops.attributes import Attrs
from placesim.ops.kernels.array.indices import first_outside, position_text
from placesim.ops.kernels.kernel import Kernel, Table, Tensor, Trait, elements, zeros
from placesim.ops.kernels.shape_operands import shape_text
from placesim.ops.kernels.shapes import Dims, ShapeContext, concatenate, merge, merge_prefix, subshape


def stitch(inputs: Sequence[Tensor], attrs: Attrs) -> Sequence[Tensor]:
    """DynamicStitch: (index tensors, data tensors) -> `[highest index + 1, ...]` with `data[n][i]` in row `indices[n][i]`.

    `data[n]` has the shape `indices[n].shape + [...]`. If an index repeats, the last row counts. Rows without an index are
    zero; TensorFlow leaves them uninitialized. Raises InvalidArgumentError for a negative index and shapes that do not fit.
    """
    count = attrs["N"]
    indices, data = inputs[:count], inputs[count:]
    rows = 1 + max((int(index.max()) for index in indices if index.size), default=-1)
    for index in indices:
        bad = first_outside(index.reshape(-1), rows)
        if bad < index.size:
            # the index is negative, since the number of rows follows from the largest index
            raise InvalidArgumentError(f"indices[{bad}] is out of range")
    for position in range(count):
        _check_piece(position, indices, data)
    row_shape = data[0].shape[indices[0].ndim :]
    result = zeros((rows, *row_shape), attrs["T"])
    for index, values in zip(indices, data, strict=True):
        result[index.reshape(-1)] = values.reshape(index.size, *row_shape)
    return (result,)


def _check_piece(position: int, indices: Sequence[Tensor], data: Sequence[Tensor]) -> None:
    index, values = indices[position], data[position]
    first_index, first = indices[0], data[0]
    if values.shape[: index.ndim] != index.shape:
        raise InvalidArgumentError(
            f"data[{position}].shape = {shape_text(values)} does not start with indices[{position}].shape = {shape_text(index)}"
        )
    if values.shape[index.ndim :] != first.shape[first_index.ndim :]:
        raise InvalidArgumentError(
            f"Need data[0].shape[{first_index.ndim}:] = data[{position}].shape[{index.ndim}:], "
            f"got data[0].shape = {shape_text(first)}, data[{position}].shape = {shape_text(values)}, "
            f"indices[0].shape = {shape_text(first_index)}, indices[{position}].shape = {shape_text(index)}"
        )


def partition(inputs: Sequence[Tensor], attrs: Attrs) -> Sequence[Tensor]:
    """DynamicPartition: (data, partitions) -> for each number n, the rows of `data` at which `partitions` is n, in order.

    Raises InvalidArgumentError if the shape of `data` does not start with that of `partitions`, or a number is out of range.
    """
    data, partitions = inputs
    count = attrs["num_partitions"]
    if data.shape[: partitions.ndim] != partitions.shape:
        raise InvalidArgumentError(
            "data.shape must start with partitions.shape, "
            f"got data.shape = {shape_text(data)}, partitions.shape = {shape_text(partitions)}"
        )
    flat = partitions.reshape(-1)
    bad = first_outside(flat, count)
    if bad < flat.size:
        raise InvalidArgumentError(
            f"partitions{position_text(partitions.shape, bad)} = {int(flat[bad])} is not in [0, {count})"
        )
    rows = data.reshape(flat.size, *data.shape[partitions.ndim :])
    return [rows[np.flatnonzero(flat == number)] for number in range(count)]


# --- shape functions ------------------------------------------------------------------------------------------------


def _infer_stitch(context: ShapeContext) -> Sequence[Dims]:
    count = context.attrs["N"]
    row: Dims = None
    for index, data in zip(context.shapes[:count], context.shapes[count:], strict=True):
        if index is not None:
            merge_prefix(data, index)
            row = merge(row, subshape(data, len(index)))
    values = [context.value(position) for position in range(count)]
    rows = -1
    # an unknown index could be the highest
    if all(value is not None for value in values):
        rows = 1 + max((int(value.max()) for value in values if value is not None and value.size), default=-1)
    return (concatenate((rows,), row),)


def _infer_partition(context: ShapeContext) -> Sequence[Dims]:
    data, partitions = context.shapes
    count: int = context.attrs["num_partitions"]
    if partitions is None:
        return (None,) * count
    merge_prefix(data, partitions)
    return (concatenate((-1,), subshape(data, len(partitions))),) * count


def _guess_stitched(context: ShapeContext, output: int) -> int:
    """Return the number of all indices, as if each occurred once."""
    return sum(elements(dims) for dims in context.shapes[: context.attrs["N"]])


def _guess_part(context: ShapeContext, output: int) -> int:
    """Return an equal share of the rows; the first parts have one row more if needed."""
    count: int = context.attrs["num_partitions"]
    whole, rest = divmod(elements(context.shapes[1]), count)
    return whole + (output < rest)


TABLE: Table = {
    "DynamicStitch": Kernel(stitch, _infer_stitch, traits=Trait.TAKES_OBJECTS, guess=_guess_stitched),
    "ParallelDynamicStitch": Kernel(stitch, _infer_stitch, traits=Trait.TAKES_OBJECTS, guess=_guess_stitched),
    "DynamicPartition": Kernel(partition, _infer_partition, traits=Trait.TAKES_OBJECTS, guess=_guess_part),
}
