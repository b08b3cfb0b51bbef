"""A training graph rewritten by a strategy, with the facts that a report tells about it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from placesim.core.errors import UsageError
from placesim.graph.session_steps import GraphFile
from placesim.planning.strategies.divided_training import DividedTraining, Replication
from placesim.planning.strategies.gradient_reduction import REDUCTIONS
from placesim.planning.strategies.recomputation import SQRT, Recomputation, recompute
from placesim.planning.strategies.replication import replicate
from placesim.planning.strategies.training_graph import TrainingGraph, find_training

VARIABLES = ("cpu", "mirrored")
"""Places of variables: shared on the CPU, or one for each replica on its GPU."""
MAX_PARTS = 4096


@dataclass(frozen=True, slots=True)
class Strategy:
    """Settings of a rewrite.

    - `replicas`: copies of the forward and backward pass on GPUs, each for its part of the batch.
    - `accumulate`: micro-batches that each replica computes one after another before the update.
    - `reduce`: how the gradients of replicas are added, one of `REDUCTIONS`.
    - `variables`: one of `VARIABLES`.
    - `split`: names of the tensors that hold the batch, if not all placeholders, datasets and queues do.
    - `recompute`: `("sqrt",)` or names of scopes, whose forward nodes are computed again for the gradients.

    Raises UsageError for a value or combination that has no meaning.
    """

    replicas: int = 1
    accumulate: int = 1
    reduce: str = "cpu"
    variables: str = VARIABLES[0]
    split: tuple[str, ...] = ()
    recompute: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        for name in ("replicas", "accumulate"):
            value = getattr(self, name)
            if isinstance(value, bool) or not isinstance(value, int) or value < 1:
                raise UsageError(f"wrong {name}: got {value!r}, expected a number of 1 or more")
        for name, known in (("reduce", REDUCTIONS), ("variables", VARIABLES)):
            value = getattr(self, name)
            if value not in known:
                raise UsageError(f"wrong {name}: got {value!r}, expected one of {', '.join(known)}")
        parts = self.replicas * self.accumulate
        if parts == 1 and not self.recompute:
            raise UsageError(
                "no strategy: got 1 replica, no accumulation and no recomputation, "
                f"expected --replicas N, --accumulate N or --recompute {SQRT}"
            )
        if SQRT in self.recompute and len(self.recompute) > 1:
            raise UsageError(f"wrong recompute: got {', '.join(self.recompute)}, expected {SQRT} alone, or scopes")
        if parts > MAX_PARTS:
            raise UsageError(f"too many parts: got {parts}, expected at most {MAX_PARTS}")
        if self.replicas == 1 and (self.reduce, self.variables) != ("cpu", VARIABLES[0]):
            raise UsageError("no replicas: got --reduce or --variables for one replica, expected --replicas N as well")


@dataclass(frozen=True, slots=True)
class TrainingRewrite:
    """A rewritten graph file, with the original's training parts.

    `training` has the parts that are copied, after recomputation if there is one. `batch` has the number of examples in the
    batch for each input by name, None if the graph leaves it unknown; it is empty for recomputation alone. `is_mean` says
    whether the loss is a mean over the batch, so that gradients are averaged, or a sum. `notes` name results that depend on
    the division of the batch, and scopes without recomputation. `nodes_before` is the number of nodes of the original.
    """

    file: GraphFile
    strategy: Strategy
    training: TrainingGraph
    batch: Mapping[str, int | None]
    is_mean: bool
    notes: tuple[str, ...]
    nodes_before: int
    recomputation: Recomputation | None = None


def rewrite_training(file: GraphFile, strategy: Strategy) -> TrainingRewrite:
    """Return the graph with copies of its nodes. Raises UsageError for a graph that cannot be rewritten so."""
    settings = Replication(strategy.replicas, strategy.accumulate, strategy.reduce, strategy.variables == "mirrored")
    has_parts = len(settings.parts()) > 1
    training = find_training(file.graph, strategy.split, needs_batch=has_parts)
    before = len(file.graph)
    recomputation = Recomputation(training, strategy.recompute) if strategy.recompute else None
    notes = recomputation.notes if recomputation else ()
    if recomputation:
        file = recompute(file, recomputation)
        if not has_parts:
            return TrainingRewrite(file, strategy, training, {}, False, notes, before, recomputation)
        training = find_training(file.graph, strategy.split)
    divided = DividedTraining(training, settings)
    sizes = {file.graph.tensor_name(ref): divided.shapes.batch_size for ref in training.batch}
    new = replicate(file, divided)
    return TrainingRewrite(new, strategy, training, sizes, divided.is_mean, (*notes, *divided.notes), before, recomputation)
