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
"""Labels of TensorFlow's default placement, the graph's own, and the plan."""


class PlanMeasure(Enum):
    """Measure of a plan of a graph; less is better."""

    LATENCY = "latency"
    """A step's seconds, one step after the other."""
    THROUGHPUT = "throughput"
    """Steps overlap with each device as a stage: seconds of the busiest device, including its transfers."""
    MEMORY = "memory"
    """The highest peak of any device, in bytes."""


class Aim(NamedTuple):
    """Objective of a search; `needs_contiguous` if no path may leave a device and come back, `explains` if gains are reported.

    With `is_traced` the simulations of placements keep what their traces are made from.
    Of groups with nodes whose names fit one pattern of `apart` no two share a device.
    """

    sought: PlanMeasure = PlanMeasure.LATENCY
    needs_contiguous: bool = False
    explains: bool = False
    is_traced: bool = False
    apart: tuple[str, ...] = ()


class SimulatedPlacement(NamedTuple):
    """A placement that was simulated as a graph.

    `study` is None if TensorFlow refuses it; `error` is its error, or that of a device that runs out of memory.  `asked` are
    the devices that its nodes ask for, beside what holds.  Where `is_allowed` is false, what asks for a device would must be
    freed for it, or groups that are to be apart share one.
    """

    label: str
    study: TimeStudy | None
    error: PlacesimError | None = None
    asked: Mapping[str, str] = {}
    is_allowed: bool = True

    @property
    def fits(self) -> bool:
        """Whether it runs, and in the memory that there is."""
        return self.study is not None and self.error is None

    @property
    def seconds(self) -> float:
        """Step time in seconds; infinite if the placement does not run."""
        return self.study.step.seconds if self.study is not None else math.inf

    def value(self, sought: PlanMeasure) -> float:
        """Value of the objective for this placement; infinite if it does not run."""
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
    """Seconds of each device's nodes and transfers; transfers count for GPUs only, since host memory does not work."""
    found = {device.device: 0.0 for device in study.devices}
    for run in study.nodes:
        found[run.device] += run.seconds
    for transfer in study.transfers:
        for device in {transfer.sender, transfer.receiver} if transfer.sender != transfer.receiver else ():
            if is_gpu(device):
                found[device] += transfer.end - transfer.start
    return found


def is_gpu(device: str) -> bool:
    """Whether a full device name is a GPU's."""
    return "/device:GPU:" in device


class PlanMove(NamedTuple):
    """Nodes placed together that the plan moves.

    `loss` is the increase of the objective if they alone stayed, by simulation; None if it was not requested, is not allowed,
    or in a large plan is probably small.
    """

    nodes: tuple[str, ...]
    source: str
    target: str
    loss: float | None


@dataclass(frozen=True)
class PlanStudy:
    """A plan, the placements compared with it, and the lower bound.

    `placements` are those that were simulated, and `plan` the best that fits, None if nothing does.  `asked` are the devices
    to ask for by node, `bound` is of what is sought, and `method` what found the plan.  `movable` is how many groups of nodes
    could be elsewhere, `is_held` whether any node asks for a device that was not freed, and `ways_out` what would let a plan
    fit where none does.
    """

    name: str
    placements: tuple[SimulatedPlacement, ...]
    plan: SimulatedPlacement | None
    bound: Bound
    method: str
    asked: Mapping[str, str]
    moves: tuple[PlanMove, ...]
    is_interrupted: bool
    sought: PlanMeasure = PlanMeasure.LATENCY
    movable: int = 0
    ways_out: tuple[str, ...] = ()
    is_held: bool = False

    @property
    def value(self) -> float:
        """The plan's objective value; infinite without a plan."""
        return math.inf if self.plan is None else self.plan.value(self.sought)

    @property
    def before(self) -> SimulatedPlacement | None:
        """The graph's current placement if it runs; if the search found nothing better, the best of the others."""
        runs = [placed for placed in self.placements if placed.study is not None]
        for label in (ANNOTATED, DEFAULT):
            own = next((placed for placed in runs if placed.label == label), None)
            if own is not None:
                break
        if own is not None and own is not self.plan:
            return own
        others = (placed for placed in runs if placed is not self.plan)
        return min(others, key=lambda placed: placed.value(self.sought), default=own)

    @property
    def gap(self) -> float:
        """Largest possible improvement, as a share of the plan's value."""
        if self.plan is None or not self.value:
            return 0.0
        return max(0.0, 1 - self.bound.value / self.value)

    @property
    def is_optimal(self) -> bool:
        """Whether nothing can be better."""
        return self.plan is not None and self.gap <= OPTIMAL
