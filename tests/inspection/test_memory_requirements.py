"""Who holds most at a peak: buffers folded by scope, and towers that could run one after another."""

from __future__ import annotations

import pytest

from placesim.formats.graph_file.reader import graph_file_from_mapping
from placesim.inspection.memory_requirements import largest_holdings
from placesim.inspection.towers import find_towers, one_after_another
from placesim.runtime.accounting.usage import Holder

SIZES = {"a/x": 10, "a/y": 20, "b/c/z": 40, "b/c/w": 5, "v": 7}
HOLDERS = [Holder(name, size, size - 1, name, "end", "", made) for made, (name, size) in enumerate(SIZES.items())]
KEPT = [
    Holder("w/Assign", 100, 100, "w/Assign", "", "variable w"),
    Holder("k", 3, 3, "k", "", "constant k"),
    Holder("ScratchBuffer", 1, 1, "k", "", "scratch memory of /device:GPU:0"),
]


@pytest.mark.parametrize("limit", range(1, 12))
def test_no_more_rows_than_asked_for_and_the_largest_of_them(limit: int) -> None:
    found = largest_holdings([*HOLDERS, *KEPT], limit)
    assert len(found) <= limit
    assert [holding.size for holding in found] == sorted((holding.size for holding in found), reverse=True)
    assert (found[0].name, found[0].kind) == ("w", "variable")


@pytest.mark.parametrize("limit", range(4, 12))
def test_the_rows_hold_everything_once(limit: int) -> None:
    found = largest_holdings([*HOLDERS, *KEPT], limit)
    assert sum(holding.size for holding in found) == sum(SIZES.values()) + 104
    assert sum(holding.number for holding in found) == len(SIZES) + 3
    assert sum(holding.requested for holding in found) == sum(SIZES.values()) - len(SIZES) + 104


def test_where_there_is_room_every_buffer_is_a_row() -> None:
    found = largest_holdings([*HOLDERS, *KEPT], 20)
    assert {holding.name: holding.size for holding in found if holding.kind == "step"} == SIZES
    assert all(holding.number == 1 for holding in found)


def test_a_scope_stands_for_what_is_in_it() -> None:
    found = {holding.name: holding for holding in largest_holdings(HOLDERS, 3)}
    assert {name: (holding.number, holding.size) for name, holding in found.items()} == {
        "b/c/": (2, 45),
        "a/": (2, 30),
        "v": (1, 7),
    }
    assert found["a/"].since == "a/x"


def test_the_rest_of_a_scope_has_a_star() -> None:
    flat = [Holder(f"s/n{i}", 100 - i, 100 - i, f"s/n{i}", "", "", i) for i in range(50)]
    names = [holding.name for holding in largest_holdings(flat, 4)]
    assert names == ["s/*", "s/n0", "s/n1", "s/n2"]


def test_large_variables_are_named() -> None:
    layers = [Holder(f"layer_{i}/out", 1000 + i, 1000, f"layer_{i}/out", "", "", i) for i in range(30)]
    weights = [Holder(f"w{i}/Assign", 100 + i, 100, f"w{i}/Assign", "", f"variable w{i}", i) for i in range(6)]
    found = largest_holdings([*layers, *weights, *KEPT[1:]], 12)
    assert [holding.name for holding in found if holding.kind == "variable"] == [f"w{i}" for i in reversed(range(6))]


def test_buffers_of_one_name_stay_apart() -> None:
    twice = [Holder("n", 5, 5, "n", "", "", 0), Holder("n", 6, 6, "n", "", "", 1)]
    assert [(holding.name, holding.size) for holding in largest_holdings(twice, 5)] == [("n", 6), ("n", 5)]


# --- towers ---------------------------------------------------------------------------------------------------------

TOWER = [{"op": "Neg", "name": f"n{i}", "inputs": ["x" if i == 0 else f"n{i - 1}"]} for i in range(3)]
GPU = "/job:localhost/replica:0/task:0/device:GPU:0"


def test_towers_are_scopes_with_the_same_ops() -> None:
    scopes = [{"scope": name, "nodes": TOWER} for name in ("tower", "tower_1", "tower_2")]
    other = {"scope": "head", "nodes": [*TOWER, {"op": "Relu", "name": "r", "inputs": ["n2"]}]}
    graph = graph_file_from_mapping({"nodes": [{"op": "Placeholder", "name": "x", "dtype": "float"}, *scopes, other]}).graph
    devices = {node.name: GPU for node in graph.nodes}
    towers = find_towers(graph, devices, GPU)
    assert towers == ("tower", "tower_1", "tower_2")
    assert find_towers(graph, devices, GPU.replace("GPU:0", "GPU:1")) == ()
    ordered = one_after_another(graph, towers, devices)
    assert ordered is not None
    controls = {
        node.name: [ordered.nodes[i].name for i in node.control_inputs] for node in ordered.nodes if node.control_inputs
    }
    assert controls == {"tower_1/n0": ["tower/n2"], "tower_2/n0": ["tower_1/n2"]}
    assert not any(node.control_inputs for node in graph.nodes)


def test_what_needs_a_later_one_has_no_other_order() -> None:
    first = {"scope": "tower", "nodes": TOWER}
    nodes = [{"op": "Placeholder", "name": "x", "dtype": "float"}, first, {"scope": "tower", "nodes": TOWER}]
    graph = graph_file_from_mapping({"nodes": nodes}).graph
    devices = {node.name: GPU for node in graph.nodes}
    assert one_after_another(graph, ("tower_1", "tower"), devices) is not None
    chained = one_after_another(graph, ("tower", "tower_1"), devices)
    assert chained is not None
    assert one_after_another(chained, ("tower_1", "tower"), devices) is None
