"""InTopK, whether targets are among the best predictions; and isotonic regression, the closest non-increasing sequence."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from placesim.core.errors import InvalidArgumentError
from placesim.ops.attributes import Attrs
from placesim.ops.kernels.kernel import Kernel, Table, Tensor, per_element
from placesim.ops.kernels.memory_rules import forwards
from placesim.ops.kernels.shapes import format_dims, infer_by


def find_in_top(inputs: Sequence[Tensor], attrs: Attrs) -> Sequence[Tensor]:
    """InTopK: (predictions `[batch, classes]`, targets `[batch]`) -> whether each target is among its row's k largest.

    k is an attr or a third input. The result is false for a target out of range and for a row that is not finite. Raises
    InvalidArgumentError for other ranks, different batches, and a k that is not a scalar.
    """
    predictions, targets, *rest = inputs
    for count in rest:
        if np.ndim(count) != 0:
            raise InvalidArgumentError(f"k must be 0-D, got shape {format_dims(np.shape(count))}")
    k = int(rest[0]) if rest else attrs["k"]
    if predictions.ndim != 2:
        raise InvalidArgumentError("predictions must be 2-dimensional")
    if targets.ndim != 1:
        raise InvalidArgumentError("targets must be 1-dimensional")
    if len(predictions) != len(targets):
        raise InvalidArgumentError(
            f"First dimension of predictions {len(predictions)} must match length of targets {len(targets)}"
        )
    classes = predictions.shape[1]
    inside = (targets >= 0) & (targets < classes)
    if not classes:
        return (inside,)
    target = np.take_along_axis(predictions, np.where(inside, targets, 0)[:, None], axis=1)
    # ties count in favour of the target
    better = np.sum(predictions > target, axis=1)
    return (inside & np.all(np.isfinite(predictions), axis=1) & (better < k),)


def fit_isotonic(inputs: Sequence[Tensor], attrs: Attrs) -> Sequence[Tensor]:
    """IsotonicRegression: `[..., n]` -> for each row its least-squares non-increasing sequence, and each element's run number.

    Both are `[..., n]`; a run has equal elements. A scalar is a row of one element.
    """
    values = np.asarray(inputs[0]).astype(attrs["output_dtype"].numpy)
    if not values.ndim:
        return values, np.zeros((), np.int32)
    fitted, runs = np.empty(values.shape, values.dtype), np.empty(values.shape, np.int32)
    rows = values.reshape(-1, values.shape[-1]) if values.size else values.reshape(0, 1)
    size = rows.shape[1]
    for row, out, segments in zip(rows, fitted.reshape(-1, size), runs.reshape(-1, size), strict=True):
        sums, counts = _pool_rising(row)
        out[:] = np.repeat(np.array(sums, np.float64) / counts, counts)
        segments[:] = np.repeat(np.arange(len(counts)), counts)
    return fitted, runs


def _pool_rising(row: Tensor) -> tuple[list[float], list[int]]:
    """(sums, lengths) of the runs of the isotonic regression: neighbouring runs with increasing means are merged."""
    sums: list[float] = []
    counts: list[int] = []
    for value in row.tolist():
        sums.append(value)
        counts.append(1)
        while len(sums) > 1 and sums[-1] / counts[-1] > sums[-2] / counts[-2]:
            total, count = sums.pop(), counts.pop()
            sums[-1] += total
            counts[-1] += count
    return sums, counts


# --- shape functions ------------------------------------------------------------------------------------------------


TABLE: Table = {
    "InTopK": Kernel(find_in_top, infer_by("[batch, ?], [batch] -> [batch]"), per_element(0)),
    "InTopKV2": Kernel(find_in_top, infer_by("[batch, ?], [batch] -> [batch]"), per_element(0)),
    "IsotonicRegression": Kernel(fit_isotonic, infer_by("x -> x, x"), per_element(0), memory=forwards(0)),
}
