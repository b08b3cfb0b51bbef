"""Constraints that few recordings reach: datasets, host-only variants, remote kernels, invalid nodes, unknown functions."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

from placesim.core.dtypes import FLOAT, INT32, INT64, RESOURCE, STRING, VARIANT, DataType
from placesim.graph.graph import Graph, NodeDef
from placesim.machine.inventory import DeviceSet, TaskInventory, build_devices
from placesim.ops.attributes import FunctionName, Shape
from placesim.ops.registry import load_registry
from placesim.placement.constraints import SupportedTypes, intersect_types
from placesim.placement.dataset_ops import is_dataset_op
from placesim.placement.placer import Placement, place_graph
from tests.placement.toy import REGISTRY

ONE_MACHINE = build_devices([TaskInventory(cpu=2, gpu=2)])
CLUSTER = build_devices([TaskInventory(job="worker", tasks=2, gpu=1)])
_VARIANT: dict[str, Any] = {"T": VARIANT}
_SHAPES = {"output_shapes": (Shape(()),)}


def _place(nodes: Sequence[NodeDef], devices: Any = ONE_MACHINE, soft: bool = False) -> Placement:
    graph = Graph(load_registry())
    graph.extend(nodes)
    return place_graph(graph, DeviceSet(devices, devices[0].spec.address_space), soft)


def _devices(placement: Placement) -> dict[str, str]:
    assert placement.error is None, placement.error
    nodes, devices = placement.graph.nodes, placement.devices
    return {nodes[i].name: device.name.rpartition("/device:")[2] for i, device in enumerate(devices) if device is not None}


@pytest.mark.parametrize(
    ("target", "other", "common"),
    [
        ((("CPU", 2), ("GPU", 1)), (("GPU", 0), ("CPU", 0)), (("CPU", 2), ("GPU", 1))),
        ((("CPU", 2), ("GPU", 1)), (("GPU", 2), ("CPU", 1)), (("GPU", 0), ("CPU", 0))),
        ((("CPU", 2), ("GPU", 1)), (("GPU", 0),), (("GPU", 1),)),
        ((("GPU", 0), ("CPU", 0)), (("CPU", 1), ("GPU", 0)), (("CPU", 1), ("GPU", 0))),
        ((("GPU", 0),), (("CPU", 0),), ()),
    ],
)
def test_common_types_keep_the_order_that_both_allow(
    target: SupportedTypes, other: SupportedTypes, common: SupportedTypes
) -> None:
    assert intersect_types(target, other, ("GPU", "CPU")) == common


# --- datasets (5.6) and host-only variants (5.12) -------------------------------------------------------------------


@pytest.mark.parametrize(
    ("op", "is_dataset"),
    [
        ("RangeDataset", True),
        ("ParallelMapDatasetV2", True),
        ("DatasetFromGraph", True),
        ("OptionalNone", False),
        ("Neg", False),
    ],
)
def test_dataset_ops(op: str, is_dataset: bool) -> None:
    assert is_dataset_op(load_registry().op(op)) is is_dataset


def _range_dataset(name: str, device: str = "") -> list[NodeDef]:
    limits = [NodeDef(f"{name}/{part}", "Placeholder", (), "", {"dtype": INT64}) for part in ("start", "stop", "step")]
    attrs = {"output_types": (INT64,), **_SHAPES}
    return [*limits, NodeDef(name, "RangeDataset", tuple(node.name for node in limits), device, attrs)]


def _take(name: str, source: str, device: str = "") -> list[NodeDef]:
    count = NodeDef(f"{name}/count", "Placeholder", (), "", {"dtype": INT64})
    attrs = {"output_types": (INT64,), **_SHAPES}
    return [count, NodeDef(name, "TakeDataset", (source, count.name), device, attrs)]


def test_a_dataset_keeps_the_dataset_that_reads_it() -> None:
    placement = _place([*_range_dataset("numbers", "/cpu:1"), *_take("few", "numbers", "/cpu:0")])
    assert _devices(placement)["few"] == "CPU:1"
    assert [text.split(" for node")[0] for text in placement.messages] == [
        "I colocation_graph.cc: Ignoring device specification /device:CPU:0"
    ]


def test_a_variant_that_is_no_dataset_ties_nothing() -> None:
    nodes = [*_range_dataset("numbers", "/cpu:1"), NodeDef("copy", "Identity", ("numbers",), "/cpu:0", _VARIANT)]
    assert _devices(_place([*nodes, *_take("few", "copy", "/cpu:0")]))["few"] == "CPU:0"


def test_what_passes_a_dataset_on_stays_on_the_host() -> None:
    nodes = _range_dataset("numbers")
    nodes += [NodeDef("one", "Identity", ("numbers",), "", _VARIANT), NodeDef("two", "Identity", ("one",), "", _VARIANT)]
    nodes += [NodeDef("free", "Placeholder", (), "", {"dtype": VARIANT}), NodeDef("x", "Identity", ("free",), "", _VARIANT)]
    found = _devices(_place(nodes))
    assert (found["one"], found["two"], found["x"]) == ("CPU:0", "CPU:0", "GPU:0")


def _list(element: DataType, *more: NodeDef) -> list[NodeDef]:
    sizes = [NodeDef(name, "Placeholder", (), "", {"dtype": INT32}) for name in ("shape", "count")]
    return [
        *sizes,
        NodeDef("list", "TensorListReserve", ("shape", "count"), "", {"element_dtype": element, "shape_type": INT32}),
        *more,
    ]


@pytest.mark.parametrize(("element", "device"), [(FLOAT, "GPU:0"), (STRING, "CPU:0"), (RESOURCE, "CPU:0")])
def test_a_list_of_what_only_the_host_can_hold_stays_there(element: DataType, device: str) -> None:
    copies = (NodeDef("copy", "Identity", ("list",), "", _VARIANT), NodeDef("length", "TensorListLength", ("copy",)))
    found = _devices(_place(_list(element, *copies)))
    assert (found["copy"], found["length"]) == (device, device)


def test_a_long_chain_of_variants_is_walked_once() -> None:
    chain = [NodeDef(f"copy{i}", "Identity", (f"copy{i - 1}" if i else "list",), "", _VARIANT) for i in range(20_000)]
    found = _devices(_place(_list(STRING, *chain)))
    assert {device for name, device in found.items() if name.startswith("copy")} == {"CPU:0"}


def test_a_list_op_of_its_own_element_type_goes_by_that() -> None:
    copy = NodeDef("copy", "Identity", ("list",), "", _VARIANT)
    item = NodeDef("item", "TensorListGetItem", ("copy", "count", "shape"), "", {"element_dtype": FLOAT})
    found = _devices(_place(_list(STRING, copy, item)))
    assert (found["copy"], found["item"]) == ("CPU:0", "GPU:0")


# --- edges of resources (5.6) ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("op", "attrs", "device"), [("IdentityN", {"T": (RESOURCE,)}, "GPU:1"), ("Identity", {"T": RESOURCE}, "GPU:0")]
)
def test_identity_n_need_not_be_with_the_resources_that_it_reads(op: str, attrs: dict[str, Any], device: str) -> None:
    variable = NodeDef("v", "VarHandleOp", (), "/gpu:0", {"dtype": FLOAT, "shape": Shape(())})
    assert _devices(_place([variable, NodeDef("x", op, ("v",), "/gpu:1", attrs)]))["x"] == device


# --- kernels (4.3) --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("task", ["/job:worker/replica:0/task:1", "/job:worker/task:1", "/task:1"])
def test_an_op_without_kernels_is_taken_for_a_remote_task_even_by_half_a_name(task: str) -> None:
    placement = _place_toy(f"{task}/device:GPU:0")
    assert placement.devices[0] is placement.device_set.by_name["/job:worker/replica:0/task:1/device:GPU:0"]


@pytest.mark.parametrize("device", ["", "/job:worker/replica:0/task:0/device:GPU:0", "/job:worker", "/device:GPU:0"])
def test_but_not_for_the_own_task(device: str) -> None:
    error = _place_toy(device).error
    assert error is not None
    assert "No OpKernel was registered to support Op 'VariableNoKernels'" in error.message


def _place_toy(device: str) -> Placement:
    graph = Graph(REGISTRY)
    graph.add("var", "VariableNoKernels", {}, device=device)
    return place_graph(graph, DeviceSet(CLUSTER, CLUSTER[0].spec.address_space))


def test_nor_for_an_op_whose_kernel_only_wants_other_types() -> None:
    nodes = [
        NodeDef("x", "Placeholder", (), "", {"dtype": STRING}),
        NodeDef("y", "Neg", ("x",), "/job:worker/replica:0/task:1/device:GPU:0", {"T": STRING}),
    ]
    error = _place(nodes, CLUSTER).error
    assert error is not None
    assert error.message.startswith("Value for attr 'T' of string is not in the list of allowed values: bfloat16, half, float")


def test_a_node_that_lacks_an_attr_is_told_so_where_it_has_no_kernel() -> None:
    nodes = [
        NodeDef("x", "Placeholder", (), "", {"dtype": FLOAT}),
        NodeDef("cast", "NcclBroadcast", ("x",), "", {"T": FLOAT}),
    ]
    error = _place(nodes, build_devices([TaskInventory()])).error
    assert error is not None
    assert error.message.startswith("NodeDef missing attr 'shape' from Op<name=NcclBroadcast; ")
    assert "; NodeDef: {{node cast}}" in error.message


def test_a_call_of_an_unknown_function_is_refused() -> None:
    attrs = {"Tin": (), "Tout": (), "f": FunctionName("ghost")}
    error = _place([NodeDef("call", "PartitionedCall", (), "", attrs)]).error
    assert error is not None
    assert error.message.startswith('Failed to find function "ghost" in function library: ')


# --- a device that is preferred (3.7) -------------------------------------------------------------------------------


def test_the_default_device_comes_first_wherever_it_can() -> None:
    graph = Graph(load_registry())
    graph.add("x", "Placeholder", {"dtype": FLOAT})
    graph.add("y", "Neg", {"T": FLOAT}, (0,), (0,))
    graph.add("z", "Neg", {"T": FLOAT}, (1,), (0,), device="/device:GPU:0")
    graph.add("text", "AsString", {"T": FLOAT}, (2,), (0,))
    name = "/job:localhost/replica:0/task:0/device:GPU:1"
    placement = place_graph(graph, DeviceSet(ONE_MACHINE), default_device=name)
    assert _devices(placement) == {"x": "GPU:1", "y": "GPU:1", "z": "GPU:0", "text": "CPU:0"}
