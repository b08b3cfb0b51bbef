"""Facts of single nodes: costs, attrs that need 32 bits, and the frames of loops."""

from __future__ import annotations

from typing import Any

import pytest

from placesim.core.dtypes import DOUBLE, FLOAT, INT32, STRING
from placesim.core.errors import InvalidArgumentError
from placesim.formats.graph_file.reader import graph_file_from_mapping
from placesim.ops.kernels import load_kernels
from placesim.ops.kernels.shapes import Dims
from placesim.runtime.shapes.int32_attrs import int32_problem
from placesim.runtime.shapes.loop_frames import find_frames
from placesim.runtime.shapes.node_costs import node_flops, total_bytes

PRODUCT = {"transpose_a": False, "transpose_b": False}


@pytest.mark.parametrize(
    ("op", "inputs", "outputs", "flops"),
    [
        ("MatMul", [(2, 3), (3, 4)], [(2, 4)], 2 * 2 * 3 * 4),
        ("MatMul", [(2, 3), (3, -1)], [(2, -1)], None),
        ("MatMul", [(2, 3), (3, 4)], [None], None),
        ("Identity", [(5,)], [(5,)], 0),
        ("Identity", [None], [None], 0),
    ],
)
def test_operations_of_a_node(op: str, inputs: list[Dims], outputs: list[Dims], flops: int | None) -> None:
    assert node_flops(load_kernels()[op], PRODUCT, inputs, outputs) == flops


def test_bytes_of_several_tensors() -> None:
    assert total_bytes([(2, 3), ()], [DOUBLE, INT32]) == 52
    assert total_bytes([(2, 3), (3, 4)], [FLOAT, FLOAT]) == 72
    assert total_bytes([(3, -1)], [FLOAT]) is None
    assert total_bytes([None], [FLOAT]) is None
    assert total_bytes([(2,)], [STRING]) is None
    assert total_bytes([(0, 2), (1,)], [STRING, FLOAT]) == 4
    assert total_bytes([], []) == 0


MOST = (1 << 31) - 1


@pytest.mark.parametrize(
    ("op", "attrs", "in_shape_function", "name"),
    [
        ("Enter", {"parallel_iterations": MOST}, False, None),
        ("Enter", {"parallel_iterations": MOST + 1}, False, "parallel_iterations"),
        ("Enter", {"parallel_iterations": -MOST - 1}, False, None),
        ("Enter", {"parallel_iterations": -MOST - 2}, False, "parallel_iterations"),
        ("Enter", {"parallel_iterations": MOST + 1}, True, None),
        ("Conv2D", {"strides": (1, MOST + 1), "dilations": (MOST + 2,)}, True, "strides"),
        ("QuantizeAndDequantizeV2", {"num_bits": MOST + 1}, True, None),
        ("QuantizeAndDequantizeV2", {"axis": MOST + 1}, True, "axis"),
        ("Neg", {"parallel_iterations": MOST + 1}, False, None),
        ("Enter", {"parallel_iterations": float(MOST + 1)}, False, None),
    ],
)
def test_an_attr_that_needs_more_than_32_bits(
    op: str, attrs: dict[str, Any], in_shape_function: bool, name: str | None
) -> None:
    problem = int32_problem(op, attrs, in_shape_function)
    assert problem is None if name is None else problem and problem.startswith(f"Attr {name} has value ")


FLOATS = {"T": "float"}


def enter(name: str, source: str, frame: str) -> dict[str, Any]:
    return {"op": "Enter", "name": name, "inputs": [source], "attrs": {**FLOATS, "frame_name": frame}}


def op(name: str, kind: str, *inputs: str) -> dict[str, Any]:
    return {"op": kind, "name": name, "inputs": list(inputs), "attrs": FLOATS}


def test_frames_of_nested_loops() -> None:
    nodes = [
        {"op": "Const", "name": "a", "value": 1.0},
        enter("outer", "a", "o"),
        enter("inner", "outer", "i"),
        op("x", "Neg", "inner"),
        op("leave", "Exit", "x"),
        op("y", "Neg", "leave"),
        op("out", "Exit", "y"),
        op("z", "Neg", "out"),
        {"op": "Const", "name": "k", "value": 2.0, "inputs": ["^x"]},
    ]
    graph = graph_file_from_mapping({"nodes": nodes, "raw": True}).graph
    frames = dict(zip((node.name for node in graph.nodes), find_frames(graph), strict=True))
    assert {name: frame.name if frame else "" for name, frame in frames.items()} == {
        "a": "", "outer": "o", "inner": "i", "x": "i", "leave": "i", "y": "o", "out": "o", "z": "", "k": "i",
    }  # fmt: skip
    inner, outer = frames["x"], frames["y"]
    assert inner is not None
    assert outer is not None
    assert (inner.parent, outer.parent) == (outer, None)
    assert (inner.enter.name, outer.enter.name) == ("inner", "outer")


def test_inputs_of_two_frames() -> None:
    nodes = [{"op": "Const", "name": "a", "value": 1.0}, enter("e", "a", "o"), op("x", "Neg", "e"), op("sum", "Add", "x", "a")]
    graph = graph_file_from_mapping({"nodes": nodes, "raw": True}).graph
    message = r"^\{\{node sum\}\} has inputs from different frames\. The input is in frame 'o' and another in frame ''\."
    with pytest.raises(InvalidArgumentError, match=message) as caught:
        find_frames(graph)
    assert caught.value.node == "sum"
