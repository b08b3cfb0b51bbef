"""Text about a rewritten training graph."""

from __future__ import annotations

from collections.abc import Iterator

from placesim.planning.strategies.loss_scaling import DYNAMIC, FIRST_SCALE
from placesim.planning.strategies.mixed_precision import MixedPrecision
from placesim.planning.strategies.pipelines.pipelining import Pipeline
from placesim.planning.strategies.rewriting import RewriteEffect, TrainingRewrite
from placesim.report.text.amounts import distinct_sizes, readable_count, readable_seconds, readable_size

_REDUCTIONS = {
    "cpu": "on the CPU",
    "ring": "around a ring of GPUs",
    "tree": "along a tree of GPUs",
    "nccl": "by NCCL",
}
_PLACES = {"cpu": "on the CPU", "mirrored": "with a copy on each GPU"}
MAX_NAMED = 4


def rewrite_lines(rewrite: TrainingRewrite) -> Iterator[str]:
    """Yield the lines of the report: the recognized parts, the copies, the reduction, and notes."""
    loss = f"loss: {rewrite.training.graph.tensor_name(rewrite.training.loss)}"
    found = rewrite.recomputation
    if not rewrite.batch:
        yield loss
    if rewrite.pipeline is not None:
        yield from _pipeline_lines(rewrite.pipeline, " without recomputation" if rewrite.recomputation else "")
    if found is not None:
        segments = f"{found.segments} segment{'s' * (found.segments != 1)}"
        yield f"recomputed: {len(found.copies)} forward nodes, in {segments}"
        yield f"kept for gradients: outputs of {len(found.kept)} forward nodes"
    if rewrite.mixed is not None:
        yield from _precision_lines(rewrite.mixed)
    yield from _division_lines(rewrite, loss) if rewrite.batch else ()
    yield f"nodes: {rewrite.nodes_before} before, {len(rewrite.file.graph)} after"
    if rewrite.effect is not None:
        yield from _effect_lines(rewrite.effect)
    for note in rewrite.notes:
        yield f"note: {note}"


def _division_lines(rewrite: TrainingRewrite, loss: str) -> Iterator[str]:
    training, strategy = rewrite.training, rewrite.strategy
    names = list(rewrite.batch)
    size = next(iter(rewrite.batch.values()))
    examples = "of an unknown size" if size is None else f"of {size}"
    listed = ", ".join(names[:MAX_NAMED]) + (", ..." if len(names) > MAX_NAMED else "")
    kind = "mean" if rewrite.is_mean else "sum"
    yield f"{loss}, a {kind} over the batch {examples} ({listed})"
    copied = len(training.forward) + len(training.backward)
    parts = [f"{strategy.replicas} replicas"] * (strategy.replicas > 1)
    micro_batches = max(strategy.accumulate, strategy.micro_batches)
    parts += [f"{micro_batches} micro-batches"] * (micro_batches > 1)
    yield f"copies: {' of '.join(parts)}, each with {copied} nodes ({len(training.backward)} for gradients)"
    verb = "averaged" if rewrite.is_mean else "added"
    yield f"gradients: {verb}{f' {_REDUCTIONS[strategy.reduce]}' if strategy.replicas > 1 else ''}"
    place = _PLACES[strategy.variables] if strategy.replicas > 1 else "on the GPUs of their stages"
    held = f", {place}" if strategy.replicas > 1 or strategy.stages > 1 else ""
    yield f"variables: {len(training.variables)}{held}"


def _pipeline_lines(pipeline: Pipeline, condition: str) -> Iterator[str]:
    """Yield the stages with their predicted times, the memory of each GPU, and the bubble."""
    schedule = pipeline.schedule
    for number, stage in enumerate(pipeline.stages):
        nodes = f"{stage.first} to {stage.last}" if stage.first != stage.last else stage.first
        sent = f", sends {readable_size(stage.sent)}" if stage.sent else ""
        times = f"forward {readable_seconds(stage.forward)}, backward {readable_seconds(stage.backward)}"
        yield f"stage {number} on GPU {stage.device}: {nodes} ({readable_count(stage.nodes, 'node')}), {times}{sent}"
    sizes = ", ".join(map(readable_size, pipeline.memory))
    yield f"memory of the GPUs{condition}: about {sizes}"
    plural = "es" * (schedule.micro_batches > 1)
    shares = f"{pipeline.times.idle_share:.1%}, with equal stages and free transfers {schedule.ideal_idle_share:.1%}"
    yield f"bubble ({schedule.name}, {schedule.micro_batches} micro-batch{plural}): GPUs are idle for {shares}"


def _precision_lines(mixed: MixedPrecision) -> Iterator[str]:
    yield f"half precision: {mixed.half} of {mixed.nodes} nodes in {mixed.precision}, with {mixed.casts} casts"
    if mixed.loss_scale == DYNAMIC:
        yield f"loss scale: {DYNAMIC}, {FIRST_SCALE:g} first"
    elif mixed.loss_scale != 1:
        yield f"loss scale: {mixed.loss_scale:g}"


def _effect_lines(effect: RewriteEffect) -> Iterator[str]:
    before, after = distinct_sizes(effect.peak_before, effect.peak_after)
    yield f"predicted memory of {effect.device}: {before} before, {after} after"
    yield f"predicted step: {readable_seconds(effect.seconds_before)} before, {readable_seconds(effect.seconds_after)} after"
