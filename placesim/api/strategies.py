"""Rewrites of training graphs for Python callers."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Unpack

from placesim.api.error_reports import with_error_reports
from placesim.formats.sources.loading import LoadedGraph, SourceGraph
from placesim.machine.options import OptionValues, SimulationOptions, make_options, with_options

if TYPE_CHECKING:
    from placesim.formats.sources.loading import Source
    from placesim.planning.strategies.rewriting import Strategy, TrainingRewrite


class ParallelGraph(SourceGraph):
    """A rewritten training graph, for any number of calls that take a graph's path. `rewrite` has its facts and notes."""

    def __init__(self, source: Source, options: SimulationOptions, strategy: Strategy) -> None:
        from placesim.formats.graph_file.writing.raw_writer import graph_file_document

        self._original = source if isinstance(source, SourceGraph) else SourceGraph(source, options)
        self._strategy = strategy
        self._rewritten: tuple[LoadedGraph, LoadedGraph, TrainingRewrite] | None = None
        self.name = self._original.name
        error = self.load(options).error
        if error is not None:
            raise error
        self.source = graph_file_document(self.rewrite.file)

    def __repr__(self) -> str:
        return f"<placesim parallel graph {self.name}>"

    @property
    def rewrite(self) -> TrainingRewrite:
        """The rewritten file, the training parts of the original, and notes."""
        assert self._rewritten is not None
        return self._rewritten[2]

    def load(self, options: SimulationOptions) -> LoadedGraph:
        """Return the rewritten graph for these options; an error of the original is part of it."""
        from placesim.planning.strategies.rewriting import rewrite_training

        original = self._original.load(options)
        if original.error is not None or original.file is None:
            return original
        if self._rewritten is None or self._rewritten[0] is not original:
            rewrite = rewrite_training(original.file, self._strategy)
            self._rewritten = original, replace(original, file=rewrite.file, text=None), rewrite
        return self._rewritten[1]

    def text(self) -> str:
        """Return the report of `placesim parallelize`: the recognized parts, the copies, and notes."""
        from placesim.report.text.strategies import rewrite_lines

        return "".join(f"{line}\n" for line in rewrite_lines(self.rewrite))


@with_options
@with_error_reports
def parallelize(
    source: Source,
    *,
    replicas: int = 1,
    accumulate: int = 1,
    reduce: str = "cpu",
    variables: str = "cpu",
    split: str | Sequence[str] = (),
    **options: Unpack[OptionValues],
) -> ParallelGraph:
    """Rewrite a training graph for several GPUs, or for micro-batches. The result is a source for all other functions.

    Each of `replicas` copies of the model computes the gradients of its part of the batch on its GPU, in `accumulate`
    micro-batches one after another. `reduce` adds the gradients (`cpu`, `ring`, `tree` or `nccl`). With
    `variables="mirrored"`, each GPU has its own variables. `split` names the tensors that hold the batch; by default, these are
    all placeholders, datasets and queues that the loss reads.

    Raises UsageError if the graph cannot be rewritten, with the node and the reason.
    """
    from placesim.planning.strategies.rewriting import Strategy

    names = (split,) if isinstance(split, str) else tuple(split)
    return ParallelGraph(source, make_options(options), Strategy(replicas, accumulate, reduce, variables, names))
