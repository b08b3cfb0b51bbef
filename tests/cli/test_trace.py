"""`--trace`: what `simulate` and `run` write beside what they print, and what becomes of it when they do not end well."""

from __future__ import annotations

import json
import sys
from collections import Counter
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.cli.shell import ROOT, Shell
from tests.processes import interrupt, read_until, start_process
from tests.report.trace_reader import Trace, read_trace
from tests.runtime.executors.test_dataflow import loop

TOWERS = str(ROOT / "graphs" / "cifar10-towers.yaml")
TASK = "/job:localhost/replica:0/task:0"


def measured(shell: Shell, *arguments: str) -> Trace:
    ended = shell("run", *arguments, "--trace", "t.json")
    assert ended.complaint == ""
    trace = read_trace(shell.directory / "t.json")
    assert trace.faults == []
    return trace


@pytest.fixture(autouse=True)
def in_the_directory(shell: Shell, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(shell.directory)


def kernels(trace: Trace) -> list[Any]:
    return [shown for shown in trace.slices if "op" in shown.args and "from" not in shown.args]


# --- simulate -------------------------------------------------------------------------------------------------------


@pytest.mark.slow
def test_a_simulated_step_is_written_beside_the_report(shell: Shell) -> None:
    alone = shell("simulate", TOWERS)
    assert shell("simulate", TOWERS, "--trace", "t.json") == alone
    trace = read_trace(shell.directory / "t.json")
    assert trace.faults == []
    assert Counter(shown.name for shown in trace.slices)["MEMCPYHtoD"] > 10


def test_a_device_that_runs_out_is_traced_without_its_limit(shell: Shell) -> None:
    shell.write(
        "g.yaml",
        "devices: {cpu: 1, gpu: {count: 1, model: Tesla K80, memory: 1GiB}}\n"
        "nodes: [{op: Fill, name: f, inputs: [[30000, 30000], 1.0], device: /gpu:0}]\n",
    )
    assert shell("simulate", "g.yaml", "--trace", "t.json").code == 1
    trace = read_trace(shell.directory / "t.json")
    assert trace.faults == []
    assert max(held for _, held in trace.counters[f"Allocators GPU:0 of {TASK} bytes in use"]) >= 30000 * 30000 * 4


# --- run ------------------------------------------------------------------------------------------------------------


@pytest.mark.slow
def test_every_kernel_of_every_step_is_there(shell: Shell) -> None:
    alone = shell("run", TOWERS)
    trace = measured(shell, TOWERS)
    assert shell("run", TOWERS) == alone
    steps = [shown for shown in trace.slices if shown.thread == "step"]
    assert [shown.name for shown in steps] == [f"step {number}" for number in range(5)]
    assert steps[0].start == 0
    assert all(one.end <= other.start for one, other in pairwise(steps))
    found = kernels(trace)
    assert all(any(step.start <= shown.start and shown.end <= step.end for step in steps) for shown in found)
    runs = Counter((shown.args["name"], shown.args["op"]) for shown in found)
    assert runs["tower/conv1", "Conv2D"] == runs["tower_1/conv1", "Conv2D"] == 4
    (conv, *_) = [shown for shown in found if shown.args["name"] == "tower/conv1"]
    assert conv.process == f"{TASK}/device:GPU:0 Compute"
    assert conv.args["input0"] == "tower/Identity"
    # arrows go from what was made before it was sent to what reads it afterwards
    assert len(trace.arrows) > 4 * 50
    assert all(one.start <= other.start for one, other in trace.arrows)


@pytest.mark.slow
def test_the_counters_end_with_what_outlives_the_steps(shell: Shell) -> None:
    stages = str(ROOT / "graphs" / "pipeline.yaml")
    trace = measured(shell, stages)
    document = json.loads(shell("simulate", stages, "--format", "json").output)
    kept = {memory["device"]: memory["changes"][-1][1] for memory in document["memory"]}
    ends = {name.split()[1]: values[-1][1] for name, values in trace.counters.items()}
    assert ends == {device.rpartition("device:")[2]: held for device, held in kept.items()}
    last = max(shown.end for shown in trace.slices)
    assert all(0 <= moment <= last for values in trace.counters.values() for moment, _ in values)


def test_a_repeated_step_takes_its_memory_each_time(shell: Shell) -> None:
    shell.write(
        "g.yaml",
        "nodes: [{op: Fill, name: f, inputs: [[100, 100], 1.0]}, {op: Neg, name: n, inputs: [f]}]\n"
        "run: [{fetch: [n], repeat: 6}]\n",
    )
    trace = measured(shell, "g.yaml")
    ((_, values),) = trace.counters.items()
    rises = sum(other[1] - one[1] == 40000 for one, other in pairwise(values))
    assert rises >= 6


def test_kernels_in_a_pool_have_its_threads(shell: Shell) -> None:
    shell.write(
        "g.yaml",
        "nodes:\n"
        "  - {op: Fill, name: a, inputs: [[600, 600], 0.5]}\n"
        "  - {op: MatMul, name: one, inputs: [a, a]}\n"
        "  - {op: MatMul, name: two, inputs: [a, a]}\n"
        "  - {op: Add, name: both, inputs: [one, two]}\n"
        "fetch: [both]\n",
    )
    trace = measured(shell, "g.yaml", "--inter-op-threads", "2")
    threads = {shown.name: shown.thread for shown in kernels(trace)}
    assert threads["MatMul"].startswith("placesim-inter-op")
    assert threads["Fill"] == threads["Add"] == "MainThread"


def test_a_functions_nodes_lie_in_the_node_that_calls_it(shell: Shell) -> None:
    from tests.prediction.test_steps import called

    shell.write("g.yaml", json.dumps(called(2)))
    np.save(shell.directory / "c0.npy", np.full((256, 256), 0.001, np.float32))
    trace = measured(shell, "g.yaml", "--feed", "c0=@c0.npy")
    calls = [shown for shown in kernels(trace) if shown.name == "PartitionedCall"]
    products = [shown for shown in kernels(trace) if shown.name == "MatMul"]
    assert len(calls) == len(products) == 2
    assert all(call.start <= product.start and product.end <= call.end for call, product in zip(calls, products, strict=True))


@pytest.mark.parametrize(("device", "tensor", "count"), [("", "twice", 0), ("/cpu:1", "twice", 6), ("/gpu:0", "less", 7)])
def test_a_loop_has_each_turn_and_each_transfer(shell: Shell, device: str, tensor: str, count: int) -> None:
    shell.write("g.yaml", json.dumps({"nodes": loop(device), "devices": {"cpu": 2, "gpu": 1}, "fetch": ["out:0"]}))
    trace = measured(shell, "g.yaml", "--feed", "x=3.0")
    assert sum(shown.args["name"] == "twice" for shown in kernels(trace)) == 6
    runs = [shown for shown in kernels(trace) if shown.args["name"] == tensor]
    moved = [shown for shown in trace.slices if shown.name == "RecvTensor" and shown.args["name"] == tensor]
    assert len(moved) == count
    for sent in moved:
        # the GPU compares in its memory, and the loop reads the result in the host's
        ends = ("CPU:1", "GPU:0") if tensor == "twice" else ("GPU:0", "GPU:0")
        assert tuple(sent.args[end].rpartition("device:")[2] for end in ("from", "to")) == ends
        (made,) = [one for one, other in trace.arrows if other == sent]
        assert made == max((run for run in runs if run.end <= sent.start), key=lambda run: run.end)


def test_what_waits_for_a_queue_is_there_once(shell: Shell) -> None:
    component = {"component_types": ["float32"]}
    nodes = [
        {"op": "FIFOQueueV2", "name": "q", "attrs": component},
        {"op": "QueueDequeueV2", "name": "taken", "inputs": ["q"], "attrs": component},
        {"op": "Const", "name": "c", "dtype": "float32", "value": 2.5},
        {"op": "Neg", "name": "late", "inputs": ["c"]},
        {"op": "QueueEnqueueV2", "name": "put", "inputs": ["q", "late"], "attrs": {"Tcomponents": ["float32"]}},
    ]
    shell.write("g.yaml", json.dumps({"nodes": nodes, "fetch": ["taken", "put"]}))
    runs = {shown.args["name"]: shown for shown in kernels(measured(shell, "g.yaml"))}
    assert runs["put"].end <= runs["taken"].start


# --- how it ends otherwise ------------------------------------------------------------------------------------------


def test_what_ran_before_an_error_is_written(shell: Shell) -> None:
    shell.write(
        "g.yaml",
        "nodes:\n"
        "  - {op: Fill, name: made, inputs: [[3], 1.0]}\n"
        "  - {op: Neg, name: minus, inputs: [made]}\n"
        "  - {op: Log, name: nan, inputs: [minus]}\n"
        "  - {op: CheckNumerics, name: bad, inputs: [nan], attrs: {message: nope}}\n"
        "fetch: [bad]\n",
    )
    ended = shell("run", "g.yaml", "--trace", "t.json")
    assert ended.code == 1
    assert ended.complaint.startswith("InvalidArgumentError")
    trace = read_trace(shell.directory / "t.json")
    assert trace.faults == []
    assert [shown.args["name"] for shown in kernels(trace)][-3:] == ["minus", "nan", "bad"]


def test_a_run_without_a_step_leaves_no_trace(shell: Shell) -> None:
    assert shell("run", str(ROOT / "graphs" / "missing-gpu.yaml"), "--trace", "t.json").code == 1
    assert not (shell.directory / "t.json").exists()


def test_an_interrupted_run_is_written(tmp_path: Path) -> None:
    (tmp_path / "g.yaml").write_text(
        "nodes: [{op: Fill, name: a, inputs: [[300, 300], 0.5]}, {op: MatMul, name: b, inputs: [a, a]}]\n"
        "run: [{fetch: [b], repeat: 1000000}]\n"
    )
    target = tmp_path / "t.json"
    # as a person starts it: `python -m placesim` is ended by Ctrl-C without being asked
    program = Path(sys.executable).with_name("placesim")
    with start_process([program, "run", tmp_path / "g.yaml", "--trace", target]) as process:
        read_until(process, b"\n")
        ended = interrupt(process)
    assert (ended.code, ended.complaint) == (130, "")
    trace = read_trace(target)
    assert trace.faults == []
    assert Counter(shown.name for shown in trace.slices)["MatMul"] >= 1  # the first result is there when the first step ends
    assert [path.name for path in tmp_path.iterdir() if path.name.startswith(".")] == []


@pytest.mark.parametrize("command", ["run", "simulate"])
def test_a_place_that_can_not_be_written_is_an_error(shell: Shell, command: str) -> None:
    ended = shell(command, TOWERS, "--trace", "nowhere/t.json")
    assert ended.code == 2
    assert ended.complaint.startswith("UsageError: cannot write nowhere/t.json: got no folder nowhere,")
    if command == "run":  # before anything ran
        assert ended.output == ""
    ended = shell(command, TOWERS, "--trace", ".")
    assert ended.code == 2


def test_nothing_is_traced_where_nothing_runs(shell: Shell) -> None:
    ended = shell("run", TOWERS, "--no-execute", "--trace", "t.json")
    assert (ended.code, ended.output) == (2, "")
    assert ended.complaint.startswith("UsageError: nothing to trace: got --trace with --no-execute")
    assert not (shell.directory / "t.json").exists()


def test_a_file_that_is_there_stays_until_the_new_one_is_whole(shell: Shell) -> None:
    shell.write("t.json", "old")
    assert shell("run", "missing.yaml", "--trace", "t.json").code == 2
    assert (shell.directory / "t.json").read_text() == "old"
    assert shell("simulate", TOWERS, "--top", "1", "--gpu-model", "None such", "--trace", "t.json").code != 0
    assert (shell.directory / "t.json").read_text() == "old"
