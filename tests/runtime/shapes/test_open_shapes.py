"""Which feeds open which shapes, and the fewest that settle the most."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

from placesim.formats.graph_file.reader import graph_file_from_mapping
from placesim.runtime.shapes.open_shapes import choose_settlements, find_open_causes


@pytest.mark.parametrize(
    ("causes", "acts", "chosen"),
    [
        (["a", "ab", "b", "b"], {"A": "a", "B": "b"}, [("B", 2), ("A", 2)]),
        (["a", "b"], {"B": "b", "A": "a"}, [("B", 1), ("A", 1)]),
        (["ab", "ac"], {"B": "b", "A": "a", "C": "c"}, [("A", 0), ("B", 1), ("C", 1)]),
        (["ab", "c"], {"both": "ab", "C": "c"}, [("both", 1), ("C", 1)]),
        (["a", ""], {"other": "z", "A": "a"}, [("A", 1)]),
        (["ab"], {"A": "a"}, [("A", 0)]),
        ([], {"A": "a"}, []),
    ],
)
def test_the_act_that_settles_most_comes_first(causes: list[str], acts: dict[str, str], chosen: list[tuple[str, int]]) -> None:
    assert choose_settlements([frozenset(some) for some in causes], acts) == chosen


def causes_by_name(nodes: Sequence[dict[str, Any]], missing: str, settled: dict[str, tuple[int, ...]]) -> list[str]:
    """The causes of each open tensor, as letters, in the order of the nodes."""
    graph = graph_file_from_mapping({"nodes": nodes, "raw": True}).graph
    dims = {graph.ids[name]: shape for name, shape in settled.items()}
    found = find_open_causes(graph, set(range(len(graph))), dims, [graph.ids[name] for name in missing])
    return ["".join(sorted(graph.nodes[i].name for i in some)) for some in found]


def placeholder(name: str) -> dict[str, Any]:
    return {"op": "Placeholder", "name": name, "attrs": {"dtype": "float", "shape": [-1, 2]}}


def op(name: str, kind: str, *inputs: str, **attrs: Any) -> dict[str, Any]:
    return {"op": kind, "name": name, "inputs": list(inputs), "attrs": {"T": "float", **attrs}}


def test_a_tensor_is_open_for_the_feeds_behind_it() -> None:
    nodes = [placeholder("p"), placeholder("q"), op("x", "Neg", "p"), op("y", "ConcatV2", "x", "q", "zero", N=2, Tidx="int32")]
    nodes.append({"op": "Const", "name": "zero", "dtype": "int32", "value": 0})
    assert causes_by_name(nodes, "pq", {}) == ["p", "q", "p", "pq"]
    assert causes_by_name(nodes, "q", {"p": (3, 2)}) == ["q", "q"]
    assert causes_by_name(nodes, "", {"p": (3, 2), "q": (4, 2)}) == []
    assert causes_by_name([placeholder("p"), placeholder("q"), op("sum", "AddV2", "p", "q")], "q", {"p": (3, 2)}) == ["q"]


def test_a_cause_goes_round_a_loop() -> None:
    nodes = [
        placeholder("p"),
        op("e", "Enter", "p", frame_name="f"),
        op("m", "Merge", "e", "n", N=2),
        op("t", "Neg", "m"),
        op("n", "NextIteration", "t"),
    ]
    assert causes_by_name(nodes, "p", {}) == ["p"] * 5
