"""Windows of ONNX's convolutions and pools over the spatial axes, from their attributes, and the order of channels.

TensorFlow's CPU kernels take channels last, so that converters add Transposes around them.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from placesim.formats.onnx.folding import MOST_KNOWN
from placesim.formats.onnx.onnx_node import OnnxNode, Tensor, UnsupportedNodeError


class AxisWindow(NamedTuple):
    """Windows along an axis: elements of a window, steps between windows and between its elements, padding at both ends."""

    taps: int
    stride: int
    rate: int
    before: int
    after: int

    @property
    def reach(self) -> int:
        """Return the distance from a window's first element to its last, plus one."""
        return (self.taps - 1) * self.rate + 1


UNIT = AxisWindow(1, 1, 1, 0, 0)
"""Window along an axis of one element, which is inserted if TensorFlow needs two axes."""


def kernel_shape(node: OnnxNode, filters: Tensor | None = None) -> tuple[int, ...]:
    """Return the attribute `kernel_shape`, else the taps of filters `[outputs, channels, taps...]`; an error if unknown."""
    given = node.attr("kernel_shape")
    if given is not None:
        return _counted("kernel_shape", given, len(given))
    dims = None if filters is None else node.shape(filters)
    taps = [dim for dim in (dims or ())[2:] if dim is not None]
    if dims is None or len(taps) != len(dims) - 2:
        raise UnsupportedNodeError("unknown window size: expected an attribute 'kernel_shape'")
    return tuple(taps)


def spatial_attr(node: OnnxNode, name: str, count: int, default: int) -> tuple[int, ...]:
    """Return an attribute of `count` integers. Raises UnsupportedNodeError for another count, or integers out of range."""
    given = node.attr(name)
    return (default,) * count if given is None else _counted(name, given, count)


def _counted(name: str, given: Sequence[int], count: int) -> tuple[int, ...]:
    least = 0 if name in ("pads", "output_padding") else 1
    if len(given) != count or min(given, default=least) < least or max(given, default=0) > MOST_KNOWN:
        raise UnsupportedNodeError(f"wrong {name}: got {list(given)}, expected {count} numbers from {least} to {MOST_KNOWN}")
    return tuple(given)


def group_count(node: OnnxNode, name: str = "group") -> int:
    """Return the number of channel groups in an attribute. Raises UnsupportedNodeError if it is less than one."""
    count: int = node.attr(name, 1)
    if count < 1:
        raise UnsupportedNodeError(f"wrong {name}: got {count}, expected 1 or more")
    return count


def windows_of(node: OnnxNode, tensor: Tensor, taps: Sequence[int]) -> tuple[AxisWindow, ...]:
    """Return the windows over the spatial axes of `[batch, channels, spatial...]`, without regard to `ceil_mode`.

    Raises UnsupportedNodeError for wrong attributes, and if the padding depends on an unknown size.
    """
    count = len(taps)
    if (rank := node.rank(tensor)) not in (None, count + 2):
        raise UnsupportedNodeError(f"wrong rank of input 0: got {rank}, expected {count + 2} for windows of {count} axes")
    dims = node.shape(tensor) or (None,) * (count + 2)
    strides, rates = spatial_attr(node, "strides", count, 1), spatial_attr(node, "dilations", count, 1)
    auto = node.attr("auto_pad", "NOTSET")
    pads = spatial_attr(node, "pads", 2 * count, 0) if auto == "NOTSET" else (0,) * (2 * count)
    made = [AxisWindow(*row) for row in zip(taps, strides, rates, pads[:count], pads[count:], strict=True)]
    if auto in ("SAME_UPPER", "SAME_LOWER"):
        made = [_same(window, dim, auto) for window, dim in zip(made, dims[2:], strict=True)]
    elif auto not in ("NOTSET", "VALID"):
        raise UnsupportedNodeError(f"no such auto_pad: got '{auto}', expected NOTSET, VALID, SAME_UPPER or SAME_LOWER")
    return tuple(made)


def _same(window: AxisWindow, dim: int | None, auto: str) -> AxisWindow:
    """Return windows padded for one window per stride; `SAME_UPPER` pads the end more if the padding is odd."""
    if dim is None and window.stride != 1:
        raise UnsupportedNodeError(f"unknown padding: got auto_pad {auto} over an axis of unknown size, expected a known size")
    size = dim or 0
    count = -(-size // window.stride)
    total = window.reach - 1 if dim is None else max((count - 1) * window.stride + window.reach - size, 0)
    less, more = total // 2, total - total // 2
    return window._replace(before=less, after=more) if auto == "SAME_UPPER" else window._replace(before=more, after=less)


def pads_of(windows: Sequence[AxisWindow]) -> tuple[int, ...]:
    """Return the attr `explicit_paddings` for channels last."""
    return (0, 0, *(pad for window in windows for pad in (window.before, window.after)), 0, 0)


def padding_attrs(windows: Sequence[AxisWindow]) -> dict[str, Any]:
    """Return the attrs of windows' padding, for channels last."""
    pads = pads_of(windows)
    return {"padding": "EXPLICIT", "explicit_paddings": pads} if any(pads) else {"padding": "VALID"}


def channels_last(node: OnnxNode, tensor: Tensor, spatial: int) -> Tensor:
    """Return `[batch, channels, spatial...]` as `[batch, spatial..., channels]`."""
    return node.emit("Transpose", tensor, np.array([0, *range(2, spatial + 2), 1], np.int32))


def channels_first(node: OnnxNode, tensor: Tensor, spatial: int) -> Tensor:
    """Return `[batch, spatial..., channels]` as `[batch, channels, spatial...]`."""
    return node.emit("Transpose", tensor, np.array([0, spatial + 1, *range(1, spatial + 1)], np.int32))


def planes_first(node: OnnxNode, tensor: Tensor, spatial: int) -> Tensor:
    """Return a result with channels first, without the axis that was inserted before a single spatial axis."""
    made = channels_first(node, tensor, max(spatial, 2))
    return node.emit("Squeeze", made, squeeze_dims=(2,)) if spatial == 1 else made
