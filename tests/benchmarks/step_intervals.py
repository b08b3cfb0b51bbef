"""How often steps of networks lie in their intervals, with the width from other devices or other families of networks."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from math import ceil
from typing import NamedTuple

from tests.benchmarks.network_times import NetworkTime

SHARE_WITHIN = 0.8
"""The share of measurements that an interval from the 10th to the 90th percentile holds."""
FULL_ROWS = 20
"""With fewer rows, a device counts less for the width; all others count the same."""
FEWEST_ROWS = 10
NEAR, LEAST = (0.75, 0.85), 0.6
Label = Callable[[NetworkTime], str]


class Coverage(NamedTuple):
    """How many of a group's steps lie in their intervals: with the width that placesim ships, and without the group's rows."""

    rows: int
    shipped: float
    held_out: float


def deviation_scale(times: Sequence[NetworkTime]) -> float:
    """The scale with which `SHARE_WITHIN` of the steps lie in their intervals, and of each large device not much fewer."""
    by_device: Mapping[str, list[float]] = defaultdict(list)
    for time in times:
        by_device[time.row.device].append(time.deviation)
    large = (sorted(own) for own in by_device.values() if len(own) >= FEWEST_ROWS)
    return max([_common_scale(times), *(own[ceil(NEAR[0] * len(own)) - 1] for own in large)])


def _common_scale(times: Sequence[NetworkTime]) -> float:
    """The scale with which `SHARE_WITHIN` of the steps lie in their intervals, if all devices count the same."""
    counts = Counter(time.row.device for time in times)
    weighted = sorted((time.deviation, 1 / max(counts[time.row.device], FULL_ROWS)) for time in times)
    total = sum(weight for _, weight in weighted)
    reached = 0.0
    for deviation, weight in weighted:
        reached += weight
        if reached >= SHARE_WITHIN * total:
            return deviation
    raise ValueError("no times")


def coverages(times: Sequence[NetworkTime], label: Label) -> dict[str, Coverage]:
    """The coverage of each group; the width that judges a group comes from other groups, of recent GPUs or of the others.

    A GPU that no other group has counts as one without measurements.
    """
    groups: Mapping[str, list[NetworkTime]] = defaultdict(list)
    for time in times:
        groups[label(time)].append(time)
    found = {}
    for name, own in sorted(groups.items()):
        scales = {
            kind: deviation_scale([time for time in alike if label(time) != name] or alike)
            for kind in {time.is_recent for time in own}
            for alike in [[time for time in times if time.is_recent == kind]]
        }
        known = {time.row.device for other, rows in groups.items() for time in rows if other != name}
        judged = [time if time.row.device in known else time.unmeasured for time in own]
        held = sum(time.is_within_scale(scales[time.is_recent]) for time in judged) / len(own)
        found[name] = Coverage(len(own), sum(time.is_within for time in own) / len(own), held)
    return found


def write_coverage(title: str, times: Sequence[NetworkTime], label: Label) -> None:
    """A line for each group, in percent; then the groups of at least `FEWEST_ROWS` rows that are not near four of five."""
    found = coverages(times, label)
    print(f"\n{title:<40}   rows  within  held out  (percent)")
    for name, coverage in found.items():
        print(f"{name:<40} {coverage.rows:6} {100 * coverage.shipped:7.0f} {100 * coverage.held_out:9.0f}")
    for text, is_outside in _OUTSIDE.items():
        names = [f"{name} ({100 * found[name].held_out:.0f})" for name in _large(found) if is_outside(found[name].held_out)]
        print(f"{text}: {', '.join(names) or 'none'}")


_OUTSIDE: Mapping[str, Callable[[float], bool]] = {
    "outside 75 to 85 %": lambda share: not NEAR[0] <= share <= NEAR[1],
    "below 60 %": lambda share: share < LEAST,
}


def _large(found: Mapping[str, Coverage]) -> Iterator[str]:
    return (name for name, coverage in found.items() if coverage.rows >= FEWEST_ROWS)
