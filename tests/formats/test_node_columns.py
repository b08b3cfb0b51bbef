"""Nodes of a GraphDef in blocks, compared with the same nodes added one by one, and with the nodes that are made of them."""

from __future__ import annotations

import random
from collections import Counter
from typing import Any

import numpy as np
import pytest

from placesim.core.dtypes import FLOAT, INT32
from placesim.core.errors import GraphFileError
from placesim.core.protobuf_wire import message_field
from placesim.formats import node_import
from placesim.formats.device_annotations import device_annotations
from placesim.formats.node_columns import NodeColumns, NodeKind
from placesim.formats.node_import import NodeImport
from placesim.formats.tensorflow import node_def, node_parts
from placesim.formats.tensorflow.attr_value import LARGE_BYTES
from placesim.formats.tensorflow.graph_def import read_graph_def
from placesim.formats.tensorflow.node_def import NodeWriter
from placesim.graph.graph import Graph, Node
from placesim.machine.inventory import DeviceSet, TaskInventory, build_devices
from placesim.ops.attributes import TensorValue
from placesim.placement.placer import place_graph
from placesim.report.text.log import format_lines, modern_lines

COUNT = 150
MACHINE = DeviceSet(build_devices([TaskInventory(cpu=1, gpu=2)]))
DEVICES = ("", "", "/cpu:0", "/gpu:0", "/gpu:1")
ODD_NAMES = ("", "_hidden", "n_3", "zwölf", "a b", "a>b")
ODD_INPUTS = ("n_149", "n_0:1", "^n_0", "missing", "n_5")


def _graph_def(rng: random.Random, oddness: float, count: int = COUNT, labels: float = 0.2) -> bytes:
    """Nodes that read earlier nodes, some of them odd: their name, an input, their op or their type."""
    writer, nodes = NodeWriter(), []
    for i in range(count):
        name, op = f"n_{i}", "Add"
        attrs: dict[str, Any] = {"T": FLOAT}
        inputs = [f"n_{rng.randrange(max(0, i - 9), i)}" for _ in range(2)] if i else []
        if i % 7 == 0:
            op, inputs, attrs = "Placeholder", [], {"dtype": FLOAT}
        elif i % 7 == 1:
            op, inputs, attrs = "Const", [], {"dtype": FLOAT, "value": TensorValue(FLOAT, np.array(i, np.float32))}
        elif rng.random() < labels:
            attrs = {"T": FLOAT, "_class": (f"loc:@n_{i - 1}",)}
        if rng.random() < oddness:
            kind = rng.randrange(5)
            if kind == 0:
                name = rng.choice(ODD_NAMES)
            elif kind == 1:
                inputs = [*inputs[1:], rng.choice((*ODD_INPUTS, name))]
            elif kind == 2:
                op = "Undefined"
            elif kind == 3:
                attrs = {"T": rng.choice((INT32, True))}
            else:
                attrs = {}
        nodes += [message_field(1, b"".join(map(bytes, writer.write(name, op, inputs, rng.choice(DEVICES), attrs))))]
    return b"".join(nodes)


def _read(data: bytes) -> Any:
    try:
        graph = read_graph_def(data, "g.pb").graph
    except GraphFileError as error:
        return str(error)
    return graph.ids, list(map(_shown, graph.nodes))


def _shown(node: Node) -> list[Any]:
    attrs = {name: value.array.tolist() if isinstance(value, TensorValue) else value for name, value in node.attrs.items()}
    others = [getattr(node, slot) for slot in node.__slots__ if slot not in ("signature", "attrs")]
    return [node.op, list(attrs.items()), *others]


@pytest.mark.slow
def test_a_block_of_nodes_is_read_as_its_nodes_are(monkeypatch: pytest.MonkeyPatch) -> None:
    rng = random.Random(0)
    graphs = [_graph_def(rng, oddness) for oddness in (0, 0.002, 0.005, 0.01, 0.1) for _ in range(4)]
    in_blocks = list(map(_read, graphs))
    assert any(isinstance(found, str) for found in in_blocks)
    assert any(not isinstance(found, str) for found in in_blocks)

    def add_one_by_one(nodes: NodeImport, columns: NodeColumns) -> None:
        nodes.add_all(columns.node_defs())

    monkeypatch.setattr(NodeImport, "add_columns", add_one_by_one)
    assert in_blocks == list(map(_read, graphs))


@pytest.mark.slow
def test_the_types_of_inputs_are_checked_in_a_graph_with_many_signatures(monkeypatch: pytest.MonkeyPatch) -> None:
    rng = random.Random(2)
    graphs = [_graph_def(rng, oddness) for oddness in (0, 0.005, 0.1) for _ in range(4)]
    expected = list(map(_read, graphs))
    monkeypatch.setattr(node_import, "_MOST_FIELD", 1)
    assert expected == list(map(_read, graphs))


@pytest.mark.slow
def test_blocks_that_another_process_reads_ahead_are_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    rng = random.Random(1)
    monkeypatch.setattr(node_parts, "_RUN_BYTES", 1 << 13)
    graphs = [_graph_def(rng, oddness, 10 * COUNT) for oddness in (0, 0.0005, 0.01) for _ in range(4)]
    expected = list(map(_read, graphs))
    monkeypatch.setattr(node_def, "_MANY_NODES", 0)
    monkeypatch.setattr(node_def, "can_compute_ahead", lambda: True)
    assert expected == list(map(_read, graphs))


def _placed(graph: Graph, soft: bool) -> list[Any]:
    placement = place_graph(graph, MACHINE, soft)
    return [
        format_lines(modern_lines([placement])) if placement.error is None else "",
        [device and device.name for device in placement.devices],
        list(placement.log),
        str(placement.error),
    ]


def test_a_graph_def_is_placed_without_making_its_nodes() -> None:
    file = read_graph_def(_graph_def(random.Random(3), 0, 10 * COUNT, labels=0), "g.pb")
    annotations, placed = device_annotations(file), _placed(file.graph, soft=True)
    assert file.graph.unmade is not None
    assert len(file.graph.nodes) == 10 * COUNT
    assert file.graph.unmade is None
    assert (device_annotations(file), _placed(file.graph, soft=True)) == (annotations, placed)
    assert annotations == dict(Counter(node.device for node in file.graph.nodes if node.device))


@pytest.mark.slow
@pytest.mark.parametrize("soft", [False, True])
def test_a_graph_is_placed_alike_with_and_without_made_nodes(soft: bool) -> None:
    rng = random.Random(4)
    for number in range(40):
        data = _graph_def(rng, (0, 0.002)[number % 2], labels=(0, 0.02)[number % 4 // 2])
        if isinstance(_read(data), str):
            continue
        unmade, made = read_graph_def(data, "g.pb").graph, read_graph_def(data, "g.pb").graph
        assert made.nodes
        assert _placed(unmade, soft) == _placed(made, soft)


def test_first_nodes_of_kinds() -> None:
    kinds = [NodeKind(name, "", {}, False) for name in "abcde"]
    none = np.zeros(0, np.int64)
    columns = NodeColumns([], none, none, (), kinds, np.array([3, 1, 3, 0, 1]), None)  # type: ignore[arg-type]
    assert columns.first_rows() == [3, 1, -1, 0, -1]


def test_a_single_node_is_the_same_before_and_after_all_are_made() -> None:
    graph = read_graph_def(_graph_def(random.Random(5), 0, 10 * COUNT), "g.pb").graph
    names, classes = graph.names(), graph.classes()
    alone = [_shown(graph.peek(node_id)) for node_id in range(len(graph))]
    assert graph.unmade is not None
    assert alone == list(map(_shown, graph.nodes))
    assert names == graph.names()
    assert [(node.signature, node.device, "_class" in node.attrs) for node in graph.nodes] == [
        tuple(classes.classes[number]) for number in classes.numbers.tolist()
    ]


def test_the_edges_from_some_nodes_are_the_same_before_and_after_all_are_made() -> None:
    graph = read_graph_def(_graph_def(random.Random(6), 0), "g.pb").graph
    sources = bytearray(number % 3 == 0 for number in range(len(graph)))
    found = list(graph.edges_from(sources))
    assert graph.unmade is not None
    assert graph.nodes
    assert found
    assert found == list(graph.edges_from(sources))


def test_a_large_node_with_a_label_is_read_from_bytes_that_may_change() -> None:
    attrs = {"_class": ("loc:@b",), "_note": "x" * LARGE_BYTES}
    parts = NodeWriter().write("a", "NoOp", [], "", attrs)
    graph = read_graph_def(memoryview(bytearray(message_field(1, b"".join(parts)))), "g.pb").graph
    assert graph.node("a").attrs == attrs
