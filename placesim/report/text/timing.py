"""A study of time as lines for a pipe, and as a JSON object.

In a pipe, every line begins with the name of its table, and tabs separate its cells. Times are in seconds, shares are of the
step time, bytes are whole numbers, and `-` stands for a missing value.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from placesim.inspection.short_device_names import short_names
from placesim.machine.links import is_free
from placesim.prediction.time_breakdown import (
    DeviceTime,
    LinkTime,
    NodeRun,
    PathPart,
    Speedup,
    TimeStudy,
    dearest_nodes,
    dearest_transfers,
    folded_path,
)
from placesim.report.document import error_document
from placesim.report.text import measured
from placesim.report.text.tables import NOTHING, TableSpec, TabLines

COLUMNS = {
    "time": ("seconds", "low", "high"),
    "step": ("number", "repeat", "seconds", "low", "high", "first_seconds"),
    "bound": ("kind", "what", "seconds", "share"),
    "device": (
        *("device", "processor", "nodes", "busy_seconds", "busy", "copies_seconds"),
        *("bytes_in", "bytes_out", "peak_bytes", "limit_bytes", "operations", "mfu"),
    ),
    "link": ("name", "bytes", "busy_seconds", "busy"),
    "path": ("scope", "kind", "parts", "seconds", "share"),
    "node": ("node", "op", "device", "stream", "runs", "seconds", "low", "high", "host"),
    "transfer": ("tensor", "sender", "receiver", "bytes", "start", "seconds"),
    "help": ("kind", "what", "seconds", "share"),
    "out": ("device", "node"),
    "assumption": ("sentence",),
    **measured.COLUMNS,
}
"""Columns of each table in a pipe.

- `time` is the last step in its steady state. - `operations` are floating-point operations. `mfu` (model FLOPs utilization) is
the share of the device's peak that they reach. - `host` of `node` is `assumed` if the node ran on a host with assumed figures.
- `help` is the step time if a link, resource, op or node took no time, and the saved share. - `out` is the device that runs out
of memory, and the node that fails; the times assume no memory limits. - The tables of `measured` exist only after a comparison
with a measurement.
"""


def device_labels(study: TimeStudy) -> dict[str, str]:
    """Return the short name of each device, by its full name."""
    names = [device.device for device in study.devices]
    return dict(zip(names, short_names(names), strict=True))


def time_lines(study: TimeStudy, top: int) -> TabLines:
    """Return all lines, with at most `top` rows of the path, of nodes and of transfers."""
    return TabLines(COLUMNS, _rows(study, top))


def _rows(study: TimeStudy, top: int) -> Iterator[Sequence[object]]:
    labels, step = device_labels(study), study.step
    yield ("time", *map(_seconds, step[2:5]))
    for row in study.steps:
        yield ("step", row.number, row.repeat, *map(_seconds, row[2:]))
    for bound in study.bounds:
        yield ("bound", bound.kind, bound.what, _seconds(bound.seconds), _share(bound.seconds, step.seconds))
    for device in study.devices:
        numbers = (device.nodes, _seconds(device.busy), _share(device.busy, step.seconds), _seconds(device.copies))
        memory = (NOTHING if value is None else value for value in (device.peak, device.limit))
        computed = device.operations, _share(device.peak_seconds, step.seconds)
        yield (
            *("device", labels[device.device], device.processor, *numbers),
            *(device.bytes_in, device.bytes_out, *memory, *computed),
        )
    for link in study.links:
        if link.bytes:
            yield ("link", link.name, int(link.bytes), _seconds(link.busy), _share(link.busy, step.seconds))
    for part in folded_path(study, top):
        yield ("path", part.scope, part.kind, part.number, _seconds(part.seconds), _share(part.seconds, step.seconds))
    for node in dearest_nodes(study, top):
        mark = "assumed" if node.is_uncertain else NOTHING
        yield ("node", node.node, node.op, labels[node.device], node.stream, node.number, *map(_seconds, node[5:8]), mark)
    for run in dearest_transfers(study, top):
        ends = labels[run.sender], labels[run.receiver]
        yield ("transfer", run.tensor, *ends, run.bytes, _seconds(run.start), _seconds(run.end - run.start))
    for found in study.helps[:top]:
        saved = step.seconds - found.seconds
        yield ("help", found.kind, found.what, _seconds(found.seconds), _share(saved, step.seconds))
    if study.error is not None:
        yield ("out", short_names([study.error.device or ""])[0] or NOTHING, study.error.node or NOTHING)
    if study.comparison is not None:
        yield from measured.measured_rows(study.comparison, labels, top)
    for sentence in study.assumptions:
        yield ("assumption", sentence)


def _seconds(value: float) -> str:
    return f"{value:.6g}"


def _share(seconds: float, whole: float) -> str:
    return f"{seconds / whole:.4f}" if whole else NOTHING


def step_document(study: TimeStudy) -> dict[str, Any]:
    """Return the part of `time_document` that `diff` reads: the step, with a row per execution and transfer."""
    whole = study.step.seconds
    return {
        "seconds": whole,
        "low": study.step.low,
        "high": study.step.high,
        "devices": [_device_document(device, whole) for device in study.devices],
        "links": [_link_document(link, whole) for link in study.links],
        "nodes": [node._asdict() for node in study.nodes],
        "transfers": [transfer._asdict() for transfer in study.transfers],
        "critical_path": [part._asdict() for part in study.critical_path],
    }


def time_document(study: TimeStudy) -> dict[str, Any]:
    """Return the JSON object with all results, including a row per execution and transfer; missing values are null."""
    whole, step = study.step.seconds, step_document(study)
    return {
        "graph": study.name,
        **{key: step[key] for key in ("seconds", "low", "high")},
        "steps": [step._asdict() | {"total_seconds": step.total_seconds} for step in study.steps],
        "bounds": [bound._asdict() | {"share": bound.seconds / whole if whole else None} for bound in study.bounds],
        **{key: step[key] for key in ("devices", "links", "nodes", "transfers")},
        "memory": [
            {"device": curve.device, "limit_bytes": curve.limit, "changes": list(map(list, curve.changes))}
            for curve in study.memory
        ],
        "critical_path": step["critical_path"],
        "helps": [found._asdict() | {"share": (whole - found.seconds) / whole if whole else None} for found in study.helps],
        "assumptions": list(study.assumptions),
        "error": None if study.error is None else error_document(study.error) | {"device": study.error.device},
    } | ({} if study.comparison is None else {"comparison": measured.measured_document(study.comparison)})


TABLES = (
    TableSpec("nodes", ("nodes",), NodeRun._fields, by="seconds"),
    TableSpec("steps", ("steps",), ("number", "repeat", "seconds", "low", "high", "first_seconds", "total_seconds")),
    TableSpec("bounds", ("bounds",), ("kind", "what", "seconds", "share")),
    TableSpec(
        "devices",
        ("devices",),
        (
            *("device", "processor", "nodes", "busy", "busy_seconds", "copies_seconds"),
            *("bytes_in", "bytes_out", "peak_bytes", "limit_bytes", "operations", "mfu"),
        ),
    ),
    TableSpec("links", ("links",), ("name", "bandwidth", "latency", "bytes", "busy", "busy_seconds")),
    TableSpec("transfers", ("transfers",), ("tensor", "sender", "receiver", "bytes", "start", "end"), by="bytes"),
    TableSpec("critical-path", ("critical_path",), PathPart._fields),
    TableSpec("speedups", ("helps",), (*Speedup._fields, "share")),
    *measured.TABLES,
)
"""Tables of the JSON object."""


def _device_document(device: DeviceTime, whole: float) -> dict[str, Any]:
    return {
        "device": device.device,
        "processor": device.processor,
        "nodes": device.nodes,
        **_busy(device.busy, whole),
        "copies_seconds": device.copies,
        "bytes_in": device.bytes_in,
        "bytes_out": device.bytes_out,
        "peak_bytes": device.peak,
        "limit_bytes": device.limit,
        "operations": device.operations,
        "mfu": device.peak_seconds / whole if whole else 0.0,
    }


def _link_document(link: LinkTime, whole: float) -> dict[str, Any]:
    # JSON has no infinity
    bandwidth = None if is_free(link.bandwidth) else link.bandwidth
    return link._asdict() | {"bandwidth": bandwidth} | _busy(link.busy, whole)


def _busy(seconds: float, whole: float) -> dict[str, Any]:
    return {"busy": seconds / whole if whole else 0.0, "busy_seconds": seconds}
