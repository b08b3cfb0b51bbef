"""A run that goes on from a checkpoint gives what one without an end gives; `tests/runtime/saving/law.py` holds more to it."""

from __future__ import annotations

import secrets
from pathlib import Path

import pytest

from placesim.formats.graph_file.reader import graph_file_from_mapping
from placesim.graph.session_steps import Fetch, GraphStep
from placesim.machine.inventory import TaskInventory, build_devices
from tests.runtime.dask.law import Case, fixed_seeds, graph_case, recorded_cases
from tests.runtime.saving.law import continued, undisturbed

GRAPHS = Path(__file__).parent.parent.parent.parent / "graphs"
CHOSEN = ("cluster", "dataset", "parameter-server", "queue")
RECORDED = ("mlp-adam-res", "dataset", "queue", "while-grad", "f-dataset-map", "f-rnn")


@pytest.fixture(autouse=True)
def _fixed_seeds(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(secrets, "randbits", secrets.randbits)
    fixed_seeds()


def held(case: Case, folder: Path) -> None:
    """Whether a case may end between any two steps."""
    expected, left = undisturbed(case, folder)
    assert not left
    assert len(expected) > 1
    for after in range(1, len(expected)):
        assert continued(case, folder, after) == expected[after:]


@pytest.mark.slow
@pytest.mark.parametrize("name", CHOSEN)
def test_a_graph(name: str, tmp_path: Path) -> None:
    held(graph_case(GRAPHS / f"{name}.yaml"), tmp_path)


@pytest.mark.slow
def test_recorded_models(tmp_path: Path) -> None:
    cases = {case.name: case for case in recorded_cases() if case.name in RECORDED}
    assert set(cases) == set(RECORDED)
    for case in cases.values():
        held(case, tmp_path)


def test_a_restart_on_fewer_devices(tmp_path: Path) -> None:
    """Variables and generators go where they are placed now; what else was on a device that is gone is missed."""
    nodes = [
        {"variable": "w", "shape": [2], "initializer": "zeros", "device": "/gpu:1"},
        {"op": "RandomUniform", "name": "r", "inputs": [[2]], "attrs": {"dtype": "float", "seed": 1}, "device": "/gpu:1"},
        {"op": "AssignAdd", "name": "more", "inputs": ["w", "r"]},
        {"initializer": "init"},
    ]
    config = {"allow_soft_placement": True}
    file = graph_file_from_mapping({"nodes": nodes, "config": config}, "nodes")
    steps = (GraphStep((Fetch("init"),)), GraphStep((Fetch("more"),), repeat=3))
    many, few = (Case("nodes", file, tuple(build_devices((TaskInventory(gpu=n),))), file.config, steps, Path()) for n in (2, 1))
    expected, _ = undisturbed(many, tmp_path)
    assert continued(few, tmp_path, 2) == expected[2:]
    table = [
        {"op": "MutableHashTableV2", "name": "t", "attrs": {"key_dtype": "int64", "value_dtype": "int64"}, "device": "/cpu:1"}
    ]
    file = graph_file_from_mapping({"nodes": table, "config": config}, "nodes")
    many, few = (
        Case(
            "table",
            file,
            tuple(build_devices((TaskInventory(cpu=n),))),
            file.config,
            (GraphStep((Fetch("^t"),), repeat=2),),
            Path(),
        )
        for n in (2, 1)
    )
    undisturbed(many, tmp_path)
    (error,) = continued(few, tmp_path, 1)
    assert error[0] == "FailedPreconditionError"
    assert "device:CPU:1, which this machine lacks" in error[1]
