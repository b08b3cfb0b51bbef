"""A plan of a graph beside other placements: one record, of which reports are readings."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import NamedTuple

from placesim.errors import PlacesimError
from placesim.planning.bounds import Bound
from placesim.planning.portfolio import OPTIMAL
from placesim.prediction.study import TimeStudy


class Placed(NamedTuple):
    """A placement that was simulated as a graph.

    `study` is None where TensorFlow refuses it; `error` is its error, or that of a device that runs out of memory.
    """

    label: str
    study: TimeStudy | None
    error: PlacesimError | None = None

    @property
    def fits(self) -> bool:
        """Whether it runs, and in the memory that there is."""
        return self.study is not None and self.error is None

    @property
    def seconds(self) -> float:
        """A step's; endless where it does not run."""
        return self.study.step.seconds if self.study is not None else math.inf


class Move(NamedTuple):
    """Nodes that are placed together and that the plan puts elsewhere; `loss` is what the step loses where they alone stay."""

    nodes: tuple[str, ...]
    source: str
    target: str
    loss: float


@dataclass(frozen=True)
class PlanStudy:
    """A plan, what it was held against, and how much better anything could be.

    `placements` are those that were simulated, and `plan` the best that fits, None where nothing does.  `asked` are the devices
    to ask for by node, `bound` is of a step's seconds, and `method` what found the plan.
    """

    name: str
    placements: tuple[Placed, ...]
    plan: Placed | None
    bound: Bound
    method: str
    asked: Mapping[str, str]
    moves: tuple[Move, ...]
    is_interrupted: bool

    @property
    def gap(self) -> float:
        """How much shorter a step could be at most, as a share of the plan's."""
        if self.plan is None or not self.plan.seconds:
            return 0.0
        return max(0.0, 1 - self.bound.value / self.plan.seconds)

    @property
    def is_optimal(self) -> bool:
        """Whether nothing can be better."""
        return self.plan is not None and self.gap <= OPTIMAL
