"""Rewrites of training graphs with a prediction: memory and time before and after, and the best number of segments."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, NamedTuple

from placesim.core.errors import PlacesimError, UsageError
from placesim.graph.graph import Graph, TensorRef, split_tensor_name
from placesim.graph.session_steps import GraphFile, GraphStep
from placesim.inspection.memory_categories import ACTIVATIONS, MemoryCategories
from placesim.inspection.memory_requirements import name_of
from placesim.inspection.short_device_names import short_names
from placesim.machine.inventory import build_devices
from placesim.planning.strategies.recomputation import AUTO, NothingToRecomputeError
from placesim.planning.strategies.rewriting import (
    RewriteEffect,
    Strategy,
    TrainingRewrite,
    rewrite_training,
    sorted_gpus,
    spread_over_tasks,
)
from placesim.planning.strategies.training_graph import fed_shapes, find_declared_size, find_feeds, find_training
from placesim.report.text.amounts import readable_count, readable_size
from placesim.runtime.partitioning.step_requests import resolve_feed
from placesim.runtime.shapes.graph_shapes import GraphShapes
from placesim.studies.dry_run import search_dry_run, total_peak, with_few_repeats
from placesim.studies.simulation.settings import build_steps, file_access, with_machine
from placesim.studies.time_study import study_time

if TYPE_CHECKING:
    from placesim.formats.sources.loading import LoadedGraph
    from placesim.machine.options import SimulationOptions
    from placesim.runtime.accounting.usage import DeviceUsage

FIRST_COUNTS = (2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64)
"""Numbers of segments to try first, up to `PATIENCE` times the best number. The neighbours of the best number follow."""
PATIENCE = 3


def study_rewrite(loaded: LoadedGraph, options: SimulationOptions, name: str, strategy: Strategy) -> TrainingRewrite:
    """Return a rewritten graph. For recomputation and half precision, it has predictions of memory and time.

    The number of segments with the least predicted peak replaces `AUTO`. Raises UsageError for a graph that the strategy does
    not support, and if no number of segments saves memory.
    """
    return _RewriteStudy(loaded, options, name, strategy).rewrite()


def find_batch_size(loaded: LoadedGraph, file: GraphFile, options: SimulationOptions, split: Sequence[str] = ()) -> int | None:
    """Return the number of examples in the batch of a training graph, if it is known.

    `file` is the file of `loaded` with the steps and the machine of the options. Raises UsageError if the graph does not train.
    """
    graph, given = file.graph, options.shapes
    training = find_training(graph, split, fed_shapes(file))
    declared = find_declared_size(training, GraphShapes(graph))
    shaped = (given[name][0] for ref in training.batch if (name := graph.nodes[ref.node].name) in given)
    known = declared or options.batch or next((size for size in shaped if size > 0), None)
    return known or _fed_examples(loaded, file, options, training.batch)


def _fed_examples(loaded: LoadedGraph, file: GraphFile, options: SimulationOptions, batch: Sequence[TensorRef]) -> int | None:
    """Return the number of examples that the last step feeds; None if it feeds no tensor of the batch."""
    access = file_access(loaded, options)
    for feed in (feed for step in (file.steps or ())[-1:] for feed in step.feeds):
        ref, value = resolve_feed(file.graph, feed, loaded.directory, access)
        if ref in batch and value.ndim:
            return int(value.shape[0])
    return None


def count_training_steps(file: GraphFile) -> int:
    """Return the number of steps up to the last one that trains. Raises UsageError if there are steps, but none trains."""
    graph, steps = file.graph, file.steps or ()
    updates = {graph.nodes[update.node].name for update in find_training(graph, needs_batch=False).updates}
    for number, step in reversed([*enumerate(steps, 1)]):
        if step.repeat and (not step.fetches or not updates.isdisjoint(_needed(graph, step))):
            return number
    if not steps:
        return 0
    error = UsageError(
        f"no step trains: got {readable_count(len(steps), 'step')} without updates of variables, expected a step that trains"
    )
    error.help = ("name the op that trains with --fetch", "a script also gives its later steps with --until end")
    raise error


def up_to_training(file: GraphFile, count: int) -> GraphFile:
    """Return the file, or a rewritten form of it, with the first `count` steps."""
    return replace(file, steps=(file.steps or ())[:count] or None)


def search_segments(loaded: LoadedGraph, options: SimulationOptions, name: str, strategy: Strategy) -> TrainingRewrite:
    """Return a graph with `AUTO` recomputation, like `study_rewrite`, but without predictions."""
    study = _RewriteStudy(loaded, options, name, strategy)
    before = study.without()
    return study.choose(before, study.fullest(before)).rewrite


class _Trial(NamedTuple):
    """A rewrite with the usage of its fullest device."""

    rewrite: TrainingRewrite
    usage: DeviceUsage


class _RewriteStudy:
    def __init__(self, loaded: LoadedGraph, options: SimulationOptions, name: str, strategy: Strategy) -> None:
        if loaded.error is not None or loaded.file is None:
            raise loaded.error or UsageError(f"no graph in {name}")
        self._loaded, self._name, self._strategy = loaded, name, strategy
        self._file = with_machine(loaded.file, options)
        if options.fetch is not None:
            self._file = replace(self._file, steps=build_steps(loaded, self._file, options))
        self._options = replace(options, fetch=None)

    def rewrite(self) -> TrainingRewrite:
        """Return the rewritten graph, with its effect if it is predicted."""
        strategy = self._strategy
        is_chosen = strategy.recompute != (AUTO,)
        found = self._rewritten(strategy) if is_chosen else None
        if found is not None and not strategy.recompute and strategy.precision is None:
            return found
        try:
            trained, before = count_training_steps(self._file), self.without()
            usage = self.fullest(before)
            trial = self.choose(before, usage) if found is None else _Trial(found, self.fullest(found.file))
            return self._with_effect(trial, before, usage, trained)
        except PlacesimError as error:
            if found is None:
                raise
            return replace(found, notes=(*found.notes, f"no prediction of memory and time: {error.message}"))

    def without(self) -> GraphFile:
        """Return the graph with neither recomputation nor half precision."""
        if self._strategy.parts * self._strategy.stages == 1:
            return self._file
        return self._rewritten(replace(self._strategy, recompute=(), precision=None, loss_scale=None)).file

    def _rewritten(self, strategy: Strategy) -> TrainingRewrite:
        """Return the rewritten graph. Raises UsageError if a fed batch, or the batch of `--batch`, has no equal parts."""
        found, batch = rewrite_training(self._file, strategy), self._options.batch
        count = strategy.replicas * strategy.stages
        if count > 1:
            inventory = self._file.inventory
            gpus = sorted_gpus((device.name for device in build_devices(inventory or ())), inventory)
            found = replace(found, file=spread_over_tasks(found.file, inventory, strategy, gpus))
            if 0 < len(gpus) < count:
                note = f"the machine has {readable_count(len(gpus), 'GPU')}, and the new graph's machine has {count}"
                found = replace(found, notes=(*found.notes, note))
        for size, where in self._given_sizes(found.batch):
            if size % strategy.parts:
                raise UsageError(
                    f"cannot divide the batch into equal parts: got a batch of {size} {where}, "
                    f"expected a multiple of {strategy.parts}"
                )
        return found if batch is None else replace(found, batch={name: size or batch for name, size in found.batch.items()})

    def _given_sizes(self, inputs: Mapping[str, int | None]) -> Iterator[tuple[int, str]]:
        """Yield the sizes of the batch that `--batch`, or else feeds, give for inputs with these sizes in the graph."""
        if self._options.batch is not None:
            yield from ((self._options.batch, f"for {name}") for name, size in inputs.items() if size is None)
            return
        for ref, dims in find_feeds(self._file):
            name = self._file.graph.tensor_name(ref)
            if name in inputs and dims:
                yield dims[0], f"in a feed of {name}"

    def choose(self, before: GraphFile, usage: DeviceUsage) -> _Trial:
        """Return the rewrite with the number of segments that has the least peak. Raises UsageError if none saves memory."""
        tried: dict[int, _Trial] = {}
        for count in FIRST_COUNTS:
            best = _best(tried)
            if count > PATIENCE * best > 0:
                break
            self._try(count, tried)
        best = _best(tried)
        for count in (best - 1, best + 1):
            if best and count > 1 and count not in tried:
                self._try(count, tried)
        if not tried or tried[_best(tried)].usage.peak >= usage.peak:
            raise UsageError(f"recomputation saves no memory: {_reason(usage, before.graph)}")
        return tried[_best(tried)]

    def _try(self, count: int, tried: dict[int, _Trial]) -> None:
        """Rewrite the graph with a number of segments, if there is something to recompute."""
        try:
            rewrite = self._rewritten(replace(self._strategy, recompute=(str(count),)))
        except NothingToRecomputeError:
            return
        tried[count] = _Trial(rewrite, self.fullest(rewrite.file))

    def _with_effect(self, trial: _Trial, before: GraphFile, usage: DeviceUsage, trained: int) -> TrainingRewrite:
        rewrite, after = trial
        names = short_names([after.device])
        seconds = (self._seconds(up_to_training(file, trained)) for file in (before, rewrite.file))
        effect = RewriteEffect(names[0], usage.peak, after.peak, *seconds)
        notes = rewrite.notes
        if self._strategy.recompute and after.peak >= usage.peak:
            notes = (*notes, f"recomputation saves no memory: {_reason(after, rewrite.file.graph)}")
        return replace(rewrite, effect=effect, notes=notes)

    def fullest(self, file: GraphFile) -> DeviceUsage:
        """Return the usage of the GPU with the highest peak; without GPUs, the usage of the CPU."""
        steps = with_few_repeats(file.steps or ())
        loaded = replace(self._loaded, file=replace(file, steps=steps or None), text=None)
        outcome = search_dry_run(loaded, replace(self._options, no_memory_limit=True), total_peak).outcome
        if outcome.error is not None:
            raise outcome.error
        return max(outcome.memory, key=lambda usage: (usage.limit is not None and usage.peak > 0, usage.peak))

    def _seconds(self, file: GraphFile) -> float:
        """Return the seconds of the last step."""
        return study_time(replace(self._loaded, file=file, text=None), self._options, self._name).steps[-1].seconds


def _best(tried: Mapping[int, _Trial]) -> int:
    """Return the number of segments with the least peak; 0 if none was tried."""
    return min(tried, key=lambda count: (tried[count].usage.peak, count), default=0)


def _needed(graph: Graph, step: GraphStep) -> Iterator[str]:
    """Yield the names of the nodes that a step needs."""
    spelled = (name for fetch in step.fetches for name in graph.spelled_out(fetch.name))
    waiting = [
        graph.ids[name] for name in (split_tensor_name(text.removeprefix("^"))[0] for text in spelled) if name in graph.ids
    ]
    seen = set(waiting)
    while waiting:
        node = graph.nodes[waiting.pop()]
        yield node.name
        new = {*node.input_nodes, *node.control_inputs} - seen
        seen |= new
        waiting += new


def _reason(usage: DeviceUsage, graph: Graph) -> str:
    """Return why recomputation does not lower a peak: from the tensors in use then, those of the node at the peak first."""
    names = {name_of(holder) for holder in usage.holders}
    near = {usage.peak_node}
    for number in graph.node(usage.peak_node).input_nodes if usage.peak_node in graph.ids else ():
        source, seen = graph.nodes[number], {number}
        # a node without a buffer has written its output into the buffer of an input
        while source.name not in names and source.input_nodes and source.input_nodes[0] not in seen:
            source = graph.nodes[source.input_nodes[0]]
            seen.add(source.id)
        near.add(source.name)
    own = sum(holder.size for holder in usage.holders if name_of(holder) in near)
    held = MemoryCategories(graph).sizes(usage.holders)[ACTIVATIONS]
    (name,) = short_names([usage.device])
    peak = f"the peak of {readable_size(usage.peak)} on {name} is at {usage.peak_node}"
    if 2 * own > usage.peak:
        return f"{peak}, whose inputs and outputs take {readable_size(own)}, recomputed or not"
    return f"{peak}, with {readable_size(held)} of tensors of the forward pass"
