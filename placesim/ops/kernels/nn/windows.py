"""Sliding windows: their number and positions, from sizes, strides, dilations and padding.

The functions for kernels raise InvalidArgumentError, those for shape functions ShapeError, both with TensorFlow's messages.
SAME puts the smaller half of an odd padding first (top, left).
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Sequence
from functools import lru_cache, wraps
from typing import Any, NamedTuple, TypeVar

from placesim.core.errors import InvalidArgumentError
from placesim.ops.attributes import Attrs
from placesim.ops.kernels.kernel import elements
from placesim.ops.kernels.shapes import Dims, ShapeError, add_dims, divide_dim, format_dims, multiply_dims, subtract_dims

Checked = TypeVar("Checked")

UNSTRIDED = "Current implementation does not yet support strides in the batch and depth dimensions."


class TensorLayout(NamedTuple):
    """Axes of a tensor of `rank` dimensions: the channels' axis and the spatial axes.

    `vector` is the size of an additional innermost channel axis (NCHW_VECT_C), else 1.
    """

    rank: int
    channel: int
    spatial: tuple[int, ...]
    vector: int = 1

    def pick(self, values: Sequence[int]) -> tuple[int, ...]:
        """The spatial entries of an attr or a shape that has one entry for each axis."""
        return tuple(values[axis] for axis in self.spatial)


def layout_of(data_format: str, spatial: int = 2) -> TensorLayout:
    """Layout of a `data_format` attr with `spatial` spatial axes; channels last for an unknown name."""
    axes = tuple(range(spatial))
    # channels of bytes in groups of four, which are the innermost axis
    if data_format == "NCHW_VECT_C":
        return TensorLayout(spatial + 3, 1, tuple(axis + 2 for axis in axes), 4)
    if data_format in ("NCHW", "NCDHW", "CHANNELS_FIRST"):
        return TensorLayout(spatial + 2, 1, tuple(axis + 2 for axis in axes))
    return TensorLayout(spatial + 2, spatial + 1, tuple(axis + 1 for axis in axes))


class SpatialWindow(NamedTuple):
    """The windows along one spatial axis: `outputs` windows over `input` cells, with `before` padding cells at the start."""

    input: int
    kernel: int
    stride: int
    dilation: int
    outputs: int
    before: int

    @property
    def extent(self) -> int:
        """Number of cells from the start of the first window to the end of the last."""
        return self.reach(self.outputs)

    @property
    def after(self) -> int:
        """Padding cells that the last window needs after the input; negative if no window reaches the input's end."""
        return self.extent - self.before - self.input

    def reach(self, outputs: int) -> int:
        """Number of cells that `outputs` successive windows span."""
        return (outputs - 1) * self.stride + (self.kernel - 1) * self.dilation + 1 if outputs else 0

    def cells(self, tap: int) -> slice:
        """The cells that tap `tap` meets in all windows, counted from the start of the first window."""
        first = tap * self.dilation
        return slice(first, first + (self.outputs - 1) * self.stride + 1, self.stride)

    def covered(self, tap: int) -> slice:
        """The windows in which tap `tap` meets an input cell, not padding."""
        offset = tap * self.dilation - self.before
        first = max(0, -(offset // self.stride))
        last = min(self.outputs, (self.input - 1 - offset) // self.stride + 1)
        return slice(first, max(first, last))

    def inputs(self, tap: int) -> slice:
        """The input cells that tap `tap` meets in its `covered` windows."""
        covered = self.covered(tap)
        start = covered.start * self.stride + tap * self.dilation - self.before
        count = covered.stop - covered.start
        return slice(start, start + (count - 1) * self.stride + 1, self.stride) if count else slice(0, 0)

    def covered_taps(self) -> range:
        """Range of taps; taps outside of it meet only padding, in all windows. It is short if the input is small."""
        first = -(((self.outputs - 1) * self.stride - self.before) // self.dilation)
        last = (self.before + self.input - 1) // self.dilation
        return range(max(0, first), min(self.kernel, last + 1)) if self.outputs else range(0)

    def phase(self, number: int) -> tuple[slice, slice]:
        """Of the positions `number` modulo the stride: (those of input cells, their places among all, padding included)."""
        first = (number - self.before) % self.stride
        cells = slice(first, min(self.input, self.extent - self.before), self.stride)
        start = (first + self.before) // self.stride
        return cells, slice(start, start + len(range(first, cells.stop, self.stride)))


def tap_slices(windows: Sequence[SpatialWindow]) -> Iterator[tuple[tuple[slice, ...], tuple[slice, ...]]]:
    """Yield for each tap in order (windows in which it meets an input cell, these cells), as slices of the spatial axes."""
    for taps in itertools.product(*(range(window.kernel) for window in windows)):
        pairs = list(zip(windows, taps, strict=True))
        yield tuple(window.covered(tap) for window, tap in pairs), tuple(window.inputs(tap) for window, tap in pairs)


def covered_tap_slices(
    windows: Sequence[SpatialWindow],
) -> Iterator[tuple[int, tuple[slice, ...], tuple[slice, ...]]]:
    """Like `tap_slices`, with each tap's number first, and without taps that meet only padding."""
    for taps in itertools.product(*(window.covered_taps() for window in windows)):
        number = 0
        for window, tap in zip(windows, taps, strict=True):
            number = number * window.kernel + tap
        pairs = list(zip(windows, taps, strict=True))
        yield number, tuple(window.covered(tap) for window, tap in pairs), tuple(window.inputs(tap) for window, tap in pairs)


def window_of(
    input_size: int, kernel: int, stride: int, dilation: int, padding: str, explicit: tuple[int, int] = (0, 0)
) -> SpatialWindow:
    """The windows along one axis; `explicit` has the padding before and after for EXPLICIT.

    Raises InvalidArgumentError for a stride or dilation below 1, or a window larger than the padded input by at least two
    strides.
    """
    if stride <= 0:
        raise InvalidArgumentError(f"Stride must be > 0, but got {stride}")
    if dilation < 1:
        raise InvalidArgumentError(f"Dilation rate must be >= 1, but got {dilation}")
    effective = (kernel - 1) * dilation + 1
    if padding == "SAME":
        outputs = (input_size + stride - 1) // stride
        before = max((outputs - 1) * stride + effective - input_size, 0) // 2
    else:
        before, after = explicit if padding == "EXPLICIT" else (0, 0)
        outputs = _truncated(input_size + before + after - effective + stride, stride)
    if outputs < 0:
        raise InvalidArgumentError(
            f"Computed output size would be negative: {outputs} [input_size: {input_size}, "
            f"effective_filter_size: {effective}, stride: {stride}]"
        )
    return SpatialWindow(input_size, kernel, stride, dilation, outputs, before)


def _truncated(value: int, divisor: int) -> int:
    """Divide towards zero as C does. So a slightly too large window gives no output, rather than an error."""
    return -(-value // divisor) if value < 0 else value // divisor


def windows_of(
    sizes: Sequence[int],
    kernels: Sequence[int],
    strides: Sequence[int],
    dilations: Sequence[int],
    padding: str,
    explicit: Sequence[tuple[int, int]] = (),
) -> tuple[SpatialWindow, ...]:
    """The windows along each spatial axis, from one entry of each argument per axis. Raises the same errors as `window_of`."""
    pairs = explicit or [(0, 0)] * len(sizes)
    rows = zip(sizes, kernels, strides, dilations, pairs, strict=True)
    return tuple(window_of(size, kernel, stride, rate, padding, pair) for size, kernel, stride, rate, pair in rows)


def explicit_pairs(attrs: Attrs, layout: TensorLayout) -> tuple[tuple[int, int], ...]:
    """(before, after) for each spatial axis from the `explicit_paddings` attr; empty if the padding is not EXPLICIT."""
    if attrs["padding"] != "EXPLICIT":
        return ()
    paddings = attrs["explicit_paddings"]
    return tuple((paddings[2 * axis], paddings[2 * axis + 1]) for axis in layout.spatial)


# --- checks ---------------------------------------------------------------------------------------------------------


def check_entries(values: Sequence[int], field: str, axes: int) -> None:
    """Raises InvalidArgumentError unless an attr has an entry for each axis; `field` is its name in the message."""
    if len(values) != axes:
        raise InvalidArgumentError(f"Sliding window {field} field must specify {axes} dimensions")


def remembered(check: Callable[..., Checked]) -> Callable[..., Checked]:
    """Wrap a function of the shapes of a kernel's inputs, and last of its attrs, so that its results are cached.

    The steps of a network repeat them, and the checks of a convolution take as long as a small matrix product.
    """

    @lru_cache(maxsize=1024)
    def cached(attrs: tuple[tuple[str, Any], ...], *shapes: tuple[int, ...]) -> Checked:
        return check(*shapes, dict(attrs))

    @wraps(check)
    def find(*arguments: Any) -> Checked:
        *shapes, attrs = arguments
        return cached(tuple(attrs.items()), *shapes)

    return find


def check_image(dims: tuple[int, ...]) -> None:
    """Raises InvalidArgumentError unless a tensor has four axes (batch, rows, columns and channels in any order)."""
    if len(dims) != 4:
        raise InvalidArgumentError(f"input must be 4-dimensional{format_dims(dims)}")


def check_filter(dims: tuple[int, ...], rank: int, depth: int) -> None:
    """Raises InvalidArgumentError unless the shape of a filter is `[taps, taps, depth, ...]` and has this rank."""
    if len(dims) != rank:
        raise InvalidArgumentError(f"filter must be {rank}-dimensional: {format_dims(dims)}")
    if depth != dims[2]:
        raise InvalidArgumentError(f"input and filter must have the same depth: {depth} vs {dims[2]}")


def check_padding(attrs: Attrs, layout: TensorLayout, error: type[InvalidArgumentError] = InvalidArgumentError) -> None:
    """Raises `error` if the attrs `padding` and `explicit_paddings` contradict each other or are invalid."""
    # not every op has the second attr
    paddings: Sequence[int] = attrs.get("explicit_paddings", ())
    if attrs["padding"] != "EXPLICIT":
        if paddings:
            raise error("explicit_paddings attribute must be empty if the padding attribute is not EXPLICIT")
        return
    axes = len(layout.spatial) + 2
    if len(paddings) != 2 * axes:
        raise error(f"explicit_paddings attribute must contain {2 * axes} values, but got: {len(paddings)}")
    if any(padding < 0 for padding in paddings):
        raise error("All elements of explicit_paddings must be nonnegative")
    if any(paddings[2 * axis + side] for axis in (0, layout.channel) for side in (0, 1)):
        raise error("Nonzero explicit padding in the batch or depth dimensions is not supported")


# --- shape functions ------------------------------------------------------------------------------------------------


def static_outputs(dim: int, kernel: int, stride: int, dilation: int, padding: str, explicit: tuple[int, int] = (0, 0)) -> int:
    """The number of windows along an axis, -1 if it depends on a size (`dim`) or kernel that is unknown (-1).

    Raises ShapeError for a stride or dilation below 1, or a window larger than the padded axis.
    """
    if stride <= 0:
        raise ShapeError(f"Stride must be > 0, but got {stride}")
    if dilation < 1:
        raise ShapeError(f"Dilation rate must be >= 1, but got {dilation}")
    # SAME depends only on the stride, not on the window
    if padding == "SAME":
        return divide_dim(add_dims(dim, stride - 1), stride, evenly=False)
    padded = add_dims(dim, sum(explicit)) if padding == "EXPLICIT" else dim
    effective = kernel
    if dilation > 1:
        effective = add_dims(multiply_dims(subtract_dims(kernel, 1), dilation), 1)
    return divide_dim(add_dims(subtract_dims(padded, effective), stride), stride, evenly=False)


def static_windows(
    dims: Sequence[int],
    kernels: Sequence[int],
    strides: Sequence[int],
    dilations: Sequence[int],
    attrs: Attrs,
    layout: TensorLayout,
) -> tuple[int, ...]:
    """The number of windows along each spatial axis, with the attrs' padding. Raises the errors of `static_outputs`."""
    pairs = explicit_pairs(attrs, layout) or [(0, 0)] * len(dims)
    rows = zip(dims, kernels, strides, dilations, pairs, strict=True)
    return tuple(static_outputs(dim, kernel, stride, rate, attrs["padding"], pair) for dim, kernel, stride, rate, pair in rows)


def arrange(batch: int, spatial: Sequence[int], channels: int, layout: TensorLayout) -> Dims:
    """A static shape in the layout's order of axes; `channels` includes those of an innermost vector axis."""
    if layout.channel == 1:
        inner = (layout.vector,) if layout.vector > 1 else ()
        return (batch, channels if channels < 0 else channels // layout.vector, *spatial, *inner)
    return (batch, *spatial, channels)


# --- costs ----------------------------------------------------------------------------------------------------------


def tap_flops(inputs: Sequence[Dims], outputs: Sequence[Dims], attrs: Attrs) -> int:
    """Two operations for each element of the output and each tap."""
    return 2 * elements(outputs[0]) * elements((inputs[1] or ())[:2])


def tap_gradient_flops(inputs: Sequence[Dims], outputs: Sequence[Dims], attrs: Attrs) -> int:
    """Two operations for each element of the output's gradient and each tap."""
    return 2 * elements(inputs[2]) * elements((inputs[1] or ())[:2])
