"""Rewrites of training graphs for Python callers."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Unpack

from placesim.api.calls import api_call
from placesim.core.errors import UsageError
from placesim.formats.sources.loading import LoadedGraph, SourceGraph, load, source_name
from placesim.machine.options import OptionValues, SimulationOptions, make_options, with_options

if TYPE_CHECKING:
    from placesim.formats.sources.loading import Source
    from placesim.planning.strategies.rewriting import TrainingRewrite


class ParallelGraph(SourceGraph):
    """A rewritten training graph, for any number of calls that take a graph's path. `rewrite` has its facts and notes."""

    def __init__(self, rewrite: TrainingRewrite, name: str, options: SimulationOptions) -> None:
        from placesim.formats.graph_file.writing.raw_writer import graph_file_document

        super().__init__(graph_file_document(rewrite.file), options)
        self.rewrite = rewrite
        self.name = name

    def __repr__(self) -> str:
        return f"<placesim parallel graph {self.name}>"

    def load(self, options: SimulationOptions) -> LoadedGraph:
        """Return the graph for these options; an error is part of it."""
        found = super().load(options)
        values = self.rewrite.file.initial_values
        return found if found.file is None or not values else replace(found, file=replace(found.file, initial_values=values))

    def text(self) -> str:
        """Return the report of `placesim parallelize`: the recognized parts, the copies, and notes."""
        from placesim.report.text.strategies import rewrite_lines

        return "".join(f"{line}\n" for line in rewrite_lines(self.rewrite))


@with_options
@api_call
def parallelize(
    source: Source,
    *,
    replicas: int = 1,
    accumulate: int = 1,
    reduce: str = "cpu",
    variables: str = "cpu",
    split: str | Sequence[str] = (),
    recompute: str | Sequence[str] = (),
    stages: int = 1,
    micro_batches: int = 1,
    schedule: str = "1f1b",
    chunks: int | None = None,
    stage: str | Sequence[str] = (),
    **options: Unpack[OptionValues],
) -> ParallelGraph:
    """Rewrite a training graph for several GPUs, as a pipeline, for micro-batches, or with recomputation.

    The result is a source for all other functions.

    Each of `replicas` copies computes the gradients of its part of the batch on its GPU, in `accumulate` micro-batches one
    after another. `reduce` adds the gradients (`cpu`, `ring`, `tree` or `nccl`). With
    `variables="mirrored"`, each GPU has its own variables. `split` names the tensors that hold the batch; by default, these are
    all placeholders, datasets and queues that the loss reads. `recompute` is `"sqrt"` or names scopes whose forward nodes are
    computed again for the gradients.

    A pipeline has `stages` GPUs, through which `micro_batches` parts of the batch go in the order of `schedule`: `gpipe`,
    `1f1b`, or `interleaved` with `chunks` stages on each GPU. `stage` names the scopes that begin stages; by default, the cuts
    make the slowest stage as fast as possible.

    Raises UsageError if the graph cannot be rewritten, with the node and the reason.
    """
    from placesim.formats.graph_file.writing.raw_writer import with_feeds_from
    from placesim.planning.strategies.rewriting import Strategy, rewrite_training
    from placesim.studies.simulation.settings import with_machine

    lists = ((given,) if isinstance(given, str) else tuple(given) for given in (split, recompute, stage))
    names, again, scopes = lists
    strategy = Strategy(replicas, accumulate, reduce, variables, names, again, stages, micro_batches, schedule, chunks, scopes)
    chosen = make_options(options)
    loaded = load(source, None, chosen)
    if loaded.error is not None or loaded.file is None:
        raise loaded.error or UsageError("no graph")
    file = with_machine(with_feeds_from(loaded.file, loaded.directory, Path()), chosen)
    rewrite = rewrite_training(file, strategy)
    return ParallelGraph(rewrite, source_name(source), chosen)
