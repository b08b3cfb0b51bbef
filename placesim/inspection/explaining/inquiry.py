"""Answers of `explain`: the reason for a node's device, edits that would change it, and the cause of a placement error."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import chain
from typing import TYPE_CHECKING

from placesim.core.errors import UsageError
from placesim.graph.node_patterns import did_you_mean_node
from placesim.inspection.explaining.alternatives import Alternatives, find_alternatives, find_remedies
from placesim.inspection.explaining.annotations import Annotations
from placesim.inspection.explaining.conflict import ConflictSet, find_conflict
from placesim.inspection.explaining.edits import Setting
from placesim.inspection.explaining.proof import Proof, Proofs, proofs_of_body
from placesim.inspection.explaining.releases import ReleaseDifference, ReleaseTrials
from placesim.inspection.explaining.trials import NODE_BUDGET, Trials
from placesim.inspection.snapshot import PlacedNode, ReportedError, SimulationState, Snapshot, failure_of
from placesim.ops.categories import UNFED_PLACEHOLDERS
from placesim.placement.function_bodies import CalledBody, bodies_of
from placesim.placement.placer import Placement

if TYPE_CHECKING:
    from placesim.prediction.node_costs import NodeCostEstimate, NodeCosts

NOT_RUN = "No step runs it."
NOT_NEEDED = "No kernel runs: the steps feed it, or do not need it."
"""Note about the costs of a placeholder."""


@dataclass(frozen=True, slots=True)
class ExplainedNode:
    """A node's proof, and the edits that would move the node (None if edits were not requested).

    `cost` is the node's predicted time. If it is None, `cost_note` has the reason; the note is empty if costs were not
    requested. For an older release, `difference` has the choices that the current release would make differently.
    """

    proof: Proof
    alternatives: Alternatives | None = None
    cost: NodeCostEstimate | None = None
    cost_note: str = ""
    difference: ReleaseDifference | None = None


@dataclass(frozen=True, slots=True)
class ExplainedError:
    """A placement error. `conflict` has the conflicting annotations, and `remedies` possible fixes; None if not requested."""

    failure: ReportedError
    conflict: ConflictSet | None = None
    remedies: Alternatives | None = None


def inquire(snapshot: Snapshot) -> Inquiry | None:
    """Return an inquiry into a live snapshot; None for a written report, or without a placement."""
    live = snapshot.live
    return None if live is None or live.placement is None else Inquiry(live, live.placement, snapshot.costs, snapshot.cost_note)


class Inquiry:
    """The questions about one live placement, and the remaining trials of edits."""

    def __init__(
        self,
        live: SimulationState,
        placement: Placement,
        costs: NodeCosts | None = None,
        cost_note: str = "",
        budget: int = NODE_BUDGET,
    ) -> None:
        self._budget = budget
        self._placement = placement
        self._costs = costs
        self._cost_note = cost_note
        annotations = Annotations(live.graph, live.is_raw)
        self._setting = Setting(live.graph, annotations, placement.device_set, placement.groups.soft, live.sizes)
        self._proofs = Proofs(placement, live.graph, annotations)
        self._of_bodies: dict[str, Proofs] = {}
        self._releases = ReleaseTrials(self._setting, placement)

    @cached_property
    def trials(self) -> Trials:
        """Return the trials of this inquiry, which have a common budget."""
        return Trials(self._setting, self._placement, self._budget)

    def explain(self, name: str) -> Proof | None:
        """Return the proof of a node's device; None if an error came before the node was examined."""
        proofs = self._proofs_of(name)
        try:
            return proofs.of(proofs.graph.node(name.removeprefix(proofs.prefix)).id)
        except KeyError:
            return None

    def _proofs_of(self, name: str) -> Proofs:
        """Return the proofs of the graph, or of the body, that has a node of that name."""
        if name not in self._placement.graph.ids:
            for body in bodies_of(self._placement).bodies:
                is_in = name.startswith(f"{body.path}/") and body.placement is not None
                if is_in and name[len(body.path) + 1 :] in body.placement.graph.ids:  # type: ignore[union-attr]
                    return self._of_body(body)
        return self._proofs

    def _of_body(self, body: CalledBody) -> Proofs:
        if body.path not in self._of_bodies:
            self._of_bodies[body.path] = proofs_of_body(body)
        return self._of_bodies[body.path]

    def explained(self, names: Iterable[str], with_edits: bool = True) -> Iterator[ExplainedNode]:
        """Yield explanations of nodes by name, skipping nodes that are not placed yet."""
        for name in names:
            found = self.explain(name)
            if found is not None:
                wants_edits = with_edits and found.device is not None
                alternatives = find_alternatives(self.trials, found) if wants_edits else None
                difference = self._releases.difference(name) if found.body is None else None
                yield ExplainedNode(found, alternatives, *self._cost(found), difference)

    def _cost(self, found: Proof) -> tuple[NodeCostEstimate | None, str]:
        if found.body is not None:
            return None, ""  # costs of bodies are recorded by node names, which several bodies share
        if self._costs is None or found.device is None:
            return None, self._cost_note
        cost = self._costs.of(found.node, found.types)
        return cost, "" if cost is not None else NOT_NEEDED if found.op in UNFED_PLACEHOLDERS else NOT_RUN

    def explained_briefly(self) -> Iterator[ExplainedNode]:
        """Yield brief explanations of all placed nodes in log order: first nodes of the graph, then nodes of bodies."""
        bodies = (self._of_body(body) for body in bodies_of(self._placement).bodies if body.placed is not None)
        for proofs in chain((self._proofs,), bodies):
            yield from (ExplainedNode(proofs.of(node_id)) for node_id in proofs.placement.log)

    def explained_error(self, snapshot: Snapshot, with_edits: bool = True) -> ExplainedError | None:
        """Explain a placement error.

        Returns None without an error. If the error came after placement, the result has neither a conflict nor remedies.
        """
        if self._placement.error is None:
            return None if snapshot.error is None else ExplainedError(snapshot.error)
        return self.placement_error(with_edits)

    def placement_error(self, with_edits: bool = True) -> ExplainedError | None:
        """Explain the error of a graph that can't be placed; None if there is none."""
        error = self._placement.error
        if error is None:
            return None
        if not with_edits:
            return ExplainedError(failure_of(error))
        conflict = find_conflict(self.trials)
        found = None if error.node is None else self.explain(error.node)
        remedies = find_remedies(Trials(self._setting, self._placement, self._budget), found, conflict.annotations, error.node)
        return ExplainedError(failure_of(error), conflict, remedies)


def select_nodes(snapshot: Snapshot, patterns: Sequence[str]) -> list[str]:
    """Return the names that the patterns match, in log order.

    After an error, the matching names of nodes that were not placed follow. Raises UsageError, with the most similar name, for
    a pattern that matches no name.
    """
    nodes = list(snapshot.nodes)
    placement = snapshot.live.placement if snapshot.live is not None else None
    if placement is not None and placement.error is not None:
        placed = {node.name for node in nodes}
        nodes += [PlacedNode(n.name, n.op, "", n.device) for n in placement.graph.nodes if n.name not in placed]
    for pattern in patterns:
        if not any(map(snapshot.matcher([pattern]), nodes)):
            known = chain.from_iterable((node.name, *filter(None, (node.lowered_from,))) for node in nodes)
            near = did_you_mean_node(pattern, [*known, *snapshot.handles])
            raise UsageError(
                f"no such node: got '{pattern}', expected a node's name, a pattern or a scope that ends in '/'{near}"
            )
    return [node.name for node in filter(snapshot.matcher(patterns), nodes)]
