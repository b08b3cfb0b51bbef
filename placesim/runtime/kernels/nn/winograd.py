"""Convolutions of 3 by 3 and 5 by 5 taps at stride 1 in tiles: half the multiplications, or fewer.

Winograd's algorithm for small filters (Lavin and Gray 2015): tiles of the input, which overlap, and the filter are transformed,
multiplied element by element and summed over the channels (a product of matrices for each element), and the sums transformed to
tiles of 2 by 2 outputs.  Along an axis two outputs of 3 taps take 4 multiplications instead of 6, of 2 taps 3 instead of 4;
those of 5 taps are both.  These transforms only add and halve: rounding is that of plain sums to a few times it.  Larger tiles,
or 5 taps at once, multiply less and round ten times as much.  The gradient of the filter is the same algorithm backwards.

Tensors are `[batch, rows, columns, channels]`, float32.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import ceil, prod
from typing import NamedTuple

import numpy as np
from numpy.lib.stride_tricks import as_strided

from placesim.runtime.intra_op import spread
from placesim.runtime.kernels.kernel import Tensor
from placesim.runtime.kernels.linalg.products import product
from placesim.runtime.kernels.nn.patches import Block, padded_region
from placesim.runtime.kernels.nn.windows import Window
from placesim.runtime.kernels.parts import parts, shares
from placesim.runtime.kernels.scratch import scratch

TILE = 2
"""Rows and columns of outputs in a tile."""
LEAST_TILES = 128
"""With fewer, the transformed filter is more to read and write than the products save."""
LEAST_CHANNELS = 32
"""With fewer, of inputs or outputs, the transforms of tiles are."""
BLOCK_BYTES = 1 << 23
"""Of a block's transformed tiles and their sums."""
SHARED_BYTES = 1 << 26
"""Of the transformed tiles of inputs and gradients that are there at the same time, for the gradient of a filter."""


class Transforms(NamedTuple):
    """Along one axis, as matrices: from cells, from taps, and to the outputs of a tile, by way of the factors multiplied."""

    of_input: Tensor
    of_filter: Tensor
    of_output: Tensor

    @property
    def taps(self) -> int:
        """Of the filter."""
        found: int = self.of_filter.shape[1]
        return found

    @property
    def factors(self) -> int:
        """How many multiplications a tile takes."""
        return len(self.of_input)


def _joined(*pieces: Transforms) -> Transforms:
    """Of a filter that is the pieces' taps one after the other."""
    taps = sum(piece.taps for piece in pieces)
    factors = sum(piece.factors for piece in pieces)
    found = Transforms(
        np.zeros((factors, taps + TILE - 1), np.float32),
        np.zeros((factors, taps), np.float32),
        np.concatenate([piece.of_output for piece in pieces], axis=1),
    )
    row = column = 0
    for piece in pieces:
        found.of_input[row : row + piece.factors, column : column + piece.of_input.shape[1]] = piece.of_input
        found.of_filter[row : row + piece.factors, column : column + piece.taps] = piece.of_filter
        row, column = row + piece.factors, column + piece.taps
    return found


def _matrix(*rows: Sequence[float]) -> Tensor:
    return np.array(rows, np.float32)


_TWO = Transforms(
    _matrix((1, -1, 0), (0, 1, 0), (0, -1, 1)),
    _matrix((1, 0), (1, 1), (0, 1)),
    _matrix((1, 1, 0), (0, 1, 1)),
)
_THREE = Transforms(
    _matrix((1, 0, -1, 0), (0, 1, 1, 0), (0, -1, 1, 0), (0, 1, 0, -1)),
    _matrix((1, 0, 0), (0.5, 0.5, 0.5), (0.5, -0.5, 0.5), (0, 0, 1)),
    _matrix((1, 1, 1, 0), (0, 1, -1, -1)),
)
BY_TAPS = {3: _THREE, 5: _joined(_THREE, _TWO)}
"""The transforms of filters of so many taps, which every axis of a convolution shares."""


def suits(windows: Sequence[Window], batch: int, depth: int, channels: int, dtype: np.dtype[np.generic]) -> bool:
    """Whether this way is possible for such a convolution, and the faster one."""
    return (
        len(windows) == 2
        and dtype == np.float32
        and windows[0].kernel == windows[1].kernel
        and windows[0].kernel in BY_TAPS
        and all(window.stride == window.dilation == 1 and 0 <= window.before < window.kernel for window in windows)
        and min(depth, channels) >= LEAST_CHANNELS
        and batch * prod(window.outputs // TILE for window in windows) >= LEAST_TILES
    )


def correlate_tiles(tensor: Tensor, filters: Tensor, windows: Sequence[Window]) -> tuple[Tensor, bool]:
    """(the convolution, whether it is finite): a tile with a number that is not has it in more outputs than it belongs to."""
    depth, channels = filters.shape[-2:]
    outputs = [window.outputs for window in windows]
    output = np.empty((len(tensor), *outputs, channels), tensor.dtype)
    transforms = BY_TAPS[windows[0].kernel]
    both_axes = np.kron(transforms.of_filter, transforms.of_filter)
    matrices = product(both_axes, filters.reshape(both_axes.shape[1], -1)).reshape(len(both_axes), depth, channels)
    tiled = _tiled(windows)
    blocks = _blocks(len(tensor), tiled, (depth + channels) * len(both_axes))
    finite = [False] * len(blocks)

    def fill(number: int) -> None:
        block = blocks[number]
        tiles = _input_tiles(tensor, tiled, block)
        sums = scratch("sums", (len(matrices), prod(tiles.shape[2:-1]), channels), tensor.dtype)
        np.matmul(tiles.reshape(len(matrices), -1, depth), matrices, out=sums)
        part = output[block.images, block.rows.start * TILE : block.rows.stop * TILE]
        part[...] = _outputs(sums, tiles.shape[2:-1], transforms)[:, : part.shape[1], : part.shape[2]]
        finite[number] = bool(np.isfinite(part.sum(dtype=np.float64)))

    with np.errstate(invalid="ignore", over="ignore"):
        spread(fill, range(len(blocks)))
    return output, all(finite)


def correlate_filter_tiles(tensor: Tensor, grads: Tensor, windows: Sequence[Window]) -> tuple[Tensor, bool]:
    """(the gradient of the filter `[taps, taps, inputs, outputs]`, whether it is finite), from input and output gradient."""
    depth, channels = tensor.shape[-1], grads.shape[-1]
    transforms = BY_TAPS[windows[0].kernel]
    factors = transforms.factors**2
    tiled = _tiled(windows)
    rows, columns = (window.outputs // TILE for window in tiled)
    sums = np.zeros((factors, depth, channels), tensor.dtype)
    # the gradients as windows of one tile each, with zeros behind the last
    own = [Window(window.outputs, TILE, TILE, 1, count, 0) for window, count in zip(windows, (rows, columns), strict=True)]
    image_bytes = factors * rows * columns * (depth + channels) * tensor.itemsize

    def fill(block: Block) -> None:
        place = (
            slice(None),
            slice(None),
            slice(block.images.start - images.start, block.images.stop - images.start),
            block.rows,
        )
        _input_tiles(tensor, tiled, block, cells[place])
        region = padded_region(grads[block.images], own, block.rows)
        _transform(region, transforms.of_output.T, columns, changes[place])

    def multiply(factor: int) -> None:
        left, right = cells.reshape(factors, -1, depth), changes.reshape(factors, -1, channels)
        sums[factor] += left[factor].T @ right[factor]

    with np.errstate(invalid="ignore", over="ignore"):
        for images in parts(len(tensor), image_bytes, SHARED_BYTES):
            shape = (transforms.factors, transforms.factors, images.stop - images.start, rows, columns)
            cells = scratch("shared cells", (*shape, depth), tensor.dtype)
            changes = scratch("shared changes", (*shape, channels), tensor.dtype)
            blocks = _blocks(images.stop - images.start, tiled, factors * (depth + channels), images.start)
            spread(fill, blocks)
            spread(multiply, range(factors))
        both_axes = np.kron(transforms.of_filter, transforms.of_filter).T
        found = product(np.ascontiguousarray(both_axes), sums.reshape(factors, -1))
        is_finite = bool(np.isfinite(found.sum(dtype=np.float64)))
    return found.reshape(*(window.kernel for window in windows), depth, channels), is_finite


def _tiled(windows: Sequence[Window]) -> list[Window]:
    """The windows with those that fill the last tile."""
    return [window._replace(outputs=ceil(window.outputs / TILE) * TILE) for window in windows]


def _blocks(images: int, tiled: Sequence[Window], size: int, start: int = 0) -> list[Block]:
    """Blocks of tiles with so many floats each: two at least where there are many, so that two threads share them."""
    rows, columns = (window.outputs // TILE for window in tiled)
    tiles = images * rows * columns
    count = max(ceil(tiles * size * 4 / BLOCK_BYTES), min(2, tiles // max(1, LEAST_TILES // 2)))
    return Block(slice(start, start + images), slice(0, rows)).cut(shares(count))


def _input_tiles(tensor: Tensor, tiled: Sequence[Window], block: Block, found: Tensor | None = None) -> Tensor:
    """The transformed tiles of a block, `[factors, factors, images, rows, columns, channels]`; else in a buffer."""
    transforms, columns = BY_TAPS[tiled[0].kernel], tiled[1].outputs // TILE
    region = padded_region(tensor[block.images], tiled, slice(block.rows.start * TILE, block.rows.stop * TILE))
    if found is None:
        rows = block.rows.stop - block.rows.start
        shape = (transforms.factors, transforms.factors, len(region), rows, columns, region.shape[-1])
        found = scratch("tiles", shape, region.dtype)
    _transform(region, transforms.of_input, columns, found)
    return found


def _transform(region: Tensor, matrix: Tensor, columns: int, found: Tensor) -> None:
    """Fill `[factors, factors, images, rows, columns, channels]` from cells `[images, cells, cells, channels]`.

    `matrix` is applied along both axes to the cells under each tile, `[factors, cells]`.
    """
    factors, cells = matrix.shape
    images, rows, channels = found.shape[2], found.shape[3], region.shape[-1]
    width, itemsize = region.shape[2] * channels, region.itemsize
    first, down, *_ = region.strides
    # a row of cells is one long row of a matrix: its cells lie side by side
    bands = as_strided(region, (images, rows, cells, width), (first, down * TILE, down, itemsize))
    halfway = scratch("bands", (images, rows, factors, width), region.dtype)
    np.matmul(matrix, bands, out=halfway)
    first, down, tall, _ = halfway.strides
    across = channels * itemsize
    tiles = as_strided(
        halfway, (images, rows, factors, columns, cells, channels), (first, down, tall, across * TILE, across, itemsize)
    )
    np.matmul(matrix, tiles, out=found.transpose(2, 3, 0, 4, 1, 5))


def _outputs(sums: Tensor, tiles: Sequence[int], transforms: Transforms) -> Tensor:
    """Sums `[factors ** 2, tiles, channels]` -> `[images, 2 * rows, 2 * columns, channels]`, in a buffer."""
    images, rows, columns = tiles
    factors, channels = transforms.factors, sums.shape[-1]
    halfway = scratch("halfway", (TILE, factors, images, rows, columns, channels), sums.dtype)
    np.matmul(transforms.of_output, sums.reshape(factors, -1), out=halfway.reshape(TILE, -1))
    found = scratch("outputs", (images, rows, TILE, columns, TILE, channels), sums.dtype)
    np.matmul(transforms.of_output, halfway.transpose(2, 3, 0, 4, 1, 5), out=found)
    return found.reshape(images, rows * TILE, columns * TILE, channels)
