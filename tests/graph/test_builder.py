"""The builder as a Python API, and its laws."""

from __future__ import annotations

from contextlib import ExitStack

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from placesim.core.dtypes import FLOAT, INT64
from placesim.core.errors import GraphBuildError
from placesim.graph.builder import ScopedGraphBuilder
from placesim.graph.variables import InitializerSpec, add_global_initializer, add_variable, glorot_limit
from placesim.machine.device_names import DeviceName
from placesim.ops.registry import load_registry


def new_builder() -> ScopedGraphBuilder:
    return ScopedGraphBuilder(load_registry())


DEVICES = [
    # enclosing, inner, requested (2.1.4)
    (("/job:worker", "/device:GPU:0"), "/cpu:1", "/job:worker/device:CPU:1"),
    (("/job:worker", "/device:GPU:0"), "/task:3", "/job:worker/task:3/device:GPU:0"),
    (("/job:worker", "/device:GPU:0"), "", "/job:worker/device:GPU:0"),
    (("/job:worker", "/device:GPU:0"), None, ""),
    (("/job:worker", "/device:GPU:0"), "/gpu:*", "/job:worker/device:GPU:0"),
    (("/gpu:3",), "/device:CPU:*", "/device:CPU:3"),
    (("/job:worker", "/device:GPU:0", None), "/cpu:0", "/device:CPU:0"),
    (("/job:worker", "/device:GPU:0"), DeviceName(job="ps", task=2), "/job:ps/task:2/device:GPU:0"),
]


@pytest.mark.parametrize(("outer", "inner", "requested"), DEVICES)
def test_device_scopes(outer: tuple[str | None, ...], inner: str | DeviceName | None, requested: str) -> None:
    builder = new_builder()
    with ExitStack() as scopes:
        for device in (*outer, inner):
            scopes.enter_context(builder.device(device))
        assert builder.add("NoOp").device == requested


def test_unique_names() -> None:
    builder = new_builder()
    names = [builder.add("NoOp", name=name).name for name in ("c", "c", "C", "c_1", "c")]
    assert names == ["c", "c_1", "C_2", "c_1_1", "c_3"]


def test_colocation_is_flattened_to_roots() -> None:
    builder = new_builder()
    u = builder.add("NoOp", name="u")
    with builder.colocate_with([u]):
        y = builder.add("NoOp", name="y")
    with builder.colocate_with([y]):
        assert builder.add("NoOp", name="z").attrs["_class"] == ("loc:@u",)


def test_control_dependencies_are_pruned() -> None:
    builder = new_builder()
    n = builder.add("NoOp", name="n")
    with builder.control_dependencies([n]):
        a = builder.constant(1.0, name="a")
        b = builder.add("Identity", [a], name="b")
        with builder.control_dependencies(None):
            c = builder.add("NoOp")
    assert (a.control_inputs, b.control_inputs, c.control_inputs) == ((n.id,), (), ())


def test_attrs_of_equal_content_are_one() -> None:
    builder = new_builder()
    x = builder.constant(np.zeros(3, np.float32))
    assert builder.add("Neg", [x]).attrs is builder.add("Neg", [x], attrs={"T": FLOAT}).attrs


def test_a_failed_node_leaves_nothing() -> None:
    builder = new_builder()
    x = builder.constant(1.0)
    with pytest.raises(GraphBuildError, match="does not match type float32 of argument 'x'"):
        builder.add("Add", [x, "text"])
    with pytest.raises(GraphBuildError):
        builder.add("Pack", [x, 2.0, "text"])
    assert [node.name for node in builder.graph.nodes] == ["Const"]
    assert list(builder.graph.ids) == ["Const"]
    waited_for = [builder.add("NoOp", name=name) for name in ("b", "a")]
    with builder.control_dependencies(waited_for), pytest.raises(GraphBuildError):
        builder.add("Add", [2.0, "text"])
    assert not builder.control_orders


def test_a_literal_takes_the_default_type_of_its_attr() -> None:
    builder = new_builder()
    builder.add("OneHot", [[1, 2], 3, 1.0, 0.0])
    assert [node.attrs["dtype"].name for node in builder.graph.nodes[:-1]] == ["int64", "int32", "float", "float"]


def test_variables() -> None:
    builder = new_builder()
    ref = add_variable(builder, "v", [2], FLOAT)
    handle = add_variable(builder, "r", [2], INT64, InitializerSpec("constant", {"constant": 3}), "resource")
    builder.add("Add", [ref, ref])
    read = builder.add("Neg", [handle], name="n")
    assert builder.graph.input_texts(read) == ["n/ReadVariableOp"]
    init = add_global_initializer(builder)
    assert builder.graph.input_texts(init) == ["^r/Assign", "^v/Assign"]


@pytest.mark.parametrize(("shape", "limit"), [((), 3**0.5), ((2, 2), 1.5**0.5), ((3, 3, 2, 4), 1 / 3)])
def test_glorot(shape: tuple[int, ...], limit: float) -> None:
    assert glorot_limit(shape) == pytest.approx(limit)


EDGES = st.lists(st.tuples(st.integers(0, 9), st.integers(0, 9), st.sampled_from(["", "/cpu:0", "/gpu:1"])), max_size=10)


@given(EDGES, st.permutations([f"n{i}" for i in range(12)]))
def test_renaming_changes_names_only(edges: list[tuple[int, int, str]], names: list[str]) -> None:
    def build(spelling: list[str]) -> list[object]:
        builder = new_builder()
        nodes = [builder.constant(1.0, name=spelling[0])]
        for i, (left, right, device) in enumerate(edges):
            with builder.device(device):
                inputs = [nodes[left % len(nodes)], nodes[right % len(nodes)]]
                nodes.append(builder.add("Add", inputs, name=spelling[i + 1]))
        return [(node.op, node.input_nodes, node.device, node.attrs.get("T")) for node in nodes]

    assert build(names) == build([f"n{i}" for i in range(12)])


def test_names_of_nodes_that_were_made_elsewhere_are_in_use() -> None:
    builder = ScopedGraphBuilder(load_registry())
    for name in ("before", "neg", "neg_1"):
        builder.graph.add(name, "NoOp", {})
    builder.use_names_from(1)
    assert [builder.unique_name(name) for name in ("Neg", "neg", "neg_1", "before", "before", "new")] == [
        "Neg_2",
        "neg_3",
        "neg_1_1",
        "before",
        "before_1",
        "new",
    ]
