"""Convolutions of 3 by 3 taps at stride 1 with 16 multiplications for four outputs instead of 36.

Winograd's algorithm for small filters (Lavin and Gray 2015, F(2x2, 3x3)): tiles of the input, which overlap, and the filter are
transformed, multiplied element by element and summed over the channels (16 products of matrices), and the sums transformed to
tiles of the output.  Transforms add and halve alone, so that rounding is about that of the plain sums.  Tensors are
`[batch, rows, columns, channels]`, float32.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import ceil, prod

import numpy as np
from numpy.lib.stride_tricks import as_strided

from placesim.runtime.intra_op import spread
from placesim.runtime.kernels.kernel import Tensor
from placesim.runtime.kernels.linalg.products import product
from placesim.runtime.kernels.nn.patches import Block, padded_region
from placesim.runtime.kernels.nn.windows import Window
from placesim.runtime.kernels.parts import shares
from placesim.runtime.kernels.scratch import scratch

TILE = 2
"""Rows and columns of outputs in a tile."""
TAPS = 3
CELLS = TILE + TAPS - 1
"""Rows and columns of the input under a tile."""
LEAST_TILES = 128
"""With fewer, the transformed filter is more to read and write than the products save."""
LEAST_CHANNELS = 32
"""With fewer, of inputs or outputs, the transforms of tiles are."""
BLOCK_BYTES = 1 << 23
"""Of a block's transformed tiles and their sums."""
_OF_INPUT = np.array([[1, 0, -1, 0], [0, 1, 1, 0], [0, -1, 1, 0], [0, 1, 0, -1]], np.float32)
_OF_FILTER = np.array([[1, 0, 0], [0.5, 0.5, 0.5], [0.5, -0.5, 0.5], [0, 0, 1]], np.float32)
_OF_OUTPUT = np.array([[1, 1, 1, 0], [0, 1, -1, -1]], np.float32)


def suits(windows: Sequence[Window], batch: int, depth: int, channels: int, dtype: np.dtype[np.generic]) -> bool:
    """Whether this way is possible for such a convolution, and the faster one."""
    return (
        len(windows) == 2
        and dtype == np.float32
        and all((w.kernel, w.stride, w.dilation) == (TAPS, 1, 1) and 0 <= w.before < TAPS for w in windows)
        and min(depth, channels) >= LEAST_CHANNELS
        and batch * prod(w.outputs // TILE for w in windows) >= LEAST_TILES
    )


def correlate_tiles(tensor: Tensor, filters: Tensor, windows: Sequence[Window]) -> tuple[Tensor, bool]:
    """(the convolution, whether it is finite): a tile with a number that is not has it in more outputs than it belongs to."""
    depth, channels = filters.shape[-2:]
    outputs = [window.outputs for window in windows]
    output = np.empty((len(tensor), *outputs, channels), tensor.dtype)
    both_axes = np.kron(_OF_FILTER, _OF_FILTER)
    matrices = product(both_axes, filters.reshape(TAPS * TAPS, -1)).reshape(CELLS * CELLS, depth, channels)
    rows, columns = (ceil(count / TILE) for count in outputs)
    tiled = [window._replace(outputs=count * TILE) for window, count in zip(windows, (rows, columns), strict=True)]
    blocks = _blocks(len(tensor), rows, columns, depth + channels)
    finite = [False] * len(blocks)

    def fill(number: int) -> None:
        block = blocks[number]
        window_rows = slice(block.rows.start * TILE, min(block.rows.stop * TILE, outputs[0]))
        region = padded_region(tensor[block.images], tiled, slice(window_rows.start, block.rows.stop * TILE))
        tiles = _transformed_tiles(region, columns)
        sums = scratch("sums", (CELLS * CELLS, prod(tiles.shape[2:-1]), channels), tensor.dtype)
        np.matmul(tiles.reshape(CELLS * CELLS, -1, depth), matrices, out=sums)
        part = output[block.images, window_rows]
        part[...] = _outputs(sums, tiles.shape[2:-1])[:, : part.shape[1], : part.shape[2]]
        finite[number] = bool(np.isfinite(part.sum(dtype=np.float64)))

    with np.errstate(invalid="ignore", over="ignore"):
        spread(fill, range(len(blocks)))
    return output, all(finite)


def _blocks(images: int, rows: int, columns: int, channels: int) -> list[Block]:
    """Blocks of tiles: two at least where there are many, so that two threads share them."""
    size = images * rows * columns * CELLS * CELLS * channels * _OF_INPUT.itemsize
    count = max(ceil(size / BLOCK_BYTES), min(2, images * rows * columns // (LEAST_TILES // 2)))
    return Block(slice(0, images), slice(0, rows)).cut(shares(count))


def _transformed_tiles(region: Tensor, columns: int) -> Tensor:
    """Cells `[images, 2 * rows + 2, 2 * columns + 2, channels]` -> `[4, 4, images, rows, columns, channels]`, in a buffer."""
    images, height, width, channels = region.shape
    rows, itemsize = (height - TAPS + 1) // TILE, region.itemsize
    first, down, *_ = region.strides
    # a row of cells is one long row of a matrix: its cells lie side by side
    bands = as_strided(region, (images, rows, CELLS, width * channels), (first, down * TILE, down, itemsize))
    halfway = scratch("bands", bands.shape, region.dtype)
    np.matmul(_OF_INPUT, bands, out=halfway)
    first, down, tall, _ = halfway.strides
    across = channels * itemsize
    tiles = as_strided(
        halfway, (images, rows, CELLS, columns, CELLS, channels), (first, down, tall, across * TILE, across, itemsize)
    )
    found = scratch("tiles", (CELLS, CELLS, images, rows, columns, channels), region.dtype)
    np.matmul(_OF_INPUT, tiles, out=found.transpose(2, 3, 0, 4, 1, 5))
    return found


def _outputs(sums: Tensor, tiles: Sequence[int]) -> Tensor:
    """Sums `[16, tiles, channels]` -> `[images, 2 * rows, 2 * columns, channels]`, in a buffer; `tiles` are three numbers."""
    images, rows, columns = tiles
    channels = sums.shape[-1]
    halfway = scratch("halfway", (TILE, CELLS, images, rows, columns, channels), sums.dtype)
    np.matmul(_OF_OUTPUT, sums.reshape(CELLS, -1), out=halfway.reshape(TILE, -1))
    found = scratch("outputs", (images, rows, TILE, columns, TILE, channels), sums.dtype)
    np.matmul(_OF_OUTPUT, halfway.transpose(2, 3, 0, 4, 1, 5), out=found)
    return found.reshape(images, rows * TILE, columns * TILE, channels)
