"""Nodes that fail, by each way in which they may run, and what is said of sizes that nobody can have."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest

from placesim.api.runs import run
from placesim.core.dtypes import FLOAT
from placesim.core.errors import InternalError, InvalidArgumentError
from placesim.graph.graph import Graph, Node, NodeDef
from placesim.machine.inventory import TaskInventory, build_devices
from placesim.ops.kernels import load_kernels
from placesim.ops.kernels.shapes import Dims, ShapeContext
from placesim.ops.process.memory_limit import ProcessMemory
from placesim.ops.registry import load_registry
from placesim.runtime.executors.output_sizes import AllocationCheck, is_too_big
from placesim.runtime.executors.program import DeviceState, build_program, kernel_defect, output_count_error
from tests.runtime.sessions.graphs import fetch, make_session

FLOATS = {"T": "float"}


def op(name: str, kind: str, *inputs: Any, **attrs: Any) -> dict[str, Any]:
    return {"op": kind, "name": name, "inputs": list(inputs), "attrs": attrs}


RAW = op("x", "Placeholder", dtype="float")
X = {"op": "Placeholder", "name": "x", "dtype": "float"}
LOOP = [op("e", "Enter", "x", frame_name="f", **FLOATS), op("out", "Exit", "e", **FLOATS)]


@pytest.mark.parametrize("more", [[], LOOP], ids=["in a fixed order", "as data flows"])
def test_an_argument_of_no_call(more: list[dict[str, Any]]) -> None:
    nodes = [RAW, {"op": "_Arg", "name": "a", "attrs": {**FLOATS, "index": 3}}]
    session = make_session([*nodes, *more, op("n", "Neg", "a", **FLOATS)], raw=True)
    with pytest.raises(InvalidArgumentError, match="Argument 3 has no value: the step does not feed it") as caught:
        fetch(session, "n:0", *(["out:0"] if more else []), x=1.0)
    assert caught.value.node == "a"


def test_a_tensor_that_nobody_sends() -> None:
    attrs = {
        "tensor_type": "float", "tensor_name": "t", "send_device": "/cpu:0", "send_device_incarnation": 1,
        "recv_device": "/cpu:0", "client_terminated": False,
    }  # fmt: skip
    session = make_session([RAW, *LOOP, {"op": "_Recv", "name": "r", "attrs": attrs}], raw=True)
    with pytest.raises(InternalError, match=r"^\{\{node r\}\} waits for a tensor that is never sent"):
        fetch(session, "r:0", "out:0", x=1.0)


@pytest.mark.parametrize("threads", [-1, 4])
@pytest.mark.parametrize("size", [1, 20_000], ids=["small", "large"])
def test_an_error_is_the_node_s_however_it_runs(threads: int, size: int) -> None:
    nodes = [
        X,
        {**X, "name": "y"},
        op("sum", "AddV2", "x", "y"),
        op("p", "MatMul", "x", "y"),
        op("q", "MatMul", "y", "x"),
        op("both", "AddN", "p", "q"),
    ]
    session = make_session(nodes, inter_op_parallelism_threads=threads, use_per_session_threads=threads > 0)
    x, y = np.zeros((2 * size, 2), np.float32), np.zeros((3 * size, 2), np.float32)
    with pytest.raises(InvalidArgumentError, match="Incompatible shapes: ") as caught:
        fetch(session, "sum", x=x, y=y)
    assert caught.value.node == "sum"
    with pytest.raises(InvalidArgumentError, match="Matrix size-incompatible: ") as caught:
        fetch(session, "both", x=x, y=y)
    assert caught.value.node in ("p", "q")
    assert fetch(session, "sum", x=x, y=x).shape == x.shape


def test_constants_that_do_not_fit() -> None:
    session = make_session([op("n", "AddV2", [1.0, 2.0], [1.0, 2.0, 3.0]), op("m", "Less", [1.0, 2.0], [1.0, 2.0, 3.0])])
    for name in "nm":
        with pytest.raises(InvalidArgumentError, match=r"Incompatible shapes: \[2\] vs. \[3\]") as caught:
            fetch(session, name)
        assert caught.value.node == name


@pytest.mark.parametrize(("index", "expected"), [(0, 1.0), (1, 4.0), (2, 8.0), (3, 8.0), (-1, 8.0)])
@pytest.mark.parametrize("is_lowered", [False, True])
def test_a_branch_that_is_not_there_is_the_last(index: int, expected: float, is_lowered: bool) -> None:
    def power(name: str, kind: str) -> dict[str, Any]:
        ends = {"inputs": [{"name": "x", "type": "float"}], "outputs": [{"name": "z", "type": "float", "value": "n:z:0"}]}
        return {"name": name, "nodes": [op("n", kind, "x", "x", **FLOATS)], **ends}

    mark = {"_lower_using_switch_merge": True} if is_lowered else {}
    branches = [{"func": name} for name in ("one", "square", "cube")]
    case = op("c", "Case", index, 2.0, branches=branches, Tin=["float"], Tout=["float"], **mark)
    functions = [power("one", "Div"), power("square", "Mul"), CUBE]
    assert run({"nodes": [case], "functions": functions, "run": [{"fetch": ["c"]}]}).results["c"] == expected


CUBE = {
    "name": "cube",
    "inputs": [{"name": "x", "type": "float"}],
    "outputs": [{"name": "z", "type": "float", "value": "m:z:0"}],
    "nodes": [op("n", "Mul", "x", "x", **FLOATS), op("m", "Mul", "n:z:0", "x", **FLOATS)],
}


# --- sizes and defects ----------------------------------------------------------------------------------------------


def node_of(kind: str, **attrs: Any) -> tuple[Graph, Node]:
    graph = Graph(load_registry())
    graph.extend([NodeDef("x", "Placeholder", attrs={"dtype": FLOAT}), NodeDef("n", kind, ("x",), attrs=attrs)])
    return graph, graph.node("n")


class SizeError(Exception):
    """An error of numpy's for an array that has no room."""

    def __init__(self, **facts: Any) -> None:
        super().__init__()
        self.__dict__.update(facts)


@pytest.mark.parametrize(
    ("error", "said"),
    [
        (SizeError(shape=(2, 3), dtype="int8"), "shape[2,3] and type int8"),
        (SizeError(shape=(2,), dtype=np.dtype(np.float32)), "shape[2] and type float"),
        (SizeError(shape=(2,), dtype=np.dtype(np.float64)), "shape[2] and type double"),
        (SizeError(), "shape[] and type float"),
    ],
)
def test_what_numpy_has_no_room_for_is_tensorflow_s_error(error: Exception, said: str) -> None:
    _, node = node_of("Neg", T=FLOAT)
    check = AllocationCheck(load_kernels()["Neg"], node, {}, ProcessMemory(), "/cpu:0")
    assert f"OOM when allocating tensor with {said} on /cpu:0 by allocator" in check.refuse(error).message


@pytest.mark.parametrize(
    ("text", "is_size"),
    [
        ("array is too big; `arr.size * arr.dtype.itemsize` is larger than the maximum possible size.", True),
        ("Maximum allowed dimension exceeded", True),
        ("Maximum allowed size exceeded", True),
        ("operands could not be broadcast together", False),
        ("", False),
    ],
)
def test_sizes_that_no_array_can_have(text: str, is_size: bool) -> None:
    assert is_too_big(ValueError(text)) is is_size


def test_outputs_are_inferred_once_for_inputs_that_are_alike() -> None:
    _, node = node_of("Neg", T=FLOAT)
    seen: list[Any] = []

    def shape(context: ShapeContext) -> Sequence[Dims]:
        seen.append(context.shapes)
        return context.shapes

    kernel = load_kernels()["Neg"]._replace(shape=shape)
    check = AllocationCheck(kernel, node, {}, ProcessMemory(1 << 20), "/cpu:0")
    for size in (2, 3, 2, 3):
        check.check([np.zeros(size, np.float32)])
    assert seen == [((2,),), ((3,),)]
    for size in range(10, 521):
        check.check([np.zeros(size, np.float32)])
    assert len(check._remembered) == 1
    seen.clear()
    check.check([np.zeros(2, np.float32)])
    assert seen == [((2,),)]


def test_a_defect_tells_what_is_needed_to_find_it() -> None:
    graph, _ = node_of("Neg", T=FLOAT)
    (device,) = build_devices([TaskInventory()])
    program = build_program(graph, DeviceState(device), load_kernels(), {})
    values = [np.zeros((2, 3), np.float32), np.int64(1), None]
    error = kernel_defect(KeyError("k"), program, program.instructions[1], values)
    assert error.message == "{{node n}} (op Neg) failed with KeyError: 'k'"
    assert error.help[0] == "its inputs: float32[2,3], int64[], NoneType"
    assert kernel_defect(KeyError("k"), program, program.instructions[1], ()).help[0] == "its inputs: none"
    assert (error.node, error.device, type(error.__cause__)) == ("n", device.name, KeyError)


def test_outputs_that_are_missing_or_too_many() -> None:
    _, node = node_of("Neg", T=FLOAT)
    assert output_count_error(node, 0).message == "Missing 0-th output from {{node n}}"
    assert output_count_error(node, 2).message == "{{node n}} gave 2 outputs, but has 1"
