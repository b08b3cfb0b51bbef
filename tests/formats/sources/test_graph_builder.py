"""`placesim.GraphBuilder`: graphs built in Python, which are those that a graph file's entries make."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import placesim

FILE: dict[str, Any] = {
    "nodes": [
        {
            "device": "/gpu:0",
            "nodes": [
                {
                    "scope": "tower",
                    "nodes": [
                        {"op": "Placeholder", "name": "x", "dtype": "float32", "shape": [None, 2]},
                        {"variable": "w", "shape": [2, 2], "initializer": "ones"},
                        {"op": "MatMul", "name": "y", "inputs": ["x", "w"], "attrs": {"transpose_b": True}},
                        {"op": "Split", "name": "parts", "inputs": [1, "y"], "attrs": {"num_split": 2}},
                        {
                            "op": "Add",
                            "name": "sum",
                            "inputs": ["parts", "parts:1"],
                            "device": "/cpu:0",
                            "control_inputs": ["y"],
                        },
                        {"op": "ConcatV2", "name": "both", "inputs": ["sum", "sum", 0]},
                    ],
                }
            ],
        },
        {"initializer": "init"},
    ]
}


def built() -> placesim.GraphBuilder:
    builder = placesim.GraphBuilder()
    with builder.device("/gpu:0"), builder.name_scope("tower") as scope:
        assert scope == "tower/"
        x = builder.add("Placeholder", dtype="float32", shape=[None, 2], name="x")
        w = builder.variable("w", [2, 2], initializer="ones")
        y = builder.add("MatMul", x, w, transpose_b=True, name="y")
        parts = builder.add("Split", 1, y, num_split=2, name="parts")
        total = builder.add("Add", parts, parts[1], device="/cpu:0", control_inputs=[y], name="sum")
        builder.add("ConcatV2", [total, total], 0, name="both")
    builder.initializer("init")
    return builder


def test_a_built_graph_is_the_one_of_the_file() -> None:
    assert placesim.convert(built(), format="pbtxt").content == placesim.convert(FILE, format="pbtxt").content
    assert placesim.place(built(), gpu=1).placements == placesim.place(FILE, gpu=1).placements
    assert placesim.diff(built(), FILE, gpu=2).is_same


def test_a_builder_is_a_source_of_everything_and_may_grow() -> None:
    builder = placesim.GraphBuilder("sums")
    a = builder.constant([1, 2], "float32", name="a")
    b = builder.add("Neg", a)
    assert (b.name, repr(b), repr(builder)) == ("Neg", "<placesim node Neg>", "<placesim.GraphBuilder sums: 2 nodes>")
    np.testing.assert_array_equal(placesim.run(builder).results["Neg"], [-1, -2])
    assert placesim.explain(builder, "Neg").name == "sums"
    assert placesim.check(builder, "max-transfers=0").is_kept
    assert placesim.show(builder).picture.name == "sums"
    assert placesim.simulate(builder).seconds > 0
    assert placesim.memory(builder, gpu=1).memory
    builder.add("Add", b, np.array([10, 10], np.float32), name="c")
    np.testing.assert_array_equal(placesim.run(builder, fetch="c").results["c"], [9, 8])
    with builder.control_dependencies([b]), builder.colocate_with(a):
        d = builder.add("NoOp")
    nodes = {node.name: node for node in builder.graph_file().graph.nodes}
    assert nodes[d.name].attrs["_class"] == ("loc:@a",)
    assert nodes[d.name].control_inputs == (nodes["Neg"].id,)


def test_a_variable_may_be_what_its_value_is() -> None:
    builder = placesim.GraphBuilder()
    builder.variable("v", initializer={"value": [1, 2, 3]}, kind="resource")
    handle = next(node for node in builder.graph_file().graph.nodes if node.op == "VarHandleOp")
    assert str(handle.attrs["dtype"].python_name) == "int32"


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda b, a: b.add("MatMull", a, a), "unknown op: got 'MatMull'.*did you mean 'MatMul'"),
        (lambda b, a: b.add("MatMul", a), "MatMul"),
        (lambda b, a: b.add("MatMul", a, a, transpose="yes"), "unknown attr"),
        (lambda b, a: b.add("MatMul", a, a, transpose_a="yes"), "wrong type of attr 'transpose_a': got 'yes'"),
        (lambda b, a: b.add("Add", a, a[3]), "no such output: got 'a:3'"),
        (lambda b, a: b.add("Add", a, "text"), "."),
        (lambda b, a: b.add("Neg", a, device="/gpu:x"), "."),
        (lambda b, a: b.add("Neg", a, name="no good"), "not a valid"),
        (lambda b, a: b.add("NoOp", control_inputs=["a"]), "node from elsewhere: got 'a', expected a node of this builder"),
        (lambda b, a: b.constant([1, "x"]), "."),
        (lambda b, a: b.constant(1.5, "fp16"), "unknown type: got 'fp16'"),
        (lambda b, a: b.variable("v", [2], initializer="one"), "unknown initializer: got 'one'"),
        (lambda b, a: b.variable("v"), "variable 'v' has no shape"),
        (lambda b, a: b.variable("v", [2], kind="value"), "unknown kind of variable"),
        (lambda b, a: b.variable("v", [2], initializer={"tensor": "a"}), "initializer not supported here: got 'tensor'"),
    ],
)
def test_what_is_refused_adds_nothing(make: Any, message: str) -> None:
    builder = placesim.GraphBuilder()
    a = builder.constant([[1.0]], name="a")
    with pytest.raises(placesim.GraphBuildError, match=message):
        make(builder, a)
    assert len(builder) == 1
    assert builder.add("Neg", a).name == "Neg"


def test_a_node_is_not_unpacked() -> None:
    builder = placesim.GraphBuilder()
    with pytest.raises(TypeError, match=r"select an output with \[i\]"):
        list(builder.add("Split", 0, [[1.0], [2.0]], num_split=2))
    with pytest.raises(TypeError, match="no outputs to index"):
        builder.variable("v", [1])[1]


# --- functions, conditionals, loops ---------------------------------------------------------------------------------

BODIES: dict[str, Any] = {
    "functions": [
        {
            "name": "twice",
            "inputs": {"x": {"type_attr": "T"}},
            "nodes": [{"op": "AddV2", "name": "sum", "inputs": ["x", "x"]}],
            "outputs": {"y": "sum"},
        },
        {
            "name": "norm",
            "inputs": {"x": "float32", "p": {"type": "bool", "shape": []}},
            "nodes": [
                {"device": "/cpu:0", "nodes": [{"op": "Square", "name": "square", "inputs": ["x"]}]},
                {"op": "twice", "id": "more", "inputs": ["square"]},
                {
                    "id": "result",
                    "cond": {
                        "if": "p",
                        "then": {"op": "Mul", "inputs": ["more", 2.0]},
                        "else": {"op": "Identity", "inputs": ["more"]},
                    },
                },
            ],
            "outputs": {"result": "result"},
        },
    ],
    "nodes": [
        {"op": "Const", "name": "x", "value": 3.0},
        {"op": "Const", "name": "p", "value": True},
        {"variable": "r", "shape": [], "initializer": "ones", "kind": "resource"},
        {"op": "norm", "name": "call", "inputs": ["x", "p"]},
        {
            "name": "choose",
            "cond": {
                "if": "p",
                "then": [
                    {"op": "AssignAddVariableOp", "id": "add", "inputs": ["r", "x"]},
                    {"control_inputs": ["add", "call"], "nodes": [{"op": "Mul", "id": "a", "inputs": ["x", "r"]}]},
                    {"op": "twice", "id": "b", "inputs": ["a"], "device": "/cpu:0", "colocate_with": "x"},
                ],
                "else": [{"op": "Neg", "id": "a", "inputs": ["x"]}, {"op": "Abs", "id": "b", "inputs": ["x"]}],
                "outputs": ["a", "b"],
            },
        },
        {
            "while": {
                "loop_vars": {"i": 0, "z": "b"},
                "cond": {"op": "Less", "inputs": ["i", 3]},
                "body": [{"op": "AddV2", "id": "i", "inputs": ["i", 1]}, {"op": "Mul", "id": "z", "inputs": ["z", "x"]}],
                "maximum_iterations": 7,
                "shape_invariants": {"z": "unknown"},
            }
        },
        {"op": "Neg", "name": "last", "inputs": ["z"]},
        {"initializer": "init"},
    ],
}


def built_with_bodies() -> placesim.GraphBuilder:
    builder = placesim.GraphBuilder()
    add = builder.add
    builder.function("twice", {"x": {"type_attr": "T"}}, lambda x: {"y": add("AddV2", x, x, name="sum")})

    def norm(x: Any, p: Any) -> Any:
        with builder.device("/cpu:0"):
            square = add("Square", x, name="square")
        more = add("twice", square)
        return {"result": builder.cond(p, lambda: add("Mul", more, 2.0), lambda: add("Identity", more))}

    assert builder.function("norm", {"x": "float32", "p": {"type": "bool", "shape": []}}, norm) == "norm"
    x = builder.constant(3.0, name="x")
    p = builder.constant(True, name="p")
    r = builder.variable("r", [], initializer="ones", kind="resource")
    call = add("norm", x, p, name="call")

    def then() -> list[Any]:
        added = add("AssignAddVariableOp", r, x)
        with builder.control_dependencies([added, call]):
            a = add("Mul", x, r)
        with builder.colocate_with(x):
            return [a, add("twice", a, device="/cpu:0")]

    _, b = builder.cond(p, then, lambda: [add("Neg", x), add("Abs", x)], name="choose")
    _, z = builder.while_loop(
        lambda i, z: add("Less", i, 3),
        lambda i, z: [add("AddV2", i, 1), add("Mul", z, x)],
        [0, b],
        maximum_iterations=7,
        shape_invariants=[None, "unknown"],
    )
    add("Neg", z, name="last")
    builder.initializer("init")
    return builder


def test_functions_and_bodies_are_those_of_a_file() -> None:
    builder = built_with_bodies()
    made, file = (placesim.convert(each, format="pbtxt").content for each in (builder, BODIES))
    assert made == file
    assert len(builder) == len(builder.graph_file().graph) == 22
    steps = [{"fetch": ["init"]}, {"fetch": ["last", "call"]}]
    assert [float(row.value) for row in placesim.run({**BODIES, "run": steps}).results] == [-648.0, 36.0]


def test_a_body_may_use_what_bodies_around_it_made() -> None:
    builder = placesim.GraphBuilder()
    x, p = builder.constant(2.0), builder.constant(True)

    def inner(y: Any) -> Any:
        return builder.cond(p, lambda: builder.add("Mul", x, y), lambda: builder.add("Neg", y))

    def outer() -> Any:
        y = builder.add("Square", x)
        return inner(y)

    found = builder.cond(p, outer, lambda: x, name="outer")
    assert found.name == "outer/Identity"
    assert placesim.run(builder, fetch=found.name).results[found.name] == 8.0


def test_what_is_refused_in_a_body_adds_nothing() -> None:
    builder = placesim.GraphBuilder()
    x, p = builder.constant(2.0, name="x"), builder.constant(True, name="p")
    kept: list[Any] = []

    def keeps() -> Any:
        kept.append(builder.add("Neg", x))
        return kept[0]

    builder.cond(p, keeps, lambda: x, name="first")
    nodes, functions = len(builder), list(builder.graph_file().graph.functions)

    def goes_on() -> Any:
        with pytest.raises(placesim.GraphBuildError):
            builder.add("Neg", True)
        return builder.add("Neg", x)

    def fails() -> Any:
        raise ZeroDivisionError("of the script")

    for then, message in (
        (lambda: builder.add("Neg", True), "parameter 'x' has DataType bool"),
        (goes_on, "parameter 'x' has DataType bool"),
        (
            lambda: kept[0],
            "node from elsewhere: got <placesim node Neg>, expected a node of this builder, not of a finished body",
        ),
        (lambda: builder.variable("v", [1]), "variable in a body"),
        (lambda: [x, x], "branches of 2 and 1 results"),
        (lambda: builder.add("IsFinite", x), "must have the same number, type"),
        (lambda: object(), "."),
    ):
        with pytest.raises(placesim.GraphBuildError, match=message):
            builder.cond(p, then, lambda: x)
    with pytest.raises(ZeroDivisionError, match="of the script"):
        builder.cond(p, fails, lambda: x)
    with pytest.raises(placesim.GraphBuildError, match="enters the loop with type"):
        builder.while_loop(lambda i: builder.add("Less", i, 3), lambda i: [x], [0])
    assert (len(builder), list(builder.graph_file().graph.functions)) == (nodes, functions)
    assert builder.cond(p, lambda: x, lambda: x, name="after").name == "after/Identity"


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda b, x: b.function("f", {"y": "flaot"}, lambda y: y), "unknown type: got 'flaot'"),
        (lambda b, x: b.function("Neg", {}, lambda: None), "Cannot add function 'Neg' because an op"),
        (lambda b, x: b.function("known", {}, lambda: None), "duplicate function: got 'known'"),
        (
            lambda b, x: b.function("f", {}, lambda: x),
            "node from elsewhere: got <placesim node x>, expected a node of this function",
        ),
        (lambda b, x: b.function("f", {}, lambda: 3), "not a function result: got 3"),
        (lambda b, x: b.function("f", {}, lambda: b.add("NoOp")), "not a function result"),
        (lambda b, x: b.function("f", {}, lambda: b.initializer()), "initializer in a function"),
        (
            lambda b, x: b.function("f", {"p": {"type_attr": "T"}}, lambda p: b.cond(p, b.add, b.add)),
            "in a function with type attrs",
        ),
        (lambda b, x: b.function("f", {"y": {"type_attr": "T"}}, lambda y: b.add("Mul", y, 2.0)), "literal of an open type"),
        (lambda b, x: b.add("knwon", x), "unknown op: got 'knwon'.*did you mean 'known'"),
        (lambda b, x: b.while_loop(lambda i: i, lambda i: [i], [0], shape_invariants=[3]), "wrong type of a shape"),
    ],
)
def test_what_functions_are_refused(make: Any, message: str) -> None:
    builder = placesim.GraphBuilder()
    builder.function("known", {"x": "float32"}, lambda x: x)
    x = builder.constant(1.0, name="x")
    with pytest.raises(placesim.GraphBuildError, match=message):
        make(builder, x)
    graph = builder.graph_file().graph
    assert (len(graph), list(graph.functions)) == (1, ["known"])
    assert builder.add("known", x).name == "known"
