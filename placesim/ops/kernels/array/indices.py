"""Row indices: bounds checks, and combination of updates with the selected rows.

A combination writes updates into rows of an array, in place. A repeated index is applied repeatedly, in order.
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
"""With more turns (see `split_turns`), numpy's `ufunc.at` is faster."""


def position_text(dims: tuple[int, ...], flat: int) -> str:
    """The position of flat element `flat` in a tensor of shape `dims`, as text: `[1,2]`; empty for a scalar."""
    return "[" + ",".join(str(int(i)) for i in np.unravel_index(flat, dims)) + "]" if dims else ""


def first_outside(index: Tensor, limit: int) -> int:
    """The position of the first index outside of [0, limit), or the number of indices if all are inside."""
    outside = (index < 0) | (index >= limit)
    return int(outside.argmax()) if outside.any() else index.size


def split_turns(index: Tensor) -> list[Any]:
    """Split the positions in `index` into turns: no row occurs twice in a turn, and repeats of a row keep their order."""
    order = np.argsort(index, kind="stable")
    ordered = index[order]
    # without repeated rows there is one turn
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
    """The combination that replaces rows by updates; of several updates of a row the last one counts."""
    rows[index] = updates


_SUBTRACT, _EXCLUDE = combination(np.subtract), combination(np.logical_xor)


def _subtract_rows(rows: Tensor, index: Tensor, updates: Tensor) -> None:
    # C++ subtracts booleans as integers; numpy does not subtract booleans
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
