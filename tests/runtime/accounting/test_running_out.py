"""Devices that run out of memory: TensorFlow's error and log, whose the memory is, and what a session is like afterwards."""

from __future__ import annotations

from math import prod
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import placesim
from placesim.core.dtypes import BFLOAT16, BOOL, COMPLEX64, DOUBLE, DTYPES, FLOAT, INT64, STRING, UINT8, DataType
from placesim.core.errors import InvalidArgumentError, OpError, ResourceExhaustedError
from placesim.formats.graph_file.reader import graph_file_from_mapping
from placesim.graph.session_steps import Fetch, GraphStep
from placesim.machine.inventory import TaskInventory, build_devices
from placesim.machine.memory.allocator import BfcAllocator
from placesim.machine.memory.allocator_log import DumpLine
from placesim.machine.memory.allocator_settings import BfcOptions
from placesim.machine.memory.buffer_sources import AllocatedMemory
from placesim.machine.memory.sub_allocator import host_memory
from placesim.ops.attributes import TensorValue
from placesim.runtime.accounting.ledger import Ledger
from placesim.runtime.accounting.out_of_memory import ReportOptions
from placesim.runtime.accounting.tensor_text import ProtoText
from placesim.runtime.sessions.session import GraphSession
from tests.runtime.accounting import oom
from tests.runtime.accounting.compare import read_cases

FILE = Path(__file__).parent.parent.parent / "data" / "memory" / "oom.jsonl.gz"
CASES = {case["id"]: case for case in read_cases(FILE)}
HINT = (
    "\nHint: If you want to see a list of allocated tensors when OOM happens, add report_tensor_allocations_upon_oom to "
    "RunOptions for current allocation info. This isn't available when running in Eager mode.\n"
)
Node = dict[str, Any]


@pytest.mark.slow
@pytest.mark.parametrize("name", CASES)
def test_recorded_steps_agree(name: str) -> None:
    assert not list(oom.differences(CASES[name]))


def test_every_graph_has_its_recording() -> None:
    assert oom.graphs().keys() == CASES.keys()


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"limit_mb": 64}, "code"),
        ({"limit_mb": 15}, "log["),
        ({"options": {"report": True}}, "message"),
        ({"log": CASES["bfc/fill"]["log"][1:]}, "log[0]"),
        ({"id": "bfc/new"}, "no graph in oom-graphs.yaml for fetch = tf1.fill([3000, 3000], 1.0)"),
    ],
    ids=["roomy", "narrow", "reported", "line", "unknown"],
)
def test_the_comparison_notices(change: dict[str, Any], said: str) -> None:
    case = {**CASES["bfc/fill"], **change}
    assert any(line.startswith(said) for line in oom.differences(case))


# --- a session of our own -------------------------------------------------------------------------------------------


class SmallSession:
    """A session on a CPU whose allocator has 16 MiB, in one region, and what it logs."""

    def __init__(self, nodes: list[Node], limit: int = 16 << 20, *, report: bool = False, **file: Any) -> None:
        self.log: list[DumpLine] = []
        allocator = BfcAllocator("GPU_0_bfc", limit, host_memory(), BfcOptions(False, False), log=self.log.append)
        self.source = AllocatedMemory(allocator)
        ledger = Ledger({oom.DEVICE: self.source}, {oom.DEVICE: self.source}, ReportOptions(report), self.log.append)
        self.file = graph_file_from_mapping({"nodes": nodes, **file})
        self.session = GraphSession(self.file.graph, build_devices((TaskInventory(),)), ledger=ledger)

    def fails(self, *fetches: str) -> OpError:
        with pytest.raises(OpError) as caught:
            self.run(*fetches)
        return caught.value

    def run(self, *fetches: str) -> list[Any]:
        found = self.session.run(GraphStep(tuple(Fetch(name) for name in fetches)))
        return [value.value for value in found.values]


def fill(name: str, rows: int, **more: Any) -> Node:
    return {"op": "Fill", "name": name, "inputs": [[rows, 1024], 1.0], **more}


def test_tensors_are_freed_and_a_following_step_works() -> None:
    small = SmallSession([fill("large", 5000), fill("some", 1024), {"op": "Neg", "name": "minus", "inputs": ["some"]}])
    error = small.fails("large")
    assert isinstance(error, ResourceExhaustedError)
    assert small.source.in_use == sum(buffer.allocated for buffer in small.source.live) == 2 * 256
    (value,) = small.run("minus")
    assert value.shape == (1024, 1024)


@pytest.mark.parametrize(
    ("op", "one", "two", "line"),
    [
        ("Sub", [2000, 1600], [2000, 1600], "cwise_ops_common.h:111"),
        ("Sub", [], [2000, 1600], "cwise_ops_common.h:124"),
        ("Mul", [2000, 1600], [], "cwise_ops_common.h:138"),
        ("AddV2", [2000, 1600], [1600], "cwise_ops_common.cc:82"),
        ("AddV2", [3000, 1], [1, 3000], "cwise_ops_common.cc:82"),
        ("Less", [6000, 1], [1, 6000], "cwise_ops_common.cc:82"),
    ],
)
def test_an_op_with_two_inputs_names_the_line_for_their_shapes(op: str, one: list[int], two: list[int], line: str) -> None:
    """The lines are TensorFlow 2.21's own. Both inputs fit, and are kept, so that the output does not."""
    # the smaller first: the allocator would not split what the larger leaves
    fills: list[Node] = [{"op": "Fill", "name": name, "inputs": [dims, 1.0]} for name, dims in (("one", one), ("two", two))]
    fills.sort(key=lambda node: prod(node["inputs"][0]))
    small = SmallSession(
        [*fills, {"op": op, "name": "both", "inputs": ["one", "two"]}], (1 << 20) + 4 * (prod(one) + prod(two))
    )
    assert small.fails("one", "two", "both").node == "both"
    assert any(f"OP_REQUIRES failed at {line} : " in text.text for text in small.log)


def test_the_filter_s_gradient_of_an_empty_batch_takes_unrolled_images() -> None:
    """The shape and the line are TensorFlow 2.21's own."""
    nodes: list[Node] = [
        {"op": "Fill", "name": "images", "inputs": [[0, 8, 8, 3], 1.0]},
        {"op": "Fill", "name": "back", "inputs": [[0, 8, 8, 4], 1.0]},
        {
            "op": "Conv2DBackpropFilter",
            "name": "gradient",
            "inputs": ["images", [3, 3, 3, 4], "back"],
            "attrs": {"strides": [1, 1, 1, 1], "padding": "SAME"},
        },
    ]
    small = SmallSession(nodes)
    assert "shape[3760,64,27] and type float" in small.fails("gradient").message
    assert any("OP_REQUIRES failed at conv_grad_filter_ops.cc:380 : " in line.text for line in small.log)


def test_variables_keep_what_they_have() -> None:
    nodes = [
        {"variable": "v", "shape": [1024, 1024], "initializer": "ones", "kind": "resource"},
        fill("large", 5000),
        {"op": "AssignVariableOp", "name": "set", "inputs": ["v", "large"]},
    ]
    small = SmallSession(nodes)
    small.run("v/Assign")
    before = small.source.in_use
    assert small.fails("set").node == "large"
    constants = sum(buffer.allocated for buffer in small.source.live if "large/" in buffer.owner)
    assert small.source.in_use == before + constants
    (value,) = small.run("v/Read/ReadVariableOp")
    assert (value == 1).all()


def test_a_variable_s_first_value_that_does_not_fit() -> None:
    file = graph_file_from_mapping({"nodes": [{"variable": "v", "shape": [3000, 3000], "initializer": "ones"}]})
    allocator = BfcAllocator("GPU_0_bfc", 16 << 20, host_memory(), BfcOptions(False, False))
    source = AllocatedMemory(allocator)
    ledger = Ledger({oom.DEVICE: source}, {oom.DEVICE: source}, ReportOptions())
    given = {"v": np.zeros((3000, 3000), np.float32)}
    session = GraphSession(file.graph, build_devices((TaskInventory(),)), initial_values=given, ledger=ledger)
    with pytest.raises(ResourceExhaustedError) as caught:
        session.run(GraphStep((Fetch("v"),)))
    text = f"OOM when allocating tensor with shape[3000,3000] and type float on {oom.DEVICE} by allocator GPU_0_bfc"
    assert caught.value.message == f"{text}\n\t [[{{{{node v}}}}]]"


def test_the_error_in_a_function_names_every_caller() -> None:
    types = {"Tin": ["float"], "Tout": ["float"]}
    a = {"name": "a", "type": "float"}
    call: Node = {"op": "StatefulPartitionedCall", "name": "call", "inputs": ["a"], "attrs": types | {"f": {"func": "inner"}}}
    functions = [
        {
            "name": "inner",
            "inputs": [a],
            "outputs": [{"name": "r", "type": "float", "value": "root:y:0"}],
            "nodes": [{"op": "Sqrt", "name": "root", "inputs": ["a"], "attrs": {"T": "float"}}],
        },
        {
            "name": "outer",
            "inputs": [a],
            "outputs": [{"name": "r", "type": "float", "value": "call:output:0"}],
            "nodes": [call],
        },
    ]
    called: Node = {**call, "name": "called", "inputs": ["x"], "attrs": types | {"f": {"func": "outer"}}}
    nodes: list[Node] = [fill("x", 3000), called]
    small = SmallSession(nodes, functions=functions)
    error = small.fails("x", "called")
    text = f"OOM when allocating tensor with shape[3000,1024] and type float on {oom.DEVICE} by allocator GPU_0_bfc"
    assert error.message == f"{text}\n\t [[{{{{node root}}}}]]{HINT}\n\t [[call]]{HINT}\n\t [[called]]{HINT}"
    # TensorFlow logs the first, the second, the fourth ... of them
    aborts = [line.text for line in small.log if line.file == "local_rendezvous.cc"]
    assert [text.count("Hint") for text in aborts] == [1, 2]


def test_in_a_loop_the_node_is_named() -> None:
    nodes: list[Node] = [
        {"op": "Enter", "name": "start", "inputs": [[1.0, 2.0]], "attrs": {"frame_name": "growing"}},
        {"op": "Merge", "name": "value", "inputs": ["start", "next"]},
        {"op": "Const", "name": "yes", "value": True, "control_inputs": "value"},
        {"op": "LoopCond", "name": "on", "inputs": ["yes"]},
        {"op": "Switch", "name": "switch", "inputs": ["value", "on"]},
        {"op": "Identity", "name": "body", "inputs": ["switch:1"]},
        {"op": "Const", "name": "axis", "value": 0, "control_inputs": "body"},
        {"op": "ConcatV2", "name": "twice", "inputs": ["body", "body", "axis"]},
        {"op": "NextIteration", "name": "next", "inputs": ["twice"]},
        {"op": "Exit", "name": "end", "inputs": ["switch"]},
    ]
    small = SmallSession(nodes)
    error = small.fails("end")
    assert (error.node, error.message[:54]) == ("twice", "OOM when allocating tensor with shape[2097152] and type"[:54])
    assert [line.text[:40] for line in small.log if line.line == 1858] == ["OP_REQUIRES failed at concat_op.cc:165 :"]
    assert not [buffer for buffer in small.source.live if buffer.owner in ("body", "twice")]


def test_with_control_flow_kernels_that_could_start_run_all_the_same() -> None:
    nodes = [fill("one", 5000), fill("other", 6000), {"op": "Neg", "name": "after", "inputs": ["one"]}]
    branch = {"op": "Switch", "name": "switch", "inputs": [1.0, True]}
    logs = []
    for more, fetches in (([], ()), ([branch], ("switch:1",))):
        small = SmallSession([*nodes, *more])
        error = small.fails("after", "other", *fetches)
        logs.append((error.message, [line.text for line in small.log if "OOM" in line.text]))
        assert small.source.in_use == sum(buffer.allocated for buffer in small.source.live)
    assert logs[0] == logs[1]
    assert sum("OP_REQUIRES" in line for line in logs[1][1]) == 2


def test_help_says_whose_memory_it_is_and_how_long() -> None:
    nodes = [
        {"variable": "v", "shape": [256, 1024], "initializer": "ones"},
        fill("x", 1024),
        {"op": "Neg", "name": "minus", "inputs": ["x"]},
        fill("wide", 2048, control_inputs=["minus"]),
        {"op": "Concat", "name": "all", "inputs": [0, "x", "minus", "wide"]},
    ]
    small = SmallSession(nodes)
    small.run("v/Assign")
    error = small.fails("x", "all")
    assert error.help[:6] == (
        "9.00MiB of 16.00MiB of GPU_0_bfc are in use when 8.00MiB are requested",
        "at least 1.00MiB more are needed here",
        "4.00MiB x: is fetched: until the step ends",
        "4.00MiB minus: until all has run",
        "1.00MiB variable v: stays after the step",
        "256B constant v/Initializer/ones/shape_as_tensor: stays after the step",
    )


def test_memory_that_is_in_pieces_is_told_apart() -> None:
    names = [f"p{number}" for number in range(7)]
    nodes: list[Node] = [{"variable": name, "shape": [512, 1024], "initializer": "ones", "kind": "resource"} for name in names]
    nodes += [{"op": "DestroyResourceOp", "name": f"drop_{name}", "inputs": [name]} for name in names[::2]]
    small = SmallSession([*nodes, fill("x", 1536)])
    small.run(*(f"{name}/Assign" for name in names))
    small.run(*(f"drop_{name}" for name in names[::2]))
    assert small.fails("x").help[1] == "it would fit in total, but the allocator's memory is fragmented"


@pytest.mark.parametrize(
    ("op", "inputs", "attrs", "shape"),
    [
        ("Sum", [[100, 100, 10, 60], [0, 2]], {}, "[100,60,100,10] and type float"),
        ("Conv2DBackpropFilter", [[8, 8, 8, 30], [3, 3, 30, 20], [8, 8, 8, 20]], {}, "[329,64,270] and type float"),
        (
            "DepthwiseConv2dNativeBackpropInput",
            [[1, 2, 2, 303], [60, 60, 303, 1], [1, 2, 2, 303]],
            {},
            "[3600,304] and type float",
        ),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_a_temporary_is_named_as_tensorflow_names_it(op: str, inputs: list[Any], attrs: dict[str, Any], shape: str) -> None:
    """Recorded with TensorFlow 2.21 on a CPU with TF_CPU_ALLOCATOR_USE_BFC, 32 MiB of which most was in use."""
    nodes: list[Node] = []
    feeds: dict[str, Any] = {}
    if op == "Sum":
        nodes.append({"op": "Placeholder", "name": "a", "dtype": "float", "shape": inputs[0]})
        feeds["a"] = {"zeros": inputs[0]}
        given: list[Any] = ["a", inputs[1]]
    else:
        given = []
        shapes = {"Conv2DBackpropFilter": 1, "DepthwiseConv2dNativeBackpropInput": 0}[op]
        for number, dims in enumerate(inputs):
            if number == shapes:
                given.append(dims)
            else:
                nodes.append({"op": "Placeholder", "name": f"a{number}", "dtype": "float", "shape": dims})
                feeds[f"a{number}"] = {"zeros": dims}
                given.append(f"a{number}")
        attrs = {"strides": [1, 1, 1, 1], "padding": "SAME"}
    nodes.append({"op": op, "name": "asked", "inputs": given, "attrs": attrs})
    graph = {"devices": {"cpu": {"count": 1, "memory": "4MiB"}}, "nodes": nodes, "fetch": ["asked"], "feed": feeds}
    with pytest.raises(ResourceExhaustedError, match="OOM when allocating") as caught:
        placesim.run(graph)
    assert f"shape{shape} on " in caught.value.message


def test_a_constant_that_does_not_fit_on_a_gpu() -> None:
    graph = {
        "devices": {"cpu": 1, "gpu": {"count": 1, "memory": "16MiB"}},
        "nodes": [
            {"op": "Const", "name": "c", "value": 1.0, "shape": [3000, 3000]},
            {"op": "Neg", "name": "n", "inputs": ["c"]},
        ],
        "fetch": ["n"],
    }
    with pytest.raises(ResourceExhaustedError) as caught:
        placesim.run(graph)
    assert caught.value.message == "OOM when allocating tensor of shape [3000,3000] and type float\n\t [[{{node c}}]]"


def test_a_transfer_that_does_not_fit() -> None:
    graph = {
        "devices": {"cpu": 1, "gpu": {"count": 1, "memory": "16MiB"}},
        "nodes": [fill("x", 5000, device="/cpu:0"), {"op": "Shape", "name": "n", "inputs": ["x"], "device": "/gpu:0"}],
        "fetch": ["n"],
    }
    with pytest.raises(ResourceExhaustedError) as caught:
        placesim.run(graph)
    task = "/job:localhost/replica:0/task:0"
    key = f"{task}/device:CPU:0;0000000000000001;{task}/device:GPU:0;edge_"
    assert caught.value.message.startswith(f"SameWorkerRecvDone unable to allocate output tensor. Key: {key}")


@pytest.mark.parametrize("memory", ["512", "4096"])
def test_a_device_too_small_for_anything(memory: str) -> None:
    graph = {
        "devices": {"cpu": 1, "gpu": {"count": 1, "memory": int(memory)}},
        "nodes": [{"op": "Fill", "name": "x", "inputs": [[2000], 1.0]}],
        "fetch": ["x"],
    }
    with pytest.raises(ResourceExhaustedError, match="OOM when allocating tensor with shape"):
        placesim.run(graph)


# --- the text of a constant -----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("dtype", "value", "lines"),
    [
        (FLOAT, np.float32(0.1), "float_val: 0.1"),
        (FLOAT, np.float32(1e20), "float_val: 1e+20"),
        (FLOAT, np.float32(16777216), "float_val: 16777216"),
        (DOUBLE, np.float64(-np.inf), "double_val: -inf"),
        (INT64, np.int64(-7), "int64_val: -7"),
        (UINT8, np.uint8(200), "int_val: 200"),
        (BOOL, np.True_, "bool_val: true"),
        (COMPLEX64, np.complex64(1 + 2.5j), "scomplex_val: 1\nscomplex_val: 2.5"),
        (BFLOAT16, BFLOAT16.numpy.type(1.5), "half_val: 16320"),
        (DTYPES["float8_e4m3fn"], DTYPES["float8_e4m3fn"].numpy.type(1.5), 'float8_val: "<"'),
        (DTYPES["float8_e5m2"], DTYPES["float8_e5m2"].numpy.type(-0.125), 'float8_val: "\\260"'),
        (STRING, "a\n\"'é".encode(), 'string_val: "a\\n\\"\\\'\\303\\251"'),
    ],
    ids=lambda value: value.name if isinstance(value, DataType) else "",
)
def test_text_of_one_value(dtype: DataType, value: Any, lines: str) -> None:
    """Each as TensorFlow 2.21 said it of a constant that did not fit."""
    array = np.broadcast_to(np.array(value, object if dtype is STRING else None), (3000, 1, 30))
    text = ProtoText("", TensorValue(dtype, array)).shortened("")
    dims = "".join(f"  dim {{\n    size: {size}\n  }}\n" for size in (3000, 1, 30))
    assert text == f"goo.gle/debugproto  \ndtype: {dtype.enum_name}\ntensor_shape {{\n{dims}}}\n{lines}\n"


def test_text_of_content_is_cut_in_the_middle() -> None:
    array = np.arange(40000, dtype=np.float32)
    text = ProtoText("", TensorValue(FLOAT, array))
    whole = text.start(1 << 20)
    cut = text.shortened(" after")
    assert cut[:2000] == whole[:2000]
    assert cut.endswith(whole[-294:] + " after")
    assert f"...[{len(whole) + 6 - 2300} characters left out]..." in cut
    short = ProtoText("", TensorValue(FLOAT, array[:3]))
    assert short.shortened("") == short.start(1 << 20)
    assert short.shortened("").endswith('tensor_content: "\\000\\000\\000\\000\\000\\000\\200?\\000\\000\\000@"\n')


def test_a_constant_on_a_cpu_is_an_invalid_argument() -> None:
    error = SmallSession([{"op": "Const", "name": "c", "value": 1.0, "shape": [3000, 3000]}]).fails("c")
    assert isinstance(error, InvalidArgumentError)
    assert error.help[0] == "0B of 16.00MiB of GPU_0_bfc are in use when 34.33MiB are requested"
