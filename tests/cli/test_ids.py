"""A graph file's ids stand wherever a command takes the name of a node."""

from __future__ import annotations

import json

import pytest

from tests.cli.shell import Shell

GRAPH = """
devices: {cpu: 1, gpu: 2}
nodes:
  - {op: Placeholder, id: x, dtype: float32, shape: [2], device: /cpu:0}
  - {variable: w, kind: resource, initializer: {value: [1.0, 2.0]}, device: /cpu:0}
  - {initializer: init}
  - scope: layer
    device: [/gpu:0, /gpu:1]
    nodes:
      - {op: Mul, id: scaled, inputs: [x, w]}
  - {op: AddN, id: total, inputs: [scaled]}
run:
  - fetch: [init]
  - {fetch: [total], feed: {x: [1.0, 1.0]}}
"""
COPIES = ["layer/Mul", "layer_1/Mul"]


@pytest.fixture
def graph(shell: Shell) -> str:
    return shell.write("g.yaml", GRAPH)


@pytest.mark.parametrize(
    ("fetch", "printed"),
    [
        ("total", "[2. 4.]\n"),
        ("total:0", "[2. 4.]\n"),
        ("scaled", "layer/Mul:\n[1. 2.]\nlayer_1/Mul:\n[1. 2.]\n"),
        ("w", "[1. 2.]\n"),
    ],
)
def test_a_fetch(shell: Shell, graph: str, fetch: str, printed: str) -> None:
    assert shell("run", graph, "--fetch", fetch) == (0, printed, "")


def test_a_feed(shell: Shell, graph: str) -> None:
    assert shell("run", graph, "--feed", "x=[3.0, 0.5]").output == "[6. 2.]\n"


def test_the_shape_of_a_placeholder(shell: Shell) -> None:
    nodes = "[{op: Placeholder, id: x, dtype: float32, device: /cpu:0}, {op: Neg, name: n, inputs: [x], device: /gpu:0}]"
    graph = shell.write("open.yaml", f"devices: {{cpu: 1, gpu: 1}}\nnodes: {nodes}\nfetch: [n]\n")
    ended = shell("simulate", graph, "--shape", "x=5,7", "--format", "json")
    assert {transfer["bytes"] for transfer in json.loads(ended.output)["transfers"]} == {5 * 7 * 4}


def test_an_explanation(shell: Shell, graph: str) -> None:
    explained = json.loads(shell("explain", graph, "scaled", "--format", "json").output)
    assert [node["node"] for node in explained["nodes"]] == COPIES


def test_a_device(shell: Shell, graph: str) -> None:
    placed = json.loads(shell("place", graph, "--device", "scaled=/cpu:0", "--format", "json").output)["placements"]
    assert {row["device"][-5:] for row in placed if row["node"] in COPIES} == {"CPU:0"}


def test_a_filter_of_the_log(shell: Shell, graph: str) -> None:
    ended = shell("place", graph, "--log-filter", "scaled")
    assert [line.partition(":")[0] for line in ended.output.splitlines()[3:]] == COPIES
    assert ended.complaint == ""


def test_a_filter_that_no_node_meets_is_said(shell: Shell, graph: str) -> None:
    ended = shell("place", graph, "--log-filter", "scaled", "--log-filter", "tower/", "--log-filter", "scald")
    assert ended.code == 0
    expected = "expected a node's name or id, a pattern, or a scope that ends in '/'"
    assert ended.complaint == (
        f"no node matches 'tower/' in --log-filter: {expected}\n"
        f"no node matches 'scald' in --log-filter: {expected}; did you mean 'scaled'?\n"
    )


def test_a_policy(shell: Shell, graph: str) -> None:
    policy = shell.write("policy.yaml", "rules:\n  - on-device: {nodes: [scaled], device: GPU:0}\n")
    ended = shell("check", graph, "--policy", policy)
    assert (ended.code, ended.output.count("\n")) == (1, 1)
    assert "layer_1/Mul" in ended.output


@pytest.mark.slow
def test_what_is_kept_apart_by_a_plan(shell: Shell, graph: str) -> None:
    ended = shell(
        "plan", graph, "--apart", "scaled", "--evaluations", "100", "--jobs", "1", "--free", "*", "--output", "planned.yaml"
    )
    assert ended.code == 0, ended.complaint
    placed = json.loads(shell("place", "planned.yaml", "--format", "json").output)["placements"]
    devices = [row["device"] for row in placed if row["node"] in COPIES]
    assert len(set(devices)) == 2


def test_a_full_name_comes_before_an_id(shell: Shell) -> None:
    nodes = "[{op: Const, name: a, id: b, value: 1.0}, {op: Const, name: b, value: 2.0}, {op: NoOp, name: c, inputs: ['^a']}]"
    graph = shell.write("g.yaml", f"nodes: {nodes}\nfetch: [c]\n")
    assert shell("run", graph, "--fetch", "b").output == "2.0\n"
