"""Winograd's algorithm for convolutions with 3 by 3 and 5 by 5 taps at stride 1: half of the multiplications, or fewer.

Source: Lavin and Gray 2015. Overlapping tiles of the input and the filter are transformed and multiplied element by element.
The products are summed over the channels (one matrix product per element), and the sums are transformed to tiles of outputs.
The usual interpolation points beyond 0, 1, -1 and infinity are 2 and 1/2, with ten times the rounding error of plain sums. The
complex points used here need one multiplication more, and have a few times the error of plain sums.  Along an axis, 2 outputs
of 3 taps take 4 multiplications instead of 6, 4 outputs of 3 taps 7 instead of 12, and 4 outputs of 5 taps 11 instead of 20.
The gradient of the filter is the same algorithm backwards.

Tensors are `[batch, rows, columns, channels]`, float32.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache, partial
from math import ceil, prod
from typing import NamedTuple

import numpy as np
from numpy.lib.stride_tricks import as_strided

from placesim.ops.kernels.blocks.constant_layouts import arranged
from placesim.ops.kernels.blocks.epilogues import Begin, nothing_follows
from placesim.ops.kernels.blocks.scratch_buffers import scratch
from placesim.ops.kernels.blocks.work_parts import parts, shares
from placesim.ops.kernels.kernel import Tensor
from placesim.ops.kernels.linalg.products import SMALL_PRODUCT, multiply_pieces, piece_width, product
from placesim.ops.kernels.nn.patches import WindowBlock, padded_region
from placesim.ops.kernels.nn.windows import SpatialWindow
from placesim.ops.process.intra_op_threads import spread

TILES = (2, 4)
"""Possible numbers of rows (and columns) of outputs in a tile."""
TAPS = (3, 5)
"""Supported numbers of rows (and columns) of a filter."""
LEAST_OUTPUTS = 20
"""Minimum windows of all images for each tap; with fewer, transforming the filter costs more than the products save."""
LEAST_CHANNELS = 1 << 5
"""Minimum input and output channels; with fewer, transforming the tiles costs more than the products save."""
LEAST_NUMBERS = 1 << 15
"""Minimum windows times channels: few windows need more channels, since then either transformation costs much."""
DIVIDED_BYTES = 1 << 19
"""Minimum size of the transformed tiles and their sums of two blocks, which two threads may share."""
BLOCK_BYTES = 1 << 23
"""Size of a block's transformed tiles and their sums."""
SHARED_BYTES = 1 << 26
"""Total size of transformed input and gradient tiles that exist at once for a filter's gradient."""


class Transforms(NamedTuple):
    """Matrices for one axis: cells of a tile -> factors, taps -> factors, products of factors -> outputs of the tile."""

    of_input: Tensor
    of_filter: Tensor
    of_output: Tensor

    @property
    def tile(self) -> int:
        """Number of outputs of a tile."""
        return len(self.of_output)

    @property
    def factors(self) -> int:
        """Number of multiplications of a tile."""
        return len(self.of_input)


def _residues(count: int, cells: int) -> Tensor:
    """Matrix `[factors, count]` from a polynomial's `count` coefficients to its residues by each modulus; see `transforms`."""
    ones = np.eye(count)
    real, imaginary = np.resize((1, 0, -1, 0), count), np.resize((0, 1, 0, -1), count)
    rows = [np.ones(count), np.resize((1, -1), count), ones[0], ones[-1]]
    if cells > 4:
        rows += [real, imaginary, real + imaginary]
    if cells > 6:
        rows += [ones[1], ones[0] + ones[1], ones[-2], ones[-1] + ones[-2]]
    return np.array(rows)


@cache
def transforms(tile: int, taps: int) -> Transforms:
    """Transforms for tiles of `tile` outputs with filters of `taps` taps; `tile + taps` is 5, 7 or 9.

    The product of two polynomials follows from its residues modulo x - 1, x + 1, x and 1/x (the last coefficient). Larger
    products also need x^2 + 1, and x^2 and 1/x^2 instead of x and 1/x.  A residue of two coefficients takes three products
    (Karatsuba).  The matrix from residues to the product's coefficients, transposed, transforms the cells of a tile.
    """
    cells = tile + taps - 1
    ours, theirs = _residues(tile, cells), _residues(taps, cells)
    places = np.add.outer(np.arange(tile), np.arange(taps)).reshape(-1)
    products = np.einsum("fi,fj->ijf", ours, theirs).reshape(len(places), -1)
    back = np.linalg.lstsq(products, np.eye(cells)[places], rcond=None)[0]
    # the exact matrix consists of quarters
    found = (np.round(4 * back) / 4, theirs, ours.T)
    return Transforms(*(np.ascontiguousarray(matrix, np.float32) for matrix in found))


def suits(
    windows: Sequence[SpatialWindow],
    batch: int,
    depth: int,
    channels: int,
    dtype: np.dtype[np.generic],
    is_constant: bool = False,
) -> bool:
    """Whether Winograd's algorithm is possible and faster for a convolution of this size and type.

    The filter of a convolution with `is_constant` is transformed once for many steps.
    """
    if windows[0].kernel not in TAPS or len(windows) != 2 or dtype != np.float32:
        return False  # at once, since most convolutions have one tap
    outputs, thinnest = batch * prod(window.outputs for window in windows), min(depth, channels)
    return (
        windows[0].kernel == windows[1].kernel
        and all(window.stride == window.dilation == 1 and 0 <= window.before < window.kernel for window in windows)
        and thinnest >= LEAST_CHANNELS
        and (is_constant or outputs >= LEAST_OUTPUTS * windows[0].kernel ** 2)
        and outputs * thinnest >= (LEAST_NUMBERS // 2 if is_constant else LEAST_NUMBERS)
    )


def chosen_transforms(windows: Sequence[SpatialWindow], batch: int, depth: int, channels: int) -> Transforms:
    """The transforms with the fewest elements in transformed tiles and filters, which determine the time."""
    filter_size = depth * channels / (depth + channels)

    def size(found: Transforms) -> float:
        tiles = batch * prod(ceil(window.outputs / found.tile) for window in windows)
        return found.factors**2 * (tiles + filter_size)

    return min((transforms(tile, windows[0].kernel) for tile in TILES), key=size)


def correlate_tiles(
    tensor: Tensor, filters: Tensor, windows: Sequence[SpatialWindow], begin: Begin = nothing_follows
) -> tuple[Tensor, bool]:
    """(the convolution `[batch, outputs, outputs, channels]`, whether all of it is finite).

    If it is not finite the result is unusable: a non-finite cell spoils all outputs of its tiles. `begin` is the epilogue.
    """
    depth, channels = filters.shape[-2:]
    outputs = [window.outputs for window in windows]
    output = np.empty((len(tensor), *outputs, channels), tensor.dtype)
    finish = begin(output)
    chosen = chosen_transforms(windows, len(tensor), depth, channels)
    tile = chosen.tile
    factors = chosen.factors**2
    pieces = arranged(filters, ("factors", tile), partial(_transformed_filter, chosen=chosen))
    tiled = _tiled(windows, tile)
    blocks = blocks_of_tiles(len(tensor), tiled, tile, (depth + channels) * factors)
    finite = [False] * len(blocks)

    def fill(number: int) -> None:
        block = blocks[number]
        tiles = _input_tiles(tensor, tiled, block, chosen)
        sums = scratch("sums", (factors, prod(tiles.shape[2:-1]), channels), tensor.dtype)
        multiply_pieces(sums, tiles.reshape(factors, -1, depth), pieces)
        part = output[block.images, block.rows.start * tile : block.rows.stop * tile]
        found = _outputs(sums, tiles.shape[2:-1], chosen)
        part[...] = found[:, : part.shape[1], : part.shape[2]]
        finite[number] = _is_finite(found)
        if finite[number]:
            first = block.rows.start * tile
            finish(WindowBlock(block.images, slice(first, first + part.shape[1])).flat(output.shape))

    with np.errstate(invalid="ignore", over="ignore"):
        spread(fill, range(len(blocks)))
    return output, all(finite)


def _transformed_filter(filters: Tensor, chosen: Transforms) -> Tensor:
    """The filter `[taps, taps, inputs, outputs]` as a matrix for each factor of a tile, in pieces of `piece_width` columns.

    It is `[factors ** 2, pieces, inputs, columns]`.
    """
    both_axes = np.kron(chosen.of_filter, chosen.of_filter)
    depth, channels = filters.shape[2:]
    width = piece_width(channels) or channels
    pieces = np.ascontiguousarray(filters.reshape(-1, depth, channels // width, width).swapaxes(1, 2))
    taps = pieces.reshape(both_axes.shape[1], -1)
    found = np.empty((len(both_axes), *pieces.shape[1:]), filters.dtype)
    factors = found.reshape(len(found), -1)
    # BLAS would first copy a longer matrix to its own buffers, which takes twice as long as multiplying it
    for part in parts(taps.shape[1], both_axes.size, SMALL_PRODUCT):
        np.matmul(both_axes, taps[:, part], out=factors[:, part])
    return found


def correlate_filter_tiles(tensor: Tensor, grads: Tensor, windows: Sequence[SpatialWindow]) -> tuple[Tensor, bool]:
    """(the gradient of the filter `[taps, taps, inputs, outputs]`, whether all of it is finite); see `correlate_tiles`."""
    depth, channels = tensor.shape[-1], grads.shape[-1]
    chosen = chosen_transforms(windows, len(tensor), depth, channels)
    tile, factors = chosen.tile, chosen.factors**2
    tiled = _tiled(windows, tile)
    rows, columns = (window.outputs // tile for window in tiled)
    sums = np.zeros((factors, depth, channels), tensor.dtype)
    # windows of one tile each over the gradients, with zeros after the last
    own = [
        SpatialWindow(window.outputs, tile, tile, 1, count, 0) for window, count in zip(windows, (rows, columns), strict=True)
    ]
    image_bytes = factors * rows * columns * (depth + channels) * tensor.itemsize

    def fill(block: WindowBlock) -> None:
        part = slice(block.images.start - images.start, block.images.stop - images.start)
        place = (slice(None), slice(None), part, block.rows)
        _input_tiles(tensor, tiled, block, chosen, cells[place])
        region = padded_region(grads[block.images], own, block.rows)
        _transform(region, chosen.of_output.T, tile, columns, changes[place])

    def multiply(factor: int) -> None:
        left, right = cells.reshape(factors, -1, depth), changes.reshape(factors, -1, channels)
        sums[factor] += left[factor].T @ right[factor]

    with np.errstate(invalid="ignore", over="ignore"):
        for images in parts(len(tensor), image_bytes, SHARED_BYTES):
            shape = (chosen.factors, chosen.factors, images.stop - images.start, rows, columns)
            cells = scratch("shared cells", (*shape, depth), tensor.dtype)
            changes = scratch("shared changes", (*shape, channels), tensor.dtype)
            blocks = blocks_of_tiles(images.stop - images.start, tiled, tile, factors * (depth + channels), images.start)
            spread(fill, blocks)
            spread(multiply, range(factors))
        both_axes = np.kron(chosen.of_filter, chosen.of_filter).T
        found = product(np.ascontiguousarray(both_axes), sums.reshape(factors, -1))
        is_finite = _is_finite(found)
    return found.reshape(*(window.kernel for window in windows), depth, channels), is_finite


def _is_finite(tensor: Tensor) -> bool:
    """Whether the sum of squares is finite, which implies that all elements are finite."""
    flat = tensor.reshape(-1)
    return bool(np.isfinite(flat.dot(flat)))


def _tiled(windows: Sequence[SpatialWindow], tile: int) -> list[SpatialWindow]:
    """The windows, with their number rounded up to whole tiles."""
    return [window._replace(outputs=ceil(window.outputs / tile) * tile) for window in windows]


def blocks_of_tiles(images: int, tiled: Sequence[SpatialWindow], tile: int, size: int, start: int = 0) -> list[WindowBlock]:
    """Split the tiles of `images` images, from image `start` on, into blocks of about `BLOCK_BYTES`; at least two if many.

    `size` is the number of floats per tile. The blocks' rows count tiles.
    """
    rows, columns = (window.outputs // tile for window in tiled)
    made = images * rows * columns * size * 4
    count = max(ceil(made / BLOCK_BYTES), min(2, made // (DIVIDED_BYTES // 2)))
    return WindowBlock(slice(start, start + images), slice(0, rows)).cut(shares(count))


def _input_tiles(
    tensor: Tensor, tiled: Sequence[SpatialWindow], block: WindowBlock, chosen: Transforms, found: Tensor | None = None
) -> Tensor:
    """The transformed tiles of a block, `[factors, factors, images, rows, columns, channels]`, in `found` or a new buffer."""
    tile, columns = chosen.tile, tiled[1].outputs // chosen.tile
    region = padded_region(tensor[block.images], tiled, slice(block.rows.start * tile, block.rows.stop * tile))
    if found is None:
        rows = block.rows.stop - block.rows.start
        shape = (chosen.factors, chosen.factors, len(region), rows, columns, region.shape[-1])
        found = scratch("tiles", shape, region.dtype)
    _transform(region, chosen.of_input, tile, columns, found)
    return found


def _transform(region: Tensor, matrix: Tensor, tile: int, columns: int, found: Tensor) -> None:
    """Transform the tiles of a region `[images, cells, cells, channels]`, along both axes, by `matrix` `[factors, cells]`.

    Fills `found`, `[factors, factors, images, rows, columns, channels]`. Neighbouring tiles start `tile` cells apart.
    """
    factors, cells = matrix.shape
    images, rows, channels = found.shape[2], found.shape[3], region.shape[-1]
    width, itemsize = region.shape[2] * channels, region.itemsize
    first, down, *_ = region.strides
    # a row of cells is contiguous, so it is one row of a matrix
    bands = as_strided(region, (images, rows, cells, width), (first, down * tile, down, itemsize))
    halfway = scratch("bands", (images, rows, factors, width), region.dtype)
    np.matmul(matrix, bands, out=halfway)
    first, down, tall, _ = halfway.strides
    across = channels * itemsize
    tiles = as_strided(
        halfway, (images, rows, factors, columns, cells, channels), (first, down, tall, across * tile, across, itemsize)
    )
    np.matmul(matrix, tiles, out=found.transpose(2, 3, 0, 4, 1, 5))


def _outputs(sums: Tensor, tiles: Sequence[int], chosen: Transforms) -> Tensor:
    """Transform sums `[factors ** 2, tiles, channels]` to outputs `[images, tile * rows, tile * columns, channels]`.

    `tiles` is (images, rows, columns) of tiles. The result is in a scratch buffer.
    """
    images, rows, columns = tiles
    tile, factors, channels = chosen.tile, chosen.factors, sums.shape[-1]
    # each tile is a separate product, so small that BLAS does not pack it
    halfway = scratch("halfway", (images, rows, columns, factors, tile, channels), sums.dtype)
    by_tile = sums.reshape(factors, factors, images, rows, columns, channels)
    np.matmul(chosen.of_output, by_tile.transpose(2, 3, 4, 1, 0, 5), out=halfway)
    found = scratch("outputs", (images, rows, tile, columns, tile, channels), sums.dtype)
    np.matmul(chosen.of_output, halfway.transpose(0, 1, 4, 2, 3, 5), out=found)
    return found.reshape(images, rows * tile, columns * tile, channels)
