"""Rewrites of training graphs for Python callers."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Unpack

from placesim.api.calls import api_call
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
    precision: str | None = None,
    loss_scale: float | str | None = None,
    **options: Unpack[OptionValues],
) -> ParallelGraph:
    """Rewrite a training graph for several GPUs, for micro-batches, with recomputation, or in half precision.

    The result is a source for all other functions.

    Each of `replicas` copies computes the gradients of its part of the batch on its GPU, in `accumulate` micro-batches one
    after another. `reduce` adds the gradients (`cpu`, `ring`, `tree` or `nccl`). With
    `variables="mirrored"`, each GPU has its own variables. `split` names the tensors that hold the batch; by default, these are
    all placeholders, datasets and queues that the loss reads. `recompute` names scopes whose forward nodes are
    computed again for the gradients, or is a number of segments, `"sqrt"`, or `"auto"` for the number with the least predicted
    peak. `precision` is `"float16"` or `"bfloat16"`; `loss_scale` is then a number or `"dynamic"`.

    Raises UsageError if the graph cannot be rewritten, with the node and the reason.
    """
    from placesim.formats.graph_file.writing.raw_writer import with_feeds_from
    from placesim.planning.strategies.rewriting import Strategy
    from placesim.studies.rewrite_study import study_rewrite

    names, again = ((given,) if isinstance(given, str) else tuple(given) for given in (split, recompute))
    strategy = Strategy(replicas, accumulate, reduce, variables, names, again, precision, loss_scale)
    chosen, name = make_options(options), source_name(source)
    loaded = load(source, None, chosen)
    rewrite = study_rewrite(loaded, chosen, name, strategy)
    return ParallelGraph(replace(rewrite, file=with_feeds_from(rewrite.file, loaded.directory, Path())), name, chosen)
