"""The trace of a simulated step, as a viewer reads it: rows without overlaps, arrows along transfers, counters."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from placesim.formats.sources.loading import load
from placesim.machine.options import make_options
from placesim.machine.timelines.trace_events import TrackLanes
from placesim.prediction.time_breakdown import TimeStudy
from placesim.report.trace_json import trace_events, trace_text
from placesim.studies.time_study import study_time
from tests.cli.shell import ROOT
from tests.examples import examples
from tests.prediction.test_steps import GRAPHS, Nodes, called, layers
from tests.report.trace_reader import Trace, read_trace
from tests.runtime.executors.test_dataflow import loop

HOST = "/job:localhost/replica:0/task:0/device:CPU:0 Compute"
GPU = "/job:localhost/replica:0/task:0/device:GPU:{}"


def traced(source: Any, folder: Path, **values: Any) -> tuple[TimeStudy, Trace]:
    options = make_options(values)
    study = study_time(load(source, None, options), options, "graph", is_traced=True)
    path = folder / "trace.json"
    path.write_text("".join(trace_text(trace_events(study))))
    return study, read_trace(path)


def check(study: TimeStudy, trace: Trace) -> None:
    """What holds for every step."""
    assert trace.faults == []
    ops = Counter(shown.args["name"] for shown in trace.slices if "op" in shown.args)
    assert ops.keys() >= {run.node for run in study.nodes}
    assert ops.keys() >= {run.tensor for run in study.transfers}
    (step,) = [shown for shown in trace.slices if shown.thread == "step"]
    assert (step.start, step.end) == (0, round(study.step.seconds * 1e9))
    assert max(shown.end for shown in trace.slices) == step.end
    path = [shown for shown in trace.slices if shown.thread == "critical path"]
    assert sum(shown.end - shown.start for shown in path) == step.end
    for curve in study.memory:
        task, _, own = curve.device.partition("/device:")
        values = trace.counters[f"Allocators {own} of {task} bytes in use"]
        assert values[-1] == (step.end, curve.changes[-1][1])
        assert max(held for _, held in values) == max(held for _, held in curve.changes)
    assert all(values[-1][1] == 0 for name, values in trace.counters.items() if name.startswith("Links "))
    assert {shown.args["name"] for _, shown in trace.arrows} <= ops.keys()
    # an arrow has the tensor's name, and so has the transfer at one of its ends
    for ends in trace.arrows:
        assert any("from" in shown.args for shown in ends)


@given(GRAPHS, st.lists(st.sampled_from(["/cpu:0", "/cpu:1", "/gpu:0", "/gpu:1"]), min_size=12, max_size=12))
@settings(max_examples=examples(25), deadline=None)
def test_rows_arrows_and_counters_of_any_step(
    tmp_path_factory: pytest.TempPathFactory, inputs: list[list[int]], places: list[str]
) -> None:
    study, trace = traced(layers(inputs, places[: len(inputs)]), tmp_path_factory.mktemp("trace"))
    check(study, trace)
    # each transfer comes from somewhere and goes somewhere
    assert len(trace.arrows) >= 2 * len(study.transfers)


@pytest.mark.parametrize("name", ["cifar10-towers", "alexnet", "towers", "parallelism"])
def test_whole_graphs(name: str, tmp_path: Path) -> None:
    study, trace = traced(ROOT / "graphs" / f"{name}.yaml", tmp_path)
    check(study, trace)
    for device in study.devices:
        if "GPU" in device.device:
            stream = trace.on(f"{device.device}/stream:all Compute")
            assert sum(shown.end - shown.start for shown in stream) == pytest.approx(device.busy * 1e9, rel=1e-3, abs=10)
            copies = trace.on(f"{device.device}/memcpy Compute")
            assert sum(shown.end - shown.start for shown in copies) == pytest.approx(device.copies * 1e9, rel=1e-3, abs=10)


def test_the_same_input_gives_the_same_bytes(tmp_path: Path) -> None:
    texts = []
    for _ in range(2):
        traced(ROOT / "graphs" / "cifar10-towers.yaml", tmp_path)
        texts.append((tmp_path / "trace.json").read_bytes())
    assert texts[0] == texts[1]


@pytest.mark.parametrize("device", ["", "/cpu:1", "/gpu:0"])
def test_a_loop_has_a_slice_for_each_turn(device: str, tmp_path: Path) -> None:
    study, trace = traced({"nodes": loop(device), "devices": {"cpu": 2, "gpu": 1}}, tmp_path, feed={"x": 3.0}, fetch="out:0")
    check(study, trace)
    runs = [shown for shown in trace.slices if shown.args.get("name") == "twice" and shown.name == "Add"]
    # a launch and a run each, on a GPU
    assert len(runs) == (6 if device == "/cpu:1" else 12)
    assert all(run.args["input0"] == run.args["input1"] for run in runs)


def test_the_nodes_of_functions_are_there(tmp_path: Path) -> None:
    study, trace = traced(called(3), tmp_path)
    check(study, trace)
    assert Counter(shown.name for shown in trace.slices)["MatMul"] == 3


def names(ends: Sequence[Any]) -> tuple[str, ...]:
    return tuple(f"{shown.process.removeprefix('/job:localhost/replica:0/task:0/device:')} {shown.name}" for shown in ends)


def test_arrows_go_along_a_tensor_from_gpu_to_gpu(tmp_path: Path) -> None:
    _, trace = traced(layers([[0, 0], [1, 1], [2, 2]], ["/gpu:0", "/gpu:1", "/gpu:1"]), tmp_path)
    host, first, second = "CPU:0 Compute", "GPU:0", "GPU:1"
    assert [names(ends) for ends in trace.arrows] == [
        (f"{host} _Arg", f"{first}/memcpy Compute MEMCPYHtoD"),
        (f"{first}/memcpy Compute MEMCPYHtoD", f"{first}/stream:all Compute AddN"),
        (f"{first}/stream:all Compute AddN", f"{first}/memcpy Compute MEMCPYPtoP"),
        (f"{first}/memcpy Compute MEMCPYPtoP", f"{second}/memcpy Compute MEMCPYPtoP"),
        (f"{second}/memcpy Compute MEMCPYPtoP", f"{second}/stream:all Compute AddN"),
        (f"{second}/stream:all Compute AddN", f"{second}/memcpy Compute MEMCPYDtoH"),
        (f"{second}/memcpy Compute MEMCPYDtoH", f"{host} _Retval"),
    ]


def test_a_launch_is_on_the_host_and_the_kernel_on_the_stream(tmp_path: Path) -> None:
    study, trace = traced(layers([[0, 0]], ["/gpu:0"]), tmp_path)
    (run,) = [run for run in study.nodes if run.op == "AddN"]
    (launch,) = [shown for shown in trace.on(GPU.format(0) + " Compute") if shown.name == "AddN"]
    (kernel,) = trace.on(GPU.format(0) + "/stream:all Compute")
    assert (launch.thread.startswith("host thread"), kernel.thread) == (True, "GPU:0 compute")
    assert launch.end <= kernel.start == round(run.start * 1e9)
    assert kernel.end == round(run.end * 1e9)
    assert kernel.args == {"name": "n1", "op": "AddN", "input0": "n0/_1", "input1": "n0/_1"} | kernel.args


def test_what_goes_by_the_network_is_at_both_ends(tmp_path: Path) -> None:
    nodes: Nodes = [
        {"op": "Placeholder", "name": "x", "dtype": "float32", "shape": [1250, 1000], "device": "/task:0"},
        {"op": "Neg", "name": "y", "inputs": ["x"], "device": "/job:worker/task:1/gpu:0"},
    ]
    machine = [{"job": "worker", "tasks": 2, "cpu": 1, "gpu": 1}]
    study, trace = traced({"nodes": nodes, "devices": machine, "fetch": ["y"]}, tmp_path)
    check(study, trace)
    rows = {shown.process: shown.name for shown in trace.slices if "from" in shown.args}
    task = "/job:worker/replica:0/task:{}/device:"
    assert rows == {
        task.format(0) + "CPU:0/network Compute": "RecvTensor",
        task.format(1) + "GPU:0/network Compute": "RecvTensor",
        task.format(1) + "GPU:0/memcpy Compute": rows[task.format(1) + "GPU:0/memcpy Compute"],
    }
    assert rows[task.format(1) + "GPU:0/memcpy Compute"] in ("MEMCPYHtoD", "MEMCPYDtoH")


def test_a_study_without_a_trace_says_so() -> None:
    options = make_options({})
    source = {"nodes": [{"op": "NoOp", "name": "n"}]}
    study = study_time(load(source, None, options), options, "graph")
    with pytest.raises(ValueError, match="no trace"):
        next(trace_events(study))


def test_a_trace_of_nothing_is_a_file_all_the_same() -> None:
    assert "".join(trace_text(iter(()))) == '{"displayTimeUnit":"ns","traceEvents":[\n]}\n'


@given(st.lists(st.tuples(st.integers(0, 20), st.integers(0, 9)), max_size=30))
def test_lanes_hold_one_thing_at_a_time_and_are_as_few_as_can_be(spans: list[tuple[int, int]]) -> None:
    lanes = TrackLanes()
    placed = [(start, start + length, lanes.take(start, start + length)) for start, length in sorted(spans)]
    for number, (start, _, lane) in enumerate(placed):
        assert all(end <= start for _, end, other in placed[:number] if other == lane)
    most = max((sum(start <= at < end for start, end, _ in placed) for at in range(30)), default=0)
    assert lanes.count <= max(most, 1 if spans else 0) + sum(length == 0 for _, length in spans)
