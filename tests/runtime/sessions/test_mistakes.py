"""Mistakes in graphs that show when they run: each is an error that names the node, in TensorFlow's words where it has any."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import placesim
from placesim.core.errors import DefectError, GraphFileError, InternalError, InvalidArgumentError, PlacesimError
from placesim.formats.graph_file.reader import graph_file_from_mapping
from placesim.graph.session_steps import Fetch, GraphStep
from placesim.machine.inventory import build_devices
from placesim.ops.kernels import load_kernels
from placesim.ops.kernels.resources import python_functions
from placesim.runtime.sessions.session import GraphSession
from tests.runtime.sessions import models

A = {"op": "Const", "name": "a", "dtype": "float", "value": 1.0}
P = {"op": "Const", "name": "p", "value": True}
NEG = {"op": "Neg", "name": "x", "inputs": ["a"], "attrs": {"T": "float"}}


def function(results: int) -> dict[str, Any]:
    """F(a) gives -a so many times."""
    outputs = [{"name": f"o{i}", "type": "float", "value": "x:y:0"} for i in range(results)]
    return {"name": "F", "inputs": [{"name": "a", "type": "float"}], "outputs": outputs, "nodes": [NEG]}


def call(op: str, inputs: list[Any], **attrs: Any) -> dict[str, Any]:
    return {"op": op, "name": "o", "inputs": inputs, "attrs": attrs}


F = {"func": "F"}
BRANCHES = {"then_branch": F, "else_branch": F, "output_shapes": []}
CASES: dict[str, tuple[list[dict[str, Any]], int, str, str]] = {
    # nodes, results of F, class, message
    "fewer results than Tout": (
        [A, call("PartitionedCall", ["a"], f=F, Tin=["float"], Tout=["float", "float"])],
        1,
        "InternalError",
        "Missing 1-th output from {{node o}}",
    ),
    "results of another type": (
        [A, call("PartitionedCall", ["a"], f=F, Tin=["float"], Tout=["int32"])],
        1,
        "InternalError",
        "Output 0 of type float does not match declared output type int32 for node {{node o}}",
    ),
    "more arguments": (
        [A, call("StatefulPartitionedCall", ["a", "a"], f=F, Tin=["float", "float"], Tout=["float"])],
        1,
        "InvalidArgumentError",
        "InstantiateOptions.input_devices must have the same length as the number of arguments: "
        "input_devices length = 2 number of arguments = 1",
    ),
    "more arguments of a branch": (
        [A, P, call("If", ["p", "a", "a"], Tin=["float", "float"], Tout=["float"], **BRANCHES)],
        1,
        "InvalidArgumentError",
        "Expects 1 arguments, but 2 is provided",
    ),
    "arguments of another type": (
        [P, call("PartitionedCall", ["p"], f=F, Tin=["bool"], Tout=["float"])],
        1,
        "InvalidArgumentError",
        "Expects arg[0] to be float but bool is provided",
    ),
    "a branch of fewer results": (
        [A, P, call("If", ["p", "a"], Tin=["float"], Tout=["float", "float"], **BRANCHES)],
        1,
        "InternalError",
        "Expect to produce 2 tensors, but only get 1",
    ),
    "a branch of another type": (
        [A, P, call("If", ["p", "a"], Tin=["float"], Tout=["int32"], **BRANCHES)],
        1,
        "InternalError",
        "Expect 0-th output is of type int32 but get float",
    ),
    "a case by a vector": (
        [A, call("Case", [[0, 0], "a"], branches=[F], Tin=["float"], Tout=["float"], output_shapes=[])],
        1,
        "InvalidArgumentError",
        "branch_index must be scalar",
    ),
    "an Exit without Enter": (
        [A, {"op": "Exit", "name": "o", "inputs": ["a"]}],
        1,
        "InvalidArgumentError",
        "Invalid Exit op: Cannot find a corresponding Enter op.",
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_a_mistake_is_an_error_that_names_the_node(name: str) -> None:
    nodes, results, kind, message = CASES[name]
    with pytest.raises(PlacesimError) as found:
        placesim.run({"nodes": nodes, "functions": [function(results)], "run": [{"fetch": ["o:0"]}]})
    assert found.value.type_name == kind
    assert found.value.message.partition("\n\t [[")[0] == message
    assert found.value.node == "o"


NOT_INSTANTIATED = {
    "more results than Tout": (
        [A, call("PartitionedCall", ["a"], f=F, Tin=["float"], Tout=["float"])],
        3,
        "InternalError",
        "Function instantiation included invalid output index: 2 not in [0, 1).",
    ),
    "fewer arguments": (
        [call("PartitionedCall", [], f=F, Tin=[], Tout=["float"])],
        1,
        "InternalError",
        "Function instantiation included invalid input index: 0 not in [0, 0).",
    ),
}


@pytest.mark.parametrize("name", NOT_INSTANTIATED)
def test_a_call_that_cannot_be_is_refused_as_it_is_built_and_in_a_raw_graph_as_it_runs(name: str) -> None:
    nodes, results, kind, message = NOT_INSTANTIATED[name]
    graph = {"nodes": nodes, "functions": [function(results)], "run": [{"fetch": ["o:0"]}]}
    with pytest.raises(GraphFileError) as found:
        placesim.place(graph)
    assert [(problem.error, problem.message) for problem in found.value.problems] == [(kind, message)]
    with pytest.raises(InternalError) as ran:
        placesim.run(graph | {"raw": True})
    assert (ran.value.message.partition("\n\t [[")[0], ran.value.node) == (message, "o")


def test_a_body_that_cannot_be_is_refused_as_the_call_is_built() -> None:
    body = {**function(1), "nodes": [{**NEG, "inputs": ["a", "a"]}]}
    node = call("PartitionedCall", ["a"], f=F, Tin=["float"], Tout=["float"])
    with pytest.raises(GraphFileError, match=r"Expected input\[1\] == 'a' to be a control input"):
        placesim.place({"nodes": [A, node], "functions": [body]})


@pytest.mark.parametrize("is_raw", [False, True])
def test_an_attr_beyond_32_bits(is_raw: bool) -> None:
    attrs = {"ksize": [1, 1, 1 << 31, 1], "strides": [1, 1, 1, 1], "padding": "SAME", "T": "float"}
    image = {"op": "Const", "name": "a", "dtype": "float", "shape": [1, 1, 1, 1], "value": 1.0}
    graph = {"raw": is_raw, "nodes": [image, {"op": "MaxPool", "name": "o", "inputs": ["a"], "attrs": attrs}]}
    with pytest.raises(PlacesimError, match="Attr ksize has value 2147483648 out of range for an int32") as found:
        placesim.run(graph | {"run": [{"fetch": ["o"]}]})
    assert found.value.type_name == ("InvalidArgumentError" if is_raw else "GraphFileError")


def test_an_attr_that_only_the_kernel_keeps_in_32_bits() -> None:
    nodes = [A, {"op": "AsString", "name": "o", "inputs": ["a"], "attrs": {"width": -(1 << 31) - 1}}]
    placesim.place({"nodes": nodes})
    with pytest.raises(InvalidArgumentError, match="Attr width has value -2147483649 out of range for an int32"):
        placesim.run({"nodes": nodes, "run": [{"fetch": ["o"]}]})


@pytest.mark.parametrize("in_order", [True, False], ids=["in a fixed order", "as data flows"])
def test_a_fault_in_a_kernel_says_where_and_asks_for_a_report(in_order: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    kernels = load_kernels()
    broken = kernels["Square"]._replace(compute=lambda inputs, attrs: inputs[0].no_such_thing, direct=None)
    monkeypatch.setitem(kernels._found, "Square", broken)  # type: ignore[attr-defined]
    more = [] if in_order else [P, {"op": "Switch", "name": "s", "inputs": ["a", "p"]}]
    nodes = [A, *more, {"op": "Square", "name": "o", "inputs": ["a" if in_order else "s:1"]}]
    with pytest.raises(DefectError, match="op Square") as found:
        placesim.run({"nodes": nodes, "run": [{"fetch": ["o"]}]})
    assert found.value.node == "o"
    assert found.value.exit_code == 70
    assert found.value.help[0] == "its inputs: float32[]"


def test_a_kernel_that_gives_another_number_of_outputs_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    """Else the tensors of all nodes behind it would be others."""
    kernels = load_kernels()
    broken = kernels["Square"]._replace(compute=lambda inputs, attrs: (np.float32(1), np.float32(2)), direct=None)
    monkeypatch.setitem(kernels._found, "Square", broken)  # type: ignore[attr-defined]
    with pytest.raises(InternalError, match="gave 2 outputs, but has 1"):
        placesim.run({"nodes": [A, {"op": "Square", "name": "o", "inputs": ["a"]}]})


@pytest.mark.parametrize(
    ("nodes", "message"),
    [
        (
            [
                {"op": "Const", "name": "i0", "value": "1"},
                {"op": "Const", "name": "i1", "value": [[1.0]]},
                {"op": "AudioSummaryV2", "name": "o", "inputs": ["i0", "i1", 1e10]},
            ],
            r"sample_rate must be in \(0, 2\^32\), got: 10000000000",
        ),
        (
            [
                {"op": "Const", "name": "i0", "value": [1.0, 2.0]},
                {"op": "Const", "name": "i1", "value": [1.0, 2.0]},
                {"op": "_ParallelConcatUpdate", "name": "o", "inputs": ["i0", "i1"], "attrs": {"loc": 0}},
            ],
            "update shape doesn't match",
        ),
        (
            [
                {"op": "Const", "name": "x", "value": [True]},
                {"op": "Const", "name": "i", "value": [0]},
                {"op": "InplaceAdd", "name": "o", "inputs": ["x", "i", "x"]},
            ],
            "Unsupported data type: bool",
        ),
        (
            [
                {"op": "Const", "name": "i0", "value": [1.0, 2.0]},
                {"op": "Const", "name": "i1", "value": [1.0]},
                {"op": "_ParallelConcatUpdate", "name": "o", "inputs": ["i0", "i1"], "attrs": {"loc": 2}},
            ],
            "0th dimension of value = 2 must be greater than loc_ = 2",
        ),
    ],
)
def test_what_the_fuzzers_found_in_kernels(nodes: list[dict[str, Any]], message: str) -> None:
    with pytest.raises(placesim.InvalidArgumentError, match=message):
        placesim.run({"nodes": nodes, "fetch": ["o"]})


def test_python_functions_are_refused_by_name(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(python_functions, "_functions", {})  # another test may have defined some
    (case,) = [case for case in models.CASES if case["id"] == "strings"]
    file = graph_file_from_mapping(case["graph"], "strings")
    session = GraphSession(file.graph, build_devices(file.inventory or ()), file.config, bare_fetch_is_target=True)
    with pytest.raises(InvalidArgumentError, match="callback pyfunc_0 is not found"):
        session.run(GraphStep((Fetch("PyFunc"),)))
