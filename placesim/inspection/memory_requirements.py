"""Memory requirements of a graph on its devices, and changes that would make it fit, as one record for all reports."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import takewhile
from types import MappingProxyType
from typing import NamedTuple

from placesim.core.errors import PlacesimError
from placesim.machine.gpu_models import GpuModel
from placesim.runtime.accounting.usage import DeviceUsage, Holder
from placesim.runtime.partitioning.pruning import feed_name
from placesim.runtime.sessions.outcome import Outcome

VARIABLE, CONSTANT, STEP, SCRATCH = "variable", "constant", "step", "scratch"
KINDS = (VARIABLE, CONSTANT, STEP, SCRATCH)
"""Kinds of buffers: a variable, a constant, a tensor of the step, or scratch space of the device."""
STRATEGY = "strategy"
"""Kind of an edit that rewrites a training graph by `placesim parallelize`."""
NAMED_SHARE = 0.001
"""Share of a device's bytes from which a variable has its own row among the holders."""


class DeviceMemory(NamedTuple):
    """The memory of one device. `usage` is its use with memory limits, up to any failure; `needed` is its use without limits.

    `fragmentation` is the share of free memory outside the largest free chunk at the peak. It is NaN if nothing is free, and
    None without an allocator. After a failure, `asked` is the number of requested bytes, and `free` the number of free bytes.
    `dump` has TensorFlow's lines at the failure, or else at the peak, on request.

    `categories` has the bytes in use at the peak by purpose. `most` is the peak if each convolution has the largest workspace
    that cuDNN may choose; None if no convolution runs on the device.
    """

    usage: DeviceUsage
    needed: DeviceUsage
    fragmentation: float | None
    dump: tuple[str, ...] = ()
    asked: int = 0
    free: int = 0
    categories: Mapping[str, int] = MappingProxyType({})
    most: int | None = None

    @property
    def is_fragmented(self) -> bool:
        """Whether the device ran out of memory although enough bytes were free."""
        return 0 < self.asked <= self.free

    @property
    def room(self) -> int | None:
        """Return the limit minus the peak, in bytes: negative if memory is missing, None without a limit."""
        return None if self.usage.limit is None else self.usage.limit - self.needed.peak


class MemoryEdit(NamedTuple):
    """A change to a graph or its options, and the peak with it on the device that ran out of memory.

    `kind` is `batch`, `devices`, `recomputation` or `STRATEGY`; the peak of a recomputation is estimated. `fits` says whether
    the graph then fits on all devices.
    """

    kind: str
    text: str
    peak: int
    fits: bool


class SmallestGpu(NamedTuple):
    """The model of the catalogue with the least memory on which the graph would fit, and its memory limit in bytes."""

    model: GpuModel
    limit: int


@dataclass(frozen=True)
class MemoryStudy:
    """The results of a memory study of a graph.

    `error` is TensorFlow's error if a device runs out of memory. `batch` is the requested batch size. If `is_searched`, it is
    the largest batch size that fits, or None if every size fits. `fitting_batch` is the largest that fits if `batch` does not;
    0 if none does.

    `has_gpus` says that GPUs were used and that another model may replace them. `smallest_gpu` is the smallest sufficient
    model; None if no model suffices or no GPUs were used. `growth` is the value of `allow_growth` that would change whether the
    graph fits, or None.

    `order` has the scopes that must run one after another so that the graph fits; it is empty if this would not help or is not
    needed. `edits` are the changes with the most effect, the best first, if the graph does not fit. `assumptions` has sentences
    about assumed values. `outcome` is the simulation with the devices' memory limits.
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
    fitting_batch: int | None = None
    edits: tuple[MemoryEdit, ...] = ()

    @property
    def fits(self) -> bool:
        """Whether no device ran out of memory."""
        return self.error is None

    @property
    def notes(self) -> tuple[str, ...]:
        """Return notes about the peaks, as sentences."""
        found = [] if self.devices else ["the steps allocate no memory on any device"]
        if not self.fits:
            found.append("peaks, curves and holders are those of a run without limits")
        if any(device.most is not None for device in self.devices):
            found.append("a peak's upper bound has the largest workspace that cuDNN may choose for each convolution")
        return tuple(found)

    @property
    def by_fullness(self) -> tuple[DeviceMemory, ...]:
        """The devices, those with the highest peak for their limit first; devices without a limit come last."""
        return tuple(sorted(self.devices, key=lambda device: -device.needed.peak / (device.usage.limit or float("inf"))))


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


def largest_holdings(holders: Sequence[Holder], limit: int) -> list[Holding]:
    """Return at most `limit` rows, the largest first.

    At first, each kind is a row. Then the row that hides the largest buffer is split again and again: into all parts of its
    scope if `limit` allows, else into the part with this buffer and the rest. Variables with at least NAMED_SHARE of all bytes
    are split off first, up to two thirds of the rows.
    """
    groups = [
        _Group(kind, "", members)
        for kind in KINDS
        if (members := sorted((holder for holder in holders if kind_of(holder) == kind), key=_size, reverse=True))
    ]
    # of more kinds than rows, only the largest rows remain, which are parts of kinds
    rows = limit if len(groups) <= limit else len(groups) + limit
    least = NAMED_SHARE * sum(map(_size, holders))
    while len(groups) < rows and (open_groups := [group for group in groups if len(group.members) > 1]):
        group = max(open_groups, key=lambda group: (group.members[0].size, group.name))
        variables = [g for g in open_groups if g.kind == VARIABLE and g.members[0].size >= least]
        if variables and 3 * sum(group.kind == VARIABLE for group in groups) < 2 * rows:
            group = variables[0]
            parts = [_Group(VARIABLE, "", group.members[:1]), group.rest(group.members[1:])]
        else:
            parts = group.parts()
            if len(groups) - 1 + len(parts) > rows:
                parts = [parts[0], group.rest([holder for part in parts[1:] for holder in part.members])]
        groups = [other for other in groups if other is not group] + parts
    found = [group.holding() for group in groups]
    return sorted(found, key=lambda holding: (-holding.size, holding.name))[:limit]


def _size(holder: Holder) -> int:
    return holder.size


@dataclass(frozen=True, slots=True)
class _Group:
    """Buffers of one kind in the scope `name`, the largest first, or a single buffer of that name.

    The name is empty for all buffers of the kind. `is_rest` says that other rows have the largest buffers of the scope.
    """

    kind: str
    name: str
    members: list[Holder]
    is_rest: bool = False

    def scope(self) -> str:
        """Return the innermost scope that contains all buffers."""
        names = list(map(name_of, self.members))
        first, last = min(names), max(names)  # the common prefix of the first and last name is common to all names
        shared = sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], zip(first, last, strict=False)))
        return first[:shared].rpartition("/")[0]

    def rest(self, members: list[Holder]) -> _Group:
        return _Group(self.kind, self.scope(), sorted(members, key=_size, reverse=True), True)

    def parts(self) -> list[_Group]:
        """Return the child scopes and buffers of the common scope; the one with the largest buffer is first."""
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
