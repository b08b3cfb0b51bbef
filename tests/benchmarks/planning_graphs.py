"""Plans of graphs for `planning_bench`: small random ones beside all their placements, and training steps short of memory.

A training step has a GPU memory of 1 / 0.95, 1 / 1.05 and 1 / 1.5 of its peak on one GPU, on two and on four GPUs.  Each plan
stands beside the best known one, which longer searches improve and `planning_best.json` keeps: step times of plans are the same
on every machine.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from operator import itemgetter
from pathlib import Path
from typing import Any, NamedTuple

from placesim.core.errors import PlacesimError
from placesim.formats.sources.loading import LoadedGraph, load
from placesim.machine.options import SimulationOptions, make_options
from placesim.planning.graphs.plan_comparison import DEFAULT, PlanStudy, is_gpu
from placesim.planning.objectives import measure
from placesim.planning.portfolio import Effort
from placesim.planning.search_processes import spread
from placesim.runtime.cluster.connection_settings import Connection
from placesim.studies.plan_study import study_plan
from placesim.studies.time_study import study_time
from tests.benchmarks.networks import build
from tests.planning.graphs.test_all_placements import MODEL, Small, random_graph

NETWORKS = (
    *("alexnet", "vgg11", "vgg16", "resnet18", "resnet50"),
    *("inception_v3", "densenet121", "mobilenetv2_100", "googlenet", "regnety_008"),
)
BATCH = 16
SHARES = (0.95, 1.05, 1.5)
"""The peak on one GPU as a share of its memory."""
GPUS = (2, 4)
NEAR = 1.05
BEST = Path(__file__).with_name("planning_best.json")
MOST_ASSIGNMENTS = 20_000
SAME = 1 + 1e-6


# --- small graphs -----------------------------------------------------------------------------------------------------


def bench_small(count: int, effort: Effort) -> None:
    """Random graphs of five to nine nodes on two or three devices: the plan beside the best of all placements."""
    best = proven = wrong = 0
    seeds = [seed for seed in range(10 * count) if _is_small(Small(random_graph(seed, most=9)))][:count]
    for seed in seeds:
        small = Small(random_graph(seed, most=9))
        measured = measure(small.drawn.problem)
        optimum = min(measured.plan(devices).value for devices in small.assignments())
        began = time.monotonic()
        study = study_plan(small.loaded, SimulationOptions(), str(seed), effort)
        is_best = study.value <= optimum * SAME
        best, proven = best + is_best, proven + study.is_optimal
        wrong += study.is_optimal and not is_best
        if not is_best or not study.is_optimal:
            excess = f"{study.value / optimum - 1:.2%} above the optimum" if not is_best else "optimal, not proven"
            print(f"seed {seed}: {excess}, {time.monotonic() - began:.1f} s", flush=True)
    print(f"small graphs: {best} of {len(seeds)} plans are optimal, {proven} proven, {wrong} claims of optimality false")


def _is_small(small: Small) -> bool:
    return len(small.assignments()) <= MOST_ASSIGNMENTS


# --- training steps ---------------------------------------------------------------------------------------------------


class _Training(NamedTuple):
    """A training step with the peak that it has on one GPU, and the memory of that GPU."""

    name: str
    graph: dict[str, Any]
    peak: int
    memory: float

    def loaded(self, share: float, options: SimulationOptions) -> LoadedGraph:
        """The step on GPUs of which `share` of the memory is the peak on one."""
        fraction = self.peak / share / self.memory
        config = {"gpu_options": {"per_process_gpu_memory_fraction": fraction}}
        return load({**self.graph, "config": config}, None, options)


@dataclass
class _Score:
    cases: int = 0
    fitting: int = 0
    on_gpus: int = 0
    near: int = 0
    networks: int = 0
    near_networks: int = 0
    slowest: float = 0.0


class BestPlans:
    """The best known step times by case, each with the seconds of all longer searches and the method that found it.

    `found_by` names a search that was timed by the processor, or a case with less memory or fewer GPUs whose plan this is. The
    step time of TensorFlow's default placement says whether costs have changed since; such a record does not count.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._records: dict[str, dict[str, Any]] = json.loads(path.read_text(encoding="utf-8")) if path.exists() else {}

    def record(self, case: str, study: PlanStudy) -> dict[str, Any]:
        """The record of a case, or that of the study if none counts."""
        default = next(placed.seconds for placed in study.placements if placed.label == DEFAULT)
        found = self._records.get(case, {})
        return found if found.get("default_seconds") == default else _record(study, default)

    def search(self, case: str, study: PlanStudy, seconds: float, plan: Callable[[Effort], PlanStudy]) -> None:
        """Search for some seconds with a seed that was not used before, and keep the better plan."""
        before = self.record(case, study)
        found = plan(Effort(seconds, seed=before["searches"] + 1))
        own = min((_record(other, before["default_seconds"]) for other in (study, found)), key=itemgetter("step_seconds"))
        best = min(before, own, key=itemgetter("step_seconds"))
        spent = {"searches": before["searches"] + 1, "searched_seconds": before["searched_seconds"] + seconds}
        self._records[case] = best | spent
        text = ",\n".join(f"  {json.dumps(name)}: {json.dumps(self._records[name])}" for name in sorted(self._records))
        self._path.write_text(f"{{\n{text}\n}}\n", encoding="utf-8")


def _record(study: PlanStudy, default: float) -> dict[str, Any]:
    found = {"step_seconds": study.value, "bound_seconds": study.bound.value, "method": study.method}
    return found | {"default_seconds": default, "searches": 0, "searched_seconds": 0.0}


def bench_trainings(effort: Effort, longer: float | None, names: tuple[str, ...] = NETWORKS) -> None:
    """The plan of each step beside the best known, which longer searches of some seconds may improve."""
    score, known = _Score(), BestPlans(BEST)
    for training in _trainings(names):
        score.networks += 1
        nears = score.cases - score.near
        for count in GPUS:
            options = make_options({"gpu": count, "gpu_model": MODEL})
            for share in SHARES:
                case = f"{training.name}, {share:.0%} of {count}"
                _bench(training.loaded(share, options), options, case, effort, longer, known, score)
        score.near_networks += score.cases - score.near == nears
    near = f"{score.near} within {NEAR - 1:.0%} of the best (all of {score.near_networks} of {score.networks} networks)"
    fit = f"{score.fitting} of {score.cases} plans fit, {score.on_gpus} on the GPUs"
    print(f"training steps: {fit}, {near}; slowest {score.slowest:.1f} s for {effort.seconds:g} s")


def _bench(
    loaded: LoadedGraph,
    options: SimulationOptions,
    case: str,
    effort: Effort,
    longer: float | None,
    known: BestPlans,
    score: _Score,
) -> None:
    began = time.monotonic()
    study = _planned(loaded, options, effort)
    seconds = time.monotonic() - began
    # no search finds more than the bound allows
    if longer is not None and study.value > study.bound.value * NEAR:
        known.search(case, study, longer, lambda effort: _planned(loaded, options, effort))
    record = known.record(case, study)
    best = min(study.value, record["step_seconds"])
    score.cases += 1
    score.slowest = max(score.slowest, seconds)
    score.fitting += study.plan is not None
    is_on_gpus = study.plan is not None and _is_on_gpus(study)
    score.on_gpus += is_on_gpus
    score.near += study.plan is not None and study.value <= best * NEAR
    label = "NO PLAN" if study.plan is None else study.method
    print(
        f"{case:<28} {study.value * 1e3:9.2f} ms, best known {record['step_seconds'] * 1e3:.2f} ms after "
        f"{record['searched_seconds']:g} s ({study.value / best - 1:.1%} above it), bound {study.bound.value * 1e3:.2f} ms, "
        f"{seconds:.1f} s, {label}{'' if is_on_gpus else ', NOT ON THE GPUS'}",
        flush=True,
    )


def _is_on_gpus(study: PlanStudy) -> bool:
    """Whether the GPUs do nearly all of the work: the host's nodes take less than a tenth of all seconds."""
    assert study.plan is not None
    assert study.plan.study is not None
    nodes = study.plan.study.nodes
    return sum(run.seconds for run in nodes if not is_gpu(run.device)) < sum(run.seconds for run in nodes) / 10


def _planned(loaded: LoadedGraph, options: SimulationOptions, effort: Effort) -> PlanStudy:
    with spread(effort, Connection()) as spread_effort:
        return study_plan(loaded, options, "training", spread_effort)


def _trainings(names: tuple[str, ...]) -> Iterator[_Training]:
    options = make_options({"gpu": 1, "gpu_model": MODEL})
    for name in names:
        built = build(name, BATCH, is_training=True)
        assert built is not None
        graph = dict(built.graph)
        half = {"gpu_options": {"per_process_gpu_memory_fraction": 0.5}}
        try:
            study = study_time(load({**graph, "config": half}, None, options), options, name)
        except PlacesimError as error:
            print(f"{name}: {error}")
            continue
        gpu = next(device for device in study.devices if device.limit)
        yield _Training(name, graph, gpu.peak or 0, 2 * (gpu.limit or 0))
