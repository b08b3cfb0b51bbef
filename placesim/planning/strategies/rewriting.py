"""A training graph rewritten by a strategy, with the facts for a report."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from math import inf
from typing import NamedTuple

from placesim.core.errors import UsageError
from placesim.formats.device_annotations import assign_devices
from placesim.graph.session_steps import GraphFile
from placesim.machine.device_names import DeviceName, parse_runtime_name
from placesim.machine.inventory import TaskInventory
from placesim.planning.graphs.plan_comparison import is_gpu
from placesim.planning.strategies.batch_shapes import BatchShapes
from placesim.planning.strategies.divided_training import DividedTraining, Replication, refuse_loops
from placesim.planning.strategies.gradient_reduction import REDUCTIONS
from placesim.planning.strategies.later_reads import with_later_reads
from placesim.planning.strategies.loss_scaling import DYNAMIC
from placesim.planning.strategies.mixed_precision import PRECISIONS, MixedPrecision, mix_precision
from placesim.planning.strategies.pipelines.pass_order import PassOrder
from placesim.planning.strategies.pipelines.pipelining import Pipeline
from placesim.planning.strategies.pipelines.schedules import INTERLEAVED, ONE_F_ONE_B, SCHEDULES, Schedule
from placesim.planning.strategies.recomputation import AUTO, SQRT, Recomputation, is_segment_count, recompute
from placesim.planning.strategies.replication import replicate
from placesim.planning.strategies.training_graph import TrainingGraph, fed_shapes, find_training

VARIABLES = ("cpu", "mirrored")
"""Placements of variables: shared on the CPU, or a copy for each replica on its GPU."""
MAX_PARTS = 4096


@dataclass(frozen=True, slots=True)
class Strategy:
    """Settings of a rewrite.

    - `replicas`: copies of the forward and backward pass on GPUs, each for its part of the batch.
    - `accumulate`: micro-batches that each replica computes one after another before the update.
    - `reduce`: how the gradients of replicas are added, one of `REDUCTIONS`.
    - `variables`: one of `VARIABLES`.
    - `split`: names of the tensors that hold the batch; if empty, all placeholders, datasets and queues.
    - `recompute`: names of scopes whose forward nodes are recomputed for the gradients, or one word: a number of segments,
      `SQRT`, or `AUTO`. For `AUTO`, a study must choose a number first.
    - `stages`: GPUs of a pipeline, each with a part of the forward and backward pass.
    - `micro_batches`: parts of the batch that go through the pipeline one after another.
    - `schedule`: order of forward and backward passes on each GPU, one of `SCHEDULES`.
    - `chunks`: stages of each GPU of an interleaved pipeline; None for 2.
    - `stage`: names of scopes that begin stages; by default, stages take equal times.
    - `precision`: one of `PRECISIONS`, for the ops that TensorFlow computes in half precision; None changes no types.
    - `loss_scale`: factor of the loss's gradient in half precision, or `DYNAMIC`; None for the default of the precision.

    Raises UsageError for an invalid value or combination.
    """

    replicas: int = 1
    accumulate: int = 1
    reduce: str = "cpu"
    variables: str = VARIABLES[0]
    split: tuple[str, ...] = ()
    recompute: tuple[str, ...] = ()
    precision: str | None = None
    loss_scale: float | str | None = None
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
        if self.parts == self.stages == 1 and not self.recompute and self.precision is None:
            raise UsageError(
                "no strategy: got 1 replica, no accumulation, no stages, no recomputation and no precision, "
                f"expected --replicas N, --accumulate N, --stages N, --recompute {SQRT} or --precision float16"
            )
        words = [word for word in self.recompute if word in (SQRT, AUTO) or is_segment_count(word)]
        if words and len(self.recompute) > 1:
            raise UsageError(f"wrong recompute: got {', '.join(self.recompute)}, expected {words[0]} alone, or scopes")
        if words and not words[0].strip("0"):
            raise UsageError(f"wrong recompute: got {words[0]}, expected a number of segments of 1 or more")
        if self.parts > MAX_PARTS:
            raise UsageError(f"too many parts: got {self.parts}, expected at most {MAX_PARTS}")
        if self.replicas == 1 and (self.reduce, self.variables) != ("cpu", VARIABLES[0]):
            raise UsageError("no replicas: got --reduce or --variables for one replica, expected --replicas N as well")
        self._check_pipeline()
        self._check_precision()

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

    def _check_precision(self) -> None:
        scale = self.loss_scale
        if self.precision is not None and self.precision not in PRECISIONS:
            raise UsageError(f"wrong precision: got {self.precision!r}, expected one of {', '.join(PRECISIONS)}")
        is_factor = isinstance(scale, int | float) and not isinstance(scale, bool) and 0 < scale < inf
        if not (scale is None or scale == DYNAMIC or is_factor):
            raise UsageError(f"wrong loss_scale: got {scale!r}, expected a number above 0, or {DYNAMIC}")
        if scale is not None and self.precision is None:
            raise UsageError("no half precision: got --loss-scale, expected --precision as well")

    @property
    def parts(self) -> int:
        """The number of parts of the batch."""
        return self.replicas * self.accumulate * self.micro_batches

    @property
    def pipeline_schedule(self) -> Schedule:
        """The schedule of the passes of a pipeline."""
        chunks = (self.chunks or 2) if self.schedule == INTERLEAVED else 1
        return Schedule(self.schedule, self.stages, self.micro_batches, chunks)


class RewriteEffect(NamedTuple):
    """The predicted peak of the fullest device in bytes, and the seconds of a step, without and with recomputation or half
    precision.
    """

    device: str
    peak_before: int
    peak_after: int
    seconds_before: float
    seconds_after: float


@dataclass(frozen=True, slots=True)
class TrainingRewrite:
    """A rewritten graph file, with the original's training parts.

    `training` has the training parts, after recomputation if it was requested. `batch` has the number of examples in the batch
    for each input by name, None if it is unknown; it is empty for recomputation alone. `is_mean` says whether the
    loss is a mean over the batch, so that gradients are averaged, or a sum. `notes` mention results that depend on the division
    of the batch, scopes without recomputation, and variables of several stages. `nodes_before` is the number of nodes of the
    original. `effect` is None without a prediction.
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
    mixed: MixedPrecision | None = None
    effect: RewriteEffect | None = None


def rewrite_training(file: GraphFile, strategy: Strategy) -> TrainingRewrite:
    """Return the rewritten graph. Raises UsageError for a graph that the strategy does not support."""
    if any(step.nodes for step in file.steps or ()):
        raise UsageError("cannot rewrite a graph that grows: got steps that add nodes, expected one graph for all steps")
    settings = Replication(
        strategy.replicas,
        max(strategy.accumulate, strategy.micro_batches),
        strategy.reduce,
        strategy.variables == "mirrored",
        strategy.stages,
    )
    has_parts, is_pipeline = strategy.parts > 1, strategy.stages > 1
    needs_batch = has_parts or is_pipeline
    training = find_training(file.graph, strategy.split, fed_shapes(file), needs_batch=needs_batch)
    before = len(file.graph)
    if strategy.replicas * strategy.stages > 1:
        file = with_later_reads(file, training)
        training = replace(training, graph=file.graph)
    notes: tuple[str, ...] = ()
    mixed = pipeline = recomputation = None
    if strategy.precision is not None:
        has_gpus = strategy.replicas * strategy.stages > 1 or any(task.gpu for task in file.inventory or ())
        mixed = mix_precision(file, training, strategy.precision, strategy.loss_scale, has_gpus=has_gpus)
        file = mixed.file
        training = find_training(file.graph, strategy.split, fed_shapes(file), needs_batch=needs_batch)
    if is_pipeline:
        refuse_loops(training, "stages")
        shapes = BatchShapes(training, strategy.parts) if has_parts else None
        pipeline = Pipeline(file, training, strategy.pipeline_schedule, shapes, strategy.parts, strategy.stage)
        file = pipeline.file(file, moves_variables=strategy.replicas == 1 or settings.is_mirrored)
        training = replace(training, graph=file.graph)
        notes = pipeline.notes
    if strategy.recompute:
        stage_of = {} if pipeline is None else pipeline.stage_of
        recomputation = Recomputation(training, strategy.recompute, fed_shapes(file), stage_of)
        file, notes = recompute(file, recomputation), (*notes, *recomputation.notes)
        training = find_training(file.graph, strategy.split, fed_shapes(file)) if has_parts else training
    found = TrainingRewrite(file, strategy, training, {}, False, notes, before, recomputation, pipeline, mixed)
    if not has_parts:
        return found
    order = None if pipeline is None else PassOrder(training, pipeline.stages_in(training, recomputation), pipeline.schedule)
    divided = DividedTraining(training, settings, order)
    sizes = {file.graph.tensor_name(ref): divided.shapes.batch_size for ref in training.batch}
    return replace(found, file=replicate(file, divided), batch=sizes, is_mean=divided.is_mean, notes=(*notes, *divided.notes))


def sorted_gpus(devices: Iterable[str], inventory: Sequence[TaskInventory] | None) -> list[str]:
    """Return the names of the GPUs among a session's devices in the machine's order. A session lists its own task last."""
    jobs = [task.job for task in inventory or ()]

    def place(name: str) -> tuple[int, int, int]:
        spec = parse_runtime_name(name) or DeviceName()
        return jobs.index(spec.job) if spec.job in jobs else -1, spec.task or 0, spec.id or 0

    return sorted(filter(is_gpu, devices), key=place)


def spread_over_tasks(
    file: GraphFile, inventory: tuple[TaskInventory, ...] | None, strategy: Strategy, gpus: Sequence[str]
) -> GraphFile:
    """Return a rewritten file with `/gpu:i` as GPU number i of all tasks of a machine together, if it has several tasks.

    Raises UsageError for `NcclAllReduce` between tasks.
    """
    tasks = [(parse_runtime_name(name) or DeviceName()).address_space for name in gpus]
    count = strategy.replicas * strategy.stages
    if len({*tasks}) < 2 or count > len(gpus):
        return file
    if len({*tasks[:count]}) > 1 and strategy.reduce == "nccl":
        raise UsageError(
            f"cannot use NcclAllReduce between tasks: got GPUs of {len({*tasks[:count]})} tasks, expected GPUs of one task"
        )
    numbered = {f"/device:GPU:{number}": name for number, name in enumerate(gpus)}
    devices = {node.name: numbered[node.device] for node in file.graph.nodes if node.device in numbered}
    return replace(assign_devices(file, devices), inventory=inventory)
