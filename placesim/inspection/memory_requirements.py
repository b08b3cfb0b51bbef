"""Memory requirements of a graph on its devices, and changes that would make it fit, as one record for all reports."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import takewhile
from typing import NamedTuple

from placesim.core.errors import PlacesimError
from placesim.machine.gpu_models import GpuModel
from placesim.runtime.accounting.usage import DeviceUsage, Holder
from placesim.runtime.sessions.outcome import Outcome

VARIABLE, CONSTANT, STEP, SCRATCH = "variable", "constant", "step", "scratch"
KINDS = (VARIABLE, CONSTANT, STEP, SCRATCH)
"""Kinds of buffers: a variable, a constant, a tensor of the step, or scratch space of the device."""
_FEED = re.compile(r"_arg_(?P<fed>.+)_\d+_\d+(?:/_\d+)?")


class DeviceMemory(NamedTuple):
    """The memory of one device. `usage` is its use with memory limits, up to any failure; `needed` is its use without limits.

    `fragmentation` is the share of free memory outside the largest free chunk at the peak. It is NaN if nothing is free, and
    None without an allocator. After a failure, `asked` is the number of requested bytes, and `free` the number of free bytes.
    `dump` has TensorFlow's lines at the failure, or else at the peak, on request.
    """

    usage: DeviceUsage
    needed: DeviceUsage
    fragmentation: float | None
    dump: tuple[str, ...] = ()
    asked: int = 0
    free: int = 0

    @property
    def is_fragmented(self) -> bool:
        """Whether the device ran out of memory although enough bytes were free."""
        return 0 < self.asked <= self.free

    @property
    def room(self) -> int | None:
        """Return the limit minus the peak, in bytes: negative if memory is missing, None without a limit."""
        return None if self.usage.limit is None else self.usage.limit - self.needed.peak


class SmallestGpu(NamedTuple):
    """The model of the catalogue with the least memory on which the graph would fit, and its memory limit in bytes."""

    model: GpuModel
    limit: int


@dataclass(frozen=True)
class MemoryStudy:
    """The results of a memory study of a graph.

    `error` is TensorFlow's error if a device runs out of memory. `batch` is the requested batch size. If `is_searched`, it is
    the largest batch size that fits, or None if every size fits.

    `has_gpus` says that GPUs were used and that another model may replace them. `smallest_gpu` is the smallest sufficient
    model; None if no model suffices or no GPUs were used. `growth` is the value of `allow_growth` that would change whether the
    graph fits, or None.

    `order` has the scopes that must run one after another so that the graph fits; it is empty if this would not help or is not
    needed. `assumptions` has sentences about assumed values. `outcome` is the simulation with the devices' memory limits.
    """

    name: str
    devices: tuple[DeviceMemory, ...]
    outcome: Outcome = field(repr=False, compare=False)
    error: PlacesimError | None = None
    batch: int | None = None
    is_searched: bool = False
    is_executed: bool = False
    has_gpus: bool = False
    smallest_gpu: SmallestGpu | None = None
    growth: bool | None = None
    order: tuple[str, ...] = ()
    assumptions: tuple[str, ...] = ()

    @property
    def notes(self) -> tuple[str, ...]:
        """Return notes about memory that is not counted, as sentences."""
        if any(device.usage.limit is not None and device.usage.allocator.startswith("GPU_") for device in self.devices):
            return ("cuDNN workspaces are not counted",)
        return ()

    @property
    def fits(self) -> bool:
        """Whether no device ran out of memory."""
        return self.error is None


# --- who holds it ---------------------------------------------------------------------------------------------------


class Holding(NamedTuple):
    """Buffers of one kind in use at a peak: a single buffer, or the buffers of a scope.

    `name` is the name of a node, a variable, or a scope (with `/` at the end); empty for all buffers of the kind. The
    name ends in `*` if other rows have the largest buffers of the scope. `since` is the node that allocated the first buffer.
    `until` is the node after which the last buffer was freed; empty if a buffer stays.
    """

    kind: str
    name: str
    number: int
    size: int
    requested: int
    since: str
    until: str


def kind_of(holder: Holder) -> str:
    """Return the kind of a buffer, one of KINDS."""
    word = holder.kept.partition(" ")[0]
    return word if word in KINDS else STEP


def name_of(holder: Holder) -> str:
    """Return the name of a buffer: the variable's name, else the name of the allocating node or of the fed node."""
    kind, _, name = holder.kept.partition(" ")
    return name if kind == VARIABLE else feed_name(holder.node)


def feed_name(node: str) -> str:
    """Return `x` for `_arg_x_0_0`, which a step adds to feed `x` (also on another device); other names are unchanged."""
    added = _FEED.fullmatch(node)
    return added["fed"] if added else node


def largest_holdings(holders: Sequence[Holder], limit: int) -> list[Holding]:
    """Return at most `limit` rows, the largest first.

    At first, each kind is a row. Then the row with the largest scope is split again and again: into all its parts if `limit`
    allows, else into its largest part and the rest.
    """
    groups = [
        _Group(kind, "", [holder for holder in holders if kind_of(holder) == kind])
        for kind in KINDS
        if any(kind_of(holder) == kind for holder in holders)
    ]
    closed: list[_Group] = []
    while groups:
        groups.sort(key=_Group.order)
        group = groups.pop()
        parts = group.parts()
        if len(parts) < 2:
            closed.append(group)
        elif len(closed) + len(groups) + len(parts) <= limit:
            groups += parts
        elif len(closed) + len(groups) + 2 <= limit:
            parts.sort(key=_Group.order)
            groups += [parts[-1], group.rest(parts[:-1])]
        else:
            closed.append(group)
    found = [group.holding() for group in closed]
    return sorted(found, key=lambda holding: (-holding.size, holding.name))[:limit]


@dataclass(frozen=True, slots=True)
class _Group:
    """Buffers of one kind in the scope `name`, or a single buffer of that name.

    The name is empty for all buffers of the kind. `is_rest` says that other rows have the largest buffers of the scope.
    """

    kind: str
    name: str
    members: list[Holder]
    is_rest: bool = False

    def order(self) -> tuple[int, str]:
        return sum(holder.size for holder in self.members), self.name

    def scope(self) -> str:
        """Return the innermost scope that contains all buffers."""
        names = list(map(name_of, self.members))
        first, last = min(names), max(names)  # the common prefix of the first and last name is common to all names
        shared = sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], zip(first, last, strict=False)))
        return first[:shared].rpartition("/")[0]

    def rest(self, parts: Sequence[_Group]) -> _Group:
        return _Group(self.kind, self.scope(), [holder for part in parts for holder in part.members], True)

    def parts(self) -> list[_Group]:
        """Return the parts of the scope that all buffers share: its child scopes, and its own buffers."""
        start = len(scope) + 1 if (scope := self.scope()) else 0
        found: dict[tuple[str, int], list[Holder]] = {}
        for number, holder in enumerate(self.members):
            whose = name_of(holder)
            end = whose.find("/", start)
            found.setdefault((whose, number) if end < 0 else (whose[:end], -1), []).append(holder)
        return [_Group(self.kind, name, members) for (name, _), members in found.items()]

    def holding(self) -> Holding:
        first = min(self.members, key=lambda holder: holder.made)
        stays = next((holder for holder in self.members if holder.freed is None), None)
        last = stays or max(self.members, key=lambda holder: holder.freed or 0)
        name = name_of(first)
        if len(self.members) > 1:
            scope = self.name if self.is_rest else self.scope()
            name = (f"{scope}/" if scope else "") + "*" * self.is_rest
        sizes = sum(holder.size for holder in self.members), sum(holder.requested for holder in self.members)
        return Holding(self.kind, name, len(self.members), *sizes, feed_name(first.since), feed_name(last.until))
