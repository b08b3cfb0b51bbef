"""Plans of real networks on GPUs of two kinds: never worse than plain placements, within memory, and written as planned."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import placesim
from placesim.formats.sources.loading import load
from placesim.machine.options import make_options
from placesim.planning.portfolio import Effort
from placesim.studies.plan_files import write_planned_content
from placesim.studies.plan_study import study_plan
from tests.planning.graphs.networks import first_layers, inception, recorded

GRAPHS = Path(__file__).parents[3] / "graphs"
KINDS = ("Tesla V100-SXM2-16GB", "Tesla K80")


NETWORKS: dict[str, Callable[[], Any]] = {
    "cifar10-towers": lambda: GRAPHS / "cifar10-towers.yaml",
    "alexnet": lambda: GRAPHS / "alexnet.yaml",
    "inception-v3": lambda: first_layers(inception()),
    "resnet50": lambda: first_layers(recorded("keras-resnet50-split", ["Identity:0"])),
    "transformer": lambda: recorded("keras-transformer-split", ["Identity:0"]),
    "lstm": lambda: recorded("lstm", ["init"], ["Mean:0", "RMSProp"]),
}

SMALL = ("cifar10-towers", "alexnet", "transformer")
"""Networks whose written plans are simulated."""
GPUS = {"cifar10-towers": 8, "alexnet": 2, "inception-v3": 4, "resnet50": 4, "transformer": 8, "lstm": 4}
QUICK = Effort(evaluations=8, jobs=1, method="move")
"""One method is enough for plans that are held to what every plan promises; `test_plans.py` searches with all."""


def check(network: str, source: Any, options: dict[str, Any], directory: Path) -> None:
    """Plans a network with little effort, writes the plan, and holds both to what a plan promises."""
    made = make_options(options | {"soft_placement": True})
    loaded = load(source, None, made)
    study = study_plan(loaded, made, network, QUICK, ("*",))
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
    path.write_bytes(b"".join(write_planned_content(loaded, made, study, ("*",), path, lambda note: None)))
    # the file says all: no option is needed to have it so
    where = {row.node: row.device for row in placesim.place(path).placements}
    assert {node: where[node] for node in study.asked} == dict(study.asked)
    ran = {run.node: run.device for run in study.plan.study.nodes}
    assert {node: where.get(node, device) for node, device in ran.items()} == ran
    if network in SMALL:
        assert placesim.simulate(path).seconds == pytest.approx(study.value, rel=1e-9)


@pytest.mark.slow(7)
@pytest.mark.parametrize(("network", "gpus"), GPUS.items())
def test_a_plan_for_gpus_of_two_kinds(network: str, gpus: int, tmp_path: Path) -> None:
    tasks = [
        {"job": job, "cpu": 1, "gpu": {"count": gpus // 2, "model": model}}
        for job, model in zip(("first", "second"), KINDS, strict=True)
    ]
    check(network, NETWORKS[network](), {"inventory": {"devices": tasks}}, tmp_path)


@pytest.mark.slow(2)
@pytest.mark.parametrize(("network", "model"), [("alexnet", "Tesla K80"), ("transformer", "Tesla V100-SXM2-16GB")])
def test_a_plan_for_gpus_of_one_kind(network: str, model: str, tmp_path: Path) -> None:
    check(network, NETWORKS[network](), {"gpu": 8, "gpu_model": model}, tmp_path)
