"""Scans: running sums, products and log-sums of exponentials along one axis."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from placesim.core.errors import InvalidArgumentError
from placesim.ops.attributes import Attrs
from placesim.ops.kernels.kernel import Kernel, Table, Tensor, along_dims_in, one_per_output
from placesim.ops.kernels.precision import wide_dtype
from placesim.ops.kernels.shapes import format_dims, unchanged


def scan_axis(x: Tensor, axis: Tensor) -> int:
    """Return the axis that a scalar gives, counted from 0. Raises InvalidArgumentError for another shape or range."""
    if axis.ndim:
        raise InvalidArgumentError(f"ScanOp: axis must be a scalar, not {format_dims(axis.shape)}")
    index = int(axis) + (x.ndim if axis < 0 else 0)
    if not 0 <= index < x.ndim:
        # the message has the axis counted from 0
        raise InvalidArgumentError(f"ScanOp: Expected scan axis in the range [{-x.ndim}, {x.ndim}), but got {index}")
    return index


def scan(accumulate: Callable[[Tensor], Tensor], identity: float) -> Kernel:
    """Return the table row of a scan: `accumulate` returns running results along axis 0, of the same shape.

    With attr `exclusive`, results start with `identity` and end before the last. Raises InvalidArgumentError for a bad axis.
    """

    def compute(inputs: Sequence[Tensor], attrs: Attrs) -> Sequence[Any]:
        x, axis = inputs[0], scan_axis(inputs[0], inputs[1])
        turned = np.moveaxis(x, axis, 0)
        turned = turned[::-1] if attrs["reverse"] else turned
        if attrs["exclusive"] and turned.shape[0]:
            first = np.full((1, *turned.shape[1:]), identity, x.dtype)
            turned = np.concatenate([first, accumulate(turned[:-1])])
        else:
            turned = accumulate(turned)
        turned = turned[::-1] if attrs["reverse"] else turned
        return (np.ascontiguousarray(np.moveaxis(turned, 0, axis)),)

    return Kernel(compute, unchanged, one_per_output, mixes=along_dims_in(1))


def _running_sum(x: Tensor) -> Tensor:
    # every step rounds or wraps in the elements' own type, even half
    return np.add.accumulate(x, 0, dtype=x.dtype)


def _running_log_sum(x: Tensor) -> Tensor:
    """Return the logarithm of the running sum of exponentials."""
    wide = x.astype(wide_dtype(x.dtype))
    # NaN and infinity need the slow loop below
    if np.all(wide < np.inf):
        found: Tensor = np.logaddexp.accumulate(wide, 0)
        return found.astype(x.dtype)
    result = np.empty_like(wide)
    running = np.full(wide.shape[1:], -np.inf, wide.dtype)
    for index, row in enumerate(wide):
        running = result[index, ...] = _log_sum(running, row)
    return result.astype(x.dtype)


def _log_sum(running: Tensor, x: Tensor) -> Any:
    """Return log(exp(running) + exp(x)) with C++'s min and max: NaN in x counts as `running`, and two infinities give NaN."""
    low, high = np.where(x < running, x, running), np.where(running < x, x, running)
    return np.where(high == -np.inf, high, np.log1p(np.exp(low - high)) + high)


TABLE: Table = {
    "Cumsum": scan(_running_sum, identity=0),
    "Cumprod": scan(lambda x: np.multiply.accumulate(x, 0, dtype=x.dtype), identity=1),
    "CumulativeLogsumexp": scan(_running_log_sum, identity=-np.inf),
}
