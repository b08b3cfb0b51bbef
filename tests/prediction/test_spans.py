"""What can be drawn of a simulated step: lanes, spans, what let each begin, and the critical path."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from placesim.formats.sources.loading import load
from placesim.machine.options import make_options
from placesim.prediction.spans import StepSpan, StepSpans, step_spans
from placesim.prediction.time_breakdown import COMPUTE, LAUNCH, TRANSFER, TimeStudy, copies_lane, lane
from placesim.studies.time_study import study_time
from tests.examples import examples
from tests.prediction.test_steps import GRAPHS, layers
from tests.runtime.executors.test_dataflow import loop

DEVICES = st.lists(st.sampled_from(["/cpu:0", "/cpu:1", "/gpu:0", "/gpu:1"]), min_size=12, max_size=12)
CLUSTER = {
    "devices": [
        {"job": "ps", "tasks": 1, "cpu": 2},
        {"job": "worker", "tasks": 2, "cpu": 1, "gpu": {"count": 1, "model": "Tesla T4"}},
    ],
    "config": {"master": "/job:worker/replica:0/task:0"},
    "nodes": [
        {"op": "Const", "name": "x", "value": 0.5, "shape": [256, 1024], "device": "/job:ps/task:0/cpu:0"},
        {"op": "Neg", "name": "a", "inputs": ["x"], "device": "/job:worker/task:0/gpu:0"},
        {"op": "Neg", "name": "b", "inputs": ["x"], "device": "/job:worker/task:1/cpu:0"},
        {"op": "AddN", "name": "c", "inputs": ["a", "b"], "device": "/job:ps/task:0/cpu:1"},
    ],
    "fetch": ["c"],
}


def drawn(source: Any, **values: Any) -> tuple[TimeStudy, StepSpans]:
    options = make_options(values)
    study = study_time(load(source, None, options), options, "graph", is_traced=True)
    assert study.trace is not None
    return study, step_spans(study.trace)


def lanes_of(spans: StepSpans) -> list[str]:
    return [lane.name for group in spans.groups for lane in group.lanes]


@given(GRAPHS, DEVICES)
@settings(max_examples=examples(15), deadline=None)
def test_spans_are_what_the_study_tells_and_each_began_when_what_it_waited_for_ended(
    inputs: list[list[int]], devices: list[str]
) -> None:
    study, spans = drawn(layers(inputs, devices[: len(inputs)]))
    nodes = [span for span in spans.spans if span.op]
    assert [(s.name, s.op, s.device, s.start, s.end, s.seconds) for s in nodes] == [
        (run.node, run.op, run.device, run.start, run.end, run.seconds) for run in study.nodes
    ]
    assert [(s.name, s.sender, s.device, s.bytes, s.start) for s in spans.spans if not s.op] == [
        (run.tensor, run.sender, run.receiver, run.bytes, run.start) for run in study.transfers
    ]
    names = lanes_of(spans)
    assert [names[span.lanes[0]] for span in nodes] == [run.stream for run in study.nodes]
    assert [tuple(names[n] for n in span.lanes) for span in spans.spans if not span.op] == [r.streams for r in study.transfers]
    for span in spans.spans:
        begins = span.launch_start if span.launch_end > span.launch_start else span.start
        assert all(spans.spans[source].end <= begins or is_on_one_stream(spans.spans[source], span) for source in span.inputs)
        for begin, at in ((span.begin, span.start), (span.launch, span.launch_start)):
            if begin.wait == "nothing":
                assert begin.span == -1
            elif begin.wait == "launch":
                assert at == pytest.approx(span.launch_end)
            else:
                before = spans.spans[begin.span]
                assert at in (pytest.approx(before.end), pytest.approx(before.launch_end))


def is_on_one_stream(one: StepSpan, other: StepSpan) -> bool:
    return one.lanes == other.lanes


@given(GRAPHS, DEVICES)
@settings(max_examples=examples(15), deadline=None)
def test_the_path_is_the_studys(inputs: list[list[int]], devices: list[str]) -> None:
    study, spans = drawn(layers(inputs, devices[: len(inputs)]))
    found = []
    for part in spans.path:
        span = spans.spans[part.span]
        kind = LAUNCH if part.is_launch else COMPUTE if span.op else TRANSFER
        times = (span.launch_start, span.launch_end) if part.is_launch else (span.start, span.end)
        found.append((span.name, span.device, kind, *times, part.wait))
    assert found == [tuple(part) for part in study.critical_path]


@given(GRAPHS, DEVICES, st.integers(1, 60))
@settings(max_examples=examples(15), deadline=None)
def test_the_parts_of_a_lane_add_up_to_what_was_busy(inputs: list[list[int]], devices: list[str], cells: int) -> None:
    study, _ = drawn(layers(inputs, devices[: len(inputs)]))
    for device in study.devices:
        width = study.step.seconds / cells
        if device.processor != "host":  # a host is busy with launches too, and with the nodes of all its CPUs
            assert sum(lane(study, device.device, cells)) * width == pytest.approx(device.busy, rel=1e-6, abs=1e-15)
        copies = sum(copies_lane(study, device.device, cells)) * width
        # several of its streams at once are counted once
        assert copies <= device.copies * (1 + 1e-9)
        assert (copies > 0) == (device.copies > 0)


def test_each_gpu_has_its_streams_and_each_host_its_own_lane() -> None:
    _, spans = drawn(layers([[0], [1]], ["/gpu:0", "/gpu:1"]))
    cpus, *gpus = spans.groups
    assert [name.rpartition(":")[0][-3:] for name in cpus.devices] == ["CPU", "CPU"]
    assert [lane.label for lane in cpus.lanes] == ["host"]
    assert [[lane.name for lane in group.lanes] for group in gpus] == [
        [f"GPU:{n} {label}" for label in ("compute", "from host", "to host", "between GPUs")] for n in (0, 1)
    ]
    (copy,) = [span for span in spans.spans if not span.op and len(span.lanes) == 2]
    assert [lanes_of(spans)[lane] for lane in copy.lanes] == ["GPU:0 between GPUs", "GPU:1 between GPUs"]
    made = spans.spans[copy.inputs[0]]
    assert (made.name, copy.name, copy.begin) == ("n1", "n1", ("input", copy.inputs[0]))


def test_virtual_devices_share_the_lanes_of_their_gpu() -> None:
    source = {
        "devices": {"cpu": 1, "gpu": {"count": 1, "model": "Tesla T4"}},
        "config": {"gpu_options": {"experimental": {"virtual_devices": [{"memory_limit_mb": [1024, 2048]}]}}},
        "nodes": [
            {"op": "Placeholder", "name": "x", "dtype": "float32", "shape": [64]},
            {"op": "Neg", "name": "a", "inputs": ["x"], "device": "/gpu:0"},
            {"op": "Neg", "name": "b", "inputs": ["a"], "device": "/gpu:1"},
        ],
    }
    _, spans = drawn(source)
    assert [len(group.devices) for group in spans.groups] == [1, 2]
    a, b = (next(span for span in spans.spans if span.op == "Neg" and span.name == name) for name in "ab")
    assert a.lanes == b.lanes
    assert a.device != b.device


def test_between_tasks_a_tensor_is_on_the_copy_streams_it_takes_or_on_the_receivers_network() -> None:
    _, spans = drawn(CLUSTER)
    names = lanes_of(spans)
    networks = ["ps:0/network", "worker:0/network", "worker:1/network"]
    assert sorted(name for name in names if name.endswith("network")) == networks
    on = {(s.name, s.device[:21]): [names[lane] for lane in s.lanes] for s in spans.spans if not s.op}
    assert on["b", "/job:ps/replica:0/tas"] == ["ps:0/network"]
    assert on["a", "/job:ps/replica:0/tas"] == ["worker:0/GPU:0 to host"]
    receivers = {tuple(names[lane] for lane in s.lanes) for s in spans.spans if s.sender.startswith("/job:ps")}
    assert receivers >= {("worker:0/GPU:0 from host",), ("worker:1/network",)}
    hosts = {names[span.host_lane] for span in spans.spans if span.op == "Neg"}
    assert hosts == {"worker:0/host", "worker:1/host"}


def test_each_turn_of_a_loop_is_a_span_that_waited_for_the_one_before() -> None:
    _, spans = drawn({"nodes": loop("/gpu:0"), "devices": {"cpu": 1, "gpu": 1}}, feed={"x": 3.0}, fetch="out:0")
    turns = [number for number, span in enumerate(spans.spans) if span.name == "twice"]
    assert len(turns) == 6

    def sources(number: int) -> set[int]:
        found, waiting = set(), [number]
        while waiting:
            for source in spans.spans[waiting.pop()].inputs:
                if source not in found:
                    found.add(source)
                    waiting.append(source)
        return found

    assert all(before in sources(number) for before, number in pairwise(turns))
