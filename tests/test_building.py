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
        (lambda b, a: b.add("NoOp", control_inputs=["a"]), "no node of this builder: got 'a'"),
        (lambda b, a: b.constant([1, "x"]), "."),
        (lambda b, a: b.constant(1.5, "fp16"), "unknown type: got 'fp16'"),
        (lambda b, a: b.variable("v", [2], initializer="one"), "unknown initializer: got 'one'"),
        (lambda b, a: b.variable("v"), "no shape of variable 'v'"),
        (lambda b, a: b.variable("v", [2], kind="value"), "unknown kind of variable"),
        (lambda b, a: b.variable("v", [2], initializer={"tensor": "a"}), "no variable of a tensor here"),
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
    with pytest.raises(TypeError, match=r"choose an output with \[i\]"):
        list(builder.add("Split", 0, [[1.0], [2.0]], num_split=2))
    with pytest.raises(TypeError, match="no outputs to choose from"):
        builder.variable("v", [1])[1]
