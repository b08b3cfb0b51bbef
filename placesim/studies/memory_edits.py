"""Changes with which a graph that runs out of memory would need less: a smaller batch, other devices, recomputation."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from itertools import accumulate
from math import isqrt
from typing import TYPE_CHECKING

from placesim.core.errors import UsageError
from placesim.formats.device_annotations import set_devices
from placesim.graph.node_patterns import enclosing_scopes, is_gradient_name
from placesim.inspection.memory_categories import ACTIVATIONS, MemoryCategories
from placesim.inspection.memory_requirements import VARIABLE, MemoryEdit, kind_of, name_of
from placesim.inspection.short_device_names import short_names
from placesim.machine.device_names import parse_runtime_name
from placesim.runtime.accounting.usage import DeviceUsage, Holder

if TYPE_CHECKING:
    from placesim.formats.sources.loading import LoadedGraph
    from placesim.machine.inventory import Device
    from placesim.runtime.sessions.outcome import Outcome

MAX_EDITS = 6
MAX_MOVES = 3
"""Maximum number of moved scopes that are tried, each in a dry run. A scope is tried again if the first target has no room."""
MAX_SHARE = 0.95
"""Share of the peak above which a change is no help."""
LEAST_RECOMPUTED = 4
"""Minimum number of activations of which some are recomputed."""

Walk = Callable[["LoadedGraph"], "Outcome"]
"""A dry run of a graph without memory limits."""


def move_edit(
    loaded: LoadedGraph, needed: Outcome, usage: DeviceUsage, walk: Walk, fits: Callable[[Outcome], bool]
) -> MemoryEdit | None:
    """Return the best move of a scope or variable from a full device to one with room; None if none helps."""
    assert loaded.file is not None
    best: MemoryEdit | None = None
    patterns, targets = _movable(usage), _targets(needed, usage.device)
    while patterns and targets:
        pattern, target = patterns[0], targets[0]
        try:
            moved = replace(loaded, file=set_devices(loaded.file, [(pattern, _request(target))]))
        except UsageError:
            patterns.pop(0)
            continue
        outcome = walk(moved)
        peaks = {found.device: found.peak for found in outcome.memory}
        peak, limit = peaks.get(usage.device, 0), target.allocation_limit
        if limit is not None and peaks.get(target.name, 0) > limit:
            targets.pop(0)  # the move would only take the shortage to another device
            continue
        patterns.pop(0)
        if outcome.error is not None or peak >= (MAX_SHARE * usage.peak if best is None else best.peak):
            continue
        best = MemoryEdit("devices", f"--device '{pattern}={_request(target)}'", peak, fits(outcome))
        if best.fits:
            break
    return best


def _targets(outcome: Outcome, full: str) -> list[Device]:
    """Return the GPU and then the CPU with the most room among the other devices of the same task."""
    peaks = {usage.device: usage.peak for usage in outcome.memory}
    task = full.rpartition("/device:")[0]
    others = [device for device in outcome.devices if device.name.startswith(task + "/") and device.name != full]
    others = [device for device in others if device.gpu is not None or device.type == "CPU"]

    def room(device: Device) -> float:
        limit = device.allocation_limit
        return float("inf") if limit is None else limit - peaks.get(device.name, 0)

    best = {device.gpu is not None: device for device in sorted(others, key=room)}
    return [best[is_gpu] for is_gpu in (True, False) if is_gpu in best]


def _request(device: Device) -> str:
    spec = parse_runtime_name(device.name)
    assert spec is not None
    kind = f"/{short_names([device.name])[0].lower()}"
    return kind if spec.job == "localhost" else f"/job:{spec.job}/task:{spec.task}{kind}"


def _movable(usage: DeviceUsage) -> list[str]:
    """Return scopes and variables at the peak: first the smallest ones that free enough memory, then the largest others."""
    variables = {name_of(holder) for holder in usage.holders if kind_of(holder) == VARIABLE}
    held: Counter[str] = Counter()
    for holder in usage.holders:
        name = name_of(holder)
        scopes = list(enclosing_scopes(name))
        # an optimizer's variables are in a scope of the updated variable's name, and go where that goes
        owners = [scope[:-1] for scope in scopes if scope[:-1] in variables] or list({name} & variables)
        held.update(dict.fromkeys((*(scope for scope in scopes if scope[:-1] not in variables), *owners), holder.size))
    missing = usage.peak - (usage.limit or 0)
    sizes = [(size, name) for name, size in held.items() if size < usage.peak]
    enough = sorted((size, name) for size, name in sizes if size >= missing)
    others = sorted((pair for pair in sizes if pair[0] < missing), key=lambda pair: (-pair[0], pair[1]))
    names = [name for _, name in (*enough, *others)]
    # the scopes of gradients are often nested, and moving an inner one seldom helps
    gradients = [name for name in names if is_gradient_name(name)]
    return [name for name in names if name not in gradients][: MAX_MOVES - len(gradients[:1])] + gradients[:1]


def recomputation_edit(usage: DeviceUsage, categories: MemoryCategories) -> MemoryEdit | None:
    """Return the effect of keeping only every k-th activation until the backward pass; None for too few activations.

    About the square root of n activations are kept. The others are recomputed, one segment between kept activations at a time
    (Chen et al., arXiv:1604.06174).
    """
    held = [holder for holder in usage.holders if _is_recomputable(holder, categories)]
    if len(held) < LEAST_RECOMPUTED:
        return None
    held.sort(key=lambda holder: holder.made)
    every = isqrt(len(held))
    segments = [held[start + 1 : start + every] for start in range(0, len(held), every)]
    dropped = [holder for segment in segments for holder in segment]
    extra = max(sum(holder.size for holder in segment) for segment in segments)
    peak = max(_curve_without(usage, dropped)) + extra
    if peak > MAX_SHARE * usage.peak:
        return None
    text = f"recompute {len(dropped)} of {len(held)} activations in the backward pass, segment by segment"
    return MemoryEdit("recomputation", text, peak, usage.limit is None or peak <= usage.limit)


def _is_recomputable(holder: Holder, categories: MemoryCategories) -> bool:
    is_fed = name_of(holder) != holder.node
    return not is_fed and categories.of(holder) == ACTIVATIONS and categories.is_backward(holder.until)


def _curve_without(usage: DeviceUsage, dropped: Sequence[Holder]) -> Iterator[int]:
    """Return the bytes in use after each event of the trace if some buffers did not exist."""
    left_out = {holder.made for holder in dropped} | {holder.freed for holder in dropped}
    sizes: list[int] = []
    changes: list[int] = []
    for position, event in enumerate(usage.trace):
        if event >= 0:
            sizes.append(event)
        change = event if event >= 0 else -sizes[-1 - event]
        changes.append(0 if position in left_out else change)
    return accumulate(changes)
