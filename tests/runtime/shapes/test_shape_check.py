"""A graph that TensorFlow's Python could not have built is refused where the node is written, before anything is placed."""

from __future__ import annotations

from typing import Any

import pytest

import placesim
from placesim.core.errors import GraphFileError, InvalidArgumentError
from placesim.formats.graph_file.reader import graph_file_from_mapping
from placesim.runtime.shapes.shape_check import check_shapes

A, B = ({"op": "Const", "name": name, "value": [[1.0] * 3] * rows} for name, rows in (("a", 1), ("b", 2)))
MISMATCH = {"op": "MatMul", "name": "c", "inputs": ["a", "b"]}


def test_a_mapping_has_no_lines() -> None:
    with pytest.raises(GraphFileError) as caught:
        placesim.place({"nodes": [A, B, MISMATCH]})
    (problem,) = caught.value.problems
    assert problem.error == "ValueError"
    assert str(problem).startswith("<mapping>: Dimensions must be equal, but are 3 and 2 for '{{node c}} = MatMul[")


def test_a_refused_node_is_reported_and_not_those_that_read_it() -> None:
    reader = {"op": "MatMul", "name": "d", "inputs": ["c", "b"]}
    with pytest.raises(GraphFileError) as caught:
        placesim.place({"nodes": [A, B, MISMATCH, reader]})
    assert len(caught.value.problems) == 1


def test_a_shape_that_is_computed_from_constants_is_known() -> None:
    nodes = [
        A,
        {"op": "Shape", "name": "s", "inputs": ["a"]},
        {"op": "Mul", "name": "twice", "inputs": ["s", [1, 2]]},
        {"op": "Reshape", "name": "r", "inputs": ["a", "twice"]},
    ]
    with pytest.raises(GraphFileError, match=r"Cannot reshape a tensor with 3 elements to shape \[1,6\] \(6 elements\)"):
        placesim.place({"nodes": nodes})


UNREFUSED: dict[str, list[dict[str, Any]]] = {
    "an unknown rank": [{"op": "Placeholder", "name": "a", "dtype": "float"}, B, MISMATCH],
    "an op without a kernel": [
        A,
        B,
        {"op": "CudnnRNNParamsSize", "name": "p", "inputs": [1, 2, 3], "attrs": {"T": "float", "S": "int32"}},
        {"op": "Fill", "name": "x", "inputs": ["p", 0.0]},
        {"op": "MatMul", "name": "y", "inputs": ["x", "b"]},
    ],
}


@pytest.mark.parametrize("case", UNREFUSED)
def test_what_is_not_known_is_not_refused(case: str) -> None:
    assert len(placesim.place({"nodes": UNREFUSED[case], "devices": {"gpu": 1}, "run": []}).placements) >= 3


def test_nodes_that_a_step_adds_are_checked_before_the_first_step() -> None:
    with pytest.raises(GraphFileError, match="Dimensions must be equal, but are 3 and 2 for"):
        placesim.run({"nodes": [A, B], "run": [{"fetch": ["a"]}, {"nodes": [MISMATCH], "fetch": ["c"]}]})


def test_a_raw_graph_is_placed_as_the_runtime_places_it_and_fails_when_it_runs() -> None:
    attrs = {"T": "float", "transpose_a": False, "transpose_b": False}
    graph = {"raw": True, "nodes": [A, B, {**MISMATCH, "attrs": attrs}]}
    assert len(placesim.place(graph).placements) == 3
    with pytest.raises(InvalidArgumentError, match="Matrix size-incompatible"):
        placesim.run(graph)


def test_shapes_that_were_checked_are_those_of_the_report() -> None:
    file = graph_file_from_mapping({"nodes": [A, {"op": "Neg", "name": "n", "inputs": ["a"], "device": "/gpu:0"}]})
    shapes = check_shapes(file)
    assert shapes is not None
    assert shapes.graph is file.graph
    report = placesim.place({"nodes": [A, {"op": "Neg", "name": "n", "inputs": ["a"]}], "devices": {"gpu": 1}})
    assert report.shapes is not None
    assert report.shapes.graph is report.placed[0].graph
    assert {row.bytes for row in report.transfers} == {12}
