"""Comparison of two predicted steps: total times, and the items that changed."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import NamedTuple, TypeVar

from placesim.core.grouped import grouped
from placesim.inspection.predicted_step import NodeTime, PredictedStep

Key = TypeVar("Key", bound=Hashable)
Way = tuple[str, str, str]
"""A tensor, its sender and its receiver."""
_SAME = 1e-9
"""Relative difference below which times are equal apart from rounding."""


class Duration(NamedTuple):
    """The time of a node or transfer. `where` is a node's device or a transfer's route; `bytes` are the transferred bytes."""

    seconds: float
    where: str = ""
    bytes: float | None = None


class TimeChange(NamedTuple):
    """An item of a step with its time before and after; None if the item is missing on that side.

    `what` is `device`, `node`, `transfer`, `link` or `path`. `kind` is a node's op, or the kind of a part of the critical path.
    """

    what: str
    name: str
    kind: str
    before: Duration | None
    after: Duration | None

    @property
    def seconds(self) -> float:
        """Return the increase in seconds."""
        return (0.0 if self.after is None else self.after.seconds) - (0.0 if self.before is None else self.before.seconds)


class StepInterval(NamedTuple):
    """The time of a step with its interval, in seconds."""

    seconds: float
    low: float
    high: float


@dataclass(frozen=True)
class StepDifference:
    """A step before and after. `changes` lists the differences, largest first within each `what`."""

    before: StepInterval
    after: StepInterval
    changes: tuple[TimeChange, ...]

    @property
    def seconds(self) -> float:
        """Return the increase in seconds."""
        return self.after.seconds - self.before.seconds

    @property
    def is_within_intervals(self) -> bool:
        """Whether the intervals overlap, so that it is uncertain which step is faster."""
        return self.before.low <= self.after.high and self.after.low <= self.before.high


def compare_steps(before: PredictedStep, after: PredictedStep) -> StepDifference | None:
    """Compare two steps. Returns None if the steps take the same time, and all their parts too."""
    parts = (
        _devices(before, after),
        _nodes(before.nodes, after.nodes),
        _transfers(before, after),
        _links(before, after),
        _path(before, after),
    )
    changes = [change for part in parts for change in sorted(part, key=lambda change: -abs(change.seconds))]
    if not changes and _is_same(before.seconds, after.seconds):
        return None
    one, other = (StepInterval(step.seconds, step.low, step.high) for step in (before, after))
    return StepDifference(one, other, tuple(changes))


def _is_same(one: float, other: float) -> bool:
    return abs(one - other) <= _SAME * max(one, other)


def _changes(what: str, pairs: Iterable[tuple[str, str, Duration | None, Duration | None]]) -> Iterator[TimeChange]:
    """Yield the items whose time or location changed."""
    for name, kind, before, after in pairs:
        one, other = (0.0 if took is None else took.seconds for took in (before, after))
        moved = before is not None and after is not None and before.where != after.where
        if moved or not _is_same(one, other):
            yield TimeChange(what, name, kind, before, after)


def _devices(before: PredictedStep, after: PredictedStep) -> Iterator[TimeChange]:
    pairs = (
        (name, "", _took(before.devices, name), _took(after.devices, name)) for name in _either(before.devices, after.devices)
    )
    return _changes("device", pairs)


def _path(before: PredictedStep, after: PredictedStep) -> Iterator[TimeChange]:
    pairs = ((*key, _took(before.path, key), _took(after.path, key)) for key in _either(before.path, after.path))
    return _changes("path", pairs)


def _took(seconds: Mapping[Key, float], key: Key) -> Duration | None:
    return Duration(seconds[key]) if key in seconds else None


def _nodes(before: Mapping[str, NodeTime], after: Mapping[str, NodeTime]) -> Iterator[TimeChange]:
    def took(nodes: Mapping[str, NodeTime], name: str) -> Duration | None:
        node = nodes.get(name)
        return None if node is None else Duration(node.seconds, node.device)

    pairs = (
        (name, (after.get(name) or before[name]).op, took(before, name), took(after, name)) for name in _either(before, after)
    )
    return _changes("node", pairs)


def _transfers(before: PredictedStep, after: PredictedStep) -> Iterator[TimeChange]:
    """Yield the changes of transfers.

    A tensor that takes another route is compared with its previous route.
    """
    gone = _ways_by_tensor(key for key in before.transfers if key not in after.transfers)
    pairs = []
    for key in after.transfers:
        old = key if key in before.transfers else gone[key[0]].pop(0) if gone.get(key[0]) else None
        pairs.append((key[0], "", _on_way(before, old), _on_way(after, key)))
    pairs += [(key[0], "", _on_way(before, key), None) for keys in gone.values() for key in keys]
    return _changes("transfer", pairs)


def _ways_by_tensor(keys: Iterable[Way]) -> dict[str, list[Way]]:
    return grouped((key[0], key) for key in keys)


def _on_way(step: PredictedStep, key: Way | None) -> Duration | None:
    if key is None:
        return None
    carried = step.transfers[key]
    return Duration(carried.seconds, f"{key[1]} -> {key[2]}", carried.bytes)


def _links(before: PredictedStep, after: PredictedStep) -> Iterator[TimeChange]:
    def took(step: PredictedStep, name: str) -> Duration | None:
        carried = step.links.get(name)
        return None if carried is None else Duration(carried.seconds, "", carried.bytes)

    pairs = ((name, "", took(before, name), took(after, name)) for name in _either(before.links, after.links))
    return _changes("link", pairs)


def _either(before: Mapping[Key, object], after: Mapping[Key, object]) -> Iterable[Key]:
    return dict.fromkeys((*before, *after))
