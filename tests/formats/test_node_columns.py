"""Nodes of a GraphDef that are added in blocks, compared with the same nodes added one by one."""

from __future__ import annotations

import random
from typing import Any

import pytest

from placesim.core.dtypes import FLOAT, INT32
from placesim.core.errors import GraphFileError
from placesim.core.protobuf_wire import message_field
from placesim.formats.node_columns import NodeColumns
from placesim.formats.node_import import NodeImport
from placesim.formats.tensorflow import node_def
from placesim.formats.tensorflow.attr_value import LARGE_BYTES
from placesim.formats.tensorflow.graph_def import read_graph_def
from placesim.formats.tensorflow.node_def import NodeWriter

COUNT = 150
ODD_NAMES = ("", "_hidden", "n_3", "zwölf", "a b", "a>b")
ODD_INPUTS = ("n_149", "n_0:1", "^n_0", "missing", "n_5")


def _graph_def(rng: random.Random, oddness: float) -> bytes:
    """Nodes that read earlier nodes, some of them odd: their name, an input, their op or their type."""
    writer, nodes = NodeWriter(), []
    for i in range(COUNT):
        name, op = f"n_{i}", "Add"
        attrs: dict[str, Any] = {"T": FLOAT}
        inputs = [f"n_{rng.randrange(max(0, i - 9), i)}" for _ in range(2)] if i else []
        if i % 7 == 0:
            op, inputs, attrs = "Placeholder", [], {"dtype": FLOAT}
        elif rng.random() < 0.2:
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
        nodes += [message_field(1, b"".join(map(bytes, writer.write(name, op, inputs, "", attrs))))]
    return b"".join(nodes)


def _read(data: bytes) -> Any:
    try:
        graph = read_graph_def(data, "g.pb").graph
    except GraphFileError as error:
        return str(error)
    return graph.ids, [[getattr(node, slot) for slot in node.__slots__ if slot != "signature"] for node in graph.nodes]


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
def test_blocks_that_another_process_reads_ahead_are_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    rng = random.Random(1)
    graphs = [_graph_def(rng, oddness) for oddness in (0, 0.005, 0.1) for _ in range(4)]
    expected = list(map(_read, graphs))
    monkeypatch.setattr(node_def, "_MANY_NODES", 0)
    monkeypatch.setattr(node_def, "can_compute_ahead", lambda: True)
    assert expected == list(map(_read, graphs))


def test_a_large_node_with_a_label_is_read_from_bytes_that_may_change() -> None:
    attrs = {"_class": ("loc:@b",), "_note": "x" * LARGE_BYTES}
    parts = NodeWriter().write("a", "NoOp", [], "", attrs)
    graph = read_graph_def(memoryview(bytearray(message_field(1, b"".join(parts)))), "g.pb").graph
    assert graph.node("a").attrs == attrs
