"""Row indices: bounds checks, and combination of updates with the selected rows.

A combination writes updates into rows of an array that nobody else holds, an index that comes twice twice and in order.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from placesim.ops.kernels.integers import truncated_quotient
from placesim.ops.kernels.kernel import Tensor

Combine = Callable[[Tensor, Tensor, Tensor], None]
"""`(rows, index, updates)`: writes `updates[i]` into `rows[index[i]]`, for each i in order."""

MANY_TURNS = 64
"""With more turns numpy's own unbuffered loop is the faster one."""


def position_text(dims: tuple[int, ...], flat: int) -> str:
    """`[1,2]`: where an element is in a tensor of this shape; nothing for a scalar."""
    return "[" + ",".join(str(int(i)) for i in np.unravel_index(flat, dims)) + "]" if dims else ""


def first_outside(index: Tensor, limit: int) -> int:
    """The position of the first index not in [0, limit); the number of indices if there is none."""
    outside = (index < 0) | (index >= limit)
    return int(outside.argmax()) if outside.any() else index.size


def split_turns(index: Tensor) -> list[Any]:
    """Positions of `index` in turns, each of which names a row at most once; a row's earlier position has the earlier turn."""
    order = np.argsort(index, kind="stable")
    ordered = index[order]
    # where no row is named twice, all updates go in one turn
    is_first = np.r_[True, ordered[1:] != ordered[:-1]][: len(index)]
    if is_first.all():
        return [slice(None)]
    starts = np.flatnonzero(is_first)
    turn = np.arange(len(index)) - np.repeat(starts, np.diff(np.r_[starts, len(index)]))
    return np.split(order[np.argsort(turn, kind="stable")], np.cumsum(np.bincount(turn))[:-1])


def combination(operation: Callable[[Tensor, Tensor], Tensor]) -> Combine:
    """The combination `rows[index[i]] = operation(rows[index[i]], updates[i])`."""

    def combine(rows: Tensor, index: Tensor, updates: Tensor) -> None:
        turns = split_turns(index)
        if len(turns) > MANY_TURNS and isinstance(operation, np.ufunc):
            operation.at(rows, index, updates)
            return
        updates = np.broadcast_to(updates, index.shape + rows.shape[1:])
        for turn in turns:
            rows[index[turn]] = operation(rows[index[turn]], updates[turn])

    return combine


def set_rows(rows: Tensor, index: Tensor, updates: Tensor) -> None:
    """The combination in which an update takes the row's place; of those that name one row the last."""
    rows[index] = updates


_SUBTRACT, _EXCLUDE = combination(np.subtract), combination(np.logical_xor)


def _subtract_rows(rows: Tensor, index: Tensor, updates: Tensor) -> None:
    # C++ subtracts truth values as integers, numpy refuses to
    (_EXCLUDE if rows.dtype == np.bool_ else _SUBTRACT)(rows, index, updates)


def _quotient(dividend: Tensor, divisor: Tensor) -> Tensor:
    if dividend.dtype.kind not in "iu":
        return np.asarray(dividend / divisor)
    return truncated_quotient(dividend, divisor)


COMBINATIONS: dict[str, Combine] = {
    "Update": set_rows,
    "Add": combination(np.add),
    "Sub": _subtract_rows,
    "Mul": combination(np.multiply),
    "Div": combination(_quotient),
    "Min": combination(np.minimum),
    "Max": combination(np.maximum),
}
