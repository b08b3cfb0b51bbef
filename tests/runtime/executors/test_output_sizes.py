"""Sizes are looked at before they are allocated: TensorFlow's error, with the node, and nothing that fills the memory."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import placesim
from placesim.core.operating_system import free_bytes

LIMIT = "64MiB"
HUGE = 10**12


def const(name: str, value: Any, dtype: str = "float") -> dict[str, Any]:
    return {"op": "Const", "name": name, "value": value, "dtype": dtype}


def run_error(nodes: list[dict[str, Any]], **options: Any) -> placesim.PlacesimError:
    with pytest.raises(placesim.OpError) as caught:
        placesim.run({"nodes": nodes, "fetch": ["o"]}, **{"memory_limit": LIMIT, **options})
    return caught.value


def long(name: str, value: Any) -> dict[str, Any]:
    return const(name, value, "int64")


def integer(name: str, value: Any) -> dict[str, Any]:
    return const(name, value, "int32")


SPELLED: dict[str, tuple[str, str, list[dict[str, Any]], dict[str, Any]]] = {
    # op: (shape, type, its inputs, its attrs)
    "Fill": ("1000000000000", "float", [long("a", [HUGE]), const("b", 1.0)], {}),
    "Range": ("1000000000000", "int64", [long("a", 0), long("b", HUGE), long("c", 1)], {}),
    "Tile": ("2000000000000", "float", [const("a", [1.0, 2.0]), long("b", [HUGE])], {}),
    "RandomUniform": ("1000000000000", "float", [long("a", [HUGE])], {"dtype": "float"}),
    "LinSpace": ("1000000000000", "float", [const("a", 1.0), const("b", 2.0), long("c", HUGE)], {}),
    "Pad": ("1000000000001", "float", [const("a", [1.0]), long("b", [[0, HUGE]])], {}),
    "BroadcastTo": ("1000000000000", "float", [const("a", [1.0]), long("b", [HUGE])], {}),
    "ScatterNd": ("1000000000000", "float", [long("a", [[0]]), const("b", [1.0]), long("c", [HUGE])], {}),
    "DenseBincount": ("1099511627776", "double", [long("a", [1]), long("b", 1 << 40), const("c", [], "double")], {}),
    "SegmentSum": ("1000000000001", "float", [const("a", [1.0]), long("b", [HUGE])], {}),
    "UnsortedSegmentSum": ("2147483647", "float", [const("a", [1.0]), integer("b", [0]), integer("c", 2**31 - 1)], {}),
    "OneHot": ("1,2147483647", "float", [integer("a", [1]), integer("b", 2**31 - 1), const("c", 1.0), const("d", 0.0)], {}),
    "Empty": ("1073741824,1024", "float", [integer("a", [1 << 30, 1 << 10])], {"dtype": "float"}),
    "TensorListReserve": ("2147483647", "variant", [integer("a", [1]), integer("b", 2**31 - 1)], {"element_dtype": "float"}),
    "RaggedRange": ("1000000000000", "int64", [long("a", [0]), long("b", [HUGE]), long("c", [1])], {}),
    "ResizeBilinear": ("1,1048576,1048576,1", "float", [const("a", [[[[1.0]]]]), integer("b", [1 << 20, 1 << 20])], {}),
}


@pytest.mark.parametrize("op", SPELLED)
def test_a_size_that_a_value_spells(op: str) -> None:
    shape, dtype, inputs, attrs = SPELLED[op]
    node = {"op": op, "name": "o", "inputs": [i["name"] for i in inputs], "attrs": attrs}
    error = run_error([*inputs, node])
    assert isinstance(error, placesim.ResourceExhaustedError)
    where = "/job:localhost/replica:0/task:0/device:CPU:0 by allocator cpu"
    assert str(error) == f"OOM when allocating tensor with shape[{shape}] and type {dtype} on {where}\n\t [[{{{{node o}}}}]]"
    assert (error.node, error.location) == ("o", None) or error.location is not None


@pytest.mark.parametrize("op", ["Fill", "Range"])
def test_what_the_machine_has_free_is_the_limit_where_none_is_given(op: str) -> None:
    _, _, inputs, attrs = SPELLED[op]
    node = {"op": op, "name": "o", "inputs": [i["name"] for i in inputs], "attrs": attrs}
    assert free_bytes() < 4 * HUGE
    assert isinstance(run_error([*inputs, node], memory_limit=None), placesim.ResourceExhaustedError)


@pytest.mark.parametrize("op", ["Mul", "MatMul", "Less"])
def test_an_output_that_is_larger_than_its_inputs(op: str) -> None:
    fed = [{"op": "Placeholder", "name": name, "dtype": "float"} for name in ("x", "y")]
    feed = {"x": np.zeros((10**5, 1), np.float32), "y": np.zeros((1, 10**5), np.float32)}
    error = run_error([*fed, {"op": op, "name": "o", "inputs": ["x", "y"]}], feed=feed)
    assert "OOM when allocating tensor with shape[100000,100000]" in str(error)


def test_a_tensor_array_of_too_many_elements() -> None:
    array = {"op": "TensorArrayV3", "name": "t", "inputs": ["n"], "attrs": {"dtype": "float"}}
    size = {"op": "TensorArraySizeV3", "name": "o", "inputs": ["t:0", "t:1"]}
    assert run_error([integer("n", 2**31 - 1), array, size]).node == "t"


@pytest.mark.parametrize("generator", [{"zeros": [HUGE]}, {"random_normal": [HUGE]}])
def test_a_generated_feed(generator: dict[str, Any]) -> None:
    error = run_error([{"op": "Placeholder", "name": "o", "dtype": "float"}], feed={"o": generator})
    assert "OOM when allocating tensor with shape[1000000000000] and type float" in str(error)


def test_a_size_that_overflows() -> None:
    node = {"op": "RandomUniform", "name": "o", "inputs": ["a"], "attrs": {"dtype": "float"}}
    error = run_error([long("a", [1 << 40, 1 << 40]), node])
    assert "Shape [1099511627776,1099511627776] would have more than 2**63 - 1 elements" in str(error)


def test_on_a_simulated_gpu_its_allocator_is_named() -> None:
    node = {"op": "Fill", "name": "o", "inputs": ["a", "b"], "device": "/device:GPU:1"}
    error = run_error([integer("a", [1 << 30]), const("b", 1.0), node], gpu=2)
    assert "device:GPU:1 by allocator GPU_1_bfc" in str(error)


@pytest.mark.parametrize(("elements", "fits"), [(100_000, True), (300_000, False)])
def test_a_limit_holds_for_a_tensor_alone(elements: int, fits: bool) -> None:
    graph = {"nodes": [{"op": "Placeholder", "name": "x", "dtype": "float"}, {"op": "Neg", "name": "o", "inputs": ["x"]}]}
    feed = {"x": np.zeros(elements, np.float32)}
    if fits:
        assert placesim.run(graph, feed=feed, memory_limit="1MiB").results["o"].shape == (elements,)
    else:
        with pytest.raises(placesim.ResourceExhaustedError):
            placesim.run(graph, feed=feed, memory_limit=1 << 20)


@pytest.mark.parametrize("limit", ["", "many", 0, -1, "1e9999GiB", "9" * 400 + "GiB", 10**400])
def test_a_limit_that_is_none(limit: Any) -> None:
    with pytest.raises(placesim.UsageError, match="memory limit"):
        placesim.run({"nodes": [{"op": "NoOp"}]}, memory_limit=limit)


def test_a_reference_to_a_variable_of_integers_spells_no_size() -> None:
    nodes = [{"variable": "v", "kind": "ref", "shape": [], "dtype": "int32", "initializer": "zeros"}, {"initializer": "init"}]
    add = {"op": "AssignAdd", "name": "o", "inputs": ["v", 2]}
    steps = [{"fetch": ["init"]}, {"fetch": ["o:0"]}]
    assert placesim.run({"nodes": [*nodes, add], "run": steps}).results["o"] == 2
