"""Blocks of an image moved into the batch or into the channels, and back; and data formats of shapes and axes.

`[batch, height, width, channels]` throughout: the CPU has no kernel for another format.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

import numpy as np

from placesim.core.errors import InvalidArgumentError
from placesim.ops.attributes import Attrs
from placesim.ops.kernels.array.padding import pad_tensor
from placesim.ops.kernels.kernel import Kernel, Table, Tensor, Trait, elements
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
"""Positions of batch, height, width and channels in a format; NCHW_VECT_C has four more channels in a fifth dimension."""


# --- space and batch ------------------------------------------------------------------------------------------------


def space_to_batch_nd(inputs: Sequence[Tensor], attrs: Attrs) -> Sequence[Tensor]:
    """Inputs `tensor`, `block_shape [m]`, `paddings [m, 2]`: shapes and errors as of `move_to_batch`."""
    return (move_to_batch(*inputs),)


def space_to_batch(inputs: Sequence[Tensor], attrs: Attrs) -> Sequence[Tensor]:
    """The same for images, with one block size for rows and columns; InvalidArgumentError for another rank than 4."""
    _check_image(inputs[0])
    return (move_to_batch(inputs[0], np.full(2, attrs["block_size"]), inputs[1]),)


def move_to_batch(tensor: Tensor, block_shape: Tensor, paddings: Tensor) -> Tensor:
    """`[batch * blocks, padded / block..., rest...]`: each position within a block becomes its own part of the batch.

    Raises InvalidArgumentError for inputs whose shapes do not fit, a block below 1, negative paddings, and a padded size that
    is no multiple of its block.
    """
    blocks, rows = _check_blocks(tensor, block_shape, paddings, "paddings")
    count = len(blocks)
    # each block is checked here; BatchToSpace looks at their product only
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


def batch_to_space_nd(inputs: Sequence[Tensor], attrs: Attrs) -> Sequence[Tensor]:
    """Inputs `tensor`, `block_shape [m]`, `crops [m, 2]`: shapes and errors as of `move_to_space`."""
    return (move_to_space(*inputs),)


def batch_to_space(inputs: Sequence[Tensor], attrs: Attrs) -> Sequence[Tensor]:
    """The same for images, with one block size for rows and columns; InvalidArgumentError for another rank than 4."""
    _check_image(inputs[0])
    return (move_to_space(inputs[0], np.full(2, attrs["block_size"]), inputs[1]),)


def move_to_space(tensor: Tensor, block_shape: Tensor, crops: Tensor) -> Tensor:
    """`[batch / blocks, size * block - crops..., rest...]`: the inverse of `move_to_batch`.

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
    if 0 in sizes:  # then blocks may be negative
        cropped = [size - before - after for (before, after), size in zip(rows, sizes, strict=True)]
        return np.empty((batch, *cropped, *rest), tensor.dtype)
    split = tensor.reshape(*blocks, batch, *tensor.shape[1:])
    pairs = (axis for pair in zip(range(count + 1, 2 * count + 1), range(count), strict=True) for axis in pair)
    whole = split.transpose(count, *pairs, *range(2 * count + 1, split.ndim)).reshape(batch, *sizes, *rest)
    inside = (slice(before, size - after) for (before, after), size in zip(rows, sizes, strict=True))
    return whole[(slice(None), *inside)]


def _check_image(tensor: Tensor) -> None:
    if tensor.ndim != 4:
        # the missing blank is TensorFlow's
        raise InvalidArgumentError(f"Input rank should be: 4instead of: {tensor.ndim}")


def _check_blocks(tensor: Tensor, block_shape: Tensor, margins: Tensor, name: str) -> tuple[list[int], list[list[int]]]:
    """The block's sizes, and for each of its dimensions the margin before and after."""
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
    """Axes of the source format, any shape, as axes of the destination format, counted around modulo the rank.

    Raises InvalidArgumentError for a format that is not of 4 or 5 letters.
    """
    (axes,) = inputs
    source, target = _check_formats(attrs)
    # a letter that the destination does not have gives -1
    places = np.array([target.find(letter) for letter in source], axes.dtype)
    return (np.asarray(places[axes % len(source)]),)


def permute_format_vector(inputs: Sequence[Tensor], attrs: Attrs) -> Sequence[Tensor]:
    """`[rank]` or `[rank, 2]` of the source format's dimensions, or of those in space, in the destination's order.

    Raises InvalidArgumentError for other shapes, and for a format that is not of 4 or 5 letters.
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


def _infer_space_to_batch_nd(context: ShapeContext) -> Sequence[Dims]:
    known, count = _block_dims(context.shapes[0], context.shapes[1], context.shapes[2])
    return (_infer_batched(known, count, context.value(1), context.value(2)),)


def _infer_space_to_batch(context: ShapeContext) -> Sequence[Dims]:
    known, count = _block_dims(with_rank(context.shapes[0], 4), (2,), context.shapes[1])
    return (_infer_batched(known, count, np.full(2, context.attrs["block_size"]), context.value(1)),)


def _infer_batch_to_space_nd(context: ShapeContext) -> Sequence[Dims]:
    known, count = _block_dims(context.shapes[0], context.shapes[1], context.shapes[2])
    return (_infer_spaced(known, count, context.value(1), context.value(2)),)


def _infer_batch_to_space(context: ShapeContext) -> Sequence[Dims]:
    known, count = _block_dims(with_rank(context.shapes[0], 4), (2,), context.shapes[1])
    return (_infer_spaced(known, count, np.full(2, context.attrs["block_size"]), context.value(1)),)


def _block_dims(dims: Dims, block_dims: Dims, margin_dims: Dims) -> tuple[Dims, int]:
    """The input's shape, and the number of its dimensions that blocks have."""
    if block_dims is None or len(block_dims) != 1:
        raise ShapeError("block_shape must have rank 1.")
    (count,) = block_dims
    if count < 0:
        raise ShapeError("block_shape must have known size.")
    with_rank_at_least(dims, count + 1)
    merge(margin_dims, (count, 2))
    return dims, count


def _static_batch(dims: Dims, count: int, blocks: Tensor | None, scale: Callable[[int, int], int]) -> int:
    """The batch scaled by the size of each block, -1 if unknown."""
    # blocks of unknown sizes leave no batch that is known
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


TABLE: Table = {
    "SpaceToBatchND": Kernel(space_to_batch_nd, _infer_space_to_batch_nd, memory=alias_same_shape),
    "SpaceToBatch": Kernel(space_to_batch, _infer_space_to_batch, memory=alias_same_shape),
    "BatchToSpaceND": Kernel(batch_to_space_nd, _infer_batch_to_space_nd, memory=alias_same_shape),
    "BatchToSpace": Kernel(batch_to_space, _infer_batch_to_space, memory=alias_same_shape),
    "SpaceToDepth": Kernel(space_to_depth, _infer_space_to_depth, traits=Trait.TAKES_OBJECTS),
    "DepthToSpace": Kernel(depth_to_space, _infer_depth_to_space, traits=Trait.TAKES_OBJECTS),
    "DataFormatDimMap": Kernel(map_format_axes, unchanged),
    "DataFormatVecPermute": Kernel(permute_format_vector, unchanged),
}
