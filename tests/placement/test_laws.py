"""What holds for every graph: placing depends on nothing but the graph, keeps what it promises, and partitions fit together."""

from __future__ import annotations

import re
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from placesim.core.dtypes import FLOAT, INT32, DataType
from placesim.graph.graph import Graph, NodeDef
from placesim.machine.device_names import parse_runtime_name
from placesim.machine.inventory import DeviceSet, TaskInventory, build_devices
from placesim.ops.attributes import Shape, TensorValue
from placesim.ops.kernel_lookup import find_kernel
from placesim.ops.registry import load_registry
from placesim.placement.placer import Placement, place_graph
from placesim.runtime.partitioning.partition import Partitions, partition
from placesim.runtime.partitioning.pruning import ClientGraph, prune
from tests.processes import run_process

ROOT = Path(__file__).parent.parent.parent
ONE_MACHINE = build_devices([TaskInventory(cpu=2, gpu=3)])
CLUSTER = build_devices([TaskInventory(job="ps", tasks=2), TaskInventory(job="worker", tasks=2, gpu=2)])
_KINDS = tuple(f"/device:{device}" for device in ("CPU:0", "CPU:1", "GPU:0", "GPU:2", "GPU:*"))
REQUESTS = ("", "", "", *_KINDS, "/gpu:7", "/task:0")
_VALUE = TensorValue(FLOAT, np.zeros((), np.float32))
_T: dict[str, Any] = {"T": FLOAT}
_D: dict[str, Any] = {"dtype": FLOAT}


class Op(NamedTuple):
    """An op to draw: what kind of output each input takes, the kind of its own output, and its attrs."""

    name: str
    inputs: tuple[str, ...]
    output: str
    attrs: Mapping[str, Any]


OPS = (
    Op("Placeholder", (), "float", _D),
    Op("Const", (), "float", {**_D, "value": _VALUE}),
    Op("VariableV2", (), "ref", {**_D, "shape": Shape(())}),
    Op("VarHandleOp", (), "resource", {**_D, "shape": Shape(())}),
    Op("Neg", ("float",), "float", _T),
    Op("AddV2", ("float", "float"), "float", _T),
    Op("Identity", ("float",), "float", _T),
    Op("Identity", ("ref",), "float", _T),
    Op("AsString", ("float",), "text", _T),
    Op("Shape", ("float",), "ints", _T),
    Op("Size", ("float",), "ints", _T),
    Op("AddV2", ("ints", "ints"), "ints", {"T": INT32}),
    Op("Assign", ("ref", "float"), "ref", _T),
    Op("AssignVariableOp", ("resource", "float"), "", _D),
    Op("ReadVariableOp", ("resource",), "float", _D),
    Op("NoOp", (), "", {}),
)


MOST_NODES = 14
COUNTS = st.integers(1, MOST_NODES)
DRAWN_REQUESTS = st.sampled_from(REQUESTS)
# hypothesis checks each strategy that is new to it, which takes longer than to draw from it: all are made once
ONE_OF = [st.sampled_from(range(count)) for count in range(1, len(OPS) + 1)]
LABELS_OF = [st.lists(one, max_size=2) for one in ONE_OF]
SOURCES_OF = [st.lists(one, max_size=2, unique=True) for one in ONE_OF]
"""By the number of what is drawn from, less one: a position, and up to two positions, the same or different ones."""


@st.composite
def node_defs(draw: st.DrawFn) -> list[NodeDef]:
    """Some nodes with requests, labels and control inputs, each reading earlier ones; node i is called `n<i>_`."""
    made: list[NodeDef] = []
    outputs: dict[str, list[str]] = {"float": [], "ref": [], "resource": [], "ints": [], "text": []}
    for i in range(draw(COUNTS)):
        possible = [op for op in OPS if all(outputs[kind] for kind in op.inputs)]
        op = possible[draw(ONE_OF[len(possible) - 1])]
        inputs = [outputs[kind][draw(ONE_OF[len(outputs[kind]) - 1])] for kind in op.inputs]
        control = draw(SOURCES_OF[i - 1]) if made else []
        known = [*(node.name for node in made), "ghost"]
        labels = [known[position] for position in draw(LABELS_OF[i])] if i % 3 == 0 else []
        attrs = {**op.attrs, **({"_class": tuple(f"loc:@{label}" for label in labels)} if labels else {})}
        name = f"n{i}_"
        inputs += [f"^{made[source].name}" for source in control]
        made.append(NodeDef(name, op.name, tuple(inputs), draw(DRAWN_REQUESTS), attrs))
        if op.output:
            outputs[op.output].append(name)
    return made


MACHINES = st.sampled_from((ONE_MACHINE, CLUSTER))


def _place(nodes: Sequence[NodeDef], devices: Any, soft: bool) -> Placement:
    graph = Graph(load_registry())
    graph.extend(nodes)
    return place_graph(graph, DeviceSet(devices, devices[0].spec.address_space), soft)


def _cut(placement: Placement) -> tuple[ClientGraph, Partitions]:
    client = prune(placement, targets=range(len(placement.graph)))
    return client, partition(client, placement.device_set)


# --- placing --------------------------------------------------------------------------------------------------------


@pytest.mark.slow
def test_the_hash_seed_changes_nothing() -> None:
    script = (
        "from tests.placement.corpus import place_case, read_cases\n"
        "for case in (case for name in ('functions', 'cluster') for case in list(read_cases(name))[:40]):\n"
        "    found = place_case(case)\n"
        "    print(found.devices, found.log, found.error, found.warnings, found.sends)\n"
    )
    runs = [
        run_process((sys.executable, "-c", script), check=True, environment={"PYTHONHASHSEED": seed}).output
        for seed in ("1", "4711")
    ]
    assert len(runs[0]) > 2000
    assert runs[0] == runs[1]


@pytest.mark.slow
@given(node_defs(), MACHINES, st.booleans(), st.randoms(use_true_random=False))
def test_renaming_nodes_changes_only_names(nodes: list[NodeDef], devices: Any, soft: bool, random: Any) -> None:
    numbers = list(range(len(nodes)))
    random.shuffle(numbers)
    renamed = [_renamed(node, numbers) for node in nodes]
    before, after = _place(nodes, devices, soft), _place(renamed, devices, soft)
    assert after.devices == before.devices
    assert list(after.log) == list(before.log)
    assert [_rename(text, numbers) for text in before.messages] == list(after.messages)
    assert _rename(str(before.error), numbers) == str(after.error)


def _renamed(node: NodeDef, numbers: Sequence[int]) -> NodeDef:
    attrs = dict(node.attrs)
    if "_class" in attrs:
        attrs["_class"] = tuple(_rename(label, numbers) for label in attrs["_class"])
    inputs = tuple(_rename(text, numbers) for text in node.inputs)
    return node._replace(name=_rename(node.name, numbers), inputs=inputs, attrs=attrs)


def _rename(text: str, numbers: Sequence[int]) -> str:
    return re.sub(r"\bn([0-9]+)_", lambda found: f"other{numbers[int(found[1])]}_", text)


@pytest.mark.slow
@given(node_defs(), MACHINES, st.booleans())
def test_placing_is_idempotent(nodes: list[NodeDef], devices: Any, soft: bool) -> None:
    placement = _place(nodes, devices, soft)
    if placement.error is None:
        requested = [n._replace(device=d.name) for n, d in zip(nodes, placement.devices, strict=True) if d is not None]
        again = _place(requested, devices, soft)
        assert again.error is None
        assert again.devices == placement.devices
        assert list(again.log) == list(placement.log)


@pytest.mark.slow
@given(node_defs(), MACHINES, st.booleans())
def test_what_is_placed_stays_on_the_second_placement(nodes: list[NodeDef], devices: Any, soft: bool) -> None:
    placement = _place(nodes, devices, soft)
    if placement.error is None:
        assigned = {i: device.name for i, device in enumerate(placement.devices) if device is not None}
        again = place_graph(placement.graph, placement.device_set, soft, assigned)
        assert again.error is None
        assert again.devices == placement.devices
        assert list(again.log) == sorted(assigned)


@pytest.mark.slow
@given(node_defs(), MACHINES, st.booleans())
def test_every_placed_node_has_a_kernel(nodes: list[NodeDef], devices: Any, soft: bool) -> None:
    placement = _place(nodes, devices, soft)
    for node, device in zip(placement.graph.nodes, placement.devices, strict=True):
        if device is not None:
            attrs = node.signature.attrs
            assert find_kernel(placement.graph.registry, node.op, device.type, attrs, node.name) is not None


@pytest.mark.slow
@given(node_defs(), MACHINES, st.booleans())
def test_groups_agree_and_everything_is_logged_once(nodes: list[NodeDef], devices: Any, soft: bool) -> None:
    placement = _place(nodes, devices, soft)
    assert len(set(placement.log)) == len(placement.log)
    if placement.error is None:
        assert len(placement.log) == len(nodes)
        for members in placement.groups.groups.values():
            assert len({placement.devices[i] for i in members}) == 1


@pytest.mark.slow
@given(node_defs(), MACHINES)
def test_a_hard_request_is_honoured_or_refused(nodes: list[NodeDef], devices: Any) -> None:
    placement = _place(nodes, devices, False)
    if placement.error is not None:
        return
    for node, device in zip(placement.graph.nodes, placement.devices, strict=True):
        spec = parse_runtime_name(node.device)
        reason = placement.reason(node.id)
        is_overridden = any(i in placement.groups.overridden for i in (node.id, *reason.members))
        assert spec is not None
        assert device is not None
        assert is_overridden or spec.matches(device.spec)


@pytest.mark.slow
@given(node_defs(), MACHINES, st.booleans())
def test_a_reason_accounts_for_its_device(nodes: list[NodeDef], devices: Any, soft: bool) -> None:
    placement = _place(nodes, devices, soft)
    if placement.error is not None:
        return
    for node, device in zip(placement.graph.nodes, placement.devices, strict=True):
        reason = placement.reason(node.id)
        assert device is not None
        assert device in reason.candidates
        assert reason.device is device
        if reason.followed is not None:
            assert placement.devices[reason.followed] is device
        elif reason.choice == 0:
            assert device is reason.candidates[0]
        joined = {i for union in reason.unions for i in (union.x, union.y)}
        assert joined == set(reason.members)


# --- partitions -----------------------------------------------------------------------------------------------------


@pytest.mark.slow
@settings(deadline=None)
@given(node_defs(), MACHINES)
def test_every_consumer_finds_its_tensor_on_its_own_device(nodes: list[NodeDef], devices: Any) -> None:
    placement = _place(nodes, devices, True)
    if placement.error is not None:
        return
    client, (parts, transfers) = _cut(placement)
    producers = {transfer.recv: transfer for transfer in transfers}
    graphs = {part.device.name: part.graph for part in parts}
    for node in client.graph.nodes:
        graph = graphs[client.devices[node.id].name]
        placed = graph.node(node.name)
        for source, slot, ref in zip(node.input_nodes, node.input_slots, placed.inputs, strict=True):
            names = [graph.nodes[ref.node].name]
            while names[-1] in producers:
                names.append(producers[names[-1]].producer)
                slot_sent = producers[names[-2]].slot
                assert slot_sent == slot or producers[names[-2]].producer in producers
            assert names[-1] == client.graph.nodes[source].name
            assert len(names) > 1 or ref.slot == slot


@pytest.mark.slow
@settings(deadline=None)
@given(node_defs(), MACHINES)
def test_no_tensor_is_sent_twice_to_one_device(nodes: list[NodeDef], devices: Any) -> None:
    placement = _place(nodes, devices, True)
    if placement.error is not None:
        return
    client, (_, transfers) = _cut(placement)
    seen: set[tuple[str, int, str, str]] = set()
    for transfer in transfers:
        key = (transfer.producer, transfer.slot, transfer.dst, transfer.recv_op)
        assert key not in seen or _is_ref(client, transfer.producer, transfer.slot)
        seen.add(key)


def _is_ref(client: ClientGraph, name: str, slot: int) -> bool:
    signature = client.graph.node(name).signature
    return slot >= 0 and signature.output_is_ref[slot]


def test_the_ops_that_are_drawn_are_real() -> None:
    registry = load_registry()
    dtypes: set[DataType] = set()
    for op in OPS:
        definition = registry.op(op.name)
        assert definition is not None
        dtypes |= {dtype for arg in definition.inputs for dtype in arg.dtypes(op.attrs)}
    assert {FLOAT, INT32} <= dtypes
