"""What is said of a file that is wrong: every problem, in file order, at its line and column."""

from __future__ import annotations

import json

import pytest

from placesim.core.errors import GraphFileError
from placesim.formats.graph_file.reader import graph_file_from_mapping, read_graph_file
from tests.formats.readings import DATA


def test_problems(subtests: pytest.Subtests) -> None:
    rows = json.loads((DATA / "bad-graph-files.json").read_text())
    assert len(rows) == 64
    for row in rows:
        with subtests.test(row["id"]):
            with pytest.raises(GraphFileError) as caught:
                read_graph_file(row["text"], "f.yaml")
            assert [str(problem) for problem in caught.value.problems] == row["problems"]


def test_bytes_that_are_not_utf8() -> None:
    with pytest.raises(GraphFileError, match=r"f\.yaml:2:4: not UTF-8 text: got byte 0xff, expected UTF-8"):
        read_graph_file(b"nodes:\n - \xff\n", "f.yaml")


def test_a_mapping_has_no_lines() -> None:
    with pytest.raises(GraphFileError) as caught:
        graph_file_from_mapping({"nodes": [{"op": "MatMull"}]}, "model")
    assert str(caught.value) == "model: unknown op: got 'MatMull', expected an op of TensorFlow 2.21.0; did you mean 'MatMul'?"


def test_the_class_that_tensorflow_would_raise() -> None:
    text = "nodes: [{op: Const, name: a, value: 1.0}, {op: LogicalNot, inputs: [a]}]"
    with pytest.raises(GraphFileError) as caught:
        read_graph_file(text)
    assert caught.value.problems[0].error == "TypeError"


@pytest.mark.slow
def test_many_problems_do_not_take_long() -> None:
    text = "nodes:\n" + "".join(f"  - {{op: NoOp, name: n{i}}}\n  - {{op: Neg{i}, inputs: [m{i}]}}\n" for i in range(3000))
    with pytest.raises(GraphFileError) as caught:
        read_graph_file(text)
    assert len(caught.value.problems) == 6000


def test_results_of_a_function_that_are_no_list() -> None:
    with pytest.raises(GraphFileError) as caught:
        read_graph_file("functions: [{name: f, outputs: -0.77}]\nnodes: []\n", "f.yaml")
    assert [str(problem) for problem in caught.value.problems] == [
        "f.yaml:1:32: wrong type of 'outputs': got -0.77, expected a list"
    ]
