"""Text about a rewritten training graph."""

from __future__ import annotations

from collections.abc import Iterator

from placesim.planning.strategies.rewriting import TrainingRewrite

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
    if found is not None:
        segments = f"{found.segments} segment{'s' * (found.segments != 1)}"
        yield from () if rewrite.batch else (loss,)
        yield f"recomputed: {len(found.copies)} forward nodes, in {segments}"
        yield f"kept for gradients: outputs of {len(found.kept)} forward nodes"
    yield from _division_lines(rewrite, loss) if rewrite.batch else ()
    yield f"nodes: {rewrite.nodes_before} before, {len(rewrite.file.graph)} after"
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
    parts += [f"{strategy.accumulate} micro-batches"] * (strategy.accumulate > 1)
    yield f"copies: {' of '.join(parts)}, each with {copied} nodes ({len(training.backward)} for gradients)"
    verb = "averaged" if rewrite.is_mean else "added"
    yield f"gradients: {verb}{f' {_REDUCTIONS[strategy.reduce]}' if strategy.replicas > 1 else ''}"
    count, held = len(training.variables), f", {_PLACES[strategy.variables]}" if strategy.replicas > 1 else ""
    yield f"variables: {count}{held}"
