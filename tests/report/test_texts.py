"""The report's parts: the log in both styles, values as JSON, and errors as lines."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest

import placesim
from placesim.core.dtypes import parse_dtype
from placesim.core.errors import (
    FailedPreconditionError,
    GraphFileError,
    InvalidArgumentError,
    Location,
    Problem,
    UsageError,
    shown_type,
)
from placesim.report.document import json_line, plain_value, result_document
from placesim.report.results import format_results
from placesim.report.text.complaint import format_error
from placesim.report.text.log import classic_order, format_mapping
from placesim.runtime.sessions.results import Result, Results, full_name

CPU = "/job:localhost/replica:0/task:0/device:CPU:0"


@pytest.mark.parametrize(
    ("array", "expected"),
    [
        (np.array([1.5, np.nan, np.inf, -np.inf], np.float32), [1.5, "nan", "inf", "-inf"]),
        (np.array([[True, False]]), [[True, False]]),
        (np.array(7, np.uint64), 7),
        (np.array([1 + 2j, np.nan], np.complex64), [[1.0, 2.0], ["nan", 0.0]]),
        (np.array([b"caf\xc3\xa9", b"\xff\x00"], object), ["café", "\\xff\x00"]),
        (np.zeros((0, 3), np.float64), []),
        (np.array([0.5, np.inf]).astype(parse_dtype("bfloat16").numpy), [0.5, "inf"]),
        (np.array([-8, 7]).astype(parse_dtype("int4").numpy), [-8, 7]),
    ],
)
def test_values_as_json_has_them(array: np.ndarray[Any, Any], expected: Any) -> None:
    assert plain_value(array) == expected
    json.loads(json_line(plain_value(array)))


def test_a_results_row() -> None:
    row = result_document(Result(2, "x:1", parse_dtype("half"), np.array([1, 2], np.float16)))
    assert row == {"step": 2, "name": "x:1", "dtype": "float16", "shape": [2], "value": [1.0, 2.0]}


def test_the_last_step_counts_by_name() -> None:
    dtype = parse_dtype("int32")
    results = Results([Result(0, "x", dtype, 1), Result(1, "x:0", dtype, 2), Result(1, "y:1", dtype, 3)])
    assert results["x"] == results["x:0"] == 2
    assert results["y:1"] == 3
    assert [row.value for row in results] == [1, 2, 3]
    with pytest.raises(KeyError):
        results["y"]


@pytest.mark.parametrize(("name", "full"), [("x", "x:0"), ("x:1", "x:1"), ("a/b2", "a/b2:0")])
def test_full_names(name: str, full: str) -> None:
    assert full_name(name) == full


def test_numpy_1_13s_format() -> None:
    matrix = Result(0, "x", parse_dtype("float"), np.array([[22, 28], [49, 64]], np.float32))
    assert format_results(Results([matrix]), classic=True) == "[[ 22.  28.]\n [ 49.  64.]]\n"
    assert format_results(Results([matrix])) == "[[22. 28.]\n [49. 64.]]\n"


def test_a_machine_without_described_devices() -> None:
    assert format_mapping(()) == "Device mapping: no known devices.\n"


def test_classic_order_visits_inputs_from_the_last() -> None:
    nodes: list[dict[str, Any]] = [
        {"op": "Const", "name": "a", "value": 1},
        {"op": "Const", "name": "b", "value": 2},
        {"op": "Const", "name": "unused", "value": 3},
        {"op": "Add", "name": "sum", "inputs": ["a", "b"]},
        {"op": "Mul", "name": "product", "inputs": ["sum", "b"], "control_inputs": ["unused"]},
    ]
    graph = placesim.place({"nodes": nodes}).placed[0].graph
    named = [graph.nodes[i].name for i in classic_order(graph, ["product"])]
    assert named == ["unused", "b", "a", "sum", "product"]
    assert [graph.nodes[i].name for i in classic_order(graph, ["sum"])] == ["b", "a", "sum", "unused", "product"]


def test_a_deep_graph_has_a_classic_log() -> None:
    nodes: list[dict[str, Any]] = [{"op": "Const", "name": "n0", "value": 1.0}]
    nodes += [{"op": "Neg", "name": f"n{i}", "inputs": [f"n{i - 1}"]} for i in range(1, 3000)]
    report = placesim.place({"nodes": nodes}, log_style="classic")
    assert report.log().splitlines()[1:3] == [f"n{i}: /job:localhost/replica:0/task:0/cpu:0" for i in range(2)]


def test_an_error_names_its_node_once() -> None:
    error = FailedPreconditionError(
        "Attempting to use uninitialized value v\n\t [[{{node v/read}}]]",
        node="v/read",
        location=Location("g.yaml", 3, 5),
        device=CPU,
    )
    assert format_error(error, lambda name: Location("g.yaml", 3, 5)) == (
        "FailedPreconditionError: Attempting to use uninitialized value v\n"
        f"  node v/read (defined at g.yaml:3), on {CPU}\n"
        "  run the initializer of node v (defined at g.yaml:3) in a step before this one\n"
    )


def test_a_node_in_the_text_is_shown_where_it_stands() -> None:
    error = InvalidArgumentError("{{node a}} and {{node b}} differ\nmore:\n  of it\n\t [[a]]", node="a")
    places = {"a": Location("g.yaml", 3, 5)}
    assert format_error(error, places.get) == (
        "InvalidArgumentError: node a (defined at g.yaml:3) and node b differ\n  more:\n  of it\n"
    )


def test_help_stands_under_the_error() -> None:
    error = UsageError("no such thing")
    error.help = ("try another",)
    assert format_error(error) == "UsageError: no such thing\n  try another\n"


def test_problems_of_one_class_are_of_that_class() -> None:
    here = Location("g.yaml", 1, 1)
    assert shown_type(GraphFileError((Problem(here, "a", "ValueError"), Problem(here, "b", "ValueError")))) == "ValueError"
    assert shown_type(GraphFileError((Problem(here, "a", "ValueError"), Problem(here, "b")))) == "GraphFileError"
    assert shown_type(GraphFileError((Problem(here, "a", "ValueError"), Problem(here, "b", "TypeError")))) == "GraphFileError"


def test_a_report_is_frozen() -> None:
    report = placesim.place({"nodes": [{"op": "NoOp"}]})
    with pytest.raises(AttributeError):
        report.style = "classic"  # type: ignore[misc]


@pytest.mark.parametrize("part", ["{}", "[[", "\n", " ", ".data-00000-of-00001:"])
def test_a_long_error_is_told_at_once(part: str) -> None:
    """Messages on which backtracking patterns never end."""
    told = format_error(InvalidArgumentError(f"'{part * (1 << 19)}' is wrong\n [[{{{{node a}}}}]]\n"))
    assert told.endswith("' is wrong\n")


@pytest.mark.parametrize(
    ("message", "told"),
    [
        ("a [[{{node b}}]]", "a"),
        ("a\n\t [[{{node b}}]] \n", "a"),
        ("a [[b]]\n [[c]]", "a [[b]]"),
        ("a [[b]] c", "a [[b]] c"),
        ("a [[b]] [[c]]", "a"),
        ("a [[]]", "a"),
        ("a [[]", "a [[]"),
    ],
)
def test_the_node_at_the_end_of_a_message_is_left_out(message: str, told: str) -> None:
    assert format_error(InvalidArgumentError(message)) == f"InvalidArgumentError: {told}\n"
