"""Plans of real networks on GPUs of two kinds: never worse than plain placements, within memory, and written as planned."""

from __future__ import annotations

import gzip
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import placesim
from placesim.formats.device_annotations import assign_devices
from placesim.formats.graph_file.writing.raw_writer import graph_file_document
from placesim.formats.sources.loading import load
from placesim.formats.tensorflow.reader import read_tensorflow_file
from placesim.machine.options import make_options
from placesim.planning.portfolio import Effort
from placesim.studies.plan_files import write_planned_content
from placesim.studies.plan_study import study_plan

GRAPHS = Path(__file__).parents[3] / "graphs"
DATA = Path(__file__).parents[2] / "data"
COUNTS = (2, 4, 8)
KINDS = ("Tesla V100-SXM2-16GB", "Tesla K80")


def recorded(name: str, *fetches: list[str]) -> Callable[[], Any]:
    """A graph that was recorded with the annotations of its author, and the steps that it is to run."""

    def read() -> Any:
        with gzip.open(DATA / "placement-models.jsonl.gz", "rt") as lines:
            graph = next(case["graph"] for case in map(json.loads, lines) if case["id"] == name)
        return {key: graph[key] for key in ("raw", "nodes", "versions")} | {"run": [{"fetch": fetch} for fetch in fetches]}

    return read


def inception() -> Any:
    """Inception-v3, its first half on one GPU and its second on another, as the recordings of the other networks are."""
    file = read_tensorflow_file("inception-v3.pb", data=gzip.decompress((DATA / "inception-v3.pb.gz").read_bytes())).file
    nodes = file.graph.nodes
    halves = {node.name: f"/device:GPU:{number * 2 // len(nodes)}" for number, node in enumerate(nodes)}
    return graph_file_document(assign_devices(file, halves)) | {"run": [{"fetch": ["Identity:0"]}]}


NETWORKS: dict[str, Callable[[], Any]] = {
    "cifar10-towers": lambda: GRAPHS / "cifar10-towers.yaml",
    "alexnet": lambda: GRAPHS / "alexnet.yaml",
    "inception-v3": inception,
    "resnet50": recorded("keras-resnet50-split", ["Identity:0"]),
    "transformer": recorded("keras-transformer-split", ["Identity:0"]),
    "lstm": recorded("lstm", ["init"], ["Mean:0", "RMSProp"]),
}

WHOLE_ON = {"inception-v3": (4,), "resnet50": ()}
"""Networks of thousands of nodes are planned whole for so many GPUs, and for other numbers as far as their first layers.

`test_plans.py` plans the whole of ResNet-50."""
FIRST_LAYERS = 6


def first_layers(network: Any) -> Any:
    """A network up to a sixth of its activations, half of its nodes on one GPU and half on another."""
    activations = [node["name"] for node in network["nodes"] if node["op"] == "Relu"]
    last = activations[len(activations) // FIRST_LAYERS]
    needed = {last}
    kept: list[Any] = []
    for node in reversed(network["nodes"]):
        if node["name"] in needed:
            needed |= {source.removeprefix("^").partition(":")[0] for source in node.get("inputs", ())}
            kept.insert(0, node)
    halves = [node | {"device": f"/device:GPU:{number * 2 // len(kept)}"} for number, node in enumerate(kept)]
    return network | {"nodes": halves, "run": [{"fetch": [last]}]}


SMALL = ("cifar10-towers", "alexnet", "transformer")


def check(network: str, source: Any, options: dict[str, Any], directory: Path) -> None:
    """Plans a network with little effort, writes the plan, and holds both to what a plan promises."""
    made = make_options(options | {"soft_placement": True})
    study = study_plan(load(source, None, made), made, network, Effort(evaluations=20, jobs=1), ("*",))
    assert study.plan is not None
    assert study.plan.study is not None
    assert study.bound.value <= study.value
    labels = {placed.label for placed in study.placements}
    # what comes to the same placement is told once
    assert "TensorFlow's default" in labels
    assert {"all on CPU:0", "round robin"} <= labels
    for placed in study.placements:
        assert not (placed.fits and placed.is_allowed) or study.value <= placed.value(study.sought), placed.label
    for device in study.plan.study.devices:
        assert device.limit is None or (device.peak or 0) <= device.limit
    path = directory / "planned.yaml"
    path.write_bytes(b"".join(write_planned_content(load(source, None, made), made, study, ("*",), path)))
    # the file says all: no option is needed to have it so
    where = {row.node: row.device for row in placesim.place(path).placements}
    assert {node: where[node] for node in study.asked} == dict(study.asked)
    ran = {run.node: run.device for run in study.plan.study.nodes}
    assert {node: where.get(node, device) for node, device in ran.items()} == ran
    if network in SMALL:
        assert placesim.simulate(path).seconds == pytest.approx(study.value, rel=1e-9)


@pytest.mark.slow(7)
@pytest.mark.parametrize("gpus", COUNTS)
@pytest.mark.parametrize("network", NETWORKS)
def test_a_plan_for_gpus_of_two_kinds(network: str, gpus: int, tmp_path: Path) -> None:
    tasks = [
        {"job": job, "cpu": 1, "gpu": {"count": gpus // 2, "model": model}}
        for job, model in zip(("first", "second"), KINDS, strict=True)
    ]
    source = NETWORKS[network]()
    if gpus not in WHOLE_ON.get(network, COUNTS):
        source = first_layers(source)
    check(network, source, {"inventory": {"devices": tasks}}, tmp_path)


@pytest.mark.slow(2)
@pytest.mark.parametrize("model", KINDS)
@pytest.mark.parametrize("network", SMALL)
def test_a_plan_for_gpus_of_one_kind(network: str, model: str, tmp_path: Path) -> None:
    check(network, NETWORKS[network](), {"gpu": 8, "gpu_model": model}, tmp_path)
