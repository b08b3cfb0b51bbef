"""Static shapes over a graph: constants and computed shapes are followed, what is not known is None, nothing raises."""

from __future__ import annotations

from typing import Any

import pytest

import placesim
from placesim.formats.graph_file.reader import graph_file_from_mapping
from placesim.graph.graph import TensorRef
from placesim.ops.kernels.shapes import Dims
from placesim.runtime.shapes.graph_shapes import GraphShapes

X = {"op": "Placeholder", "name": "x", "dtype": "float", "shape": [-1, 4]}
KNOWN = {"op": "Placeholder", "name": "k", "dtype": "float", "shape": [3, 4]}
FREE = {"op": "Placeholder", "name": "u", "dtype": "float"}
CASES: dict[str, tuple[list[dict[str, Any]], Dims]] = {
    "constant": ([{"op": "Const", "name": "y", "value": [1.0, 2.0]}], (2,)),
    "elementwise": ([X, {"op": "Neg", "name": "y", "inputs": ["x"]}], (-1, 4)),
    "unknown rank": ([FREE, {"op": "Neg", "name": "y", "inputs": ["u"]}], None),
    "reshape to a constant": ([X, {"op": "Reshape", "name": "y", "inputs": ["x", [2, 2, -1]]}], (2, 2, -1)),
    "fill by a shape": (
        [KNOWN, {"op": "Shape", "name": "s", "inputs": ["k"]}, {"op": "Fill", "name": "y", "inputs": ["s", 0.0]}],
        (3, 4),
    ),
    "fill by a partial shape": (
        [X, {"op": "Shape", "name": "s", "inputs": ["x"]}, {"op": "Fill", "name": "y", "inputs": ["s", 0.0]}],
        (-1, 4),
    ),
    "a packed dimension": (
        [
            X,
            {"op": "Shape", "name": "s", "inputs": ["x"]},
            {
                "op": "StridedSlice",
                "name": "n",
                "inputs": ["s", [0], [1], [1]],
                "attrs": {"shrink_axis_mask": 1},
            },
            {"op": "Pack", "name": "p", "inputs": ["n", 2, 2], "attrs": {"N": 3, "T": "int32"}},
            {"op": "Reshape", "name": "y", "inputs": ["x", "p"]},
        ],
        (-1, 2, 2),
    ),
    "a computed dimension": (
        [
            KNOWN,
            {"op": "Size", "name": "s", "inputs": ["k"]},
            {"op": "FloorDiv", "name": "half", "inputs": ["s", 2]},
            {"op": "Pack", "name": "p", "inputs": ["half"], "attrs": {"N": 1, "T": "int32"}},
            {"op": "Fill", "name": "y", "inputs": ["p", 0.0]},
        ],
        (6,),
    ),
    "an op that refuses": ([KNOWN, {"op": "MatMul", "name": "y", "inputs": ["k", "k"]}], None),
    "a variable": ([{"variable": "v", "shape": [2, 5]}, {"op": "Neg", "name": "y", "inputs": ["v"]}], (2, 5)),
    "a resource variable": (
        [{"variable": "v", "shape": [2, 5], "kind": "resource"}, {"op": "Neg", "name": "y", "inputs": ["v"]}],
        (2, 5),
    ),
    "an op without a kernel": (
        [{"op": "CudnnRNNParamsSize", "name": "y", "inputs": [1, 2, 3], "attrs": {"T": "float", "S": "int32"}}],
        None,
    ),
}


@pytest.mark.parametrize("case", CASES)
def test_shapes(case: str) -> None:
    nodes, expected = CASES[case]
    graph = graph_file_from_mapping({"nodes": nodes}).graph
    assert GraphShapes(graph).shape(TensorRef(graph.ids["y"], 0)) == expected


def test_a_loop_has_shapes_or_none() -> None:
    nodes: list[dict[str, Any]] = [
        {"op": "Const", "name": "c", "dtype": "int32", "value": 0},
        {"op": "Enter", "name": "e", "inputs": ["c"], "attrs": {"T": "int32", "frame_name": "f"}},
        {"op": "Merge", "name": "m", "inputs": ["e", "n"], "attrs": {"T": "int32", "N": 2}},
        {"op": "NextIteration", "name": "n", "inputs": ["m"], "attrs": {"T": "int32"}},
    ]
    graph = placesim.place({"raw": True, "nodes": nodes, "run": []}).placed[0].graph
    shapes = GraphShapes(graph)
    assert shapes.shape(TensorRef(graph.ids["e"], 0)) == ()
    assert shapes.shape(TensorRef(graph.ids["m"], 0)) is None


def test_a_deep_graph_does_not_recurse() -> None:
    nodes: list[dict[str, Any]] = [KNOWN, {"op": "Neg", "name": "n0", "inputs": ["k"]}]
    nodes += [{"op": "Neg", "name": f"n{i}", "inputs": [f"n{i - 1}"]} for i in range(1, 3000)]
    graph = placesim.place({"nodes": nodes, "run": []}).placed[0].graph
    assert GraphShapes(graph).shape(TensorRef(graph.ids["n2999"], 0)) == (3, 4)


def test_bytes_of_transfers() -> None:
    graph = {
        "devices": {"gpu": 1},
        "nodes": [
            {"op": "Placeholder", "name": "known", "dtype": "float", "shape": [5, 2]},
            {"op": "Placeholder", "name": "free", "dtype": "float", "shape": [-1, 2]},
            {"op": "Const", "name": "text", "value": ["a", "b"]},
            {"op": "Neg", "name": "minus", "inputs": ["known"], "device": "/gpu:0"},
            {"op": "Neg", "name": "minus_free", "inputs": ["free"], "device": "/gpu:0"},
            {"op": "Const", "name": "after", "value": [7], "device": "/cpu:0", "control_inputs": ["minus"]},
        ],
        "run": [{"fetch": ["minus", "minus_free", "after"], "feed": {"known": [[0.0, 0.0]] * 5, "free": [[1.0, 1.0]]}}],
    }
    rows = placesim.run(graph).transfers
    sizes = {row.tensor.partition("/")[0]: row.bytes for row in rows if row.src != row.dst}
    assert sizes == {"_arg_known_0_1:0": 40, "_arg_free_0_0:0": None, "minus:0": 40, "minus_free:0": None, "minus": 0}


def test_bytes_between_tasks() -> None:
    graph = {
        "devices": [{"job": "ps"}, {"job": "worker", "gpu": 1}],
        "nodes": [
            {"op": "Const", "name": "a", "value": [1.0, 2.0, 3.0], "device": "/job:worker/gpu:0"},
            {"op": "Neg", "name": "b", "inputs": ["a"], "device": "/job:worker/gpu:0"},
            {"op": "Neg", "name": "c", "inputs": ["b"], "device": "/job:ps"},
        ],
    }
    assert {row.bytes for row in placesim.place(graph).transfers} == {12}
