"""A study of memory as lines for a pipe, and as a JSON object.

In a pipe, every line begins with the name of its table, and tabs separate its cells. Bytes are whole numbers; `-` stands for a
missing value.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import Any

from placesim.inspection.memory_requirements import DeviceMemory, Holding, MemoryStudy, largest_holdings
from placesim.inspection.short_device_names import short_names
from placesim.report.document import error_document
from placesim.report.text.amounts import distinct_sizes, readable_size
from placesim.report.text.tables import NOTHING, TableSpec, TabLines, VerbatimCell

COLUMNS = {
    "device": ("device", "allocator", "limit", "peak", "room", "fragmentation", "peak_node"),
    "curve": ("device", "peaks"),
    "category": ("device", "category", "size"),
    "workspaces": ("device", "peak", "peak_with_workspaces"),
    "holder": ("device", "kind", "name", "number", "size", "since", "until"),
    "out": ("device", "node"),
    "fragmented": ("device", "asked", "free"),
    "batch": ("batch", "is"),
    "gpu-model": ("model", "limit"),
    "edit": ("kind", "change", "peak", "outcome"),
    "allow-growth": ("value", "then_it"),
    "order": ("scopes",),
    "assumption": ("sentence",),
    "note": ("sentence",),
    "dump": ("device", "line"),
}
"""Columns of each table in a pipe.

- `device` has the peak without limits, and the node that ran then.
- `curve` has the peak bytes of each part of the steps.
- `category` has the bytes at the peak by purpose, and `workspaces` the peaks without cuDNN's workspaces and with the largest.
- `out` is the device that ran out of memory, and the node that failed.
- `fragmented` has the bytes that could not be allocated, and the bytes that were free.
- `batch`, `edit`, `gpu-model` and `allow-growth` are changes with which the graph would fit. `order` has scopes that would have
  to run one after another.
- `dump` is TensorFlow's dump.
"""


def device_labels(study: MemoryStudy) -> dict[str, str]:
    """Return the short name of each device, by its full name."""
    names = [device.usage.device for device in study.devices]
    return dict(zip(names, short_names(names), strict=True))


def memory_lines(study: MemoryStudy, top: int) -> TabLines:
    """Return all lines; each device has at most `top` rows of holders."""
    return TabLines(COLUMNS, _rows(study, top))


def _rows(study: MemoryStudy, top: int) -> Iterator[Sequence[object]]:
    labels = device_labels(study)
    for device in study.devices:
        usage, label = device.usage, labels[device.usage.device]
        numbers = (_or_nothing(usage.limit), device.needed.peak, _or_nothing(device.room), _share(device.fragmentation))
        yield ("device", label, usage.allocator, *numbers, device.needed.peak_node)
    for device in study.devices:
        yield ("curve", labels[device.usage.device], " ".join(map(str, device.needed.curve)))
    for device in study.devices:
        for category, size in device.categories.items():
            yield ("category", labels[device.usage.device], category, size)
    for device in study.devices:
        if device.most is not None:
            yield ("workspaces", labels[device.usage.device], device.needed.peak, device.most)
    for device in study.devices:
        for holding in largest_holdings(device.needed.holders, top):
            place = labels[device.usage.device], holding.kind, holding.name or "."
            yield ("holder", *place, holding.number, holding.size, holding.since, holding.until or NOTHING)
    if study.error is not None:
        yield ("out", short_names([study.error.device or ""])[0] or NOTHING, study.error.node or NOTHING)
    for device in study.devices:
        if device.is_fragmented:
            yield ("fragmented", labels[device.usage.device], device.asked, device.free)
    if study.batch is not None or study.is_searched:
        yield ("batch", _or_nothing(study.batch), "largest" if study.is_searched else "given")
    if study.fitting_batch is not None:
        yield ("batch", study.fitting_batch, "largest")
    for edit in study.edits:
        yield ("edit", edit.kind, edit.text, edit.peak, "fits" if edit.fits else "fails")
    if study.has_gpus:
        found = study.smallest_gpu
        yield ("gpu-model", *((NOTHING, NOTHING) if found is None else (found.model.name, found.limit)))
    if study.growth is not None:
        yield ("allow-growth", str(study.growth).lower(), "fails" if study.fits else "fits")
    if study.order:
        yield ("order", " ".join(study.order))
    for sentence in study.assumptions:
        yield ("assumption", sentence)
    for note in study.notes:
        yield ("note", note)
    for device in study.devices:
        for line in device.dump:
            yield ("dump", labels[device.usage.device], VerbatimCell(line))


def _or_nothing(value: int | None) -> object:
    return NOTHING if value is None else value


def _share(value: float | None) -> str:
    return NOTHING if value is None or math.isnan(value) else f"{value:.4f}"


# --- sentences -----------------------------------------------------------------------------------------------------


def requirements(study: MemoryStudy) -> Iterator[str]:
    """Yield sentences about changes with which the graph would fit."""
    if study.error is not None:
        device = short_names([study.error.device or ""])[0]
        full = next((d for d in study.devices if d.usage.device == study.error.device), None)
        limit, needed = (0, 0) if full is None else (full.usage.limit or 0, full.needed.peak)
        limited, unlimited = distinct_sizes(limit, needed)
        yield f"{device} runs out of memory at {study.error.node}; without its limit of {limited} it would hold {unlimited}"
    for held in study.devices:
        if held.is_fragmented:
            free, asked = readable_size(held.free), readable_size(held.asked)
            yield f"{free} are free there, but no block fits the {asked} requested: memory is fragmented"
    for held in study.devices:
        if study.fits and held.most is not None and held.most > (held.usage.limit or held.most):
            label = short_names([held.usage.device])[0]
            yield f"{label} has no room for the largest workspaces of cuDNN, which then chooses algorithms with smaller ones"
    if study.is_searched:
        yield _largest_batch(study.batch)
    if study.fitting_batch == 0:
        yield _largest_batch(0)
    for edit in study.edits:
        about = "about " if edit.kind == "recomputation" else ""
        peak = f"{about}{readable_size(edit.peak)}"
        if not edit.fits and edit.peak <= limit:
            yield f"{edit.text}: {device} then has room for its peak of {peak}, but the graph still does not fit"
        else:
            outcome = "it fits" if edit.fits else "it still does not fit"
            yield f"{edit.text}: {outcome}; the peak of {device} is then {peak}"
    if study.has_gpus:
        found = study.smallest_gpu
        yield (
            "no GPU in the catalogue has enough memory"
            if found is None
            else f"smallest GPU that fits: {found.model.name}, with a limit of {readable_size(found.limit)}"
        )
    yield from study.assumptions
    yield from study.notes
    if study.growth is not None:
        outcome = "runs out of memory" if study.fits else "fits"
        yield f"with `allow_growth: {str(study.growth).lower()}`, the graph {outcome}"
    if study.order:
        yield f"it fits if {', '.join(study.order)} run one after another, chained by control inputs"


def _largest_batch(batch: int | None) -> str:
    if batch is None:
        return "any batch fits"
    return f"largest batch that fits: {batch}" if batch else "no batch fits"


# --- JSON -----------------------------------------------------------------------------------------------------------


def memory_document(study: MemoryStudy, top: int) -> dict[str, Any]:
    """Return the JSON object; bytes are whole numbers, missing values null."""
    found = study.smallest_gpu
    return {
        "graph": study.name,
        "fits": study.fits,
        "executed": study.is_executed,
        "devices": [_device_document(device, top) for device in study.devices],
        "batch": study.batch,
        "batch_is_largest": study.is_searched,
        "fitting_batch": study.fitting_batch,
        "edits": [edit._asdict() for edit in study.edits],
        "smallest_gpu": None
        if found is None
        else {"model": found.model.name, "memory": found.model.memory, "limit": found.limit},
        "allow_growth": study.growth,
        "order": list(study.order) or None,
        "assumptions": list(study.assumptions),
        "notes": list(study.notes),
        "error": None if study.error is None else error_document(study.error) | {"device": study.error.device},
    }


TABLES = (
    TableSpec("devices", ("devices",), ("device", "allocator", "limit", "peak", "room", "fragmentation", "peak_node")),
    TableSpec("holders", ("devices", "holders"), ("device", *Holding._fields)),
)
"""Tables of the JSON object."""


def _device_document(device: DeviceMemory, top: int) -> dict[str, Any]:
    usage, needed = device.usage, device.needed
    is_number = device.fragmentation is not None and not math.isnan(device.fragmentation)
    return {
        "device": usage.device,
        "allocator": usage.allocator,
        "limit": usage.limit,
        "peak": needed.peak,
        "room": device.room,
        "peak_node": needed.peak_node,
        "reached": usage.peak,
        "reached_node": usage.peak_node,
        "in_use": usage.in_use,
        "allocations": usage.allocations,
        "asked": device.asked or None,
        "free": device.free if device.usage.limit is not None else None,
        "fragmentation": device.fragmentation if is_number else None,
        "curve": list(needed.curve),
        "categories": dict(device.categories),
        "peak_with_workspaces": device.most,
        "holders": [holding._asdict() | {"until": holding.until or None} for holding in largest_holdings(needed.holders, top)],
        "dump": list(device.dump) or None,
    }
