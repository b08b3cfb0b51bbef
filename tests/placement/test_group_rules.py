"""The rules of groups as functions of values: what merging, tying, softening and the search of candidates leave."""

from __future__ import annotations

from typing import Any

import pytest

from placesim.core.dtypes import FLOAT, INT64, RESOURCE, VARIANT
from placesim.graph.graph import Graph, NodeDef
from placesim.machine.device_names import ANY, DeviceName, MergeConflict, parse_runtime_name
from placesim.machine.inventory import DeviceSet, TaskInventory, build_devices
from placesim.ops.attributes import Shape
from placesim.ops.registry import load_registry
from placesim.placement.candidate_devices import CandidateSearch
from placesim.placement.colocation_labels import class_labels
from placesim.placement.constraints import (
    Constraints,
    SoftStep,
    SupportedTypes,
    TieConflict,
    is_from_composite,
    merge_constraints,
    soften,
    sort_types,
    tie_constraints,
)
from placesim.placement.edge_constraints import tying_slots
from placesim.placement.placer import place_graph
from placesim.placement.xla_types import without_xla_types
from tests.placement.toy import CPU, GPU, XLA, fixture_devices, full_name, toy_graph

BOTH: SupportedTypes = ((GPU, 0), (CPU, 0))


def spec(text: str) -> DeviceName:
    """`GPU:1` or `/job:a/task:1` -> a device name; empty: any."""
    found = parse_runtime_name(text if not text or text.startswith("/") else f"/device:{text}")
    assert found is not None
    return found


def held(requested: str = "", assigned: str = "", resource: str = "", types: SupportedTypes = BOTH) -> Constraints:
    return Constraints(spec(requested), spec(assigned), spec(resource), types)


# --- two groups become one (5.4) ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("mine", "theirs", "requested", "resource"),
    [
        (held("/job:a"), held("GPU:1"), "/job:a/device:GPU:1", ""),
        (held("/job:a"), held("/job:a", resource="GPU:0"), "/job:a/device:GPU:0", "GPU:0"),
        (held(resource="GPU:0"), held("CPU:1"), "GPU:0", "GPU:0"),
        (held("GPU"), held("GPU", resource="GPU:1"), "GPU:1", "GPU:1"),
    ],
)
def test_a_merged_request_says_what_resources_say(
    mine: Constraints, theirs: Constraints, requested: str, resource: str
) -> None:
    found = merge_constraints(mine, theirs, False, (GPU, CPU))
    assert found.specs == (spec(requested), ANY, spec(resource))
    assert found.types == BOTH
    assert merge_constraints(mine, theirs, False, (GPU, CPU)) is found


def test_an_assigned_device_outdoes_a_request_and_a_resource_both() -> None:
    mine, theirs = held("CPU:0", "CPU:0"), held("/job:a")
    assert merge_constraints(mine, theirs, False, (GPU, CPU)).specs == (spec("/job:a/device:CPU:0"), spec("CPU:0"), ANY)


def test_requests_that_contradict_each_other_merge_only_softly() -> None:
    mine, theirs = held("/job:a/device:GPU:0"), held("GPU:1")
    assert merge_constraints(mine, theirs, True, (GPU, CPU)).requested == spec("/job:a/device:GPU")
    with pytest.raises(MergeConflict, match="incompatible ids: '/job:a/device:GPU:0' and '/device:GPU:1'"):
        merge_constraints(held("/job:a/device:GPU:0"), theirs, False, (GPU, CPU))
    with pytest.raises(MergeConflict, match="incompatible ids"):
        merge_constraints(held(resource="GPU:0"), held(resource="GPU:1"), True, (GPU, CPU))


def test_a_merge_without_a_common_type_has_none() -> None:
    assert merge_constraints(held(types=((GPU, 0),)), held(types=((CPU, 0),)), False, (GPU, CPU)).types == ()


def test_types_go_by_priority_and_then_as_the_devices_do() -> None:
    types = [("other", 5), (CPU, 5), (GPU, 5), (XLA, 9)]
    assert sort_types(types, (GPU, CPU)) == ((XLA, 9), (GPU, 5), (CPU, 5), ("other", 5))


# --- a group that refers to another (5.6) ---------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("mine", "theirs", "is_nested", "requested"),
    [
        (held("/job:a"), held("GPU:0"), False, "/job:a"),
        (held("/job:a"), held("GPU:0"), True, "GPU:0"),
        (held("/job:a/device:GPU:0"), held("GPU:0"), True, "/job:a/device:GPU:0"),
        (held("CPU:0"), held("GPU:0"), False, "GPU:0"),
        (held("CPU:0", "CPU:0"), held("GPU:0"), False, "CPU:0"),
        (held("CPU:0", resource="CPU:0"), held("/job:a/device:GPU:0"), False, "/job:a/device:CPU:0"),
    ],
)
def test_a_request_gives_way_to_what_the_other_asks_for(
    mine: Constraints, theirs: Constraints, is_nested: bool, requested: str
) -> None:
    assert tie_constraints(mine, theirs, is_nested).requested == spec(requested)
    assert tie_constraints(mine, theirs, is_nested).requested == spec(requested)


@pytest.mark.parametrize(
    ("mine", "theirs", "kind"),
    [
        (held("GPU:0", "GPU:0"), held("CPU:0", "CPU:0"), "assigned"),
        (held(resource="GPU:0"), held(resource="CPU:0"), "resource"),
    ],
)
def test_what_is_assigned_or_generated_gives_way_to_nothing(mine: Constraints, theirs: Constraints, kind: str) -> None:
    with pytest.raises(TieConflict) as caught:
        tie_constraints(mine, theirs)
    assert (caught.value.kind, caught.value.ends) == (kind, (spec("CPU:0"), spec("GPU:0")))


@pytest.mark.parametrize(
    ("theirs", "mine", "is_free"),
    [
        (held("COMPOSITE:0"), held("GPU:0"), True),
        (held("COMPOSITE:0", "COMPOSITE:0"), held("", "GPU:0"), True),
        (held(resource="COMPOSITE:0"), held(resource="GPU:0"), True),
        (held(resource="COMPOSITE:0"), held("GPU:0"), False),
        (held("COMPOSITE:0"), held("COMPOSITE:0"), False),
        (held("COMPOSITE:0"), held("/job:a"), False),
        (held("CPU:0"), held("GPU:0"), False),
        (held("CPU:0"), held("COMPOSITE:0"), False),
    ],
)
def test_a_composite_device_ties_no_physical_one(theirs: Constraints, mine: Constraints, is_free: bool) -> None:
    assert is_from_composite(theirs, mine) is is_free


def test_of_datasets_the_variants_tie_too() -> None:
    graph = Graph(load_registry())
    attrs: dict[str, Any] = {"output_types": (INT64,), "output_shapes": (Shape(()),)}
    graph.extend(
        [
            NodeDef("in", "Placeholder", (), "", {"dtype": VARIANT}),
            NodeDef("count", "Placeholder", (), "", {"dtype": INT64}),
            NodeDef("few", "TakeDataset", ("in", "count"), "", attrs),
            NodeDef("copy", "Identity", ("in",), "", {"T": VARIANT}),
        ]
    )
    assert tying_slots(graph.node("few").signature) == ((0, True),)
    assert tying_slots(graph.node("few").signature, False) == ()
    assert tying_slots(graph.node("copy").signature) == ()
    toys, _ = toy_graph("in:TestInput v:TestVariable a:TestAssign(v,in:0) h:TestHandleVariable two:TestTwoHandlesIn(h,h)")
    assert tying_slots(toys.node("a").signature) == ((0, False),)
    assert tying_slots(toys.node("two").signature) == ((0, False), (1, False))


def test_the_edge_that_closes_a_loop_ties_too() -> None:
    graph = Graph(load_registry())
    handle: dict[str, Any] = {"dtype": FLOAT, "shape": Shape(()), "container": "", "shared_name": ""}
    graph.extend(
        [
            NodeDef("v", "VarHandleOp", (), "/cpu:0", handle),
            NodeDef("w", "VarHandleOp", (), "/gpu:0", handle),
            NodeDef("enter", "Enter", ("v",), "", {"T": RESOURCE, "frame_name": "loop"}),
            NodeDef("other", "Enter", ("w",), "", {"T": RESOURCE, "frame_name": "loop"}),
            NodeDef("merge", "Merge", ("enter", "next"), "", {"T": RESOURCE, "N": 2}),
            NodeDef("next", "NextIteration", ("other",), "", {"T": RESOURCE}),
        ]
    )
    placement = place_graph(graph, DeviceSet(build_devices([TaskInventory(gpu=1)])), True)
    assert "The edge src node is name='next' (op='NextIteration'), and the dst node is name='merge'" in str(placement.error)


@pytest.mark.parametrize(
    ("value", "labels"),
    [(("loc:@a", b"loc:@b", "c", "loc:@"), ("a", "b", "")), ((), ()), ("loc:@a", ()), (("LOC:@a", 3), ())],
)
def test_labels_of_a_node(value: Any, labels: tuple[str, ...]) -> None:
    assert class_labels(value) == labels


# --- candidates (6.1, 7.2) ------------------------------------------------------------------------------------------

DEVICES = fixture_devices(2)
ALL = ["FakeGPU:0", "FakeGPU:1", "FakeCPU:0", "FakeCPU:1", "COMPOSITE:0"]


@pytest.mark.parametrize(
    ("found", "is_soft", "names", "step"),
    [
        (held(), True, ALL, SoftStep.NONE),
        (held(types=((CPU, 2), (GPU, 1))), True, ["FakeCPU:0", "FakeCPU:1", "COMPOSITE:0", *ALL[:2]], SoftStep.NONE),
        (held(types=((XLA, 0),)), False, ["XLA_CPU:0", "COMPOSITE:0"], SoftStep.NONE),
        (held("FakeGPU:1"), True, ["FakeGPU:1"], SoftStep.NONE),
        (held("FakeGPU:7"), False, [], SoftStep.NONE),
        (held("FakeGPU:7"), True, ALL, SoftStep.WITHOUT_TYPE_AND_ID),
        (held("FakeGPU:0", types=((CPU, 0),)), True, ["FakeCPU:0", "FakeCPU:1", "COMPOSITE:0"], SoftStep.WITHOUT_TYPE_AND_ID),
        (held("FakeGPU:7", resource="FakeGPU:7"), True, ALL, SoftStep.WITHOUT_RESOURCE),
        (held("FakeGPU:7", "FakeGPU:7"), True, [], SoftStep.NONE),
        (held("/job:b/device:FakeGPU:0"), True, [], SoftStep.NONE),
    ],
)
def test_candidates(found: Constraints, is_soft: bool, names: list[str], step: SoftStep) -> None:
    candidates, taken = CandidateSearch(DEVICES, is_soft, None).find(found)
    assert [device.name.rpartition("/device:")[2] for device in candidates] == names
    assert taken == step


def test_a_default_device_comes_first_wherever_it_can_be() -> None:
    search = CandidateSearch(DEVICES, True, DEVICES.by_name[full_name("CPU:1")])
    names = [
        [device.name.rpartition("/device:")[2] for device in search.find(found)[0]] for found in (held(), held("FakeGPU:0"))
    ]
    assert names == [["FakeCPU:1", "FakeGPU:0", "FakeGPU:1", "FakeCPU:0", "COMPOSITE:0"], ["FakeGPU:0"]]


@pytest.mark.parametrize(
    ("found", "step", "left"),
    [
        (held("/job:a/replica:0/task:1/device:GPU:2"), SoftStep.WITHOUT_TYPE_AND_ID, "/job:a/replica:0/task:1"),
        (held("GPU:2", resource="GPU"), SoftStep.WITHOUT_TYPE_AND_ID, "GPU"),
        (held("GPU:2", resource="GPU:2"), SoftStep.WITHOUT_TYPE_AND_ID, "GPU:2"),
        (held("GPU:2", resource="GPU:2"), SoftStep.WITHOUT_RESOURCE, ""),
        (held("GPU:2", "GPU"), SoftStep.WITHOUT_RESOURCE, "GPU"),
        (held("GPU:2", "GPU:2"), SoftStep.WITHOUT_RESOURCE, "GPU:2"),
    ],
)
def test_soft_placement_keeps_what_is_assigned(found: Constraints, step: SoftStep, left: str) -> None:
    assert DeviceName(*soften(found, step)) == spec(left)


# --- after one of the group was placed (6.4) ------------------------------------------------------------------------


def test_a_placed_node_fixes_its_group() -> None:
    gpu, xla = DEVICES.by_name[full_name("GPU:1")], DEVICES.by_name[full_name("XLA_CPU:0")]
    found = held("/job:a/device:FakeCPU:0", resource="FakeCPU:0")
    fixed = found.fixed_to(gpu)
    assert fixed.specs == (gpu.spec, gpu.spec, gpu.spec)
    assert (fixed.candidates, fixed.types, fixed.origin) == ((gpu,), BOTH, found)
    assert fixed.allows(gpu)
    assert not fixed.allows(xla)
    assert found.fixed_to(gpu) is fixed
    assert fixed.fixed_to(gpu) is fixed
    assert found.fixed_to(xla).candidates == ()
    composite = DEVICES.by_name[full_name("COMPOSITE:0")]
    assert held().fixed_to(composite).candidates == (composite,)


@pytest.mark.parametrize(
    ("found", "types"),
    [
        (held(types=(("XLA_CPU", 0), (CPU, 0))), ((CPU, 0),)),
        (held(types=(("XLA_CPU", 0),)), (("XLA_CPU", 0),)),
        (held("XLA_CPU:0", types=(("XLA_CPU", 0), (CPU, 0))), (("XLA_CPU", 0), (CPU, 0))),
        (held(resource="COMPOSITE:0", types=(("TPU", 0), (CPU, 0))), (("TPU", 0), (CPU, 0))),
    ],
)
def test_types_that_only_xla_compiles_for(found: Constraints, types: SupportedTypes) -> None:
    assert without_xla_types(found).types == types
