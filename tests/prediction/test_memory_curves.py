"""Memory over simulated time, by laws: what a node needs is there while it runs, and nothing is held for longer than needed."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from placesim.machine.timelines.timeline import WorkloadTimeline
from placesim.prediction.memory_curves import MemoryCurve, memory_curve
from placesim.prediction.time_breakdown import TimeStudy
from placesim.runtime.recording.lifetimes import BEFORE, Lifetime
from tests.cli.shell import ROOT
from tests.examples import examples
from tests.prediction.test_steps import GRAPHS, ONE_THREAD, Nodes, called, layers, study
from tests.runtime.executors.test_dataflow import cond, loop

SIZE = 64 * 512 * 4
"""Bytes of each tensor of `layers`."""
SCRATCH = 1280
"""A GPU's scratch buffer, which its first kernel makes and which stays."""


def in_use(curve: MemoryCurve, time: float) -> int:
    return [held for since, held in curve.changes if since <= time][-1]


def curves(found: TimeStudy) -> dict[str, MemoryCurve]:
    return {curve.device: curve for curve in found.memory}


def memory_of(device: str) -> str:
    """A GPU's own; CPU devices of a task hand tensors on without copying them."""
    return device[-5:] if "GPU" in device.upper() else ""


def buffer_of(number: int, memory: str, inputs: list[list[int]], places: list[str]) -> tuple[int, str] | None:
    """Where a tensor of `layers` lies, as seen from a memory: a sum of one is that one; None for what is the client's."""
    if not number:
        return (0, memory) if memory else None
    sources = inputs[number - 1]
    if memory_of(places[number - 1].upper()) == memory and len(sources) == 1:
        return buffer_of(sources[0] % number, memory, inputs, places)
    return (number, memory)


def check(found: TimeStudy) -> None:
    """What holds for every curve."""
    for curve in found.memory:
        times = [time for time, _ in curve.changes]
        assert times == sorted(times)
        assert (times[0], times[-1]) == (0.0, found.step.seconds)
        assert len(set(times[1:])) == len(times) - 1
        assert min(held for _, held in curve.changes) >= 0
    limits = {device.device: device.limit for device in found.devices}
    assert all(curve.limit == limits[curve.device] for curve in found.memory)


@given(GRAPHS)
@settings(max_examples=examples(15), deadline=None)
def test_what_runs_in_the_order_of_the_walk_has_its_peak(inputs: list[list[int]]) -> None:
    found = study(layers(inputs, ["/cpu:0"] * len(inputs)), **ONE_THREAD)
    check(found)
    peaks = [max(held for _, held in curve.changes) for curve in found.memory]
    assert peaks == [device.peak for device in found.devices if device.peak]
    assert all((curve.changes[0][1], curve.changes[-1][1]) == (0, 0) for curve in found.memory)


@pytest.mark.slow
@given(GRAPHS, st.lists(st.sampled_from(["/cpu:0", "/cpu:1", "/gpu:0", "/gpu:1"]), min_size=12, max_size=12))
@settings(max_examples=examples(25), deadline=None)
def test_inputs_and_outputs_of_whatever_runs_are_in_use(inputs: list[list[int]], places: list[str]) -> None:
    found = study(layers(inputs, places[: len(inputs)]))
    check(found)
    known = curves(found)
    for run in found.nodes:
        if run.op == "AddN":
            sources = inputs[int(run.node[1:]) - 1]
            held = {buffer_of(source % int(run.node[1:]), memory_of(run.device), inputs, places) for source in sources}
            made = buffer_of(int(run.node[1:]), memory_of(run.device), inputs, places)
            own = [curve for device, curve in known.items() if memory_of(device) == memory_of(run.device)]
            # one of what it adds may be overwritten with the sum
            assert sum(in_use(curve, run.start) for curve in own) >= SIZE * max(made is not None, len(held - {None}))
    for transfer in found.transfers:
        if "GPU" in transfer.receiver:
            assert in_use(known[transfer.receiver], transfer.start) >= SIZE
    for device, curve in known.items():
        assert (curve.changes[0][1], curve.changes[-1][1]) in ((0, 0), (0, SCRATCH if "GPU" in device else 0))


def test_a_buffer_is_held_until_its_slowest_reader_has_ended() -> None:
    """Of two readers at once the walk meets the slow one first, and gives the buffer back after the fast one."""
    nodes: Nodes = [
        {"op": "Placeholder", "name": "x", "dtype": "float32", "shape": [1024, 1024]},
        {"op": "Neg", "name": "y", "inputs": ["x"]},
        {"op": "MatMul", "name": "slow", "inputs": ["y", "y"]},
        {"op": "Shape", "name": "fast", "inputs": ["y"]},
    ]
    found = study({"nodes": nodes, "devices": {"cpu": 1}, "fetch": ["slow", "fast"]}, inter_op_threads=2, intra_op_threads=1)
    spans = {run.node: run for run in found.nodes}
    assert spans["fast"].end < spans["slow"].end
    (curve,) = found.memory
    assert in_use(curve, spans["slow"].start) >= 2 * (1 << 22)
    assert in_use(curve, (spans["fast"].end + spans["slow"].end) / 2) >= 2 * (1 << 22)
    assert in_use(curve, spans["slow"].end) < 2 * (1 << 22)


def test_what_outlives_the_step_is_there_before_and_after_it() -> None:
    source: dict[str, Any] = {
        "nodes": [
            {"variable": "v", "shape": [256, 256], "initializer": "zeros", "device": "/gpu:0"},
            {"op": "MatMul", "name": "a", "inputs": ["v", "v"], "device": "/gpu:0"},
            {"op": "Assign", "name": "set", "inputs": ["v", "a"], "device": "/gpu:0"},
            {"initializer": "init"},
        ],
        "devices": {"cpu": 1, "gpu": 1},
        "run": [{"fetch": ["init"], "repeat": 1}, {"fetch": ["set"], "repeat": 4}],
    }
    found = study(source)
    check(found)
    (curve,) = [curve for curve in found.memory if "GPU" in curve.device]
    first, last = curve.changes[0][1], curve.changes[-1][1]
    assert first == last >= 256 * 256 * 4
    assert max(held for _, held in curve.changes) >= first + 256 * 256 * 4


def test_the_steady_step_has_what_the_first_one_made() -> None:
    """A step that makes a variable finds it in its further repetitions."""
    source: dict[str, Any] = {
        "nodes": [
            {"variable": "v", "shape": [256, 256], "initializer": "zeros"},
            {"op": "Identity", "name": "read", "inputs": ["v"]},
            {"initializer": "init"},
        ],
        "devices": {"cpu": 1},
        "run": [{"fetch": ["init"], "repeat": 5}],
    }
    (curve,) = study(source).memory
    (once,) = study(source, steps=1).memory
    assert curve.changes[0][1] == curve.changes[-1][1] == once.changes[-1][1] >= 256 * 256 * 4
    assert once.changes[0][1] < once.changes[-1][1]


@pytest.mark.parametrize("device", ["", "/cpu:1", "/gpu:0"])
def test_a_loop_gives_back_what_its_turns_took(device: str) -> None:
    tops = []
    for x in (3.0, 99.0):
        found = study({"nodes": loop(device), "devices": {"cpu": 2, "gpu": 1}}, feed={"x": x}, fetch="out:0")
        check(found)
        tops.append({curve.device: max(held for _, held in curve.changes) for curve in found.memory})
        for curve in found.memory:
            grown = curve.changes[-1][1] - curve.changes[0][1]
            assert grown == (SCRATCH if "GPU" in curve.device else 0)
    assert tops[0] == tops[1]


@pytest.mark.parametrize("p", [True, False])
def test_a_branch_that_is_not_taken_keeps_nothing(p: bool) -> None:
    found = study({"nodes": cond(), "devices": {"cpu": 1}}, feed={"p": p, "x": 3.0}, fetch="m:0")
    check(found)
    (curve,) = found.memory
    assert curve.changes[0][1] == curve.changes[-1][1] > 0


def test_functions_hold_what_they_return_until_it_is_read() -> None:
    found = study(called(3), **ONE_THREAD)
    check(found)
    (curve,) = found.memory
    products = [run for run in found.nodes if run.op == "MatMul"]
    size = 256 * 256 * 4
    assert [in_use(curve, run.start) for run in products] == [size, 2 * size, 2 * size]
    assert curve.changes[-1][1] == 0
    assert max(held for _, held in curve.changes) == found.devices[0].peak


@pytest.mark.parametrize("name", ["cifar10-towers", "alexnet", "towers", "parallelism"])
def test_the_curves_of_whole_graphs(name: str) -> None:
    found = study(ROOT / "graphs" / f"{name}.yaml")
    check(found)
    assert found.memory
    for curve in found.memory:
        grown = curve.changes[-1][1] - curve.changes[0][1]
        assert grown in ((0, SCRATCH) if "GPU" in curve.device else (0,))


def test_changes_of_one_moment_are_one() -> None:
    timeline = WorkloadTimeline(3.0, (0.0, 1.0, 1.0), (1.0, 1.0, 2.0), (), (), (), (), ())
    buffers = [
        Lifetime(4, BEFORE, (0,), False),
        Lifetime(8, 0, (1,), False),
        Lifetime(16, 1, (1,), False),
        Lifetime(32, 2, None, False),
        Lifetime(64, 2, None, True),
        Lifetime(128, BEFORE, None, True),
    ]
    found = memory_curve("d", buffers, timeline, None)
    assert found.changes == ((0.0, 132), (0.0, 140), (1.0, 224), (3.0, 192))


def test_nothing_is_made_in_a_step_without_memory() -> None:
    assert study({"nodes": [{"op": "NoOp", "name": "n"}]}).memory == ()
