"""A varied part of TensorFlow's recordings, and its worked cases (appendix C)."""

from __future__ import annotations

import json
from typing import Any

import pytest

from placesim.core.dtypes import FLOAT, parse_dtype
from placesim.graph.graph import Graph, NodeDef
from placesim.machine.inventory import DeviceSet, TaskInventory, build_devices
from placesim.ops.registry import load_registry
from placesim.placement.placer import Placement, place_graph
from tests.placement.corpus import DATA, SUBSET, agreement, settled

VECTORS = json.loads((DATA / "placement-vectors.json").read_text(encoding="utf-8"))


@pytest.mark.slow
def test_a_varied_part_agrees() -> None:
    agreed, total, problems = agreement(SUBSET)
    assert problems == {}
    assert agreed == total == 612


# --- the worked cases -----------------------------------------------------------------------------------------------

TASK = "/job:localhost/replica:0/task:0/device:"


@pytest.mark.parametrize("vector", VECTORS, ids=[vector["title"] for vector in VECTORS])
def test_worked_case(vector: dict[str, Any]) -> None:
    devices = build_devices([TaskInventory(cpu=vector["cpus"])])
    placement = place_graph(_graph(vector["nodes"]), DeviceSet(devices, devices[0].spec.address_space), vector["soft"])
    assert _log(placement) == [(name, op, TASK + device) for name, op, device in vector["log"]]
    if vector["error"] is None:
        assert placement.error is None
    else:
        name, text = vector["error"]
        assert placement.error is not None
        assert (placement.error.type_name, settled(placement.error.message)) == (name, settled(text))


def _log(placement: Placement) -> list[tuple[str, str, str]]:
    pairs = ((placement.graph.nodes[i], placement.devices[i]) for i in placement.log)
    return [(node.name, node.op, device.name) for node, device in pairs if device is not None]


def _graph(nodes: list[dict[str, Any]]) -> Graph:
    graph = Graph(load_registry())
    graph.extend([_node_def(node) for node in nodes])
    return graph


def _node_def(node: dict[str, Any]) -> NodeDef:
    inputs = tuple(node.get("input", ()))
    attrs: dict[str, Any] = {key: parse_dtype(node[key]) for key in ("T", "dtype", "out_type") if key in node}
    attrs |= {"component_types": (FLOAT,), "Tcomponents": (FLOAT,), "N": len(inputs)}
    definition = load_registry().op(node["op"])
    assert definition is not None
    known = {name: value for name, value in attrs.items() if name in definition.attrs}
    if "class" in node:
        known["_class"] = tuple(node["class"])
    return NodeDef(node["name"], node["op"], inputs, node.get("device", ""), known)
