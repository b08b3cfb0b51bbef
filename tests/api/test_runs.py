"""The Python functions: sources of every kind, options named as the flags, errors that carry what was established."""

from __future__ import annotations

import io
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import placesim

ROOT = Path(__file__).parent.parent.parent
LOGGING = ROOT / "graphs" / "logging.yaml"
GRAPH: dict[str, Any] = {
    "nodes": [
        {"op": "Placeholder", "name": "x", "dtype": "float", "shape": [-1, 2]},
        {"op": "Const", "name": "w", "value": np.array([[1, 2], [3, 4]], np.float32)},
        {"op": "MatMul", "name": "y", "inputs": ["x", "w"]},
    ],
    "run": [{"fetch": ["y"], "feed": {"x": np.ones((1, 2), np.float32)}}],
}


def test_a_path_an_open_file_and_a_mapping_are_the_same() -> None:
    import yaml

    with LOGGING.open("rb") as binary, LOGGING.open() as text:
        reports = [
            placesim.run(LOGGING),
            placesim.run(str(LOGGING)),
            placesim.run(binary),
            placesim.run(text),
            placesim.run(yaml.safe_load(LOGGING.read_text())),
            placesim.run(io.StringIO(LOGGING.read_text())),
        ]
    assert len({report.text() for report in reports}) == 1
    assert len({json.dumps(report.document()) for report in reports}) == 1


def test_arrays_in_a_mapping_and_as_feeds() -> None:
    np.testing.assert_array_equal(placesim.run(GRAPH).results["y"], [[4, 6]])
    report = placesim.run(GRAPH, feed={"x": np.array([[2, 0], [0, 2]], np.float32)})
    np.testing.assert_array_equal(report.results["y:0"], [[2, 4], [6, 8]])
    assert report.results[0].array.dtype == np.float32


def test_options_are_named_as_the_flags() -> None:
    report = placesim.run(GRAPH, cpu=2, gpu=1, gpu_model="Tesla V100-SXM2-16GB", log_placement=True, log_style="classic")
    lines = report.text().splitlines()
    assert lines[1].endswith("name: Tesla V100-SXM2-16GB, pci bus id: 0000:05:00.0")
    assert len(report.devices) == 3
    assert placesim.run(GRAPH, fetch="w").results.names() == ("w:0",)
    assert placesim.run(GRAPH, fetch=["w", "y"]).results.names() == ("w:0", "y:0")
    assert len(placesim.run(GRAPH, execute=False).results) == 0
    assert placesim.run(GRAPH, inventory={"devices": {"gpu": 2}}).devices == placesim.devices(gpu=2)
    assert placesim.run(GRAPH, intra_op_threads=1, inter_op_threads=1).text() == "[[4. 6.]]\n"


def test_place_logs_and_does_not_execute() -> None:
    report = placesim.place(GRAPH)
    assert [row.node for row in report.placements] == ["y", "x", "w"]
    assert report.text() == report.log() != ""
    assert len(report.results) == 0


def test_devices_are_in_the_order_of_list_devices() -> None:
    assert [device.type for device in placesim.devices(cpu=3, gpu=2)] == ["CPU"] * 3 + ["GPU"] * 2
    assert placesim.devices()[0].memory_limit == 268435456
    assert len(placesim.devices()) == 1


def test_devices_of_a_graphs_session() -> None:
    config = {"gpu_options": {"experimental": {"virtual_devices": [{"memory_limit_mb": [512, 256]}]}}}
    devices = placesim.devices(graph={**GRAPH, "devices": {"gpu": 1}, "config": config})
    assert [device.memory_limit >> 20 for device in devices] == [256, 512, 256]
    with pytest.raises(placesim.UnknownError, match=r"#valid GPUs: 2 virtual_devices.size\(\): 1"):
        placesim.devices(gpu=2, graph={**GRAPH, "config": config})
    with pytest.raises(placesim.GraphFileError):
        placesim.devices(graph={"nodes": 1})


def test_sessions_of_one_process_share_its_allocators() -> None:
    process = placesim.GpuProcess()
    config = {"gpu_options": {"per_process_gpu_memory_fraction": 0.5}}
    first = placesim.place({**GRAPH, "config": config}, gpu=1, process=process)
    later = placesim.place(GRAPH, gpu=2, process=process)
    alone = placesim.place(GRAPH, gpu=2)
    assert later.devices[1] == first.devices[1]
    assert alone.devices[2] == later.devices[2] != first.devices[1]
    with pytest.raises(
        placesim.AlreadyExistsError, match=r"GPU:0\) is being mapped to multiple devices \(1 now, and 0 previously"
    ):
        placesim.place({**GRAPH, "config": {"gpu_options": {"visible_device_list": "1"}}}, gpu=2, process=process)


def test_the_environment_is_what_is_given(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TF_FORCE_GPU_ALLOW_GROWTH", "true")
    plain = placesim.place(GRAPH, gpu=1)
    forced = placesim.place(GRAPH, gpu=1, environment={"TF_FORCE_GPU_ALLOW_GROWTH": "true"})
    assert plain.warnings == ()
    assert [line.partition(" because")[0] for line in forced.warnings] == ["Overriding orig_value setting"]
    assert forced.devices[1].gpu is not None
    assert forced.devices[1].gpu.allow_growth


@pytest.mark.parametrize("options", [{"environment": ["A=1"]}, {"environment": {"A": 1}}, {"process": "this one"}])
def test_a_process_that_is_none(options: dict[str, Any]) -> None:
    with pytest.raises(placesim.UsageError, match=r"environment|process"):
        placesim.place(GRAPH, **options)


def test_the_function_stays_when_its_namesake_is_imported() -> None:
    from placesim.machine.device_names import parse_runtime_name

    assert parse_runtime_name("/job:a") is not None
    assert callable(placesim.devices)


def test_an_error_carries_what_was_established_before_it() -> None:
    with pytest.raises(placesim.InvalidArgumentError) as caught:
        placesim.run(ROOT / "graphs" / "assign-missing-cpu.yaml")
    report = caught.value.report
    assert caught.value.node == "conv1_2/Assign_3/value"
    assert len(report.placements) == 15
    assert report.document()["error"]["node"] == "conv1_2/Assign_3/value"


def test_a_failing_step_keeps_the_results_before_it() -> None:
    graph = {
        "nodes": [
            {"op": "Const", "name": "a", "value": 1},
            {"op": "Placeholder", "name": "x", "dtype": "int32"},
            {"op": "Neg", "name": "b", "inputs": ["x"]},
        ],
        "run": [{"fetch": ["a"]}, {"fetch": ["b"]}],
    }
    with pytest.raises(placesim.InvalidArgumentError, match="You must feed a value") as caught:
        placesim.run(graph)
    assert caught.value.report.results["a"] == 1
    assert caught.value.report.text() == "1\n"


@pytest.mark.parametrize("source", [None, [1, 2], 3])
def test_what_is_no_graph_is_said_to_be_none(source: Any) -> None:
    with pytest.raises(placesim.UsageError, match=r"no graph: got (NoneType|list|int), expected a path"):
        placesim.run(source)


def test_a_wrong_file_is_a_graph_file_error() -> None:
    with pytest.raises(placesim.GraphFileError) as caught:
        placesim.run({"nodes": [{"op": "MatMull"}, {"op": "Negg"}]})
    assert len(caught.value.problems) == 2
    with pytest.raises(placesim.GraphFileError, match="cannot read the graph file"):
        placesim.run("no/such/file.yaml")


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"gpus": 2}, "no such option: got gpus, expected one of .*; did you mean 'gpu'?"),
        ({"gpu": -1}, "gpu out of range: got -1, expected an integer from 0 to 4096"),
        ({"gpu": 1.5}, "wrong type of gpu: got 1.5, expected an integer"),
        ({"cpu": True}, "wrong type of cpu: got True"),
        ({"gpu_model": "Tesla T5"}, "did you mean 'Tesla T4'?"),
        ({"log_style": "clasic"}, "did you mean 'classic'?"),
        ({"feed": {"z": 1}}, "unknown feed: got 'z'"),
        ({"feed": {"x": "text"}}, "feed 'x': Expected float32, but got 'text'"),
    ],
)
def test_a_wrong_option_is_a_usage_error(options: dict[str, Any], message: str) -> None:
    with pytest.raises(placesim.UsageError, match=message.replace("?", r"\?")):
        placesim.run(GRAPH, **options)


def test_device_count_gives_way_to_the_flags() -> None:
    graph = {**GRAPH, "devices": {"cpu": 1, "gpu": 4}, "config": {"device_count": {"CPU": 3, "GPU": 2}}}
    assert len(placesim.run(graph).devices) == 5
    assert len(placesim.run(graph, cpu=1).devices) == 3
    assert len(placesim.run(graph, gpu=1).devices) == 4


def test_nodes_of_a_step_are_added_before_it_and_all_is_logged_again() -> None:
    graph = {
        "nodes": [{"op": "Const", "name": "a", "value": 1}],
        "run": [{"fetch": ["a"]}, {"nodes": [{"op": "Neg", "name": "b", "inputs": ["a"]}], "fetch": ["b"]}],
    }
    report = placesim.run(graph, log_placement=True)
    assert [row.node for row in report.placements] == ["a", "b", "a"]
    assert report.results["b"] == -1


def test_progress_is_told_to_the_end() -> None:
    from placesim.formats.sources.loading import load
    from placesim.machine.options import SimulationOptions
    from placesim.studies.simulation.simulation import SimulationStage, simulate

    told: list[tuple[int, int, int, int]] = []
    graph = {**GRAPH, "run": [{**GRAPH["run"][0], "repeat": 3}]}
    simulate(load(graph), SimulationOptions(), SimulationStage.EXECUTED, lambda *numbers: told.append(numbers))
    last = {(steps_done, steps): (done, nodes) for steps_done, steps, done, nodes in told}
    assert list(last) == [(0, 3), (1, 3), (2, 3)]
    assert all(0 < done <= nodes for done, nodes in last.values())
    assert told == sorted(told)


def test_the_search_for_a_batch_walks_few_repetitions(monkeypatch: pytest.MonkeyPatch) -> None:
    from placesim.studies.dry_run import search_dry_run

    walked: list[tuple[bool, int]] = []

    def search_and_tell(loaded: Any, *args: Any, tells_memory: bool) -> Any:
        walked.append((tells_memory, loaded.file.steps[-1].repeat))
        return search_dry_run(loaded, *args, tells_memory=tells_memory)

    monkeypatch.setattr("placesim.studies.memory_study.search_dry_run", search_and_tell)
    graph = {**GRAPH, "run": [{"fetch": ["y"], "repeat": 5}]}
    assert placesim.memory(graph, gpu=1, gpu_model="Tesla K20m", batch="auto").fits
    assert set(walked) == {(False, 2), (True, 5)}


def test_an_explanation_names_the_reports_that_it_takes() -> None:
    timed = placesim.simulate({**GRAPH, "run": [{"fetch": ["y"]}]}, batch=1)
    message = "no placement: got TimeReport, expected a graph, or the report of `place`, `run`, `memory` or `plan`"
    with pytest.raises(placesim.UsageError, match=message):
        placesim.explain(timed)  # type: ignore[arg-type]


def test_a_memory_report_has_the_largest_batch_and_the_placement() -> None:
    graph = {**GRAPH, "run": [{"fetch": ["y"]}]}
    searched = placesim.memory(graph, gpu=1, gpu_model="Tesla K20m", batch="auto")
    assert searched.fits
    assert searched.largest_batch is not None
    assert searched.largest_batch > 1
    assert searched.to_dict()["batch"] == searched.largest_batch
    with pytest.raises(placesim.ResourceExhaustedError) as caught:
        placesim.memory(graph, gpu=1, gpu_model="Tesla K20m", batch=searched.largest_batch + 1)
    report = caught.value.report
    assert not report.fits
    assert report.largest_batch is None
    assert repr(report) == "<placesim.MemoryReport of <mapping>: 2 devices, runs out of memory>"
    known = placesim.memory(graph, batch=1)
    assert [row.node for row in known.placements] == ["y", "x", "w"]
    assert placesim.diff(known, placesim.place(graph)).is_same
    with pytest.raises(placesim.UsageError, match="wrong batch: got 'all', expected an integer or 'auto'"):
        placesim.memory(graph, batch="all")  # type: ignore[arg-type]
