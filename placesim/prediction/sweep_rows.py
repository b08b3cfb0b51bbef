"""Many simulations of one graph: a row for each combination of settings, as a record that reports are readings of."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

Value = int | str | bool
"""Value of a key: a number, a text, or true and false."""


class SweepRow(NamedTuple):
    """Result of a combination; None if a failure left it unknown.

    Seconds are those of the last step in its steady state.  `examples_per_second` is None if the examples of a step are not
    known.  `peak_bytes` is that of the device that is nearest to its limit, `transfers` the tensors that are copied in a step,
    `bound` what the step time is nearest to, and `bound_share` how near.  Where it does not fit, `error` says which device runs
    out, and the times are those without limits.
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
    """Identity of rows: the graph's content, the options common to all rows, and the release, as text."""

    graph: str
    options: str
    version: str


@dataclass(frozen=True)
class Sweep:
    """The rows of a graph, their settings in the order of `keys`."""

    name: str
    keys: tuple[str, ...]
    rows: tuple[SweepRow, ...]
    identity: SweepIdentity
