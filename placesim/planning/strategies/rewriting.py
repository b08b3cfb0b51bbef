"""A training graph rewritten by a strategy, with the facts that a report tells about it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from placesim.core.errors import UsageError
from placesim.graph.session_steps import GraphFile
from placesim.planning.strategies.batch_shapes import BatchShapes
from placesim.planning.strategies.divided_training import DividedTraining, Replication, refuse_loops
from placesim.planning.strategies.gradient_reduction import REDUCTIONS
from placesim.planning.strategies.pass_order import PassOrder
from placesim.planning.strategies.pipeline_schedules import INTERLEAVED, ONE_F_ONE_B, SCHEDULES, Schedule
from placesim.planning.strategies.pipelining import Pipeline
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
    - `stages`: GPUs of a pipeline, each with a part of the forward and backward pass.
    - `micro_batches`: parts of the batch that go through the pipeline one after another.
    - `schedule`: order of forward and backward passes on each GPU, one of `SCHEDULES`.
    - `chunks`: stages of each GPU of an interleaved pipeline; None for 2.
    - `stage`: names of scopes that begin stages; by default, stages take equal times.

    Raises UsageError for a value or combination that has no meaning.
    """

    replicas: int = 1
    accumulate: int = 1
    reduce: str = "cpu"
    variables: str = VARIABLES[0]
    split: tuple[str, ...] = ()
    recompute: tuple[str, ...] = ()
    stages: int = 1
    micro_batches: int = 1
    schedule: str = ONE_F_ONE_B
    chunks: int | None = None
    stage: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        for name in ("replicas", "accumulate", "stages", "micro_batches", "chunks"):
            value = 1 if getattr(self, name) is None else getattr(self, name)
            if isinstance(value, bool) or not isinstance(value, int) or value < 1:
                raise UsageError(f"wrong {name}: got {value!r}, expected a number of 1 or more")
        for name, known in (("reduce", REDUCTIONS), ("variables", VARIABLES), ("schedule", SCHEDULES)):
            value = getattr(self, name)
            if value not in known:
                raise UsageError(f"wrong {name}: got {value!r}, expected one of {', '.join(known)}")
        if self.parts == self.stages == 1 and not self.recompute:
            raise UsageError(
                "no strategy: got 1 replica, no accumulation, no stages and no recomputation, "
                f"expected --replicas N, --accumulate N, --stages N or --recompute {SQRT}"
            )
        if SQRT in self.recompute and len(self.recompute) > 1:
            raise UsageError(f"wrong recompute: got {', '.join(self.recompute)}, expected {SQRT} alone, or scopes")
        if self.parts > MAX_PARTS:
            raise UsageError(f"too many parts: got {self.parts}, expected at most {MAX_PARTS}")
        if self.replicas == 1 and (self.reduce, self.variables) != ("cpu", VARIABLES[0]):
            raise UsageError("no replicas: got --reduce or --variables for one replica, expected --replicas N as well")
        self._check_pipeline()

    def _check_pipeline(self) -> None:
        if self.stages == 1:
            if (self.micro_batches, self.schedule, self.chunks, self.stage) != (1, ONE_F_ONE_B, None, ()):
                options = "--micro-batches, --schedule, --chunks or --stage"
                raise UsageError(f"no pipeline: got {options} for one stage, expected --stages N as well")
            return
        if self.accumulate > 1:
            raise UsageError("two kinds of micro-batches: got --accumulate with --stages, expected --micro-batches")
        if self.schedule == INTERLEAVED and self.micro_batches % self.stages:
            raise UsageError(
                f"no interleaved schedule: got {self.micro_batches} micro-batches, expected a multiple of {self.stages} stages"
            )
        if self.schedule != INTERLEAVED and self.chunks is not None:
            raise UsageError(f"no chunks: got --chunks with --schedule {self.schedule}, expected --schedule {INTERLEAVED}")

    @property
    def parts(self) -> int:
        """The number of parts of the batch."""
        return self.replicas * self.accumulate * self.micro_batches

    @property
    def pipeline_schedule(self) -> Schedule:
        """The schedule of the passes of a pipeline."""
        chunks = (self.chunks or 2) if self.schedule == INTERLEAVED else 1
        return Schedule(self.schedule, self.stages, self.micro_batches, chunks)


@dataclass(frozen=True, slots=True)
class TrainingRewrite:
    """A rewritten graph file, with the original's training parts.

    `training` has the parts that are copied, after recomputation if there is one. `batch` has the number of examples in the
    batch for each input by name, None if the graph leaves it unknown; it is empty for recomputation alone. `is_mean` says
    whether the loss is a mean over the batch, so that gradients are averaged, or a sum. `notes` name results that depend on
    the division of the batch, scopes without recomputation, and variables of several stages. `nodes_before` is the number of
    nodes of the original.
    """

    file: GraphFile
    strategy: Strategy
    training: TrainingGraph
    batch: Mapping[str, int | None]
    is_mean: bool
    notes: tuple[str, ...]
    nodes_before: int
    recomputation: Recomputation | None = None
    pipeline: Pipeline | None = None


def rewrite_training(file: GraphFile, strategy: Strategy) -> TrainingRewrite:
    """Return the graph with copies of its nodes. Raises UsageError for a graph that cannot be rewritten so."""
    settings = Replication(
        strategy.replicas,
        max(strategy.accumulate, strategy.micro_batches),
        strategy.reduce,
        strategy.variables == "mirrored",
        strategy.stages,
    )
    has_parts, is_pipeline = strategy.parts > 1, strategy.stages > 1
    training = find_training(file.graph, strategy.split, needs_batch=has_parts or is_pipeline)
    before = len(file.graph)
    notes: tuple[str, ...] = ()
    pipeline = recomputation = None
    if is_pipeline:
        refuse_loops(training, "stages")
        shapes = BatchShapes(training, strategy.parts) if has_parts else None
        pipeline = Pipeline(file, training, strategy.pipeline_schedule, shapes, strategy.parts, strategy.stage)
        file = pipeline.file(file, moves_variables=strategy.replicas == 1 or settings.is_mirrored)
        training = replace(training, graph=file.graph)
        notes = pipeline.notes
    if strategy.recompute:
        recomputation = Recomputation(training, strategy.recompute, {} if pipeline is None else pipeline.stage_of)
        file, notes = recompute(file, recomputation), (*notes, *recomputation.notes)
        training = find_training(file.graph, strategy.split) if has_parts else training
    found = TrainingRewrite(file, strategy, training, {}, False, notes, before, recomputation, pipeline)
    if not has_parts:
        return found
    order = None if pipeline is None else PassOrder(training, pipeline.stages_in(training), pipeline.schedule)
    divided = DividedTraining(training, settings, order)
    sizes = {file.graph.tensor_name(ref): divided.shapes.batch_size for ref in training.batch}
    return replace(found, file=replicate(file, divided), batch=sizes, is_mean=divided.is_mean, notes=(*notes, *divided.notes))
