"""What a graph needs of its devices' memory, and what it would take to fit: one record, of which reports are readings."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

from placesim.devices.catalogue import GpuModel
from placesim.errors import PlacesimError
from placesim.runtime.accounting.usage import DeviceUsage, Holder

VARIABLE, CONSTANT, STEP, SCRATCH = "variable", "constant", "step", "scratch"
KINDS = (VARIABLE, CONSTANT, STEP, SCRATCH)
"""What holds a buffer: a variable, a constant's kernel, tensors of the step, or the device's own scratch space."""


class DeviceMemory(NamedTuple):
    """One device: what it held, up to where it ran out; where it did, what it would hold without limits.

    `fragmentation` is that of the free memory at the peak: the share outside the largest free chunk, NaN where nothing is free,
    None for memory without an allocator.  `dump` has TensorFlow's lines at the peak, where they were asked for.
    """

    usage: DeviceUsage
    needed: DeviceUsage
    fragmentation: float | None
    dump: tuple[str, ...] = ()

    @property
    def room(self) -> int | None:
        """Bytes that the limit leaves beside what is needed: negative where they are missing, None without a limit."""
        return None if self.usage.limit is None else self.usage.limit - self.needed.peak


class SmallestGpu(NamedTuple):
    """The model of the catalogue with the least memory on which it would fit, and its limit in bytes."""

    model: GpuModel
    limit: int


@dataclass(frozen=True)
class MemoryStudy:
    """What was found out about a graph's memory.

    `error` is TensorFlow's, where it runs out.  `batch` is the first dimension that was asked for, or the largest that fits
    where that was searched (`is_searched`; None where any fits).  `smallest_gpu` is None where no model would do, or GPUs were
    not used; `has_gpus` says that they were, and that another model may take their place.  `growth` is the `allow_growth` with
    which the outcome would be the opposite, None where there is none.
    """

    name: str
    devices: tuple[DeviceMemory, ...]
    error: PlacesimError | None = None
    batch: int | None = None
    is_searched: bool = False
    is_executed: bool = False
    has_gpus: bool = False
    smallest_gpu: SmallestGpu | None = None
    growth: bool | None = None

    @property
    def fits(self) -> bool:
        """Whether no device ran out."""
        return self.error is None


# --- who holds it ---------------------------------------------------------------------------------------------------


class Holding(NamedTuple):
    """Buffers that were in use at a peak, of one kind, and in one scope where there are several.

    `name` is a node's or a variable's, or a scope's with `/` at its end; empty for all of the kind.  `since` is the node that
    made the first, `until` the one after which the last was freed; empty where that stays.
    """

    kind: str
    name: str
    count: int
    size: int
    requested: int
    since: str
    until: str


def kind_of(holder: Holder) -> str:
    """One of KINDS."""
    word = holder.kept.partition(" ")[0]
    return word if word in KINDS else STEP


def name_of(holder: Holder) -> str:
    """Whose it is: a variable's name, else the node's that asked for it."""
    kind, _, name = holder.kept.partition(" ")
    return name if kind == VARIABLE else holder.node


def largest_holdings(holders: Sequence[Holder], limit: int) -> list[Holding]:
    """At most `limit` rows, the largest first, of which each stands for a scope or for one buffer.

    The kinds come first; then the largest scope is opened, as long as what is in it has room.
    """
    groups = [
        (kind, "", [holder for holder in holders if kind_of(holder) == kind])
        for kind in KINDS
        if any(kind_of(holder) == kind for holder in holders)
    ]
    closed = []
    while groups:
        groups.sort(key=lambda group: (sum(holder.size for holder in group[2]), group[1]))
        kind, name, members = groups.pop()
        parts = _parts(kind, name, members)
        if len(parts) < 2 or len(closed) + len(groups) + len(parts) > limit:
            closed.append((kind, name, members))
        else:
            groups += parts
    found = [_holding(*group) for group in closed]
    return sorted(found, key=lambda holding: (-holding.size, holding.name))


def _parts(kind: str, name: str, members: list[Holder]) -> list[tuple[str, str, list[Holder]]]:
    """The scopes and the single buffers of which a scope consists; a scope that is alone in it is passed over."""
    while True:
        found: dict[str, list[Holder]] = {}
        for number, holder in enumerate(members):
            head, slash, _ = name_of(holder)[len(name) :].partition("/")
            found.setdefault(f"{name}{head}/" if slash else f"{name_of(holder)}\0{number}", []).append(holder)
        (only, *others) = found
        if others or not only.endswith("/"):
            return [(kind, key.partition("\0")[0], group) for key, group in found.items()]
        name = only


def _holding(kind: str, name: str, members: list[Holder]) -> Holding:
    first = min(members, key=lambda holder: holder.made)
    stays = next((holder for holder in members if holder.freed is None), None)
    last = stays or max(members, key=lambda holder: holder.freed or 0)
    if len(members) == 1:
        name = name_of(first)
    sizes = sum(holder.size for holder in members), sum(holder.requested for holder in members)
    return Holding(kind, name, len(members), *sizes, first.since, last.until)
