"""Predicted step for comparisons, from a time study or from the output of `simulate` or `plan` with `--format json`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

from placesim.core.errors import GraphFileError, Location, Problem
from placesim.inspection.written_reports import (
    AMOUNT,
    DEVICE,
    SECONDS,
    TEXT,
    PartKind,
    WrongPartError,
    checked,
    checked_rows,
    read_document,
    refusal,
)
from placesim.prediction.time_breakdown import PathPart, TimeStudy, path_by_scope

_KEYS = ("critical_path", "seconds", "low", "high", "devices", "links", "nodes", "transfers")
_PLAN_KEYS = ("step", "placements", "bound")
_STEP = {"seconds": SECONDS, "low": SECONDS, "high": SECONDS}
_SCHEMA: Mapping[str, Mapping[str, PartKind]] = {
    # for each part of the document: the kind of value of each key in its rows; other keys are ignored
    "devices": {"device": DEVICE, "busy_seconds": SECONDS},
    "links": {"name": TEXT, "bytes": AMOUNT, "busy_seconds": SECONDS},
    "nodes": {"node": TEXT, "op": TEXT, "device": DEVICE, "seconds": SECONDS},
    "transfers": {"tensor": TEXT, "sender": DEVICE, "receiver": DEVICE, "bytes": AMOUNT, "start": SECONDS, "end": SECONDS},
    "critical_path": {"node": TEXT, "device": TEXT, "kind": TEXT, "start": SECONDS, "end": SECONDS, "wait": TEXT},
}


class NodeTime(NamedTuple):
    """The total time of a node's runs in the step, and the device of the first run."""

    op: str
    device: str
    seconds: float


class CarriedBytes(NamedTuple):
    """The bytes that a link or a tensor's route carried, and the seconds that this took."""

    bytes: float = 0.0
    seconds: float = 0.0

    def plus(self, size: float, seconds: float) -> CarriedBytes:
        """Return this amount plus another transfer."""
        return CarriedBytes(self.bytes + size, self.seconds + seconds)


@dataclass(frozen=True)
class PredictedStep:
    """The last step in its steady state: its time with the interval, and the times of its parts, in seconds.

    `devices` has busy seconds by device name, `nodes` times by node name, and `links` times by link name. `transfers` has times
    by tensor, sender and receiver. `path` is the critical path by outermost scope and kind.
    """

    seconds: float
    low: float
    high: float
    devices: Mapping[str, float]
    nodes: Mapping[str, NodeTime]
    transfers: Mapping[tuple[str, str, str], CarriedBytes]
    links: Mapping[str, CarriedBytes]
    path: Mapping[tuple[str, str], float]


def predicted_step(study: TimeStudy) -> PredictedStep:
    """Return the last step of a study."""
    return _summed(
        study.step.seconds,
        study.step.low,
        study.step.high,
        {device.device: device.busy for device in study.devices},
        [(run.node, NodeTime(run.op, run.device, run.seconds)) for run in study.nodes],
        [((run.tensor, run.sender, run.receiver), (float(run.bytes), run.end - run.start)) for run in study.transfers],
        {link.name: CarriedBytes(link.bytes, link.busy) for link in study.links},
        study.critical_path,
    )


def read_prediction(data: bytes, name: str) -> PredictedStep | None:
    """Parse the step of a written prediction or plan. Returns None if the text is something else.

    Raises GraphFileError for a damaged prediction, and if no plan fits.
    """
    plan = read_document(data, _PLAN_KEYS)
    document = read_document(data, _KEYS) if plan is None else plan["step"]
    if document is None and plan is None:
        return None
    try:
        if not isinstance(document, dict):
            raise refusal("step", document, "the step of a plan that fits")
        step = checked(document, _STEP, "")
        rows = {part: checked_rows(document, part, kinds) for part, kinds in _SCHEMA.items()}
    except WrongPartError as problem:
        message = f"not a prediction from `{'simulate' if plan is None else 'plan'} --format json`: {problem}"
        raise GraphFileError((Problem(Location(name, 1, 1), message),)) from None
    return _summed(
        step["seconds"],
        step["low"],
        step["high"],
        {row["device"]: row["busy_seconds"] for row in rows["devices"]},
        [(row["node"], NodeTime(row["op"], row["device"], row["seconds"])) for row in rows["nodes"]],
        [(_way(row), (row["bytes"], max(0.0, row["end"] - row["start"]))) for row in rows["transfers"]],
        {row["name"]: CarriedBytes(row["bytes"], row["busy_seconds"]) for row in rows["links"]},
        [PathPart(**row) for row in rows["critical_path"]],
    )


def _way(row: Mapping[str, Any]) -> tuple[str, str, str]:
    return row["tensor"], row["sender"], row["receiver"]


def _summed(
    seconds: float,
    low: float,
    high: float,
    devices: Mapping[str, float],
    runs: list[tuple[str, NodeTime]],
    ways: list[tuple[tuple[str, str, str], tuple[float, float]]],
    links: Mapping[str, CarriedBytes],
    path: Any,
) -> PredictedStep:
    nodes: dict[str, NodeTime] = {}
    for name, run in runs:
        known = nodes.get(name)
        nodes[name] = run if known is None else known._replace(seconds=known.seconds + run.seconds)
    transfers: dict[tuple[str, str, str], CarriedBytes] = {}
    for way, (size, taken) in ways:
        transfers[way] = transfers.get(way, CarriedBytes()).plus(size, taken)
    scopes = {(row.scope, row.kind): row.seconds for row in path_by_scope(path)}
    return PredictedStep(seconds, low, high, devices, nodes, transfers, links, scopes)
