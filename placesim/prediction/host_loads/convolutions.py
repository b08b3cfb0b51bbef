"""Loads of convolutions and their gradients: products with patches, or in tiles."""

from __future__ import annotations

from collections.abc import Sequence
from math import ceil, prod
from typing import NamedTuple

from placesim.core.dtypes import FLOAT, DataType
from placesim.ops.kernels.blocks.work_parts import BLOCK_BYTES
from placesim.ops.kernels.nn.correlation import (
    LONG_BLOCK,
    SMALL_FILTER,
    TALL_BLOCK,
    TALL_BLOCK_BYTES,
    WIDE_BLOCK_BYTES,
    blocks_of,
    mirrored,
)
from placesim.ops.kernels.nn.patches import is_pointwise, whole
from placesim.ops.kernels.nn.windows import SpatialWindow, explicit_pairs, layout_of, windows_of
from placesim.ops.kernels.nn.winograd import blocks_of_tiles, chosen_transforms, suits
from placesim.prediction.host_loads.load import TEMPORARY, Amounts, Load
from placesim.prediction.host_loads.products import product_part, product_parts
from placesim.prediction.node_work import Dims, NodeShapes
from placesim.prediction.work_amounts import Direction

TILES_CALLS = 80
"""Time of the code around the products of a convolution in tiles, in numpy calls; a product of patches takes more."""
TRANSFORMING = 3.3
"""Time of a multiplication with the small matrix of a transform, relative to one of a large product."""
ADDED_CALLS = 25
"""Time to begin to add the patches of a tap to their cells, in numpy calls; rows of planes are added by fewer."""


class ConvolutionSizes(NamedTuple):
    """Shapes of a convolution with channels last, its windows, and the bytes of an element (`item`)."""

    images: Dims
    filters: Dims
    results: Dims
    windows: tuple[SpatialWindow, ...]
    item: int

    @property
    def length(self) -> int:
        """Number of elements of a patch."""
        return prod(self.filters[:-1])

    @property
    def pixels(self) -> int:
        return prod(self.results[:-1])

    @property
    def runs(self) -> int:
        """Number of contiguous pieces of the images from which all patches are made."""
        return self.pixels * prod(self.filters[:-3])

    @property
    def is_pointwise(self) -> bool:
        return is_pointwise(self.windows)

    def patches(self, share: float = 1.0) -> Amounts:
        """Return the work of copying patches."""
        return Amounts(copied=share * self.pixels * self.length, piece=share * self.runs)

    def pointwise_copies(self) -> Amounts:
        """Return the work around a pointwise convolution's product: with a stride, the pixels that it uses are copied."""
        is_strided = any(window.stride > 1 for window in self.windows)
        return Amounts(call=70, copied=self.pixels * self.length * is_strided, piece=self.pixels * is_strided)

    def blocks(self, shape: Dims) -> int:
        return len(blocks_of(shape, self.windows, self.length, self.item))


def convolution_of(node: NodeShapes, direction: Direction) -> ConvolutionSizes:
    """Return the sizes of a node's convolution.  Raises InvalidArgumentError for windows that don't fit."""
    images, filters, results = node.convolution(direction)
    spatial = len(filters) - 2
    layout = layout_of(node.attrs.get("data_format", "NHWC"), spatial)
    attrs = node.attrs
    dilations = layout.pick(attrs["dilations"]) if attrs.get("dilations") else (1,) * spatial
    padded = explicit_pairs(attrs, layout) if "explicit_paddings" in attrs else ()
    sizes, strides = layout.pick(images), layout.pick(attrs["strides"])
    windows = windows_of(sizes, filters[:-2], strides, dilations, attrs["padding"], padded)
    images, results = ((dims[0], *layout.pick(dims), dims[layout.channel]) for dims in (images, results))
    return ConvolutionSizes(images, filters, results, windows, node.dtype.size)


def _in_tiles(
    c: ConvolutionSizes, dtype: DataType, windows: Sequence[SpatialWindow], depth: int, channels: int, is_filter: bool = False
) -> tuple[Amounts, int] | None:
    """Return the work of a convolution and its number of parts, if Winograd's method computes it in tiles; else None.

    With `is_filter`, the result is for the filter's gradient: tiles of the output are transformed, and not transformed back.
    """
    batch = c.images[0]
    if dtype is not FLOAT or not suits(windows, batch, depth, channels, dtype.numpy):
        return None
    chosen = chosen_transforms(windows, batch, depth, channels)
    tile, factors, taps = chosen.tile, chosen.factors, windows[0].kernel
    covering = [window._replace(outputs=ceil(window.outputs / tile) * tile) for window in windows]
    tiles, cells, made = batch * prod(window.outputs // tile for window in covering), tile + taps - 1, factors**2
    parts = len(blocks_of_tiles(batch, covering, tile, made * (depth + channels)))
    if is_filter:
        inner, _ = product_parts((depth, channels), tiles, c.item, is_flat=False)
        amounts = Amounts(call=40 * parts).join(inner, made)
    else:
        inner, _ = product_parts((max(1, tiles // parts), channels), depth, c.item, is_flat=False)
        amounts = Amounts(call=40 * parts).join(inner, made * parts)
    # each transform is done along rows, then along columns: from cells to factors, and between factors and outputs
    amounts.add(
        multiplied=TRANSFORMING * tiles * factors * (depth * cells + channels * tile) * (tile + factors)
        + TRANSFORMING * made * taps**2 * depth * channels,
        piece=tiles * (2 * factors + tile),
    )
    numbers = 2 * made * tiles * (depth + channels) * c.item
    return amounts.stream(numbers, numbers if is_filter else numbers / parts), parts


def forward(node: NodeShapes) -> Load:
    c = convolution_of(node, "forward")
    groups = max(1, c.images[-1] // c.filters[-2])
    columns = c.filters[-1] // groups
    if found := _in_tiles(c, node.dtype, c.windows, c.filters[-2], columns):
        shared, parts = found
        alone = Amounts(call=TILES_CALLS)
    elif c.is_pointwise:
        shared, parts = product_parts((c.pixels, columns), c.length, c.item, is_flat=True)
        alone = c.pointwise_copies()
    else:
        alone = Amounts(call=150)
        if c.pixels < columns:  # the patches are one block, and its product is divided
            shared, parts = product_parts((c.pixels, columns), c.length, c.item, is_flat=True)
            alone.join(c.patches())
        else:
            parts = c.blocks((*c.results[:-1], columns))
            inner = product_part(c.pixels // parts, columns, c.length)
            shared = Amounts(call=10 * parts).join(inner, parts).join(c.patches())
    shared.touch(node)
    if groups > 1:
        shared = Amounts().join(shared, groups)
    return Load("convolution", alone, shared, parts)


def filter_gradient(node: NodeShapes) -> Load:
    c = convolution_of(node, "filter gradient")
    columns = c.filters[-1]
    if found := _in_tiles(c, node.dtype, c.windows, c.filters[-2], columns, is_filter=True):
        shared, parts = found
        alone = Amounts(call=TILES_CALLS)
    elif c.is_pointwise:
        shared, parts = product_parts((c.length, columns), c.pixels, c.item, is_flat=True)
        alone = Amounts(call=66)
    elif c.length * columns <= SMALL_FILTER:
        parts = c.blocks(c.results)
        inner = product_part(c.length, columns, c.pixels // parts)
        shared = Amounts(call=10 * parts).join(inner, parts).join(c.patches())
        alone = Amounts(call=190, plain=parts * c.length * columns)
    else:
        patches = max(TALL_BLOCK, TALL_BLOCK_BYTES // (c.length * c.item))
        blocks = len(whole(c.windows, c.images[0]).cut(ceil(c.pixels / patches)))
        inner, parts = product_parts((c.length, columns), c.pixels // blocks, c.item, is_flat=True)
        shared = Amounts(call=20 * blocks).join(inner, blocks).join(c.patches())
        alone = Amounts(call=190, plain=blocks * c.length * columns)
        alone.stream(blocks * TEMPORARY * c.length * columns * c.item, TEMPORARY * c.length * columns * c.item)
    shared.touch(node)
    return Load("convolution filter gradient", alone, shared, parts)


def input_gradient(node: NodeShapes) -> Load:
    c = convolution_of(node, "input gradient")
    columns = c.results[-1]
    if found := _in_tiles(c, node.dtype, mirrored(c.windows), columns, c.filters[-2]):
        shared, parts = found
        alone = Amounts(call=TILES_CALLS)
    elif c.is_pointwise:
        shared, parts = product_parts((c.pixels, c.length), columns, c.item, is_flat=True)
        alone = c.pointwise_copies()
    else:
        has_short_runs = len(c.windows) > 1 and c.windows[-1].kernel * c.filters[-2] < c.windows[-1].outputs
        count = c.blocks(c.results)
        parts = len(whole(c.windows, c.images[0]).cut(min(c.images[0], count)))
        rows = c.results[0] // parts * prod(c.results[2:-1]) or 1
        block_bytes = max(WIDE_BLOCK_BYTES if has_short_runs else BLOCK_BYTES, LONG_BLOCK * c.length * c.item)
        pieces = min(c.results[1], ceil(c.results[1] * rows * c.length * c.item / block_bytes)) or 1
        inner, _ = product_parts((max(1, rows * c.results[1] // pieces), c.length), columns, c.item, is_flat=True)
        added: float = ADDED_CALLS * prod(window.kernel for window in c.windows[:-1])
        if has_short_runs:
            added = added * c.windows[-1].kernel / 3
        else:  # windows that overlap are added one after the other
            added *= min(ceil(c.windows[-1].kernel / c.windows[-1].stride), c.windows[-1].outputs)
        shared = Amounts(call=parts * pieces * (10 + added)).join(inner, parts * pieces)
        # a piece is read, added to existing values, and the sum is written: twice a copy
        shared.add(added=c.pixels * c.length)
        shared.add(added_piece=c.pixels * c.length / c.windows[-1].outputs if has_short_runs else c.runs)
        alone = Amounts(call=230)
    shared.touch(node)
    return Load("convolution input gradient", alone, shared, parts)
