"""Pad, which surrounds a tensor with a value; MirrorPad, which surrounds it with its mirror image; and MirrorPadGrad."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from placesim.core.dtypes import STRING
from placesim.core.errors import InvalidArgumentError, UnimplementedError
from placesim.ops.attributes import Attrs
from placesim.ops.kernels.blocks.elementwise_blocks import part_count
from placesim.ops.kernels.blocks.work_parts import even_parts
from placesim.ops.kernels.cost_model import COPY
from placesim.ops.kernels.kernel import Kernel, Table, Tensor
from placesim.ops.kernels.memory_rules import KernelMemory, alias_same_shape
from placesim.ops.kernels.shape_operands import shape_text
from placesim.ops.kernels.shapes import (
    Dims,
    ShapeContext,
    ShapeError,
    add_dims,
    merge,
    subtract_dims,
    unknown_dims,
    with_rank,
    with_value,
)
from placesim.ops.process.intra_op_threads import spread

MAX_PADDED_RANK, MAX_MIRRORED_RANK = 8, 5


def _check_paddings(tensor: Tensor, paddings: Tensor, max_rank: int, between: str) -> list[list[int]]:
    """Return `[before, after]` for each axis. Raises UnimplementedError or InvalidArgumentError for ranks that do not fit."""
    if tensor.ndim > max_rank:
        raise UnimplementedError(f"inputs rank not in [0,{max_rank}]: {tensor.ndim}")
    if paddings.ndim != 2 or paddings.shape[1] != 2:
        raise InvalidArgumentError(f"paddings must be a matrix with 2 columns: {shape_text(paddings)}")
    if paddings.shape[0] != tensor.ndim:
        raise InvalidArgumentError(
            # the kernels' messages have different separators between the two shapes
            f"The first dimension of paddings must be the rank of inputs{shape_text(paddings)}{between}{shape_text(tensor)}"
        )
    rows: list[list[int]] = paddings.tolist()
    return rows


def check_not_negative(row: Sequence[int], subject: str, between: str = " ") -> None:
    """Raises InvalidArgumentError if a padding before or after an axis is negative; `subject` begins the message."""
    before, after = row
    if before < 0 or after < 0:
        raise InvalidArgumentError(f"{subject} must be non-negative: {before}{between}{after}")


# --- Pad ------------------------------------------------------------------------------------------------------------


def pad(inputs: Sequence[Tensor], attrs: Attrs) -> Sequence[Tensor]:
    """Pad, PadV2: add `paddings[i]` = (before, after) elements to each axis i. They are 0, or equal to a third, scalar input.

    Raises InvalidArgumentError for paddings that are negative or not `[rank, 2]` and for a value that is not a scalar, and
    UnimplementedError for a rank above 8.
    """
    tensor, paddings = inputs[:2]
    rows = _check_paddings(tensor, paddings, MAX_PADDED_RANK, " ")
    value: Any = b"" if attrs["T"] is STRING else 0
    if len(inputs) == 3:
        if inputs[2].ndim:
            raise InvalidArgumentError(f"constant_values must be a scalar. Found: {shape_text(inputs[2])}")
        value = inputs[2].item() if attrs["T"] is STRING else inputs[2]
    # TensorFlow checks the paddings after the value
    for row in rows:
        check_not_negative(row, "Paddings")
    return (pad_tensor(tensor, rows, value),)


def pad_tensor(tensor: Tensor, rows: Sequence[Sequence[int]], value: Any = 0) -> Tensor:
    """Return the tensor with `rows[i]` = (before, after) elements of a value added to each axis i."""
    result = np.empty([dim + before + after for dim, (before, after) in zip(tensor.shape, rows, strict=True)], tensor.dtype)
    inside: list[slice] = []
    for dim, (before, after) in zip(tensor.shape, rows, strict=True):
        if before or after:
            result[(*inside, slice(before))] = value
            result[(*inside, slice(before + dim, None))] = value
        inside.append(slice(before, before + dim))
    count = part_count(tensor.nbytes)
    if count < 2:
        result[tuple(inside)] = tensor
        return result
    target = result[tuple(inside)]
    axis = next(axis for axis, dim in enumerate(tensor.shape) if dim > 1)
    others = (slice(None),) * axis

    def copy(part: slice) -> None:
        target[(*others, part)] = tensor[(*others, part)]

    spread(copy, list(even_parts(tensor.shape[axis], count)))
    return result


# --- MirrorPad ------------------------------------------------------------------------------------------------------


def mirror_pad(inputs: Sequence[Tensor], attrs: Attrs) -> Sequence[Tensor]:
    """MirrorPad: pad the input with its mirror image. Mode REFLECT leaves out the edge itself, SYMMETRIC repeats it.

    Raises InvalidArgumentError for paddings that are negative, not `[rank, 2]`, or larger than the part to mirror, and
    UnimplementedError for a rank above 5.
    """
    tensor, paddings = inputs
    rows = _check_paddings(tensor, paddings, MAX_MIRRORED_RANK, ", ")
    offset = 1 if attrs["mode"] == "REFLECT" else 0
    for dim, (before, after) in zip(tensor.shape, rows, strict=True):
        check_not_negative([before, after], "paddings")
        check_mirror(dim, before, after, offset, "dimension size")
    for axis, (before, after) in enumerate(rows):
        if before or after:
            # one axis after another, so that corners are mirrored along both
            tensor = tensor.take(_mirrored_positions(tensor.shape[axis], before, after, offset), axis)
    return (tensor,)


def check_mirror(dim: int, before: int, after: int, offset: int, name: str) -> None:
    """Raises InvalidArgumentError for paddings larger than the part of an axis of size `dim` that can be mirrored.

    `offset` is the number of edge elements left out (REFLECT: 1, SYMMETRIC: 0); `name` is the size's name in the message.
    """
    if max(before, after) > dim - offset:
        limits = ("no greater than", "greater than") if offset == 0 else ("less than", "not less than")
        raise InvalidArgumentError(f"paddings must be {limits[0]} the {name}: {before}, {after} {limits[1]} {dim}")


def _mirrored_positions(dim: int, before: int, after: int, offset: int) -> Tensor:
    inside = np.arange(dim)
    head = inside[offset : offset + before][::-1]
    tail = inside[dim - offset - after : dim - offset][::-1]
    return np.concatenate([head, inside, tail])


def mirror_pad_grad(inputs: Sequence[Tensor], attrs: Attrs) -> Sequence[Tensor]:
    """MirrorPadGrad: remove the padding from gradients, and add each padding element to the element that it mirrors.

    Raises the errors of `mirror_pad`, and InvalidArgumentError if no elements would be left.
    """
    tensor, paddings = inputs
    rows = _check_paddings(tensor, paddings, MAX_MIRRORED_RANK, " ")
    offset = 1 if attrs["mode"] == "REFLECT" else 0
    for dim, (before, after) in zip(tensor.shape, rows, strict=True):
        check_not_negative([before, after], "Paddings", ", ")
        if before + after >= dim:
            raise InvalidArgumentError(
                f"Total paddings must be less than the input dimension size: {before + after} was not less than {dim}"
            )
        check_mirror(dim - before - after, before, after, offset, "output dimension size")
    for axis, (before, after) in enumerate(rows):
        if before or after:
            tensor = np.moveaxis(_fold(np.moveaxis(tensor, axis, 0), before, after, offset), 0, axis)
    return (tensor,)


def _fold(tensor: Tensor, before: int, after: int, offset: int) -> Tensor:
    """Remove the padding of the first axis, and add each padding element to the element that it mirrors."""
    size = tensor.shape[0] - before - after
    result = tensor[before : before + size].copy()
    result[offset : offset + before] += tensor[:before][::-1]
    result[size - offset - after : size - offset] += tensor[before + size :][::-1]
    return result


# --- shape functions and memory -------------------------------------------------------------------------------------


def _infer_pad(context: ShapeContext) -> Sequence[Dims]:
    dims = context.shapes[0]
    rank, columns = with_rank(context.shapes[1], 2)
    with_value(columns, 2)
    if rank >= 0:
        dims = with_rank(dims, rank)
    paddings = context.value(1)
    if paddings is None:
        return (None if dims is None else unknown_dims(len(dims)),)
    known = with_rank(dims, paddings.shape[0])
    return (tuple(add_dims(dim, sum(row)) for dim, row in zip(known, _static_rows(paddings), strict=True)),)


def _static_rows(paddings: Tensor) -> Iterator[list[int]]:
    for row in paddings.tolist():
        if min(row) < 0:
            raise ShapeError("Paddings must be non-negative")
        yield row


def _infer_mirror_pad_grad(context: ShapeContext) -> Sequence[Dims]:
    rank, _ = with_rank(context.shapes[1], 2)
    if rank < 0:
        return (None,)
    dims = with_rank(context.shapes[0], rank)
    merge(context.shapes[1], (rank, 2))
    paddings = context.value(1)
    if paddings is None:
        return (unknown_dims(rank),)
    return (tuple(subtract_dims(dim, sum(row)) for dim, row in zip(dims, _static_rows(paddings), strict=True)),)


def mirror_pad_grad_memory(memory: KernelMemory) -> None:
    """Memory of the output, and of a copy of the input; in this copy, the kernel adds the padding to the inner elements."""
    alias_same_shape(memory)
    if not memory.is_made(0):
        memory.temporary_like(memory.inputs[0])


TABLE: Table = {
    "Pad": Kernel(pad, _infer_pad, memory=alias_same_shape, cost=COPY),
    "PadV2": Kernel(pad, _infer_pad, memory=alias_same_shape, cost=COPY),
    "MirrorPad": Kernel(mirror_pad, _infer_pad, memory=alias_same_shape, cost=COPY),
    "MirrorPadGrad": Kernel(mirror_pad_grad, _infer_mirror_pad_grad, memory=mirror_pad_grad_memory),
}
