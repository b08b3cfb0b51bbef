"""Results of many simulations of one graph: a row for each combination of settings."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

Value = int | str | bool
"""Value of a setting: a number, a text, or true or false."""


class SweepRow(NamedTuple):
    """Result of one combination of settings; a value is None if it is not known, for example after a failure.

    - `seconds`, `low`, `high`: those of the last step in its steady state.
    - `examples_per_second`: None if the examples of a step are not known.
    - `peak_bytes`: peak of the device that is nearest to its limit.
    - `transfers`: number of tensors copied in a step.
    - `bound`, `bound_share`: the lower bound that is nearest to the step time, and its share of it.
    - `error`: if the graph does not fit, the device that runs out of memory; the times are then those without limits.
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
    """Identity of rows, as texts: the graph's content, the options common to all rows, and the version of placesim."""

    graph: str
    options: str
    version: str


@dataclass(frozen=True)
class Sweep:
    """The rows of a graph, with their settings in the order of `keys`."""

    name: str
    keys: tuple[str, ...]
    rows: tuple[SweepRow, ...]
    identity: SweepIdentity
