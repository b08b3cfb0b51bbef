"""Choice of the plan among simulated placements. For plans as edits, each edit must gain enough."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from placesim.planning.graphs.edit_search import EditTree
from placesim.planning.graphs.multilevel_search import SIMULATED, Candidate
from placesim.planning.graphs.plan_comparison import (
    ANNOTATED,
    PLANNED,
    Aim,
    CurvePoint,
    Edits,
    PlanMeasure,
    SimulatedPlacement,
)
from placesim.planning.portfolio import OPTIMAL

EDIT_SHARE = 0.01
"""Share of the objective's value that each edit of a plan must gain, unless the number of edits is limited."""
NODE_BY_NODE = "better, node by node"
"""Label of a found placement that is better than the plan by scope."""
LEAST_MEMORY = "least memory"
"""Label of placements with the least peak on the GPUs."""


@dataclass
class EditedPlans:
    """The edits that lead to each assignment. Without a tree, plans need not be edits, and any assignment may be the plan."""

    tree: EditTree | None = None
    edits: dict[tuple[int, ...], Edits] = field(default_factory=dict)

    def reaches(self, devices: tuple[int, ...]) -> bool:
        """Return whether edits lead to an assignment; true if plans need not be edits."""
        return self.tree is None or devices in self.edits

    def add(self, devices: tuple[int, ...], edits: Edits) -> bool:
        """Keep the edits that lead to an assignment, unless fewer edits are known. Return whether they were kept."""
        if len(self.edits.get(devices, edits)) < len(edits):
            return False
        self.edits[devices] = edits
        return True

    def count(self, devices: tuple[int, ...]) -> int:
        """Return the number of edits that lead to an assignment."""
        return len(self.edits.get(devices, ()))


@dataclass(frozen=True)
class PlanChoice:
    """Chooses among candidates, whose simulated placements are in `shown` by their assignments."""

    aim: Aim
    shown: Mapping[tuple[int, ...], SimulatedPlacement]
    plans: EditedPlans

    def _value(self, candidate: Candidate) -> float:
        return self.shown[candidate.devices].value(self.aim.sought)

    def _rank(self, candidate: Candidate) -> tuple[float, float]:
        """Return the value of the objective and, for the objective memory, the step time."""
        is_memory = self.aim.sought is PlanMeasure.MEMORY
        return self._value(candidate), self.shown[candidate.devices].seconds if is_memory else 0.0

    def best(self, candidates: Sequence[Candidate]) -> Candidate | None:
        """Return the best candidate. Of those with the same peak memory, it is the fastest.

        Without a limit of edits, each edit must gain EDIT_SHARE of the objective's value, or of the time. The candidate has at
        least half of the possible gain over the plan with the fewest edits, and is no worse than the graph as annotated.
        """
        count = self.plans.count
        share = 0.0
        if self.aim.changes is None and candidates:
            share = EDIT_SHARE
            least = min(map(self._value, candidates))
            fewest = min(candidates, key=lambda row: (count(row.devices), self._value(row)))
            own = (placed.value(self.aim.sought) for placed in self.shown.values() if placed.label == ANNOTATED)
            most = max(least, min([(least + self._value(fewest)) / 2, *own]))
            candidates = [row for row in candidates if self._value(row) <= most]
        found = min(
            candidates,
            key=lambda row: (self._value(row) * (1 + share * count(row.devices)), count(row.devices)),
            default=None,
        )
        if found is None or self.aim.sought is not PlanMeasure.MEMORY:
            return found
        equal = [row for row in candidates if self._value(row) == self._value(found)]
        return min(equal, key=lambda row: self.shown[row.devices].seconds * (1 + share * count(row.devices)))

    def unreached(self, possible: Sequence[Candidate], fitting: Sequence[Candidate]) -> Candidate | None:
        """Return the best fitting candidate if edits don't reach it, and it is better than all `possible` ones."""
        least = min(map(self._value, possible), default=-math.inf)
        return min((row for row in fitting if self._value(row) < least * (1 - OPTIMAL)), key=self._value, default=None)

    def curve(self, tree: EditTree, candidates: Sequence[Candidate]) -> Iterator[CurvePoint]:
        """Yield each plan that is better than all with fewer edits."""
        least = math.inf, math.inf
        for row in sorted(candidates, key=lambda row: (self.plans.count(row.devices), self._rank(row))):
            value, seconds = self._rank(row)
            if value < least[0] * (1 - OPTIMAL) or (value == least[0] and seconds < least[1] * (1 - OPTIMAL)):
                least, edits = (value, seconds), self.plans.edits[row.devices]
                yield CurvePoint(len(edits), value, self.shown[row.devices].seconds, tree.describe(edits))

    def listed(self, candidates: Sequence[Candidate], best: Candidate | None, better: Candidate | None) -> Sequence[Candidate]:
        """Return the candidates to report.

        For plans as edits, the result is the best plan, and a better placement that edits don't reach, each with such a label.
        Otherwise it is the two best found plans. If none of these has the label LEAST_MEMORY, the best placement with this
        label is added. Simple placements are always included. Placements that fit rank first.
        """

        def rank(candidate: Candidate) -> tuple[bool, float, float]:
            return not self.shown[candidate.devices].fits, *self._rank(candidate)

        found = [row for row in candidates if row.label.startswith(PLANNED)]
        least = [row for row in candidates if row.label == LEAST_MEMORY]
        is_edited = self.plans.tree is not None
        kept = [row for row in (best, better) if row] if is_edited else sorted(found, key=rank)[:SIMULATED]
        if not any(row in least for row in kept):
            kept += sorted(least, key=rank)[:1]
        listed = [row for row in candidates if row in kept or row not in found + least]
        if not is_edited:
            first = best if best in found else kept[0] if kept else None
            others = [row for row in found if first is not None and row != first and row.label == first.label]
            return [row._replace(label=f"{row.label}, alternative") if row in others else row for row in listed]
        labels = {best: PLANNED, better: NODE_BY_NODE}
        named = found + [row for row in least if row == better]
        return [row._replace(label=labels[row]) if row in labels and row in named else row for row in listed]
