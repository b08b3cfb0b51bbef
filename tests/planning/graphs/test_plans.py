"""Plans of graphs: never worse than what they are held against, and placed by TensorFlow's rules exactly where they say."""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import Any

import pytest

from placesim.core.errors import PlacesimError, UsageError
from placesim.formats.device_annotations import assign_devices
from placesim.formats.sources.loading import LoadedGraph, load
from placesim.machine.options import SimulationOptions, make_options
from placesim.placement.session_placer import SessionPlacer
from placesim.planning.graphs.plan_annotations import clear_requests
from placesim.planning.graphs.plan_comparison import BY_NODE, BY_SCOPE, Aim, PlanMeasure, PlanStudy
from placesim.planning.methods.memory_packing import pack_by_memory
from placesim.planning.portfolio import Effort
from placesim.planning.problem import Plan, PlanningProblem
from placesim.studies.plan_study import study_plan
from placesim.studies.simulation.simulation import SimulationStage, simulate
from placesim.studies.time_study import study_time
from tests.planning.graphs.networks import first_layers, recorded_graph

GRAPHS = Path(__file__).parents[3] / "graphs"
QUICK = Effort(evaluations=8, jobs=1)


def plan(
    source: Any, free: tuple[str, ...] = ("*",), effort: Effort = QUICK, aim: Aim | None = None, **options: Any
) -> PlanStudy:
    made = make_options(options)
    loaded = load(source, None, made)
    study = study_plan(loaded, made, "g", effort, free, aim=aim)
    check_places(loaded, study, free, made, needs_contiguous=aim is not None and aim.needs_contiguous)
    return study


def check_places(
    loaded: LoadedGraph, study: PlanStudy, free: tuple[str, ...], made: SimulationOptions, *, needs_contiguous: bool = False
) -> None:
    """The law: what is written is placed as planned, and its step takes what the plan says."""
    if study.plan is None or study.plan.study is None:
        return
    assert loaded.file is not None
    file = assign_devices(clear_requests(loaded.file, free), study.asked)
    report = simulate(loaded, made, SimulationStage.PARTITIONED)
    devices = report.prepared[-1].placement
    placed = SessionPlacer(devices.device_set, devices.groups.soft).place(file.graph)
    assert placed.error is None
    where = {node.name: device.name for node, device in zip(placed.graph.nodes, placed.devices, strict=True) if device}
    runs = {(run.node, run.device) for run in study.plan.study.nodes}
    for node in {node for node, _ in runs} & where.keys():
        assert (node, where[node]) in runs
    # every placement is simulated, and no bound is above any of them
    for other in study.placements:
        if not other.is_allowed:
            continue
        value = other.value(study.sought)
        assert study.bound.value <= value * (1 + 1e-9), other.label
        assert not other.fits or needs_contiguous or study.value <= value
    for device in study.plan.study.devices:
        assert device.limit is None or (device.peak or 0) <= device.limit


@pytest.mark.slow
@pytest.mark.parametrize(("gpus", "model"), [(1, "Tesla K80"), (2, "Tesla V100-SXM2-16GB")])
def test_plans_of_towers_are_no_worse_than_any_plain_placement(gpus: int, model: str) -> None:
    study = plan(GRAPHS / "cifar10-towers.yaml", gpu=gpus, gpu_model=model, soft_placement=True)
    labels = {placed.label for placed in study.placements}
    assert {"TensorFlow's default", "the plan"} <= labels
    assert study.plan is not None


@cache
def freed_plan(name: str) -> PlanStudy:
    """The plan of a graph of `graphs/` on its own machine, which two tests look at."""
    return plan(GRAPHS / name, soft_placement=True)


@pytest.mark.slow
@pytest.mark.parametrize("name", ["alexnet.yaml", "towers.yaml", "logging.yaml"])
def test_what_is_annotated_stays_unless_it_is_freed(name: str) -> None:
    held = plan(GRAPHS / name, (), soft_placement=True)
    freed = freed_plan(name)
    assert held.plan is not None
    assert freed.plan is not None
    assert freed.plan.seconds <= held.plan.seconds


TWO_TOWERS: dict[str, Any] = {
    "devices": {"cpu": 1, "gpu": {"count": 2, "model": "Tesla V100-SXM2-16GB"}},
    "nodes": [
        {"op": "Placeholder", "name": "x", "dtype": "float32", "shape": [4096, 4096]},
        *(
            node
            for tower in ("a", "b")
            for node in (
                {"op": "MatMul", "name": f"{tower}1", "inputs": ["x", "x"]},
                {"op": "MatMul", "name": f"{tower}2", "inputs": [f"{tower}1", "x"]},
                {"op": "MatMul", "name": f"{tower}3", "inputs": [f"{tower}2", "x"]},
            )
        ),
        {"op": "Add", "name": "sum", "inputs": ["a3", "b3"]},
    ],
    "fetch": ["sum"],
}


LAYERS: dict[str, Any] = {
    "devices": {"cpu": 1, "gpu": 2},
    "functions": [
        {
            "name": "layer",
            "inputs": {"x": "float"},
            "nodes": [
                {"op": "MatMul", "id": "m", "inputs": ["x", "x"]},
                {"op": "Mean", "id": "mean", "inputs": ["m", [0]], "device": "/cpu:0"},
                {"op": "Sub", "id": "y", "inputs": ["m", "mean"]},
            ],
            "outputs": "y",
        }
    ],
    "nodes": [
        {"op": "Const", "name": "x", "value": [[1.0, 2.0], [3.0, 5.0]]},
        {"op": "PartitionedCall", "name": "first", "inputs": ["x"], "attrs": {"f": "layer"}, "device": "/gpu:0"},
        {"op": "PartitionedCall", "name": "second", "inputs": ["first"], "attrs": {"f": "layer"}, "device": "/gpu:1"},
        {"op": "Neg", "name": "y", "inputs": ["second"]},
    ],
    "fetch": ["y"],
}


@pytest.mark.parametrize("free", [(), ("*",)])
def test_a_call_stays_with_the_body_that_runs_for_it(free: tuple[str, ...]) -> None:
    study = plan(LAYERS, free)
    assert study.plan is not None
    assert study.plan.study is not None
    homes = {run.node: run.device for run in study.plan.study.nodes}
    assert len({homes["first"], homes["second"]}) == (1 if free else 2)


def test_two_towers_go_to_two_gpus() -> None:
    study = plan(TWO_TOWERS, effort=Effort(evaluations=400, jobs=1))
    default = next(placed for placed in study.placements if placed.label == "TensorFlow's default")
    assert study.plan is not None
    assert study.plan.seconds < 0.75 * default.seconds
    assert len(set(study.asked.values())) >= 1
    assert len(study.asked) <= 4  # not each node has to be told


@pytest.mark.slow
def test_one_seed_gives_one_plan() -> None:
    studies = [plan(TWO_TOWERS, effort=Effort(evaluations=200, seed=3, jobs=jobs)) for jobs in (1, 2)]
    assert studies[0].asked == studies[1].asked
    assert studies[0].plan is not None
    assert studies[1].plan is not None
    assert studies[0].plan.seconds == studies[1].plan.seconds


def test_where_nothing_fits_there_is_no_plan_and_a_way_out() -> None:
    from placesim.report.text.planning import suggest_remedy

    size = 50_000
    graph = {
        "devices": {"cpu": {"count": 1, "memory": "64MiB"}, "gpu": {"count": 2, "model": "Tesla K20m"}},
        "nodes": [
            {"op": "Placeholder", "name": "x", "dtype": "float32", "shape": [size, size]},
            {"op": "MatMul", "name": "y", "inputs": ["x", "x"]},
        ],
        "fetch": ["y"],
    }
    study = plan(graph)
    assert study.plan is None
    assert "needs 9.3 GiB" in suggest_remedy(study)


LOWERED = ("cond.yaml", "while.yaml")


@pytest.mark.slow
def test_groups_loops_and_functions_stay_together() -> None:
    for name in sorted(path.name for path in GRAPHS.glob("*.yaml") if path.name not in LOWERED):
        try:
            freed_plan(name)
        except PlacesimError:
            made = make_options({"soft_placement": True})
            simulated = simulate(load(GRAPHS / name, None, made), made, SimulationStage.WALKED)
            assert simulated.error is not None, name


@pytest.mark.parametrize("name", LOWERED)
def test_bodies_that_are_lowered_are_not_planned(name: str) -> None:
    with pytest.raises(
        UsageError, match=r"lowered functions: got (Stateless)?(If|While) '.*disable_control_flow_v2.*set `_lower"
    ):
        plan(GRAPHS / name)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "sought"), [("alexnet.yaml", PlanMeasure.THROUGHPUT), ("cifar10-towers.yaml", PlanMeasure.MEMORY)]
)
def test_loads_and_peaks_are_no_worse_than_those_of_any_plain_placement(name: str, sought: PlanMeasure) -> None:
    study = plan(GRAPHS / name, aim=Aim(sought), gpu=2, gpu_model="Tesla V100-SXM2-16GB", soft_placement=True)
    assert study.plan is not None
    assert 0 < study.bound.value <= study.value


@pytest.mark.slow
def test_what_each_move_gains_is_told_where_it_is_asked_for() -> None:
    for sought in PlanMeasure:
        study = plan(TWO_TOWERS, effort=Effort(evaluations=200, jobs=1), aim=Aim(sought, explains=True))
        assert all(move.loss is not None for move in study.moves)
    silent = plan(TWO_TOWERS, effort=Effort(evaluations=400, jobs=1))
    assert silent.moves
    assert all(move.loss is None for move in silent.moves)


def test_what_a_move_gains_is_what_the_step_takes_without_it() -> None:
    study = plan(TWO_TOWERS, effort=Effort(evaluations=400, jobs=1), aim=Aim(explains=True))
    assert study.plan is not None
    assert study.plan.study is not None
    assert study.moves
    made, where = make_options({}), {run.node: run.device for run in study.plan.study.nodes}
    for move in study.moves:
        back = dict.fromkeys(move.nodes, f"/device:{move.source}")
        nodes = [node | {"device": (where | back).get(str(node["name"]), "")} for node in TWO_TOWERS["nodes"]]
        graph = TWO_TOWERS | {"nodes": nodes}
        seconds = study_time(load(graph, None, made), made, "g").step.seconds
        assert move.loss == pytest.approx(seconds - study.plan.seconds)


def test_of_a_large_plan_some_moves_are_explained(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("placesim.planning.graphs.moved_groups.EXPLAINED_TASKS", 25)
    study = plan(TWO_TOWERS, effort=Effort(evaluations=400, jobs=1), aim=Aim(explains=True))
    told = [move.loss for move in study.moves if move.loss is not None]
    assert 0 < len(told) < len(study.moves)
    assert [move.loss for move in study.moves[: len(told)]] == sorted(told, reverse=True)


LARGEST = "keras-resnet50-split"
"""A network of thousands of nodes: planned as far as its first layers; `test_real_graphs.py` plans one of that size whole."""


@pytest.mark.slow(6)
@pytest.mark.parametrize(
    ("name", "fetch", "model"),
    [
        ("keras-resnet50-split", "Identity", "Tesla K80"),
        ("keras-transformer-split", "Identity", "Tesla V100-SXM2-16GB"),
        ("lstm", "init", "Tesla K80"),
    ],
)
def test_plans_of_recorded_graphs_are_no_worse_than_any_plain_placement(name: str, fetch: str, model: str) -> None:
    run = [{"fetch": ["init"]}, {"fetch": ["Mean"]}] if fetch == "init" else [{"fetch": [fetch]}]
    graph = recorded_graph(name) | {"run": run}
    if name == LARGEST:
        graph = first_layers(graph)
    study = plan(graph, gpu=4, gpu_model=model, soft_placement=True)
    assert study.plan is not None
    assert len(study.placements) >= 4


def convolutions(batch: int) -> dict[str, Any]:
    """Three convolutions and a layer of 256 MiB, trained with Adam: 104 % of one V100-SXM2-16GB for a batch of 16,450."""
    window = {"strides": [1, 1, 1, 1], "padding": "SAME"}
    nodes: list[dict[str, Any]] = [
        {"op": "Placeholder", "name": "x", "dtype": "float32", "shape": [batch, 32, 32, 3]},
        {"op": "Placeholder", "name": "y", "dtype": "int32", "shape": [batch]},
    ]
    read = "x"
    for scope, channels in (("conv1", (3, 64)), ("conv2", (64, 64)), ("conv3", (64, 128))):
        layer = [
            {"variable": "w", "shape": [3, 3, *channels], "initializer": "zeros"},
            {"op": "Conv2D", "name": "out", "inputs": [read, "w"], "attrs": window},
            {"op": "Relu", "name": "relu", "inputs": ["out"]},
        ]
        read = f"{scope}/relu"
        if scope == "conv2":
            size = {"ksize": [1, 2, 2, 1], "strides": [1, 2, 2, 1], "padding": "SAME"}
            layer.append({"op": "MaxPool", "name": "pool", "inputs": ["relu"], "attrs": size})
            read = "conv2/pool"
        nodes.append({"scope": scope, "nodes": layer})
    nodes.append({"op": "Reshape", "name": "flat", "inputs": [read, [-1, 32768]]})
    read = "flat"
    for scope, sizes in (("fc1", [32768, 2048]), ("fc2", [2048, 10])):
        layer = [
            {"variable": "w", "shape": sizes, "initializer": "zeros"},
            {"op": "MatMul", "name": "out", "inputs": [read, "w"]},
        ]
        nodes.append({"scope": scope, "nodes": layer})
        read = f"{scope}/out"
    nodes += [
        {"op": "SparseSoftmaxCrossEntropyWithLogits", "name": "losses", "inputs": [read, "y"]},
        {"op": "Mean", "name": "loss", "inputs": ["losses", [0]]},
        {"train": {"minimize": "loss", "optimizer": "Adam"}, "name": "train"},
        {"initializer": "init"},
    ]
    devices = {"cpu": 1, "gpu": {"count": 2, "model": "Tesla V100-SXM2-16GB"}}
    return {"devices": devices, "nodes": nodes, "run": [{"fetch": ["init"]}, {"fetch": ["loss", "train"]}]}


@pytest.mark.slow
def test_layers_are_split_among_gpus_before_any_search_if_one_has_too_little_memory() -> None:
    study = plan(convolutions(16_450), effort=Effort(evaluations=1, jobs=1))
    placed = {placed.label: placed for placed in study.placements}
    assert not placed["TensorFlow's default"].fits
    assert placed["split by layers"].fits
    assert study.plan is not None
    assert study.value <= placed["split by layers"].seconds < placed["all on CPU:0"].seconds / 10
    small = plan(convolutions(64), effort=Effort(evaluations=1, jobs=1))
    assert not any(placed.label.startswith("split") for placed in small.placements)


@pytest.mark.slow
def test_placements_with_the_least_peak_are_sought_if_no_split_fits() -> None:
    nodes: list[dict[str, Any]] = []
    sizes = [1500, 1100, 900, 600]
    for number, size in enumerate(sizes):
        variable = {"variable": "w", "shape": [size, 1024, 1024], "initializer": "zeros"}
        total = {"op": "Sum", "name": "total", "inputs": ["w", [0, 1, 2]]}
        nodes.append({"scope": f"layer{number}", "nodes": [variable, total]})
    nodes.append({"op": "AddN", "name": "all", "inputs": [f"layer{number}/total" for number in range(len(sizes))]})
    nodes.append({"initializer": "init"})
    devices = {"cpu": 1, "gpu": {"count": 2, "model": "Tesla V100-SXM2-16GB"}}
    graph = {"devices": devices, "nodes": nodes, "run": [{"fetch": ["init"]}, {"fetch": ["all"]}]}
    studies = [plan(graph, effort=Effort(evaluations=400, jobs=1), aim=Aim(by=by)) for by in (BY_SCOPE, BY_NODE)]
    for study in studies:
        placed = {placed.label: placed for placed in study.placements}
        assert not placed["round robin"].fits
        assert not placed["split by memory"].fits
        # a search by node knows the limits of peaks, and finds a plan without a placement that fits
        assert "least memory" not in placed or placed["least memory"].fits
        assert ("least memory" in placed) == (study is studies[0])
    least = next(placed for placed in studies[0].placements if placed.label == "least memory")
    assert max(study.value for study in studies) <= least.seconds < placed["all on CPU:0"].seconds


@pytest.mark.slow
def test_placements_with_the_least_peak_are_sought_once_if_nothing_fits_on_gpus(monkeypatch: pytest.MonkeyPatch) -> None:
    sought: list[int] = []

    def pack(problem: PlanningProblem) -> list[Plan]:
        sought.append(len(problem.tasks))
        return pack_by_memory(problem)

    monkeypatch.setattr("placesim.studies.plan_study.pack_by_memory", pack)
    nodes: list[dict[str, Any]] = [{"variable": "w", "shape": [9000, 1024, 1024], "initializer": "zeros"}]
    nodes += [{"op": "Sum", "name": f"total{number}", "inputs": ["w", [0, 1, 2]]} for number in range(12)]
    nodes += [{"op": "AddN", "name": "all", "inputs": [f"total{number}" for number in range(12)]}, {"initializer": "init"}]
    devices = {"cpu": 1, "gpu": {"count": 2, "model": "Tesla V100-SXM2-16GB"}}
    graph = {"devices": devices, "nodes": nodes, "run": [{"fetch": ["init"]}, {"fetch": ["all"]}]}
    for by in (BY_SCOPE, BY_NODE):
        sought.clear()
        plan(graph, effort=Effort(evaluations=250, jobs=1), aim=Aim(by=by))  # of two rounds
        assert len(sought) == 1
