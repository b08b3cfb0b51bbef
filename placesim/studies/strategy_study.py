"""Simulations of a training graph under each strategy, on increasing numbers of the machine's GPUs."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from placesim.core.errors import PlacesimError, ResourceExhaustedError, UsageError
from placesim.core.process.progress import report_stage
from placesim.formats.device_annotations import assign_devices
from placesim.formats.graph_file.writing.raw_writer import with_feeds_from
from placesim.machine.device_names import DeviceName, format_spec, parse_runtime_name
from placesim.planning.graphs.multilevel_search import share_effort
from placesim.planning.graphs.plan_annotations import clear_requests
from placesim.planning.graphs.plan_comparison import Aim, SimulatedPlacement
from placesim.planning.portfolio import Effort
from placesim.planning.strategies.recomputation import AUTO
from placesim.planning.strategies.rewriting import rewrite_training, sorted_gpus, spread_over_tasks
from placesim.planning.strategies.strategy_comparison import (
    MODEL_PARALLEL,
    StrategyCase,
    StrategyComparison,
    StrategyResult,
    device_counts,
    one_device_cases,
    sort_results,
    strategy_cases,
)
from placesim.report.text.planning import suggest_remedy
from placesim.studies.conversions import WRITERS, convert_graph, find_file_form
from placesim.studies.plan_files import planned_for
from placesim.studies.plan_study import study_plan
from placesim.studies.rewrite_study import count_training_steps, find_batch_size, search_segments, up_to_training
from placesim.studies.simulation.settings import build_steps
from placesim.studies.time_study import study_time

if TYPE_CHECKING:
    from placesim.formats.sources.loading import LoadedGraph
    from placesim.graph.session_steps import GraphFile
    from placesim.machine.options import SimulationOptions


class StrategyRequest(NamedTuple):
    """Settings of a comparison.

    - `split`: names of the tensors that hold the batch; if empty, all placeholders, datasets and queues.
    - `free`: patterns of nodes that may leave their requested devices in the model-parallel plan; all if it is empty.
    - `examples`: number of examples in a step; None for the size of the batch.
    - `price`: dollars per hour and device.
    - `scales_batch`: whether the batch grows with the number of devices.
    - `effort` and `aim`: of the searches for model-parallel plans, which share the effort's seconds.
    """

    effort: Effort
    aim: Aim
    split: tuple[str, ...] = ()
    free: tuple[str, ...] = ()
    examples: int | None = None
    price: float | None = None
    scales_batch: bool = False


def compare_strategies(
    loaded: LoadedGraph, options: SimulationOptions, name: str, request: StrategyRequest
) -> StrategyComparison:
    """Return the simulated strategies of a training graph. A strategy that cannot be applied has the reason as its error.

    The step is the last one that trains. Raises UsageError if the graph or all its steps do not train, and the errors of the
    graph and the options.
    """
    if request.scales_batch and options.batch is None:
        raise UsageError("no batch to scale: got --scale-batch alone, expected --batch N for one device as well")
    compared = _Comparison(loaded, options, name, request)
    results = [compared.first]
    cases = [case for case in one_device_cases() if case != compared.first.case]
    with report_stage("strategies", lambda: (len(results), len(cases) + 1)):
        results.extend(map(compared.result, cases))
        several = [*strategy_cases(compared.counts, request.split, compared.batch_on, compared.segments)]
        cases += several
        results.extend(map(compared.result, several))
    return StrategyComparison(name, sort_results(results), request.price)


def check_ending(path: Path) -> str:
    """Return the format of a strategy's file. Raises UsageError for an unknown extension and for `.onnx`."""
    form = find_file_form(path)
    if form not in WRITERS:
        raise UsageError(f"wrong format: got '{path}', expected an extension of {', '.join(WRITERS)}")
    return form


def write_strategy(result: StrategyResult, loaded: LoadedGraph, path: Path) -> Iterator[bytes]:
    """Return the bytes of a strategy's graph. Raises UsageError for an unknown extension, and for a refused strategy."""
    form = check_ending(path)
    if result.file is None:
        why = "nothing fits" if result.placed.error is None else result.placed.error.message
        raise UsageError(f"no graph of the strategy: got {result.case.label}, which cannot be applied: {why}")
    return convert_graph(with_feeds_from(result.file, loaded.directory, path.parent), form).pieces


class _Comparison:
    """The graph on one device, and its other strategies.

    `segments` is the number of segments for recomputation on one device, once `AUTO` has found it.
    """

    segments: int | None = None

    def __init__(self, loaded: LoadedGraph, options: SimulationOptions, name: str, request: StrategyRequest) -> None:
        if loaded.error is not None:
            raise loaded.error
        assert loaded.file is not None
        self._loaded, self._name, self._request = loaded, name, request
        file = replace(loaded.file, steps=build_steps(loaded, loaded.file, options))
        self._options = replace(options, fetch=None)
        self._file = _on_one_device(planned_for(file, options))
        self._trained = count_training_steps(self._file)
        self._batch = find_batch_size(loaded, up_to_training(self._file, self._trained), self._options, request.split)
        self.first = self.result(next(one_device_cases()))
        if self.first.placed.study is None:
            assert self.first.placed.error is not None
            raise self.first.placed.error
        devices = [device.device for device in self.first.placed.study.devices]
        self._gpus = sorted_gpus(devices, self._file.inventory)
        if not self._gpus:
            raise UsageError("no devices to compare: got a machine without GPUs, expected --gpu N, or `devices` in the graph")
        self.counts = device_counts(len(self._gpus))

    def batch_on(self, devices: int) -> int | None:
        """Return the batch size for this number of devices; None if it is not known."""
        return self._batch * devices if self._batch is not None and self._request.scales_batch else self._batch

    def result(self, case: StrategyCase) -> StrategyResult:
        """Return a simulated strategy."""
        options, examples = self._options, self._request.examples or self._batch
        if self._request.scales_batch and options.batch is not None and examples is not None:
            options, examples = replace(options, batch=options.batch * case.devices), examples * case.devices
        try:
            placed, file = self._planned(case, options) if case.name == MODEL_PARALLEL else self._rewritten(case, options)
        except PlacesimError as error:
            placed, file = SimulatedPlacement(case.label, None, error), None
        return StrategyResult(case, placed._replace(label=case.label), file, examples)

    def _rewritten(self, case: StrategyCase, options: SimulationOptions) -> tuple[SimulatedPlacement, GraphFile]:
        file = self._file
        if case.strategy is not None:
            if case.strategy.recompute == (AUTO,):
                found = search_segments(replace(self._loaded, file=file), options, self._name, case.strategy)
                file, self.segments = found.file, int(found.strategy.recompute[0])
            else:
                file = rewrite_training(file, case.strategy).file
            if case.devices > 1:
                file = spread_over_tasks(file, self._file.inventory, case.strategy, self._gpus)
        loaded = replace(self._loaded, file=up_to_training(file, self._trained), text=None)
        study = study_time(loaded, options, self._name, is_traced=self._request.aim.is_traced)
        return SimulatedPlacement(case.label, study, study.error), file

    def _planned(self, case: StrategyCase, options: SimulationOptions) -> tuple[SimulatedPlacement, GraphFile | None]:
        searched = replace(self._loaded, file=up_to_training(self._file, self._trained), text=None)
        effort = share_effort(self._request.effort, 1 / (len(self.counts) - 1))
        free = self._request.free or ("*",)
        aim = self._request.aim
        aim = aim._replace(without=(*aim.without, *self._gpus[case.devices :]))
        study = study_plan(searched, options, self._name, effort, free, aim=aim)
        if study.plan is None:
            raise ResourceExhaustedError(f"no plan fits: {suggest_remedy(study)}")
        return study.plan, assign_devices(clear_requests(self._file, free), study.asked)


def _on_one_device(file: GraphFile) -> GraphFile:
    """Return the file with every requested GPU replaced by GPU 0."""
    asked = {node.name: parse_runtime_name(node.device) or DeviceName() for node in file.graph.nodes if node.device}
    moved = {name: format_spec(spec._replace(id=0)) for name, spec in asked.items() if spec.type == "GPU" and spec.id}
    return assign_devices(file, moved) if moved else file
