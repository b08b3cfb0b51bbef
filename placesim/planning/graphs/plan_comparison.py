"""Comparison of a graph's plan with other placements, as one record for all reports."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum
from typing import NamedTuple

from placesim.core.errors import PlacesimError
from placesim.planning.bounds import Bound
from placesim.planning.portfolio import OPTIMAL
from placesim.prediction.time_breakdown import TimeStudy

DEFAULT, ANNOTATED, PLANNED = "TensorFlow's default", "as annotated", "the plan"
"""Labels of TensorFlow's placement without and with the graph's device requests, and of the plan."""


class PlanMeasure(Enum):
    """Measure of a graph's plan; smaller values are better."""

    LATENCY = "latency"
    """Seconds of a step if steps run one after another."""
    THROUGHPUT = "throughput"
    """Seconds per step of the busiest device, including its transfers, if steps overlap in a pipeline of devices."""
    MEMORY = "memory"
    """Highest peak of any device, in bytes."""


Edits = tuple[tuple[str, int], ...]
"""Edits of a plan: the path of a scope, with its slash, or of a node, and the number of the requested device."""

BY_SCOPE, BY_NODE = "scope", "node"
"""Units that a plan moves: name scopes, or nodes with their colocation groups."""


class Aim(NamedTuple):
    """Objective and requirements of a search for a plan.

    - `needs_contiguous`: whether no path may leave a device and come back to it.
    - `explains`: whether gains of moves are reported.
    - `is_traced`: whether simulations of placements keep the data for traces.
    - `apart`: node name patterns; two groups with nodes that match the same pattern may not share a device.
    - `by`: unit that the plan moves, BY_SCOPE or BY_NODE. None means BY_SCOPE if the graph has scopes.
    - `changes`: maximum number of edits; None for any number.
    - `without`: devices to avoid, as names or types.
    """

    sought: PlanMeasure = PlanMeasure.LATENCY
    needs_contiguous: bool = False
    explains: bool = False
    is_traced: bool = False
    apart: tuple[str, ...] = ()
    by: str | None = BY_NODE
    changes: int | None = None
    without: tuple[str, ...] = ()


class SimulatedPlacement(NamedTuple):
    """A placement that was simulated as a graph.

    `study` is None if TensorFlow rejects the placement. `error` is TensorFlow's error, or the error of a device that runs out
    of memory. `asked` are the device requests of its nodes, in addition to those that the graph keeps. `is_allowed` is False if
    the placement overrides requests that the graph keeps, or if groups that must be apart share a device.
    """

    label: str
    study: TimeStudy | None
    error: PlacesimError | None = None
    asked: Mapping[str, str] = {}
    is_allowed: bool = True

    @property
    def fits(self) -> bool:
        """Whether the placement runs within the available memory."""
        return self.study is not None and self.error is None

    @property
    def seconds(self) -> float:
        """Step time in seconds; infinite if the placement does not run."""
        return self.study.step.seconds if self.study is not None else math.inf

    def value(self, sought: PlanMeasure) -> float:
        """Return the value of a measure for this placement; infinite if it does not run."""
        if self.study is None:
            return math.inf
        match sought:
            case PlanMeasure.LATENCY:
                return self.seconds
            case PlanMeasure.THROUGHPUT:
                return max(device_loads(self.study).values(), default=0.0)
            case PlanMeasure.MEMORY:
                return float(max((device.peak or 0 for device in self.study.devices), default=0))


def device_loads(study: TimeStudy) -> dict[str, float]:
    """Return the seconds of each device's nodes and transfers. Only GPUs spend time on transfers."""
    found = {device.device: 0.0 for device in study.devices}
    for run in study.nodes:
        found[run.device] += run.seconds
    for transfer in study.transfers:
        for device in {transfer.sender, transfer.receiver} if transfer.sender != transfer.receiver else ():
            if is_gpu(device):
                found[device] += transfer.end - transfer.start
    return found


def is_gpu(device: str) -> bool:
    """Return whether a full device name is a GPU's."""
    return "/device:GPU:" in device


class PlanMove(NamedTuple):
    """Nodes of one group that the plan moves.

    `loss` is the simulated increase of the objective if only these nodes stayed in place. It is None if it was not requested,
    if the nodes may not stay, or if it is probably small in a large plan.
    """

    nodes: tuple[str, ...]
    source: str
    target: str
    loss: float | None


class PlanEdit(NamedTuple):
    """A device for a name scope (`path` ends in `/`), for a node, or for the whole graph (`path` is `*`).

    `nodes` is the number of nodes that it moves, without nodes in inner scopes that have their own edits. `gradients` are the
    scopes with the gradients of the scope's nodes, if the edit moves them too.
    """

    path: str
    device: str
    nodes: int
    gradients: tuple[str, ...] = ()

    @property
    def title(self) -> str:
        """Text for the nodes that the edit moves."""
        path = "all movable nodes" if self.path == "*" else self.path
        return f"{path} and its gradients" if self.gradients else path


class CurvePoint(NamedTuple):
    """The best plan with a number of edits: the value of the objective, the step time in seconds, and the edits."""

    changes: int
    value: float
    seconds: float
    edits: tuple[PlanEdit, ...]


class StayingNodes(NamedTuple):
    """Nodes that must stay on a device to avoid or to leave, and the reason."""

    device: str
    nodes: tuple[str, ...]
    reason: str


@dataclass(frozen=True)
class PlanStudy:
    """A plan, the placements compared with it, and the lower bound.

    - `placements`: the simulated placements; `plan` is the best of them that fits, or None.
    - `bound`: the lower bound of the objective `sought`; `method` is the method that found the plan.
    - `asked`: the device requests of the plan, by node.
    - `movable`: the number of groups that could be on another device.
    - `is_held`: whether the request of any node was kept.
    - `ways_out`: changes that would let a plan fit if none does.
    - `by`: BY_SCOPE or BY_NODE.
    - `edits`: the plan as edits; empty if it was searched by node without a limit of edits.
    - `curve`: the best plans for increasing numbers of edits.
    - `by_node`: a better placement that edits of scopes did not reach; None if none was found.
    - `staying`: nodes that must stay on a device to avoid, or on a device whose request was dropped.
    - `ended_early`: a sentence if the limit of the search was too low for a result; else an empty text.
    """

    name: str
    placements: tuple[SimulatedPlacement, ...]
    plan: SimulatedPlacement | None
    bound: Bound
    method: str
    asked: Mapping[str, str]
    moves: tuple[PlanMove, ...]
    is_interrupted: bool
    sought: PlanMeasure
    movable: int
    ways_out: tuple[str, ...]
    is_held: bool
    by: str = BY_NODE
    edits: tuple[PlanEdit, ...] = ()
    curve: tuple[CurvePoint, ...] = ()
    by_node: SimulatedPlacement | None = None
    staying: tuple[StayingNodes, ...] = ()
    ended_early: str = ""

    @property
    def value(self) -> float:
        """Objective value of the plan; infinite without a plan."""
        return math.inf if self.plan is None else self.plan.value(self.sought)

    @property
    def current(self) -> SimulatedPlacement | None:
        """The graph's current placement; None if it does not run."""
        runs = {placed.label: placed for placed in self.placements if placed.study is not None}
        return runs.get(ANNOTATED) or runs.get(DEFAULT)

    @property
    def before(self) -> SimulatedPlacement | None:
        """The graph's current placement if it runs and is not the plan; else the best other placement."""
        own = self.current
        if own is not None and own is not self.plan:
            return own
        others = (placed for placed in self.placements if placed.study is not None and placed is not self.plan)
        return min(others, key=lambda placed: placed.value(self.sought), default=own)

    @property
    def assumptions(self) -> tuple[str, ...]:
        """Sentences about values that are unknown before the step runs; equal for all placements."""
        return next((placed.study.value_assumptions for placed in self.placements if placed.study is not None), ())

    @property
    def gap(self) -> float:
        """Largest possible improvement, as a share of the plan's value."""
        return 0.0 if self.plan is None else self.bound.gap(self.value)

    @property
    def is_optimal(self) -> bool:
        """Whether no plan can be better."""
        return self.plan is not None and self.gap <= OPTIMAL
