"""Plans of graphs for `planning_bench`: small random ones beside all their placements, and training steps short of memory.

A training step has a GPU memory of 1 / 0.95, 1 / 1.05 and 1 / 1.5 of its peak on one GPU, on two and on four GPUs.  Each plan
stands beside the best of longer searches with other seeds.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from placesim.core.errors import PlacesimError
from placesim.formats.sources.loading import LoadedGraph, load
from placesim.machine.options import SimulationOptions, make_options
from placesim.planning.graphs.plan_comparison import PlanStudy, is_gpu
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


def split_search(seconds: float, count: int, seed: int) -> list[Effort]:
    """Searches of different seeds that take the seconds together; none has the seed of the search beside them."""
    return [Effort(seconds / count, seed=seed + number) for number in range(1, 1 + count)]


def bench_trainings(effort: Effort, longer: Sequence[Effort], names: tuple[str, ...] = NETWORKS) -> None:
    """The plan of each step beside the best of longer searches, or alone."""
    score = _Score()
    for training in _trainings(names):
        score.networks += 1
        nears = score.cases - score.near
        for count in GPUS:
            options = make_options({"gpu": count, "gpu_model": MODEL})
            for share in SHARES:
                _bench(training, training.loaded(share, options), options, f"{share:.0%} of {count}", effort, longer, score)
        score.near_networks += score.cases - score.near == nears
    near = f", {score.near} within {NEAR - 1:.0%} of the best (all of {score.near_networks} of {score.networks} networks)"
    fit = f"{score.fitting} of {score.cases} plans fit, {score.on_gpus} on the GPUs"
    print(f"training steps: {fit}{near if longer else ''}; slowest {score.slowest:.1f} s for {effort.seconds:g} s")


def _bench(
    training: _Training,
    loaded: LoadedGraph,
    options: SimulationOptions,
    case: str,
    effort: Effort,
    longer: Sequence[Effort],
    score: _Score,
) -> None:
    began = time.monotonic()
    study = _planned(loaded, options, effort)
    seconds = time.monotonic() - began
    others = [_planned(loaded, options, other).value for other in longer]
    best = min([study.value, *others])
    score.cases += 1
    score.slowest = max(score.slowest, seconds)
    score.fitting += study.plan is not None
    is_on_gpus = study.plan is not None and _is_on_gpus(study)
    score.on_gpus += is_on_gpus
    score.near += study.plan is not None and study.value <= best * NEAR
    told = f", longer {min(others) * 1e3:.2f} ms ({study.value / best - 1:.1%} above the best)" if others else ""
    label = "NO PLAN" if study.plan is None else study.method
    print(
        f"{training.name:<16} {case:<10} {study.value * 1e3:9.2f} ms{told}, bound {study.bound.value * 1e3:.2f} ms, "
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
