"""What would help most: each figure is that of a simulation without the thing, made here from its definition."""

from __future__ import annotations

import math
from collections import Counter
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from placesim.machine.timelines.compiled_workload import make_plan
from placesim.machine.timelines.event_simulation import plan_seconds, simulate
from placesim.machine.timelines.lower_bounds import plan_bounds
from placesim.machine.timelines.workload import Cores, Task
from placesim.prediction import bottlenecks
from placesim.prediction.bottlenecks import find_speedups
from placesim.prediction.simulated_steps import SimulatedStep
from placesim.prediction.time_breakdown import Speedup
from tests.cli.shell import ROOT
from tests.examples import examples
from tests.prediction.test_graph_laws import simulated
from tests.prediction.test_simulated_steps import GRAPH
from tests.prediction.test_steps import GRAPHS, ONE_THREAD, layers, study

DEVICES = st.lists(st.sampled_from(["/cpu:0", "/gpu:0", "/gpu:1"]), min_size=12, max_size=12)


def seconds_without(step: SimulatedStep, found: Speedup) -> float:
    """From a machine and costs where it takes no time."""
    links, resources = list(step.machine.links), step.machine.resources
    tasks = list(step.plan.tasks)
    for number, (execution, cost) in enumerate(zip(step.step, step.placed, strict=True)):
        task, site = tasks[number], execution.site
        if not isinstance(task, Task) or site is None:
            continue
        if found.kind == "resource" and cost.resource >= 0:
            if resources[cost.resource].name == found.what:
                task = task._replace(seconds=0.0)
            host = getattr(resources[cost.resource], "host", None)
            if host is not None and resources[host].name == found.what:
                task = task._replace(launch=0.0)
        elif found.what == {"op": site.instruction.node.op, "node": site.name}.get(found.kind):
            task = task._replace(seconds=0.0, launch=0.0)
        tasks[number] = task
    if found.kind == "link":
        links = [link._replace(bandwidth=math.inf, latency=0.0) if link.name == found.what else link for link in links]
    return simulate(tasks, resources, links).seconds


@given(GRAPHS, DEVICES)
@settings(max_examples=examples(15), deadline=None)
def test_each_is_a_simulation_without_it(inputs: list[list[int]], devices: list[str]) -> None:
    step = simulated(layers(inputs, devices[: len(inputs)]))
    found = find_speedups(step)
    assert [one.seconds for one in found] == sorted(one.seconds for one in found)
    for one in found:
        assert one.seconds == pytest.approx(seconds_without(step, one), rel=1e-12)


@given(GRAPHS)
@settings(max_examples=examples(10), deadline=None)
def test_on_one_thread_what_takes_no_time_saves_what_it_took(inputs: list[list[int]]) -> None:
    graph = layers(inputs, ["/cpu:0"] * len(inputs))
    whole = study(graph, **ONE_THREAD)
    step = simulated(graph, **ONE_THREAD)
    spent: Counter[tuple[str, str]] = Counter()
    for node in whole.nodes:
        spent.update({("node", node.node): node.seconds, ("op", node.op): node.seconds, ("resource", "host"): node.seconds})
    for one in find_speedups(step):
        assert one.seconds == pytest.approx(whole.step.seconds - spent[one.kind, one.what], rel=1e-9, abs=1e-15)


def test_no_more_than_four_of_a_kind_and_fewer_of_a_large_step(monkeypatch: pytest.MonkeyPatch) -> None:
    step = simulated(ROOT / "graphs" / "cifar10-towers.yaml")
    counted = Counter(one.kind for one in find_speedups(step))
    assert counted == {"link": 4, "resource": 3, "op": 4, "node": 4}
    monkeypatch.setattr(bottlenecks, "SIMULATED_TASKS", len(step.step) * 9)
    assert Counter(one.kind for one in find_speedups(step)) == dict.fromkeys(bottlenecks.KINDS, 2)
    monkeypatch.setattr(bottlenecks, "SIMULATED_TASKS", 0)
    assert Counter(one.kind for one in find_speedups(step)) == dict.fromkeys(bottlenecks.KINDS, 1)


def test_an_op_is_tried_where_several_nodes_have_it() -> None:
    found = find_speedups(simulated(layers([[0], [1]], ["/cpu:0"] * 2)))
    assert [one.what for one in found if one.kind == "op"] == ["AddN"]
    assert "AddN" not in [one.what for one in find_speedups(simulated(layers([[0]], ["/cpu:0"])))]


def test_a_study_has_them_where_they_are_asked_for() -> None:
    graph = layers([[0], [1]], ["/gpu:0", "/gpu:1"])
    assert study(graph).helps == ()
    found = study(graph, tells_helps=True)
    assert found.helps == find_speedups(simulated(graph))
    assert replace(found, helps=()) == study(graph)


def test_a_node_that_takes_less_may_make_all_of_it_take_longer() -> None:
    """Two threads: without the first task the third begins after the fifth, which is no part of its path."""
    tasks = [Task(2.0, 0), Task(2.0, 0), Task(4.0, 0, (0, 1)), Task(1.0, 0, (0,)), Task(3.0, 0)]
    plan = make_plan(tasks, [Cores("cpu", 2, 2)])
    freed = plan.with_free_tasks([0])
    assert (plan_seconds(plan), plan_seconds(freed)) == (6.0, 7.0)
    assert plan_bounds(freed).longest_path <= plan_bounds(plan).longest_path == 6.0


def test_of_each_kind_what_holds_most_of_the_path_is_tried_first(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of four links two hold as much of the path, which takes the longest kernel of the host."""
    step = simulated(GRAPH, **ONE_THREAD)
    monkeypatch.setattr(bottlenecks, "OF_EACH_KIND", 1)
    tried = {one.kind: one.what for one in find_speedups(step)}
    assert tried.pop("link") in {"GPU:0 PCIe in", "GPU:1 PCIe out"}
    assert tried == {"resource": "host", "node": "m"}
    monkeypatch.setattr(bottlenecks, "OF_EACH_KIND", 2)
    found = {(one.kind, one.what) for one in find_speedups(step)}
    assert found >= {("link", "GPU:0 PCIe in"), ("link", "GPU:1 PCIe out"), ("node", "m"), ("node", "f")}
    # both kernels hold as much of the path, but for rounding
    assert found & {("resource", f"GPU:{number} compute") for number in range(2)}


def test_what_the_step_does_not_wait_for_is_tried_last(monkeypatch: pytest.MonkeyPatch) -> None:
    """The sum of forty on the second GPU takes longer than any other of the GPUs, and ends before them."""
    step = simulated(layers([[0, 0], [1, 1], [2, 2], [0] * 40], ["/gpu:0", "/cpu:0", "/gpu:0", "/gpu:1"]))
    monkeypatch.setattr(bottlenecks, "OF_EACH_KIND", 2)
    found = {(one.kind, one.what) for one in find_speedups(step)}
    assert found >= {("resource", "host"), ("resource", "GPU:0 compute"), ("node", "n2"), ("op", "AddN")}
    assert ("node", "n4") not in found
