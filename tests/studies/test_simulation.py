"""Outcomes of simulations: graphs to which steps add nodes, and errors."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest

import placesim
from placesim.formats.sources.loading import load
from placesim.machine.options import SimulationOptions
from placesim.report.report import Report
from placesim.studies.conversions import build_placed_file
from placesim.studies.simulation.simulation import SimulationStage, simulate

EXTENDED = {
    "nodes": [{"op": "Const", "name": "a", "value": 2.0}],
    "run": [
        {"fetch": ["a"]},
        {"nodes": [{"op": "Add", "name": "b", "inputs": ["a", "a"]}], "fetch": ["b"], "repeat": 2},
        {"nodes": [{"op": "Mul", "name": "c", "inputs": ["b", "a"], "device": "/gpu:0"}], "fetch": ["c"]},
    ],
}
GPU = "/job:localhost/replica:0/task:0/device:GPU:0"


def test_a_graph_that_steps_extend_is_simulated_again() -> None:
    loaded = load(EXTENDED)
    outcomes = [simulate(loaded, SimulationOptions(gpu=1), SimulationStage.EXECUTED) for _ in range(2)]
    assert [[float(row.value) for row in outcome.results] for outcome in outcomes] == [[2.0, 4.0, 4.0, 8.0]] * 2
    assert loaded.file is not None
    assert list(loaded.file.graph.ids) == ["a"]
    for outcome in outcomes:
        assert outcome.file is not None
        assert list(outcome.file.graph.ids) == ["a", "b", "c"]
        assert [len(placement.graph) for placement in outcome.placed] == [1, 2, 3]


def test_a_classic_error_about_a_node_that_a_step_adds() -> None:
    outcome = simulate(load(EXTENDED), SimulationOptions(gpu=0, log_style="classic"), SimulationStage.EXECUTED)
    assert "Cannot assign a device to node 'c'" in Report.of(outcome).error_text()
    assert [float(row.value) for row in outcome.results] == [2.0, 4.0, 4.0]


@pytest.mark.parametrize(("form", "names"), [("yaml", ["a"]), ("pb", ["a", "b", "c"])])
def test_devices_of_nodes_that_steps_add(form: str, names: list[str]) -> None:
    loaded = load(EXTENDED)
    outcome = simulate(loaded, SimulationOptions(gpu=1), SimulationStage.PLACED)
    assert loaded.file is not None
    file = build_placed_file(loaded.file, outcome, form)
    assert [node.name for node in file.graph.nodes] == names
    assert {node.device for node in file.graph.nodes} == {GPU}
    assert [node.device for step in file.steps or () for node in step.nodes] == [GPU, GPU]
    if form == "yaml":  # it runs as it stands
        placed = replace(loaded, file=file)
        again = simulate(placed, SimulationOptions(gpu=1), SimulationStage.EXECUTED)
        assert [float(row.value) for row in again.results] == [2.0, 4.0, 4.0, 8.0]


@pytest.mark.parametrize("call", [placesim.place, placesim.simulate, placesim.convert])
def test_an_error_has_its_outcome_and_for_python_callers_its_report(call: Callable[..., object]) -> None:
    graph = {"nodes": [{"op": "Const", "name": "a", "value": 2.0, "device": "/gpu:7"}]}
    options = {"placed": True} if call is placesim.convert else {}
    with pytest.raises(placesim.InvalidArgumentError) as raised:
        call(graph, gpu=0, **options)
    assert raised.value.outcome.error is raised.value
    assert isinstance(raised.value.report, Report)
    assert raised.value.report.error_text().startswith("InvalidArgumentError: ")
