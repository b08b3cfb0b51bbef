"""The graph file that a person would write: it makes the same graph, and is short."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from placesim.formats.graph_file.reader import graph_file_from_mapping, read_graph_file
from placesim.formats.graph_file.writing.scoped_items import same_functions
from placesim.formats.graph_file.writing.scoped_writer import scoped_lines
from placesim.formats.graph_file.writing.short_values import flow_text, short_tensor
from placesim.graph.constants import make_constant
from tests.formats.readings import exact, raw_graphs, short_graphs
from tests.processes import ROOT


def written(graph: dict[str, Any], **more: Any) -> list[str]:
    """The lines under `nodes`."""
    lines = scoped_lines(graph_file_from_mapping(graph, "g.yaml"), **more)
    assert lines is not None
    first = lines.index("nodes:\n") + 1
    last = lines.index("run:\n") if "run:\n" in lines else len(lines)
    return [line.rstrip("\n") for line in lines[first:last]]


def test_every_short_form_is_written_shortly_and_means_the_same(subtests: pytest.Subtests) -> None:
    for case in short_graphs():
        with subtests.test(case["id"]):
            file = graph_file_from_mapping(case["graph"], case["id"])
            lines = scoped_lines(file)
            if len(file.graph):
                assert lines is not None
                assert exact(read_graph_file("".join(lines)).graph) == exact(file.graph)


@pytest.mark.slow
def test_what_is_written_of_a_raw_graph_is_the_same(subtests: pytest.Subtests) -> None:
    for case in raw_graphs():
        with subtests.test(case["id"]):
            file = graph_file_from_mapping(case["graph"], case["id"])
            lines = scoped_lines(file)
            if lines is not None:
                again = read_graph_file("".join(lines), case["id"])
                assert exact(again.graph) == exact(file.graph)
                assert (again.graph.versions, again.config, again.inventory) == (
                    file.graph.versions,
                    file.config,
                    file.inventory,
                )


def test_variables_and_what_initializes_them_are_one_entry_each() -> None:
    nodes = [
        {"variable": "w", "shape": [2, 3]},
        {"variable": "b", "initializer": {"initial_value": [1.0, 2.0]}},
        {"op": "Const", "name": "start", "value": 3},
        {"variable": "c", "shape": [], "initializer": {"tensor": "start"}, "kind": "resource"},
        {"variable": "n", "shape": [2], "initializer": {"random_normal": {"stddev": 0.1, "seed": [4, 5]}}, "device": "/cpu:0"},
        {"initializer": "init"},
        {"op": "AddV2", "name": "sum", "inputs": ["w", 1.0]},
    ]
    assert written({"nodes": nodes}) == [
        "  - {variable: w, shape: [2, 3]}",
        "  - {variable: b, initializer: {initial_value: [1.0, 2.0]}}",
        "  - {op: Const, name: start, value: 3}",
        "  - {variable: c, shape: [], initializer: {tensor: start}, kind: resource}",
        "  - {variable: n, shape: [2], initializer: {random_normal: {stddev: 0.1, seed: [4, 5]}}, device: /cpu:0}",
        "  - {initializer: init}",
        "  - {op: AddV2, name: sum, inputs: [w, 1.0]}",
    ]


def test_scopes_are_what_names_and_devices_share() -> None:
    inner = [{"op": "Neg", "name": name, "inputs": ["x"]} for name in "abcd"]
    nodes = [{"op": "Const", "name": "x", "value": 1.0}, {"scope": "tower", "device": "/gpu:0", "nodes": inner}]
    assert written({"nodes": nodes}) == [
        "  - {op: Const, name: x, value: 1.0}",
        "  - scope: tower",
        "    device: /gpu:0",
        "    nodes:",
        *[f"      - {{op: Neg, name: {name}, inputs: [x]}}" for name in "abcd"],
    ]


def test_a_name_that_scopes_hide_is_written_in_full() -> None:
    inner = [{"op": "Const", "name": "x", "value": 1.0}, *[{"op": "Neg", "name": n, "inputs": ["/x"]} for n in "abc"]]
    lines = written({"nodes": [{"op": "Const", "name": "x", "value": 2.0}, {"scope": "s", "nodes": inner}]})
    assert "      - {op: Neg, name: c, inputs: [/x]}" in lines


def test_a_node_that_reads_one_below_it_is_a_node_def() -> None:
    nodes = [
        {"op": "Const", "name": "x", "value": 1.0, "dtype": "float32"},
        {"raw": True, "op": "Neg", "name": "early", "inputs": ["late"], "attrs": {"T": "float"}},
        {"op": "Exp", "name": "late", "inputs": ["x"]},
    ]
    assert written({"nodes": nodes})[1] == "  - {raw: true, op: Neg, name: early, inputs: [late], attrs: {T: float}}"


def test_words_of_a_device_function_stay() -> None:
    nodes = [{"op": "Const", "name": "x", "value": 1.0, "device": {"text": "/cpu:0"}}]
    file = graph_file_from_mapping({"nodes": nodes})
    assert file.graph.nodes[0].device == "/cpu:0"
    assert written({"nodes": nodes}) == ["  - {op: Const, name: x, value: 1.0, device: {text: /cpu:0}}"]


def test_marks_are_what_control_inputs_leave() -> None:
    nodes: list[Any] = [
        {"op": "NoOp", "name": "a"},
        {"op": "NoOp", "name": "b"},
        {"op": "NoOp", "name": "c", "control_inputs": "a", "inputs": ["^b"]},
        {"variable": "v", "shape": [], "kind": "resource"},
    ]
    graph = graph_file_from_mapping({"marks": True, "nodes": nodes}).graph
    assert dict(graph.node("a").attrs) == {"_has_manual_control_dependencies": True}
    assert not graph.node("b").attrs
    assert graph.node("v").attrs["debug_name"] == "v/"
    assert written({"marks": True, "nodes": nodes})[2] == "  - {op: NoOp, name: c, inputs: [^b], control_inputs: a}"


def test_defaults_that_are_spelled_out_are_kept_unless_asked() -> None:
    attrs = {"T": "float", "transpose_a": False, "transpose_b": False, "grad_a": False, "grad_b": False}
    nodes = [
        {"op": "Placeholder", "name": "x", "dtype": "float", "shape": [2, 2]},
        {"op": "MatMul", "name": "y", "inputs": ["x", "x"], "attrs": attrs},
    ]
    graph = {"raw": True, "nodes": nodes}
    assert written(graph)[1].startswith("  - {raw: true, op: MatMul")
    assert written(graph, leaves_defaults=True)[1] == "  - {op: MatMul, name: y, inputs: [x, x]}"


def test_a_target_with_outputs_is_fetched_as_one() -> None:
    file = graph_file_from_mapping({"nodes": [{"op": "Const", "name": "x", "value": 1.0}], "run": [{"fetch": ["^x", "x:0"]}]})
    lines = scoped_lines(file)
    assert lines is not None
    assert lines[-1] == "  - {fetch: [^x, 'x:0']}\n"


@pytest.mark.parametrize(
    ("value", "shown"),
    [
        (np.float32(0.1), "{value: 0.1}"),
        (np.array([1, 2], np.int64), "{value: [1, 2], dtype: int64}"),
        (np.zeros((2, 3), np.float32), "{value: 0.0, shape: [2, 3]}"),
        (np.array([], np.float32), "{value: [], shape: [0], dtype: float}"),
        (np.array([np.nan, 1.0], np.float32), "{value: [nan, 1.0], shape: [2], dtype: float}"),
        (np.array([-0.0, 0.0], np.float32), "{value: [-0.0, 0.0]}"),
        (np.array([b"a", b"no: text"], object), "{value: [a, 'no: text']}"),
        (np.array([b"\xff"], object), "{value: {bytes: /w==}, shape: [1], dtype: string}"),
        (np.array(True), "{value: true}"),
    ],
)
def test_tensors_are_as_short_as_they_can_be(value: Any, shown: str) -> None:
    tensor = make_constant(value)
    text = flow_text(short_tensor(tensor))
    assert text == shown
    again = read_graph_file(f"nodes: [{{op: Const, {text[1:-1]}}}]").graph.nodes[0].attrs["value"]
    assert (again.dtype, again.array.shape) == (tensor.dtype, tensor.array.shape)
    np.testing.assert_array_equal(again.array, tensor.array)


FUNCTIONS = """functions:
  - name: outer
    inputs: {x: float32, p: bool}
    nodes:
      - {op: inner, inputs: [x]}
      - {op: Max, inputs: [inner, 0], device: /cpu:0}
      - scope: part
        device: /gpu:1
        nodes:
          - {op: Neg, inputs: [Max]}
          - {op: Abs, inputs: [Neg], control_inputs: p}
          - {op: Square, inputs: [Abs]}
          - {op: Split, inputs: [0, Square], attrs: {num_split: 2}}
      - {op: Assert, inputs: [p, x]}
    outputs: {y: 'part/Split:1', same: x}
    control_outputs: {check: Assert}
    attrs: {_noinline: true}
  - name: inner
    inputs: {x: {type_attr: T}}
    nodes:
      - {op: Cast, inputs: [2], attrs: {DstT: {placeholder: T}}}
      - {op: Mul, inputs: [x, Cast]}
    outputs: {y: Mul}
  - name: nothing
    nodes:
      - {op: NoOp}
    outputs: {}
nodes:
  - {op: outer, inputs: [1.0, true]}
"""


def test_functions_are_written_as_people_write_them() -> None:
    file = read_graph_file(FUNCTIONS, "g.yaml")
    lines = scoped_lines(file)
    assert lines is not None
    assert "".join(lines[1:]) == FUNCTIONS
    again = read_graph_file("".join(lines)).graph
    assert same_functions(again, file.graph)


@pytest.mark.parametrize("path", ["cond", "while"])
def test_bodies_that_python_made_are_written_as_entries(path: str) -> None:
    file = read_graph_file((ROOT / "graphs" / f"{path}.yaml").read_text())
    lines = scoped_lines(file)
    assert lines is not None
    assert same_functions(read_graph_file("".join(lines)).graph, file.graph)
    assert "".join(lines).count("    outputs: {") == len(file.graph.functions)
    assert "raw" not in "".join(lines)


def test_a_function_that_entries_cannot_say_is_a_function_def() -> None:
    body = {
        "name": "f",
        "inputs": [{"name": "x", "type": "float"}],
        "outputs": [{"name": "y", "type": "float", "value": "a:y:0"}],
        "nodes": [
            {"op": "Neg", "name": "a", "inputs": ["b:y:0"], "attrs": {"T": "float"}},
            {"op": "Neg", "name": "b", "inputs": ["x"], "attrs": {"T": "float"}},
        ],
    }
    for function in (body, {**body, "nodes": [{"op": "MatMul", "name": "a", "inputs": ["x", "x"], "attrs": {"T": "float"}}]}):
        file = graph_file_from_mapping({"functions": [function], "nodes": [{"op": "NoOp"}]})
        lines = scoped_lines(file)
        assert lines is not None
        assert "attrs: {T: float}" in "".join(lines)
        assert same_functions(read_graph_file("".join(lines)).graph, file.graph)


def test_what_equals_its_default_may_be_left_out_of_bodies_too() -> None:
    node = {"op": "MatMul", "name": "a", "inputs": ["x", "x"], "attrs": {"T": "float", "transpose_a": False}}
    function = {
        "name": "f",
        "inputs": [{"name": "x", "type": "float"}],
        "outputs": [{"name": "y", "type": "float", "value": "a:product:0"}],
        "nodes": [node],
    }
    lines = scoped_lines(graph_file_from_mapping({"functions": [function], "nodes": [{"op": "NoOp"}]}), leaves_defaults=True)
    assert lines is not None
    assert "      - {op: MatMul, name: a, inputs: [x, x]}\n" in lines
