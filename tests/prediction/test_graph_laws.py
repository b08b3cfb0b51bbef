"""Laws of the simulation, over random graphs: from the graph to the report."""

from __future__ import annotations

import itertools
import math
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from placesim.machine.timelines.event_simulation import simulate as run_tasks
from placesim.machine.timelines.timeline import slices
from placesim.machine.timelines.workload import NOWHERE, SerialStream, Task
from placesim.prediction.simulated_steps import SimulatedStep
from placesim.prediction.step_tasks import StepCosts, workload
from placesim.prediction.time_breakdown import TimeStudy
from placesim.report.document import json_line
from placesim.report.text.timing import time_document, time_lines
from tests.examples import examples
from tests.prediction.test_steps import GRAPHS, layers, recorded, study

RELATIVE = 1e-9
PLACES = st.lists(st.sampled_from(["/cpu:0", "/cpu:1", "/gpu:0", "/gpu:1"]), min_size=12, max_size=12)
few = settings(max_examples=examples(15), deadline=None)


def simulated(source: Any, **values: Any) -> SimulatedStep:
    step, machine = recorded(source, **values)
    return SimulatedStep(step, StepCosts(machine).placed(step), machine)


@given(GRAPHS)
@few
def test_with_transfers_free_and_a_device_each_it_is_the_longest_path(inputs: list[list[int]]) -> None:
    graph = layers(inputs, [f"/gpu:{number}" for number in range(len(inputs))])
    step, machine = recorded(graph | {"devices": {"cpu": 1, "gpu": len(inputs)}}, inter_op_threads=64)
    machine.links[:] = [link._replace(bandwidth=math.inf, latency=0.0) for link in machine.links]
    placed = StepCosts(machine).placed(step)
    # a stream that all transfers to a device take is no device of its own for each
    own = [cost if cost.route is None else cost._replace(route=cost.route._replace(streams=())) for cost in placed]
    ends: list[float] = []
    for execution, cost in zip(step, own, strict=True):
        begin = max((ends[source] for source in execution.sources), default=0.0)
        ends.append(begin + cost.launch + cost.predicted.seconds)
    found = SimulatedStep(step, own, machine)
    assert found.seconds == pytest.approx(max(ends), rel=RELATIVE)
    assert found.seconds == pytest.approx(next(found.bounds()).seconds, rel=RELATIVE)


@given(GRAPHS, PLACES, st.sampled_from([2.0, 3.0, 0.1, 1e6]))
@few
def test_rates_times_k_give_times_divided_by_k(inputs: list[list[int]], devices: list[str], k: float) -> None:
    """Rates of processors as far as the predictions go: the formulas beneath have starts that are no rates."""
    step = simulated(layers(inputs, devices[: len(inputs)]))
    tasks = [
        task._replace(seconds=task.seconds / k, launch=task.launch / k) if isinstance(task, Task) else task
        for task in workload(step.step, step.placed)
    ]
    links = [link._replace(bandwidth=link.bandwidth * k, latency=link.latency / k) for link in step.machine.links]
    faster = run_tasks(tasks, step.machine.resources, links)
    assert [end * k for end in faster.ends] == pytest.approx(step.timeline.ends, rel=RELATIVE)


def times(found: TimeStudy) -> list[tuple[float, ...]]:
    return [
        tuple(found.step[2:]),
        *[(node.start, node.end, node.low, node.high) for node in found.nodes],
        *[(run.bytes, run.start, run.end) for run in found.transfers],
        *[(part.start, part.end) for part in found.critical_path],
        *[(one.seconds,) for one in found.helps],
    ]


@pytest.mark.slow
@given(GRAPHS, PLACES, st.permutations(range(13)))
@few
def test_renaming_changes_nothing(inputs: list[list[int]], devices: list[str], names: list[int]) -> None:
    graph = layers(inputs, devices[: len(inputs)])
    new = {node["name"]: f"scope{names[number]}/z{names[number]}" for number, node in enumerate(graph["nodes"])}
    renamed = [
        node | {"name": new[node["name"]]} | ({"inputs": [new[it] for it in node["inputs"]]} if "inputs" in node else {})
        for node in graph["nodes"]
    ]
    assert times(study(graph, tells_helps=True)) == times(study(graph | {"nodes": renamed}, tells_helps=True))


@given(GRAPHS, PLACES)
@few
def test_the_same_input_gives_the_same_bytes(inputs: list[list[int]], devices: list[str]) -> None:
    graph = layers(inputs, devices[: len(inputs)])
    one, other = study(graph, tells_helps=True), study(graph, tells_helps=True)
    assert list(time_lines(one, 10).rows) == list(time_lines(other, 10).rows)
    assert json_line(time_document(one)) == json_line(time_document(other))


@given(GRAPHS, PLACES)
@few
def test_no_stream_runs_two_things_at_once(inputs: list[list[int]], devices: list[str]) -> None:
    step = simulated(layers(inputs, devices[: len(inputs)]))
    found = [
        it for it in slices(step.plan.tasks, step.timeline) if isinstance(step.machine.resources[it.resource], SerialStream)
    ]
    assert all(one.end <= other.start for one, other in itertools.pairwise(found) if one.resource == other.resource)


@given(GRAPHS, PLACES)
@few
def test_nothing_starts_before_its_inputs(inputs: list[list[int]], devices: list[str]) -> None:
    step = simulated(layers(inputs, devices[: len(inputs)]))
    starts, ends = step.timeline.starts, step.timeline.ends
    for number, (execution, cost) in enumerate(zip(step.step, step.placed, strict=True)):
        assert all(ends[source] <= starts[number] for source in execution.sources)
        if cost.resource != NOWHERE and cost.launch:
            assert step.timeline.launch_ends[number] <= starts[number]


@given(GRAPHS, PLACES)
@few
def test_every_bound_holds_whatever_takes_no_time(inputs: list[list[int]], devices: list[str]) -> None:
    """Also those of each resource and each link, which the report shows the largest of."""
    found = study(layers(inputs, devices[: len(inputs)]), tells_helps=True)
    most = found.step.seconds * (1 + RELATIVE)
    assert all(bound.seconds <= most for bound in found.bounds)
    assert all(link.bytes / link.bandwidth <= most and link.busy <= most for link in found.links)
    streams: dict[str, float] = {}
    for node in found.nodes:
        if not node.is_uncertain:
            streams[node.stream] = streams.get(node.stream, 0.0) + node.seconds
    assert all(seconds <= most for seconds in streams.values())
    for one in found.helps:
        assert all(one.seconds * (1 + RELATIVE) >= seconds for stream, seconds in streams.items() if one.kind == "link")
