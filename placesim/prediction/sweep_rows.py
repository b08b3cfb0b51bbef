"""Results of many simulations of one graph: a row for each combination of settings."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

Value = int | str | bool
"""Value of a setting: a number, a text, or true or false."""


class SweepRow(NamedTuple):
    """Result of one combination of settings; a value is None if it is not known, for example after a failure.

    - `seconds`, `low`, `high`: predicted time and interval of the last step in its steady state.
    - `examples_per_second`: None if the number of examples in a step is not known.
    - `peak_device`, `peak_bytes`, `limit_bytes`: the device nearest to its memory limit, its peak and its limit.
    - `transfers`, `transfer_bytes`: number and bytes of the tensors copied between devices in a step.
    - `bound`, `bound_share`: the largest lower bound of the step time, and its share of the step time.
    - `error`: if the graph does not fit, names the device that runs out of memory; the times then ignore memory limits.
    """

    settings: tuple[Value, ...]
    seconds: float | None = None
    low: float | None = None
    high: float | None = None
    examples_per_second: float | None = None
    peak_device: str | None = None
    peak_bytes: int | None = None
    limit_bytes: int | None = None
    fits: bool | None = None
    transfers: int | None = None
    transfer_bytes: int | None = None
    bound: str | None = None
    bound_share: float | None = None
    error: str | None = None


RESULTS = SweepRow._fields[1:]
"""Names of a row's results."""


class SweepIdentity(NamedTuple):
    """Texts that identify a sweep: the graph's content, the options common to all rows, and the version of placesim."""

    graph: str
    options: str
    version: str


def find_best_row(rows: Sequence[SweepRow]) -> SweepRow | None:
    """Return the first row with the most examples per second, or the shortest step if these are unknown, among rows that fit.

    None if fewer than two rows fit.
    """
    fitting = [row for row in rows if row.fits and row.seconds is not None]
    return None if len(fitting) < 2 else min(fitting, key=_rank)


def sort_rows(rows: Sequence[SweepRow]) -> list[SweepRow]:
    """Return the rows that fit, the best first, then those that do not fit, then those that failed."""
    return sorted(rows, key=_rank)


def _rank(row: SweepRow) -> tuple[bool, bool, float, float]:
    return row.seconds is None, not row.fits, -(row.examples_per_second or 0), row.seconds or 0


@dataclass(frozen=True)
class Sweep:
    """The rows of a graph, with their settings in the order of `keys`."""

    name: str
    keys: tuple[str, ...]
    rows: tuple[SweepRow, ...]
    identity: SweepIdentity
