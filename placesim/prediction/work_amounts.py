"""Work of a kernel, independent of the device: the sizes that determine its time."""

from __future__ import annotations

from math import ceil
from typing import Literal, NamedTuple

from placesim.prediction.processors import Arithmetic

Direction = Literal["forward", "input gradient", "filter gradient"]
WINOGRAD_FILTER = 3
HALF_FILTER_READS = 9
"""Elements that the gradient of a depthwise filter in half precision reads, relative to the depthwise convolution.

cuDNN adds up the pixels of each channel in many parts.  MobileNets that train in channels-last layout on an RTX 3090 (timm,
cuDNN 8.3) need 6.5 to 12.
"""
FOURIER_TILES = (16, 32, 64)
"""Sides of the tiles, in elements, that libraries transform."""
COMPLEX_BYTES = 8
_COMPLEX_OPERATIONS = 8
_OCTET, _ROW_BYTES, _HALF_BYTES = 8, 16, 2
_EVEN_GROUPS = 32
"""Number of groups of ResNeXt, and of which the others' must be a multiple."""
_EVEN_GRADIENT_WIDTH = 32
"""Largest number of channels in such a group whose gradients have kernels of their own."""


class FourierWork(NamedTuple):
    """Work of a convolution by Fourier transforms of tiles of its images.

    - `numbers`: number of complex numbers of the transformed images, filters and results.
    - `operations`: operations of their products, in real numbers.
    """

    numbers: int
    operations: int


class Product(NamedTuple):
    """`batch` products `[rows, depth] @ [depth, columns]`; a convolution is a product whose rows are the patches.

    - `moved_bytes`: total bytes of the operands and the result.
    - `is_winograd`: whether Winograd's method may apply the filter with fewer multiplications.
    - `is_aligned`: whether the dimensions that are contiguous in memory are multiples of 16 bytes, or of eight channels.
    - `rearranged_bytes`: bytes of images and results in channels-first layout; tensor cores need them converted.
    - `crosswise`: number of operands of a matrix product whose depth is not contiguous in memory.
    - `has_uneven_groups`: whether the groups of a convolution are others than those that libraries have quick kernels for.
    - `fourier`: the work of the same convolution by Fourier transforms, with fewer multiplications; None if it has none.
    """

    family: str
    batch: int
    rows: int
    columns: int
    depth: int
    arithmetic: Arithmetic
    element_bytes: float
    moved_bytes: float
    is_winograd: bool = False
    is_aligned: bool = True
    rearranged_bytes: float = 0.0
    crosswise: int = 0
    has_uneven_groups: bool = False
    fourier: FourierWork | None = None

    @property
    def operations(self) -> float:
        return 2.0 * self.batch * self.rows * self.columns * self.depth

    def load(self) -> tuple[float, ...]:
        """Return the arguments of `tiled_seconds` that follow `machine`."""
        sizes = (float(self.batch), float(self.rows), float(self.columns), float(self.depth))
        return *sizes, self.moved_bytes, self.element_bytes, float(self.is_winograd)


class StreamedBytes(NamedTuple):
    """Bytes that are read and written once: elementwise ops, copies, gathers, pooling, reductions, batch normalization.

    `placed`: number of elements whose position in an operand the kernel must compute.
    """

    family: str
    moved_bytes: float
    placed: float = 0.0

    def load(self) -> tuple[float, ...]:
        """Return the arguments of `stream_seconds` that follow `machine`."""
        return self.moved_bytes, self.placed


class Rows(NamedTuple):
    """Rows that the kernel normalizes one by one: softmax, layer normalization."""

    family: str
    rows: int
    columns: int
    element_bytes: float

    def load(self) -> tuple[float, ...]:
        """Return the arguments of `rows_seconds` that follow `machine`."""
        row_bytes = self.columns * self.element_bytes
        return 2.0 * self.rows * row_bytes, row_bytes, float(self.rows), float(self.columns)


class RecurrentLayer(NamedTuple):
    """A recurrent layer over `steps` time steps, with 1, 3 (GRU) or 4 (LSTM) gates."""

    family: str
    gates: int
    hidden: int
    batch: int
    steps: int
    arithmetic: Arithmetic
    element_bytes: float

    def load(self) -> tuple[float, ...]:
        """Return the arguments of `steps_seconds` that follow `machine`."""
        return float(self.gates), float(self.hidden), float(self.batch), float(self.steps), self.element_bytes


Work = Product | StreamedBytes | Rows | RecurrentLayer


def matrix_product(
    batch: int,
    rows: int,
    columns: int,
    depth: int,
    arithmetic: Arithmetic,
    element_bytes: float,
    contiguous: tuple[int, ...] = (),
) -> Product:
    """Return the work of `batch` matrix products `[rows, depth] @ [depth, columns]`.

    `contiguous`: sizes of the dimensions that are contiguous in memory, of operands and result; if empty, columns and depth.
    Tensor cores reach their rate if these are multiples of 16 bytes (NVIDIA's guide "Matrix Multiplication Background").
    """
    moved = element_bytes * batch * (rows * depth + depth * columns + rows * columns)
    is_aligned = all(size * element_bytes % _ROW_BYTES == 0 for size in contiguous or (columns, depth))
    return Product("product", batch, rows, columns, depth, arithmetic, element_bytes, float(moved), is_aligned=is_aligned)


class Convolution(NamedTuple):
    """Sizes of a two-dimensional convolution.

    The input is `[images, channels, height, width]`.  Each of the `filters` filters reads `channels // groups` channels.
    """

    images: int
    channels: int
    height: int
    width: int
    filters: int
    filter_height: int
    filter_width: int
    stride_height: int
    stride_width: int
    out_height: int
    out_width: int
    groups: int = 1

    def depthwise_work(self, direction: Direction, element_bytes: float, *, has_channels_apart: bool) -> StreamedBytes | Rows:
        """Return the work of a depthwise convolution: its bytes, and the elements that results read.

        For the input gradient, the results are the images' elements. In half precision, cuDNN has kernels for both layouts.
        Otherwise, if channels are planes, each element of a filter's gradient is a row: the sum of one product per result.
        """
        are_planes = has_channels_apart and element_bytes > _HALF_BYTES
        images = self.images * self.channels * self.height * self.width
        pixels = self.images * self.out_height * self.out_width
        results, taps = pixels * self.filters, self.filter_height * self.filter_width
        if are_planes and direction == "filter gradient":
            return Rows("depthwise filter gradient of planes", self.filters * taps, pixels, element_bytes)
        family = "depthwise convolution of planes" if are_planes else "depthwise convolution"
        read = (images * (self.filters // self.channels) if direction == "input gradient" else results) * taps
        if direction == "filter gradient" and element_bytes <= _HALF_BYTES and not has_channels_apart:
            read *= HALF_FILTER_READS
        return StreamedBytes(family, element_bytes * (images + results + self.filters * taps), float(read))

    def work(
        self, direction: Direction, arithmetic: Arithmetic, element_bytes: float, *, has_channels_apart: bool = False
    ) -> Product:
        """Return the products, one per group, that compute the convolution or one of its gradients.

        `has_channels_apart`: each channel is a separate plane in memory (NCHW).  The input gradient of a strided convolution is
        one product per phase of the stride, with the filter elements of that phase.  All phases are counted like the largest.
        """
        channels, filters = self.channels // self.groups, self.filters // self.groups
        pixels = self.images * self.out_height * self.out_width
        taps = self.filter_height * self.filter_width
        phases = self.stride_height * self.stride_width
        phase_taps = -(-self.filter_height // self.stride_height) * -(-self.filter_width // self.stride_width)
        rows, columns, depth = {
            "forward": (pixels, filters, channels * taps),
            "input gradient": (pixels, channels * phases, filters * phase_taps),
            "filter gradient": (filters, channels * taps, pixels),
        }[direction]
        images = self.images * self.channels * self.height * self.width
        moved = element_bytes * (images + self.filters * channels * taps + pixels * self.filters)
        winograd = self.filter_height == self.filter_width == WINOGRAD_FILTER and phases == 1 and self.groups == 1
        octets = channels % _OCTET == 0 and filters % _OCTET == 0
        family = f"convolution {direction}"
        sizes = (self.groups, rows, columns, depth)
        rearranged = element_bytes * (images + pixels * self.filters) if has_channels_apart else 0.0
        product = Product(family, *sizes, arithmetic, element_bytes, float(moved), winograd, octets, rearranged)
        has_uneven_groups = self.groups > 1 and not self._has_even_groups(direction)
        return product._replace(has_uneven_groups=has_uneven_groups, fourier=self._fewest_transformed())

    def _fewest_transformed(self) -> FourierWork | None:
        """Return the work by Fourier transforms of the tiles with the fewest numbers; None for a small filter or strides."""
        small = min(self.filter_height, self.filter_width) <= WINOGRAD_FILTER
        if small or self.stride_height * self.stride_width > 1:
            return None
        return min((work for side in FOURIER_TILES if (work := self._transformed(side)) is not None), default=None)

    def _transformed(self, side: int) -> FourierWork | None:
        """Return the work by Fourier transforms of tiles of `side` by `side` elements; None if the filter is larger.

        A tile holds as many results as the filter has positions in it. The transform of real numbers has half of its numbers
        (Vasilache et al., arXiv:1412.7580).
        """
        if max(self.filter_height, self.filter_width) > side:
            return None
        down, across = self.out_height / (side - self.filter_height + 1), self.out_width / (side - self.filter_width + 1)
        tiles = self.images * ceil(down) * ceil(across)
        points, pairs = side * (side // 2 + 1), self.channels * self.filters // self.groups
        numbers = points * (tiles * (self.channels + self.filters) + pairs)
        return FourierWork(numbers, _COMPLEX_OPERATIONS * points * tiles * pairs)

    def _has_even_groups(self, direction: Direction) -> bool:
        """Return whether the groups are like ResNeXt's: a multiple of 32, with a power of two channels and filters each."""
        widths = self.channels // self.groups, self.filters // self.groups
        is_power = all(width & (width - 1) == 0 for width in widths)
        is_narrow = direction == "forward" or max(widths) <= _EVEN_GRADIENT_WIDTH
        return self.groups % _EVEN_GROUPS == 0 and is_power and is_narrow
