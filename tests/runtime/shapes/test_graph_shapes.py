"""Static shapes over a graph: constants and computed shapes are followed, what is not known is None, nothing raises."""

from __future__ import annotations

from typing import Any

import pytest

import placesim
from placesim.core.dtypes import FLOAT
from placesim.formats.graph_file.reader import graph_file_from_mapping
from placesim.graph.graph import FunctionArg, Graph, LibraryFunction, NodeDef, TensorRef
from placesim.ops.attributes import FunctionName, Shape
from placesim.ops.kernels.shapes import Dims, HandleShape
from placesim.ops.registry import load_registry
from placesim.runtime.shapes.graph_shapes import MAX_VALUE_ELEMENTS, GraphShapes

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
    "a packed part that is not known": (
        [
            X,
            {"op": "Placeholder", "name": "n", "dtype": "int32", "shape": []},
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
    "fill by the shape of what is known": (
        [
            {"op": "Unique", "name": "u", "inputs": [[7, 8, 7]]},
            {"op": "Shape", "name": "s", "inputs": ["u"]},
            {"op": "Fill", "name": "y", "inputs": ["s", 0.0]},
        ],
        (-1,),
    ),
    "fill by more than the shape of what is known": (
        [
            {"op": "Unique", "name": "u", "inputs": [[7, 8, 7]]},
            {"op": "Shape", "name": "s", "inputs": ["u"]},
            {"op": "AddV2", "name": "more", "inputs": ["s", 1]},
            {"op": "Fill", "name": "y", "inputs": ["more", 0.0]},
        ],
        (3,),
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


@pytest.mark.parametrize(("feed", "size"), [({}, 12), ({"s": [5]}, None)])
def test_bytes_that_depend_on_a_fed_constant_are_not_known(feed: dict[str, Any], size: int | None) -> None:
    nodes = [
        {"op": "Const", "name": "s", "value": [3]},
        {"op": "Fill", "name": "a", "inputs": ["s", 1.0], "device": "/cpu:0"},
        {"op": "Neg", "name": "b", "inputs": ["a"], "device": "/gpu:0"},
    ]
    found = placesim.run({"devices": {"gpu": 1}, "nodes": nodes, "run": [{"fetch": ["b"], "feed": feed}]})
    assert {row.bytes for row in found.transfers} == {size}


# --- values that shapes follow from ---------------------------------------------------------------------------------


def filled(shape: list[dict[str, Any]]) -> Dims:
    """The shape of a Fill by the node `s`."""
    nodes = [X, KNOWN, *shape, {"op": "Fill", "name": "y", "inputs": ["s", 0.0]}]
    graph = graph_file_from_mapping({"nodes": nodes}).graph
    return GraphShapes(graph).shape(TensorRef(graph.ids["y"], 0))


def op(kind: str, name: str, *inputs: Any, **attrs: Any) -> dict[str, Any]:
    return {"op": kind, "name": name, "inputs": list(inputs), "attrs": attrs}


CUT: list[Any] = [[0], [1], [1]]
VALUES: dict[str, tuple[list[dict[str, Any]], Dims]] = {
    "a known part of an open shape": ([op("Shape", "a", "x"), op("StridedSlice", "s", "a", [1], [2], [1])], (4,)),
    "an open part": ([op("Shape", "a", "x"), op("StridedSlice", "s", "a", *CUT)], (-1,)),
    "a part that is computed": (
        [op("Shape", "a", "k"), op("Neg", "n", [-1]), op("StridedSlice", "s", "a", "n", [2], [1])],
        (4,),
    ),
    "shapes put together": ([op("Shape", "a", "x"), op("ConcatV2", "s", "a", [7, 8], 0)], (-1, 4, 7, 8)),
    "an open vector of known length": (
        [{"op": "Placeholder", "name": "free", "dtype": "int32", "shape": [2]}, op("ConcatV2", "s", "free", [7], 0)],
        (-1, -1, 7),
    ),
    "a vector of open length": (
        [{"op": "Placeholder", "name": "free", "dtype": "int32", "shape": [-1]}, op("ConcatV2", "s", "free", [7], 0)],
        None,
    ),
    "shapes of several": (
        [op("ShapeN", "a", "x", "k"), op("ConcatV2", "s", "a:1", [7], 0)],
        (3, 4, 7),
    ),
    "arithmetic with an open part": ([op("Shape", "a", "x"), op("AddV2", "s", "a", [1, 1])], (-1, -1)),
    "a value that a step tells": ([{"op": "Placeholder", "name": "s", "dtype": "int32", "shape": [2]}], (-1, -1)),
    "a random one": ([op("RandomUniformInt", "s", [2], 1, 5, seed=1)], (-1, -1)),
    "the taken side of a known choice": ([op("Switch", "a", [5], True), op("Identity", "s", "a:1")], (5,)),
    "the other side": ([op("Switch", "a", [5], True), op("Identity", "s", "a:0")], (-1,)),
    "a side of an unknown choice": (
        [
            {"op": "Placeholder", "name": "c", "dtype": "bool", "shape": []},
            op("Switch", "a", [5], "c"),
            op("Identity", "s", "a:1"),
        ],
        (-1,),
    ),
    "a rank": ([op("Rank", "a", "x"), op("Pack", "s", "a")], (2,)),
}


@pytest.mark.parametrize("case", VALUES)
def test_shapes_that_follow_from_values(case: str) -> None:
    nodes, expected = VALUES[case]
    assert filled(nodes) == expected


@pytest.mark.parametrize(("count", "is_followed"), [(MAX_VALUE_ELEMENTS, True), (MAX_VALUE_ELEMENTS + 1, False)])
def test_large_values_are_not_followed(count: int, is_followed: bool) -> None:
    nodes: list[dict[str, Any]] = [
        {"op": "Const", "name": "many", "dtype": "int32", "value": 5, "shape": [count]},
        op("Max", "s", "many", [0], keep_dims=True),
    ]
    assert filled(nodes) == ((5,) if is_followed else (-1,))
    doubled: list[dict[str, Any]] = [
        {"op": "Const", "name": "half", "dtype": "int32", "value": 5, "shape": [128]},
        {"op": "Const", "name": "one", "dtype": "int32", "value": [5]},
        op("ConcatV2", "both", "half", "half", *(["one"] if not is_followed else []), 0),
        op("Max", "s", "both", [0], keep_dims=True),
    ]
    assert filled(doubled) == ((5,) if is_followed else (-1,))


# --- what else says a shape, and what is refused --------------------------------------------------------------------


def built(*nodes: NodeDef) -> Graph:
    graph = Graph(load_registry())
    graph.extend([NodeDef("x", "Placeholder", attrs={"dtype": FLOAT}), *nodes])
    return graph


def test_a_settled_shape_reaches_those_that_are_inferred_later() -> None:
    graph = built(NodeDef("y", "Neg", ("x",), attrs={"T": FLOAT}), NodeDef("p", "Unpack", ("x",), attrs={"T": FLOAT, "num": 2}))
    shapes = GraphShapes(graph)
    assert shapes.outputs(1) == (None,)
    shapes.settle(0, (2, 3))
    assert (shapes.outputs(0), shapes.outputs(1), shapes.outputs(2)) == (((2, 3),), (None,), ((3,), (3,)))
    shapes.forget(1)
    assert shapes.outputs(1) == ((2, 3),)
    shapes.settle(2, (7,), 1)
    assert shapes.outputs(2) == ((3,), (7,))


def test_handles_are_kept_where_something_is_known() -> None:
    shapes, handle = GraphShapes(built()), HandleShape(FLOAT, (2,))
    shapes.hold(TensorRef(0, 0), None)
    assert shapes.handle(TensorRef(0, 0)) is None
    shapes.hold(TensorRef(0, 0), handle)
    assert (shapes.handle(TensorRef(0, 0)), shapes.handle(TensorRef(0, 1))) == (handle, None)


def test_a_refusal_is_told_once_it_is_inferred() -> None:
    product = NodeDef("y", "MatMul", ("k", "k"), attrs={"T": FLOAT, "_class": ("loc:@x",)})
    graph = built(NodeDef("k", "Placeholder", attrs={"dtype": FLOAT, "shape": Shape((3, 4))}), product)
    shapes = GraphShapes(graph)
    assert shapes.refusal(1) is None
    found = shapes.refusal(2)
    assert found is not None
    assert found.node == "y"
    assert found.message.startswith("Dimensions must be equal, but are 4 and 3 for '{{node y}} = MatMul[T=DT_FLOAT, ")
    assert found.message.endswith("](k, k)' with input shapes: [3,4], [3,4].")
    assert "_class" not in found.message
    assert [error.message for error in shapes.refusals()] == [found.message]
    shapes.forget(2)
    assert GraphShapes(graph).refusals()[0].node == "y"


TWO = LibraryFunction(
    "Two",
    (FunctionArg("a", FLOAT), FunctionArg("b", FLOAT)),
    (FunctionArg("c", FLOAT, None, "a"), FunctionArg("d", FLOAT, None, "b")),
    (),
)


def call(name: str, function: str, taken: int, given: int) -> NodeDef:
    attrs = {"f": FunctionName(function), "Tin": (FLOAT,) * taken, "Tout": (FLOAT,) * given}
    return NodeDef(name, "PartitionedCall", ("x",) * taken, "", attrs)


@pytest.mark.parametrize(
    ("taken", "given", "message"),
    [
        (2, 2, None),
        (3, 3, None),
        (1, 2, "Function instantiation included invalid input index: 1 not in [0, 1)."),
        (2, 1, "Function instantiation included invalid output index: 1 not in [0, 1)."),
        (0, 0, "Function instantiation included invalid input index: 1 not in [0, 0)."),
    ],
)
def test_calls_that_tensorflow_cannot_instantiate(taken: int, given: int, message: str | None) -> None:
    graph = Graph(load_registry(), {"Two": TWO})
    graph.extend([NodeDef("x", "Placeholder", attrs={"dtype": FLOAT}), call("y", "Two", taken, given)])
    found = GraphShapes(graph).refusal(1)
    assert (None if found is None else found.message) == message
    assert found is None or found.type_name == "InternalError"
