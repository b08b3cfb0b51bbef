"""Comparison of two placements: moved, new and removed nodes, and changed transfers."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

from placesim.core.errors import UsageError
from placesim.core.grouped import grouped
from placesim.core.styled_text import StyledText, fill_template
from placesim.graph.graph import split_tensor_name
from placesim.graph.node_patterns import enclosing_scopes
from placesim.inspection.byte_amounts import Amount
from placesim.inspection.short_device_names import short_device
from placesim.inspection.snapshot import ReportedError, Snapshot
from placesim.inspection.summary import transfers_by_pair
from placesim.runtime.partitioning.pruning import feed_name
from placesim.runtime.partitioning.transfer_kinds import TransferKind
from placesim.runtime.sessions.outcome import TransferRow

if TYPE_CHECKING:
    from placesim.inspection.time_difference import StepDifference


class NodeMove(NamedTuple):
    """A node that is on different devices in the two placements."""

    name: str
    before: str
    after: str


class ScopeMove(NamedTuple):
    """A move of `nodes` nodes. If `name` ends in `/`, every node that both graphs have in this name scope moved."""

    name: str
    before: str
    after: str
    nodes: int


class TransferChange(NamedTuple):
    """The transfers from one device to another, before and after. `new` are those of tensors that were not sent before."""

    source: str
    target: str
    before: Amount
    after: Amount
    new: tuple[TransferRow, ...] = ()

    @property
    def text(self) -> StyledText:
        """Return the change as a text."""
        count, size = self.after.number - self.before.number, self.after.bytes - self.before.bytes
        noun = "transfer" if self.after.number == 1 else "transfers"
        counts = f"{self.after.number} {noun} ({count:+d}), {self.after.bytes} bytes ({size:+d})"
        if self.before.unknown or self.after.unknown:
            counts += ", not counting tensors of unknown size"
        return fill_template("{} -> {}: {}", short_device(self.source), short_device(self.target), counts)


def largest_first(rows: Iterable[TransferRow]) -> list[TransferRow]:
    """Return transfers in descending order of bytes, after those of unknown size."""
    return sorted(rows, key=lambda row: (row.bytes is not None, -(row.bytes or 0)))


def tensor_text(row: TransferRow) -> str:
    """Return the name of a transferred tensor, with the output's number."""
    name, slot = split_tensor_name(row.tensor)
    return f"{feed_name(name)}:{slot}"


class PeakChange(NamedTuple):
    """The peak memory of a device in bytes, before and after."""

    device: str
    before: int
    after: int

    @property
    def text(self) -> StyledText:
        """Return the change as a text."""
        return fill_template(
            "{}: {}", short_device(self.device), f"{self.before} -> {self.after} bytes ({self.after - self.before:+d})"
        )


@dataclass(frozen=True, slots=True)
class Difference:
    """The difference of two placements. `error_before` and `error_after` are set if the errors differ.

    `memory` has the peaks that differ; None if the peaks of one side are unknown. `time` is None if the times of one side are
    unknown, or if the times are equal.
    """

    moved: tuple[NodeMove, ...]
    folded: tuple[ScopeMove, ...]
    removed: tuple[str, ...]
    added: tuple[str, ...]
    transfers: tuple[TransferChange, ...]
    memory: tuple[PeakChange, ...] | None = None
    time: StepDifference | None = None
    error_before: ReportedError | None = None
    error_after: ReportedError | None = None

    def __bool__(self) -> bool:
        found = (
            self.moved,
            self.removed,
            self.added,
            self.transfers,
            self.memory,
            self.time,
            self.error_before,
            self.error_after,
        )
        return any(found)


def compare(before: Snapshot, after: Snapshot) -> Difference:
    """Compare two snapshots, node by node. If one of the two is a prediction, only step times are compared.

    Raises UsageError if a prediction is compared with a snapshot without times.
    """
    time = _compare_times(before, after)
    if not (before.holds_placement and after.holds_placement):
        _check_times(before, after)
        return Difference((), (), (), (), (), time=time)
    old, new = ({node.name: node for node in snapshot.nodes} for snapshot in (before, after))
    common = [name for name in old if name in new]
    moved = tuple(NodeMove(n, old[n].device, new[n].device) for n in common if old[n].device != new[n].device)
    is_same_error = _key(before.error) == _key(after.error)
    return Difference(
        moved=moved,
        folded=tuple(_fold(moved, common)),
        removed=tuple(name for name in old if name not in new),
        added=tuple(name for name in new if name not in old),
        transfers=tuple(_transfer_changes(before, after)),
        memory=tuple(_peak_changes(before, after)) if before.memory and after.memory else None,
        time=time,
        error_before=None if is_same_error else before.error,
        error_after=None if is_same_error else after.error,
    )


def _check_times(before: Snapshot, after: Snapshot) -> None:
    """Raise UsageError if a prediction is compared with a snapshot without times."""
    for prediction, other in ((before, after), (after, before)):
        if not prediction.holds_placement and other.step is None:
            why = other.time_note if other.error is None else other.error.summary
            error = UsageError(
                f"cannot compare with the prediction {prediction.name}: got no times for {other.name}, expected simulated steps"
            )
            error.help = (why,) if why else ()
            raise error


def _compare_times(before: Snapshot, after: Snapshot) -> StepDifference | None:
    if before.step is None or after.step is None:
        return None
    from placesim.inspection.time_difference import compare_steps

    return compare_steps(before.step, after.step)


def _key(error: ReportedError | None) -> tuple[str, str] | None:
    return None if error is None else (error.type, error.message)


def _transfer_changes(before: Snapshot, after: Snapshot) -> Iterator[TransferChange]:
    old = transfers_by_pair(_sized(before.transfers, after.transfers))
    new = transfers_by_pair(_sized(after.transfers, before.transfers))
    known = set(map(_way, before.transfers))
    added = grouped(
        ((row.src, row.dst), row) for row in after.transfers if row.kind is TransferKind.TENSOR and _way(row) not in known
    )
    for pair in dict.fromkeys((*old, *new)):
        one, other = old.get(pair, Amount()), new.get(pair, Amount())
        if one != other:
            yield TransferChange(*pair, one, other, tuple(added.get(pair, ())))


def _way(row: TransferRow) -> tuple[str, str, str]:
    return row.tensor, row.src, row.dst


def _sized(rows: Iterable[TransferRow], others: Iterable[TransferRow]) -> Iterator[TransferRow]:
    """Yield transfers, those of unknown size with the size of the same transfer among `others`."""
    sizes = {_way(row): row.bytes for row in others}
    return (row if row.bytes is not None else row._replace(bytes=sizes.get(_way(row))) for row in rows)


def _peak_changes(before: Snapshot, after: Snapshot) -> Iterator[PeakChange]:
    old, new = ({usage.device: usage.peak for usage in snapshot.memory} for snapshot in (before, after))
    for device in dict.fromkeys((*old, *new)):
        one, other = old.get(device, 0), new.get(device, 0)
        if one != other:
            yield PeakChange(device, one, other)


# --- folding --------------------------------------------------------------------------------------------------------


def _fold(moved: Sequence[NodeMove], common: Iterable[str]) -> Iterator[ScopeMove]:
    """Combine moves into the largest name scopes whose nodes all have the same move. Scopes with one node are not combined."""
    ways = {move.name: (move.before, move.after) for move in moved}
    sizes = _uniform_scopes(common, ways)
    done: dict[str, None] = {}
    for name, way in ways.items():
        scope = next((scope for scope in enclosing_scopes(name) if sizes.get(scope, 0) > 1), name)
        if scope not in done:
            done[scope] = None
            yield ScopeMove(scope, *way, sizes.get(scope, 1))


def _uniform_scopes(names: Iterable[str], ways: Mapping[str, tuple[str, str]]) -> dict[str, int]:
    """Return the scopes whose nodes all have the same move, each with its number of nodes."""
    way_of: dict[str, tuple[str, str] | None] = {}
    sizes: dict[str, int] = {}
    for name in names:
        way = ways.get(name)
        for scope in enclosing_scopes(name):
            sizes[scope] = sizes.get(scope, 0) + 1
            if way_of.setdefault(scope, way) != way:
                way_of[scope] = None
    return {scope: size for scope, size in sizes.items() if way_of[scope] is not None}
