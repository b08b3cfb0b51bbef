"""A plan as lines for a pipe, and as a JSON object.

In a pipe, every line begins with the name of its table, and tabs separate its cells. Times are in seconds, bytes are whole
numbers, and `-` stands for a missing value.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

from placesim.inspection.short_device_names import short_names
from placesim.planning.graphs.plan_comparison import (
    CurvePoint,
    PlanEdit,
    PlanMeasure,
    PlanMove,
    PlanStudy,
    SimulatedPlacement,
)
from placesim.report.document import error_document
from placesim.report.text.amounts import readable_seconds, readable_size
from placesim.report.text.tables import NOTHING, TableSpec, TabLines
from placesim.report.text.timing import step_document

if TYPE_CHECKING:
    from placesim.planning.portfolio import PlanResult

COLUMNS = {
    "plan": ("objective", "value", "bound", "gap", "optimal", "method"),
    "bound": ("reason",),
    "ended": ("sentence",),
    "placement": (
        *("label", "seconds", "low", "high", "load_seconds", "peak_bytes"),
        *("transfers", "transfer_bytes", "memory_share", "fits"),
    ),
    "move": ("nodes", "first_node", "source", "target", "loss"),
    "edit": ("path", "device", "nodes", "gradients"),
    "curve": ("changes", "value", "seconds"),
    "ask": ("node", "device"),
    "stay": ("nodes", "first_node", "device", "reason"),
    "assumption": ("sentence",),
}
"""Columns of each table in a pipe.

- `value` of `plan` and `curve` is in seconds, or in bytes of memory, as the objective is.
- `ended` says that the limit of the search was too low for a result.
- `placement` has the busiest device's load, the highest peak, the highest share of a device's memory, and `fits` or the error.
- `loss` of `move` is the increase of the value if only these nodes stay in place (with `--explain`).
- `edit` is one edit of the plan, with the number of nodes that follow the edit, and the scopes of gradients that it includes. A
  plan by node has edits only if their number is limited.
- `curve` is the best plan for each number of edits.
- `ask` is a device request that produces the plan by node.
- `stay` has the nodes that had to stay on a device to avoid.
- `assumption` is about a value that is unknown before the step runs.
"""


def format_best(sought: PlanMeasure, planned: PlanResult) -> str:
    """Return the best plan so far and the bound as a text; empty without a plan."""
    if planned.plan is None:
        return ""
    best, bound = (readable_value(sought, value) for value in (planned.plan.value, planned.bound.value))
    return f"best {best} by {planned.method}, lower bound {bound} ({planned.gap:.1%} less)"


def plan_lines(study: PlanStudy, top: int) -> TabLines:
    """Return all lines, with at most `top` groups that move."""
    return TabLines(COLUMNS, _rows(study, top))


def _rows(study: PlanStudy, top: int) -> Iterator[Sequence[object]]:
    if study.plan is not None:
        mark = "optimal" if study.is_optimal else NOTHING
        values = f"{study.value:.6g}", f"{study.bound.value:.6g}", f"{study.gap:.4f}"
        yield ("plan", study.sought.value, *values, mark, study.method)
    yield ("bound", study.bound.why)
    if study.ended_early:
        yield ("ended", study.ended_early)
    for placed in study.placements:
        yield ("placement", placed.label, *placement_cells(placed))
    for move in study.moves[:top]:
        yield (
            "move",
            len(move.nodes),
            move.nodes[0],
            move.source,
            move.target,
            NOTHING if move.loss is None else f"{move.loss:.6g}",
        )
    for edit in study.edits:
        yield ("edit", edit.path, edit.device, edit.nodes, ", ".join(edit.gradients) or "-")
    for point in study.curve:
        yield ("curve", point.changes, f"{point.value:.6g}", f"{point.seconds:.6g}")
    names = short_names(list(study.asked.values()))
    for node, device in zip(study.asked, names, strict=True) if not study.curve else ():
        yield ("ask", node, device)
    for staying in study.staying:
        yield ("stay", len(staying.nodes), staying.nodes[0], staying.device, staying.reason)
    for text in study.assumptions:
        yield ("assumption", text)


def placement_cells(placed: SimulatedPlacement) -> tuple[object, ...]:
    """Return the cells of a placement's line after the label."""
    study = placed.study
    if study is None:
        return (*([NOTHING] * 8), summarise_error(placed))
    fullest = fullest_share(placed)
    step = study.step
    return (
        *(f"{seconds:.6g}" for seconds in (step.seconds, step.low, step.high, placed.value(PlanMeasure.THROUGHPUT))),
        round(placed.value(PlanMeasure.MEMORY)),
        len(study.counted_transfers),
        sum(transfer.bytes for transfer in study.counted_transfers),
        NOTHING if fullest is None else f"{fullest:.4f}",
        "fits" if placed.fits else summarise_error(placed),
    )


def readable_value(sought: PlanMeasure, value: float) -> str:
    """Return the value of a measure with its unit."""
    return readable_size(round(value)) if sought is PlanMeasure.MEMORY else readable_seconds(value)


def fullest_share(placed: SimulatedPlacement) -> float | None:
    """Return the highest used share of a device's memory, or None if no device with a limit uses memory."""
    devices = () if placed.study is None else placed.study.devices
    return max((device.peak / device.limit for device in devices if device.limit and device.peak), default=None)


def summarise_error(placed: SimulatedPlacement) -> str:
    """Return a placement's error in one line, or `-`."""
    return NOTHING if placed.error is None else f"{placed.error.type_name}: {placed.error.message}".partition("\n")[0]


def suggest_remedy(study: PlanStudy) -> str:
    """Return a change after which a placement would fit, derived from the memory use of the placements."""
    short = []
    for placed in study.placements:
        devices = () if placed.study is None else placed.study.devices
        needs = [
            (device.device, device.peak, device.peak - device.limit)
            for device in devices
            if device.limit is not None and device.peak is not None and device.peak > device.limit
        ]
        if needs:
            short.append((sum(more for _, _, more in needs), needs))
    if not short:
        errors = [summarise_error(placed) for placed in study.placements if placed.error is not None]
        return errors[-1] if errors else "no placement runs"
    _, needs = min(short)
    names = short_names([device for device, _, _ in needs])
    least = " and ".join(f"{readable_size(peak)} on {name}" for name, (_, peak, _) in zip(names, needs, strict=True))
    return "; ".join([*study.ways_out, f"needs {least}, or a smaller batch"])


def plan_document(study: PlanStudy) -> dict[str, Any]:
    """Return the JSON object with all results; missing values are null."""
    return {
        "graph": study.name,
        "objective": study.sought.value,
        "value": None if study.plan is None else study.value,
        "seconds": None if study.plan is None else study.plan.seconds,
        "bound": study.bound._asdict(),
        "gap": study.gap,
        "is_optimal": study.is_optimal,
        "is_interrupted": study.is_interrupted,
        "ended_early": study.ended_early or None,
        "method": study.method,
        "movable_groups": study.movable,
        "ways_out": list(study.ways_out),
        "assumptions": list(study.assumptions),
        "placements": [placement_document(placed) for placed in study.placements],
        "moves": [move._asdict() for move in study.moves],
        "devices": dict(study.asked),
        "by": study.by,
        "edits": [edit._asdict() for edit in study.edits],
        "curve": [point._asdict() | {"edits": [edit._asdict() for edit in point.edits]} for point in study.curve],
        "staying": [staying._asdict() for staying in study.staying],
        "step": None if study.plan is None or study.plan.study is None else step_document(study.plan.study),
    }


TABLES = (
    TableSpec(
        "placements",
        ("placements",),
        (
            *("label", "fits", "is_allowed", "seconds", "low", "high", "load_seconds", "peak_bytes"),
            *("transfers", "transfer_bytes", "error.message"),
        ),
    ),
    TableSpec("moves", ("moves",), PlanMove._fields),
    TableSpec("devices", ("asked",), ("node", "device")),
    TableSpec("edits", ("edits",), PlanEdit._fields),
    TableSpec("curve", ("curve",), CurvePoint._fields[:3]),
)
"""Tables of `plan_tables`."""


def plan_tables(study: PlanStudy) -> dict[str, Any]:
    """Return the JSON object of a plan, with the device requests as a list of rows."""
    return plan_document(study) | {"asked": [{"node": node, "device": device} for node, device in study.asked.items()]}


def placement_document(placed: SimulatedPlacement) -> dict[str, Any]:
    """Return the JSON object of a placement; missing values are null."""
    study = placed.study
    found: dict[str, Any] = {"label": placed.label, "fits": placed.fits, "is_allowed": placed.is_allowed}
    found |= {"seconds": None, "low": None, "high": None}
    found |= {"load_seconds": None, "peak_bytes": None}
    found |= {"transfers": None, "transfer_bytes": None, "devices": []}
    if study is not None:
        step = study.step
        found |= {"seconds": step.seconds, "low": step.low, "high": step.high, "transfers": len(study.counted_transfers)}
        found |= {"load_seconds": placed.value(PlanMeasure.THROUGHPUT), "peak_bytes": round(placed.value(PlanMeasure.MEMORY))}
        found["transfer_bytes"] = sum(transfer.bytes for transfer in study.counted_transfers)
        found["devices"] = [
            {"device": d.device, "busy_seconds": d.busy, "peak_bytes": d.peak, "limit_bytes": d.limit} for d in study.devices
        ]
    return found | {"error": None if placed.error is None else error_document(placed.error)}
