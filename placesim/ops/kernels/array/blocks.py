"""SpaceToBatch, SpaceToDepth and their inverses, which move blocks of an image; and ops that convert between data formats.

Tensors are `[batch, height, width, channels]`: the CPU has no kernel for another format.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import partial

import numpy as np

from placesim.core.errors import InvalidArgumentError
from placesim.ops.attributes import Attrs
from placesim.ops.kernels.array.padding import pad_tensor
from placesim.ops.kernels.kernel import Compute, Kernel, Table, Tensor, Trait, elements
from placesim.ops.kernels.memory_rules import alias_same_shape
from placesim.ops.kernels.shape_operands import shape_text
from placesim.ops.kernels.shapes import (
    Dims,
    ShapeContext,
    ShapeError,
    add_dims,
    concatenate,
    divide_dim,
    merge,
    multiply_dims,
    subshape,
    subtract_dims,
    unchanged,
    with_rank,
    with_rank_at_least,
)

IMAGE_AXES = {"NHWC": (0, 1, 2, 3), "NCHW": (0, 2, 3, 1), "NCHW_VECT_C": (0, 2, 3, 1)}
"""Positions of batch, height, width and channels in a format; NCHW_VECT_C has groups of four channels in a fifth dimension."""

_Move = Callable[[Tensor, Tensor, Tensor], Tensor]
_Infer = Callable[[Dims, int, Tensor | None, Tensor | None], Dims]


# --- space and batch ------------------------------------------------------------------------------------------------


def move_blocks(inputs: Sequence[Tensor], attrs: Attrs, move: _Move) -> Sequence[Tensor]:
    """SpaceToBatchND, BatchToSpaceND, by `move`: (tensor, block shape `[m]`, paddings or crops `[m, 2]`) -> moved tensor.

    Raises the errors of `move_to_batch` or `move_to_space`.
    """
    return (move(*inputs),)


def move_image_blocks(inputs: Sequence[Tensor], attrs: Attrs, move: _Move) -> Sequence[Tensor]:
    """SpaceToBatch, BatchToSpace: like `move_blocks`, for images and square blocks of attr `block_size`.

    Raises the errors of `move_blocks`, and InvalidArgumentError for a rank other than 4.
    """
    tensor, margins = inputs
    if tensor.ndim != 4:
        # TensorFlow's message lacks the blank
        raise InvalidArgumentError(f"Input rank should be: 4instead of: {tensor.ndim}")
    return (move(tensor, np.full(2, attrs["block_size"]), margins),)


def move_to_batch(tensor: Tensor, block_shape: Tensor, paddings: Tensor) -> Tensor:
    """Split the padded spatial axes into blocks, and move the positions within a block to the batch axis.

    Returns `[batch * positions, padded / block..., rest...]`. Raises InvalidArgumentError for inputs whose shapes do not fit, a
    block below 1, negative paddings, and a padded size that is not a multiple of its block.
    """
    blocks, rows = _check_blocks(tensor, block_shape, paddings, "paddings")
    count = len(blocks)
    # each block is checked here; BatchToSpace checks only their product
    for position, block in enumerate(blocks):
        if block < 1:
            raise InvalidArgumentError(f"All values in block_shape must be positive, got value, {block} at index {position}.")
    for position, ((before, after), block) in enumerate(zip(rows, blocks, strict=True)):
        if before < 0 or after < 0:
            raise InvalidArgumentError("Paddings must be non-negative")
        size = tensor.shape[position + 1] + before + after
        if size % block:
            raise InvalidArgumentError(f"padded_shape[{position}]={size} is not divisible by block_shape[{position}]={block}")
    padded = pad_tensor(tensor, [(0, 0), *rows, *[(0, 0)] * (tensor.ndim - 1 - count)])
    sizes = [size // block for size, block in zip(padded.shape[1:], blocks, strict=False)]
    batch, rest = tensor.shape[0], tensor.shape[count + 1 :]
    split = padded.reshape(batch, *(part for pair in zip(sizes, blocks, strict=True) for part in pair), *rest)
    inner, outer = range(2, 2 * count + 1, 2), range(1, 2 * count, 2)
    moved = split.transpose(*inner, 0, *outer, *range(2 * count + 1, split.ndim))
    return moved.reshape(batch * elements(tuple(blocks)), *sizes, *rest)


def move_to_space(tensor: Tensor, block_shape: Tensor, crops: Tensor) -> Tensor:
    """The inverse of `move_to_batch`: returns `[batch / positions, size * block - crops..., rest...]`.

    Raises InvalidArgumentError for inputs whose shapes do not fit, blocks whose product is below 1 or does not divide the
    batch, and crops that are negative or too large.
    """
    blocks, rows = _check_blocks(tensor, block_shape, crops, "crops")
    count, product = len(blocks), elements(tuple(blocks))
    # only the product is checked, so that two negative blocks pass
    if product <= 0:
        raise InvalidArgumentError(f"Product of block sizes must be positive, got {product}")
    if tensor.shape[0] % product:
        raise InvalidArgumentError(
            f"Input batch dimension ({tensor.shape[0]}) is not divisible by product of block sizes ({product})"
        )
    sizes = [size * block for size, block in zip(tensor.shape[1:], blocks, strict=False)]
    for position, ((before, after), size) in enumerate(zip(rows, sizes, strict=True)):
        if before < 0 or after < 0:
            raise InvalidArgumentError("Crops must be non-negative")
        if size < before + after:
            raise InvalidArgumentError(f"cropped_shape[{position}]={size - before - after} must be non-negative")
    batch, rest = tensor.shape[0] // product, tensor.shape[count + 1 :]
    if 0 in sizes:  # numpy cannot split by blocks that may be negative
        cropped = [size - before - after for (before, after), size in zip(rows, sizes, strict=True)]
        return np.empty((batch, *cropped, *rest), tensor.dtype)
    split = tensor.reshape(*blocks, batch, *tensor.shape[1:])
    pairs = (axis for pair in zip(range(count + 1, 2 * count + 1), range(count), strict=True) for axis in pair)
    whole = split.transpose(count, *pairs, *range(2 * count + 1, split.ndim)).reshape(batch, *sizes, *rest)
    inside = (slice(before, size - after) for (before, after), size in zip(rows, sizes, strict=True))
    return whole[(slice(None), *inside)]


def _check_blocks(tensor: Tensor, block_shape: Tensor, margins: Tensor, name: str) -> tuple[list[int], list[list[int]]]:
    """Return (the block's sizes, [before, after] for each of its dimensions). Raises InvalidArgumentError for other shapes."""
    if block_shape.ndim != 1:
        raise InvalidArgumentError(f"block_shape rank should be 1 instead of {block_shape.ndim}")
    count = block_shape.size
    if tensor.ndim < 1 + count:
        raise InvalidArgumentError(f"input rank should be >= {1 + count} instead of {tensor.ndim}")
    if margins.shape != (count, 2):
        raise InvalidArgumentError(f"{name} should have shape [{count}, 2] instead of {shape_text(margins)}")
    blocks: list[int] = block_shape.tolist()
    rows: list[list[int]] = margins.tolist()
    return blocks, rows


# --- space and depth ------------------------------------------------------------------------------------------------


def space_to_depth(inputs: Sequence[Tensor], attrs: Attrs) -> Sequence[Tensor]:
    """`[batch, height, width, channels]` -> `[batch, height / block, width / block, block * block * channels]`.

    Raises InvalidArgumentError for another rank, or sizes that the block does not divide.
    """
    (tensor,) = inputs
    block = attrs["block_size"]
    if tensor.ndim != 4:
        raise InvalidArgumentError(f"Input rank should be 4 instead of {tensor.ndim}")
    batch, height, width, depth = tensor.shape
    if height % block or width % block:
        raise InvalidArgumentError(f"Image width {width} and height {height} should be divisible by block_size: {block}")
    rows, columns = height // block, width // block
    split = tensor.reshape(batch, rows, block, columns, block, depth)
    return (split.transpose(0, 1, 3, 2, 4, 5).reshape(batch, rows, columns, block * block * depth),)


def depth_to_space(inputs: Sequence[Tensor], attrs: Attrs) -> Sequence[Tensor]:
    """`[batch, height, width, channels]` -> `[batch, height * block, width * block, channels / (block * block)]`.

    The inverse of SpaceToDepth. Raises InvalidArgumentError for another rank, or channels that the block does not divide.
    """
    (tensor,) = inputs
    block = attrs["block_size"]
    if tensor.ndim != 4:
        raise InvalidArgumentError(f"Input rank should be: 4 instead of: {tensor.ndim}")
    batch, height, width, depth = tensor.shape
    if depth % (block * block):
        raise InvalidArgumentError(f"Input depth dimension {depth} should be divisible by: {block * block}")
    split = tensor.reshape(batch, height, width, block, block, depth // (block * block))
    return (split.transpose(0, 1, 3, 2, 4, 5).reshape(batch, height * block, width * block, depth // (block * block)),)


# --- data formats ---------------------------------------------------------------------------------------------------


def _check_formats(attrs: Attrs) -> tuple[str, str]:
    source, target = attrs["src_format"], attrs["dst_format"]
    for kind, name, text in (("Source", "src_format", source), ("Destination", "dst_format", target)):
        if len(text) not in (4, 5):
            raise InvalidArgumentError(f"{kind} format must be of length 4 or 5, received {name} = {text}")
    return source, target


def map_format_axes(inputs: Sequence[Tensor], attrs: Attrs) -> Sequence[Tensor]:
    """DataFormatDimMap: axes of the source format, in a tensor of any shape -> the same axes in the destination format.

    Raises InvalidArgumentError for a format without 4 or 5 letters.
    """
    (axes,) = inputs
    source, target = _check_formats(attrs)
    # a letter that the destination lacks gives -1
    places = np.array([target.find(letter) for letter in source], axes.dtype)
    return (np.asarray(places[axes % len(source)]),)


def permute_format_vector(inputs: Sequence[Tensor], attrs: Attrs) -> Sequence[Tensor]:
    """DataFormatVecPermute: reorder the rows of `[rank]` or `[rank, 2]` from the source to the destination format.

    The input may also have rows for the spatial dimensions only. Raises InvalidArgumentError for other shapes, and for a format
    that does not have 4 or 5 letters.
    """
    (tensor,) = inputs
    source, target = _check_formats(attrs)
    full, spatial = len(source), len(source) - 2
    if tensor.ndim not in (1, 2):
        raise InvalidArgumentError(f"input must be a vector or 2D tensor, but got shape {shape_text(tensor)}")
    if tensor.shape[0] not in (spatial, full):
        subject = "1D input" if tensor.ndim == 1 else "First dimension of 2D input"
        raise InvalidArgumentError(f"{subject} must be of size {spatial} or {full}, but got shape {shape_text(tensor)}")
    if tensor.ndim == 2 and tensor.shape[1] != 2:
        raise InvalidArgumentError(f"Second dimension of 2D input must be of size 2, but got shape {shape_text(tensor)}")
    if tensor.shape[0] == spatial:
        source, target = ("".join(letter for letter in text if letter not in "NC") for text in (source, target))
    return (tensor[[source.find(letter) for letter in target]],)


# --- shape functions ------------------------------------------------------------------------------------------------


def _infer_blocks(context: ShapeContext, infer: _Infer) -> Sequence[Dims]:
    known, count = _block_dims(context.shapes[0], context.shapes[1], context.shapes[2])
    return (infer(known, count, context.value(1), context.value(2)),)


def _infer_image_blocks(context: ShapeContext, infer: _Infer) -> Sequence[Dims]:
    known, count = _block_dims(with_rank(context.shapes[0], 4), (2,), context.shapes[1])
    return (infer(known, count, np.full(2, context.attrs["block_size"]), context.value(1)),)


def _block_dims(dims: Dims, block_dims: Dims, margin_dims: Dims) -> tuple[Dims, int]:
    """(the input's shape, the number of dimensions that are split into blocks). Raises ShapeError if shapes do not fit."""
    if block_dims is None or len(block_dims) != 1:
        raise ShapeError("block_shape must have rank 1.")
    (count,) = block_dims
    if count < 0:
        raise ShapeError("block_shape must have known size.")
    with_rank_at_least(dims, count + 1)
    merge(margin_dims, (count, 2))
    return dims, count


def _static_batch(dims: Dims, count: int, blocks: Tensor | None, scale: Callable[[int, int], int]) -> int:
    """The batch, scaled by the block's size along each dimension; -1 if unknown."""
    # without the blocks' sizes the batch is unknown
    batch = -1 if dims is None or (count and blocks is None) else dims[0]
    for block in [] if blocks is None else blocks.tolist():
        if block < 1:
            raise ShapeError("block_shape must be positive")
        batch = scale(batch, block)
    return batch


def _static_margins(margins: Tensor | None, name: str) -> Iterator[list[int]]:
    for row in [] if margins is None else margins.tolist():
        if min(row) < 0:
            raise ShapeError(f"{name} cannot be negative")
        yield row


def _infer_batched(dims: Dims, count: int, blocks: Tensor | None, paddings: Tensor | None) -> Dims:
    batch, space = _static_batch(dims, count, blocks, multiply_dims), [-1] * count
    for axis, (before, after) in enumerate(_static_margins(paddings, "paddings")):
        if blocks is not None:
            padded = add_dims(add_dims(-1 if dims is None else dims[axis + 1], before), after)
            space[axis] = divide_dim(padded, int(blocks[axis]))
    return concatenate((batch, *space), subshape(dims, count + 1))


def _infer_spaced(dims: Dims, count: int, blocks: Tensor | None, crops: Tensor | None) -> Dims:
    batch, space = _static_batch(dims, count, blocks, divide_dim), [-1] * count
    for axis, (before, after) in enumerate(_static_margins(crops, "crops")):
        if blocks is not None:
            whole = multiply_dims(-1 if dims is None else dims[axis + 1], int(blocks[axis]))
            space[axis] = subtract_dims(subtract_dims(whole, before), after)
    return concatenate((batch, *space), subshape(dims, count + 1))


def _image_dims(context: ShapeContext) -> tuple[int, int, int, int]:
    data_format = context.attrs["data_format"]
    dims = with_rank(context.shapes[0], 5 if data_format == "NCHW_VECT_C" else 4)
    batch, height, width, depth = (dims[axis] for axis in IMAGE_AXES[data_format])
    return batch, height, width, depth


def _arrange_image(context: ShapeContext, *image: int) -> Dims:
    data_format = context.attrs["data_format"]
    ordered = sorted(zip(IMAGE_AXES[data_format], image, strict=True))
    return (*(dim for _, dim in ordered), *((4,) if data_format == "NCHW_VECT_C" else ()))


def _infer_space_to_depth(context: ShapeContext) -> Sequence[Dims]:
    block = context.attrs["block_size"]
    batch, height, width, depth = _image_dims(context)
    rows, columns = divide_dim(height, block), divide_dim(width, block)
    return (_arrange_image(context, batch, rows, columns, multiply_dims(depth, block * block)),)


def _infer_depth_to_space(context: ShapeContext) -> Sequence[Dims]:
    block = context.attrs["block_size"]
    batch, height, width, depth = _image_dims(context)
    rows, columns = multiply_dims(height, block), multiply_dims(width, block)
    return (_arrange_image(context, batch, rows, columns, divide_dim(depth, block * block)),)


def _build_mover(compute: Compute, move: _Move, shape: Callable[..., Sequence[Dims]], infer: _Infer) -> Kernel:
    return Kernel(partial(compute, move=move), partial(shape, infer=infer), memory=alias_same_shape)


TABLE: Table = {
    "SpaceToBatchND": _build_mover(move_blocks, move_to_batch, _infer_blocks, _infer_batched),
    "SpaceToBatch": _build_mover(move_image_blocks, move_to_batch, _infer_image_blocks, _infer_batched),
    "BatchToSpaceND": _build_mover(move_blocks, move_to_space, _infer_blocks, _infer_spaced),
    "BatchToSpace": _build_mover(move_image_blocks, move_to_space, _infer_image_blocks, _infer_spaced),
    "SpaceToDepth": Kernel(space_to_depth, _infer_space_to_depth, traits=Trait.TAKES_OBJECTS),
    "DepthToSpace": Kernel(depth_to_space, _infer_depth_to_space, traits=Trait.TAKES_OBJECTS),
    "DataFormatDimMap": Kernel(map_format_axes, unchanged),
    "DataFormatVecPermute": Kernel(permute_format_vector, unchanged),
}
