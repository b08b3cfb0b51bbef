"""Rewrites of training graphs for Python callers."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Unpack

from placesim.api.calls import above_zero, api_call, check_whole_numbers, texts
from placesim.formats.sources.loading import LoadedGraph, SourceGraph, load, source_name
from placesim.machine.options import OptionValues, SimulationOptions, make_options, with_options

if TYPE_CHECKING:
    from placesim.formats.sources.loading import Source
    from placesim.planning.strategies.rewriting import TrainingRewrite
    from placesim.report.strategy_report import StrategyReport


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
    precision: str | None = None,
    loss_scale: float | str | None = None,
    **options: Unpack[OptionValues],
) -> ParallelGraph:
    """Rewrite a training graph: copies on several GPUs, a pipeline, micro-batches, recomputation or half precision.

    The result can be passed to all other functions that take a graph.

    Each of `replicas` copies computes the gradients of its part of the batch on its GPU, in `accumulate` micro-batches one
    after another. `reduce` selects how gradients are added (`cpu`, `ring`, `tree` or `nccl`). With `variables="mirrored"`, each
    GPU has its own copies of the variables. `split` names the tensors that hold the batch; by default, these are all
    placeholders, datasets and queues that the loss reads. `recompute` names scopes whose forward nodes are computed again for
    the gradients, or is a number of segments, `"sqrt"`, or `"auto"` for the number with the least predicted peak. `precision`
    is `"float16"` or `"bfloat16"`; `loss_scale` is then a number or `"dynamic"`.

    A pipeline has `stages` GPUs and `micro_batches` micro-batches. `schedule` is `gpipe`, `1f1b`, or `interleaved` with
    `chunks` stages on each GPU. `stage` names the scopes that begin stages; by default, stages are chosen so that the slowest
    stage is as fast as possible.

    Raises UsageError, with the node and the reason, if the graph cannot be rewritten.
    """
    from placesim.formats.graph_file.writing.raw_writer import with_feeds_from
    from placesim.planning.strategies.rewriting import Strategy
    from placesim.studies.rewrite_study import study_rewrite

    names, again, scopes = (
        texts(name, given) for name, given in (("split", split), ("recompute", recompute), ("stage", stage))
    )
    strategy = Strategy(
        replicas,
        accumulate,
        reduce,
        variables,
        split=names,
        recompute=again,
        stages=stages,
        micro_batches=micro_batches,
        schedule=schedule,
        chunks=chunks,
        stage=scopes,
        precision=precision,
        loss_scale=loss_scale,
    )
    chosen, name = make_options(options), source_name(source)
    loaded = load(source, None, chosen)
    rewrite = study_rewrite(loaded, chosen, name, strategy)
    return ParallelGraph(replace(rewrite, file=with_feeds_from(rewrite.file, loaded.directory, Path())), name, chosen)


@with_options
@api_call
def compare_strategies(
    source: Source,
    *,
    split: str | Sequence[str] = (),
    free: str | Sequence[str] = (),
    examples: int | None = None,
    price: float | None = None,
    scale_batch: bool = False,
    seconds: float = 30.0,
    evaluations: int | None = None,
    seed: int = 0,
    jobs: int = 2,
    page: bool = False,
    **options: Unpack[OptionValues],
) -> StrategyReport:
    """Simulate the strategies for a training graph on 1, 2, 4, ... GPUs of the machine, and sort them by speed.

    The strategies are one device, a model-parallel plan, data parallelism with each reduction, and a pipeline, with and without
    recomputation. A strategy that cannot be applied has the reason in `error`.

    `split` names the tensors that hold the batch, as for `parallelize`. By default, all strategies compute the same batch. With
    `scale_batch`, the option `batch` is the batch of one device, and the batch grows with the number of devices. `examples` is
    the number of examples in a step (default: the batch). With `price`, in dollars per hour and device, the report has the
    price of a million examples. Model-parallel plans are searched as by `plan`. All searches share `seconds`, and may move all
    nodes, or the nodes that match `free`.

    Raises UsageError if the graph does not train, or if the machine has no GPUs.
    """
    from placesim.planning.graphs.plan_comparison import Aim
    from placesim.planning.portfolio import Effort
    from placesim.planning.search_processes import spread
    from placesim.report.strategy_report import StrategyReport
    from placesim.runtime.cluster.connection_settings import Connection
    from placesim.studies.strategy_study import StrategyRequest, write_strategy
    from placesim.studies.strategy_study import compare_strategies as compare

    chosen = make_options(options)
    names, patterns = (texts(name, given) for name, given in (("split", split), ("free", free)))
    check_whole_numbers(examples=examples, evaluations=evaluations, jobs=jobs)
    if price is not None:
        above_zero("price", price)
    effort = Effort(above_zero("seconds", seconds), evaluations, seed, jobs)
    request = StrategyRequest(effort, Aim(by=None, is_traced=page), names, patterns, examples, price, scale_batch)
    loaded = load(source, None, chosen)
    with spread(effort, Connection()) as shared:
        found = compare(loaded, chosen, source_name(source), request._replace(effort=shared))
    return StrategyReport(found, lambda result, path: write_strategy(result, loaded, path), has_page=page)
