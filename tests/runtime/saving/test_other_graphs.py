"""A checkpoint of another graph, or of none of ours, is refused with what is wrong and where."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import placesim
from placesim.core.checkpoints.writer import SavedTensor, write_bundle
from placesim.core.dtypes import DOUBLE, FLOAT, STRING
from placesim.core.errors import DataLossError, FailedPreconditionError, InvalidArgumentError, NotFoundError, OpError
from placesim.formats.graph_file.reader import graph_file_from_mapping
from placesim.graph.graph import Graph
from placesim.machine.inventory import TaskInventory, build_devices
from placesim.ops.kernels.device_resources import VARIABLE_OPS, ResourceHandle, ResourceManager, VariableResource
from placesim.runtime.executors.program import DeviceState
from placesim.runtime.saving.device_state import DeviceRecord, SavedState, find_missing_state, settle
from placesim.runtime.saving.saved_values import NamedTensor
from placesim.runtime.saving.session_checkpoints import (
    SESSION_KEY,
    SavedSession,
    check_graph,
    graph_variables,
    read_session,
    write_session,
)

NODES: list[dict[str, Any]] = [
    {"op": "VariableV2", "name": "w", "attrs": {"dtype": "float", "shape": [2, -1]}},
    {"op": "VarHandleOp", "name": "h", "attrs": {"dtype": "float", "shape": [], "shared_name": "shared"}},
]
GRAPH: Graph = graph_file_from_mapping({"nodes": NODES, "raw": True}).graph


def saved(*tensors: NamedTensor, variables: tuple[str, ...] = ("w", "shared")) -> SavedSession:
    return SavedSession(3, (DeviceRecord("/cpu:0", {"a": 1}, tensors, ("maker",)),), variables)


def held(name: str, *shape: int, **more: Any) -> NamedTensor:
    dtype = more.get("dtype", FLOAT)
    return NamedTensor(name, dtype, np.zeros(shape, dtype.numpy))


def test_variables_go_by_their_shared_names() -> None:
    assert {name: node.name for name, node in graph_variables(GRAPH).items()} == {"w": "w", "shared": "h"}
    check_graph(saved(held("w", 2, 5), held("shared"), held("", 3), held("gone", 3)), GRAPH, "p")


@pytest.mark.parametrize(
    ("session", "kind", "message", "node"),
    [
        (saved(variables=("w",)), NotFoundError, "Key shared not found in checkpoint p: it is from another graph", "h"),
        (
            saved(variables=("w", "shared", "x")),
            NotFoundError,
            "checkpoint p is from another graph: it has variable x, which this one lacks",
            None,
        ),
        (
            saved(held("w", 2, 5, dtype=DOUBLE)),
            InvalidArgumentError,
            "variable w has dtype float in the graph, double in checkpoint p",
            "w",
        ),
        (saved(held("w", 3, 5)), InvalidArgumentError, "variable w has shape [2,?] in the graph, [3,5] in checkpoint p", "w"),
        (saved(held("w", 2)), InvalidArgumentError, "variable w has shape [2,?] in the graph, [2] in checkpoint p", "w"),
        (saved(held("shared", 1)), InvalidArgumentError, "variable h has shape [] in the graph, [1] in checkpoint p", "h"),
    ],
)
def test_a_checkpoint_of_another_graph(session: SavedSession, kind: type[OpError], message: str, node: str | None) -> None:
    with pytest.raises(kind) as caught:
        check_graph(session, GRAPH, "p")
    assert (caught.value.message, caught.value.node) == (message, node)
    assert caught.value.help[0].startswith("`--checkpoint p` without --restart")
    if node is None:
        assert str(caught.value.location).startswith("p.index")


def test_a_session_is_read_as_it_was_written(tmp_path: Path) -> None:
    prefix = str(tmp_path / "model-3")
    records = (
        DeviceRecord("/gpu:0", {"b": 2}, (held("w", 1), held("", 2), held(f"{SESSION_KEY}/7", 3)), ()),
        DeviceRecord("/cpu:0", {"a": 1}, (held("w", 4),), ("maker",)),
    )
    write_session(prefix, SavedSession(3, records, ("w",)))
    found = read_session(prefix)
    assert (found.step, found.variables) == (3, ("w",))
    rows = [(r.device, r.state, r.makers, [(t.name, t.dtype, t.value.shape) for t in r.tensors]) for r in found.records]
    assert rows == [
        ("/cpu:0", {"a": 1}, ("maker",), [("w", FLOAT, (4,))]),
        ("/gpu:0", {"b": 2}, (), [("", FLOAT, (1,)), ("", FLOAT, (2,)), ("", FLOAT, (3,))]),
    ]


def write_text(prefix: str, text: bytes) -> None:
    value = np.empty((), object)
    value[()] = text
    write_bundle(prefix, [SavedTensor(SESSION_KEY, STRING, value)])


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (b'{"form": 2}', "the session's state has format 2, expected 1, the format of this release"),
        (b"{", "the session's state cannot be read: JSONDecodeError: "),
        (b'{"form": 1}', "the session's state cannot be read: KeyError: 'devices'"),
        (b'{"form": 1, "devices": [], "step": "x", "variables": []}', "the session's state cannot be read: ValueError: "),
        (b'{"form": 1, "devices": [[]], "step": 1, "variables": []}', "the session's state cannot be read: TypeError: "),
    ],
)
def test_a_damaged_session(text: bytes, message: str, tmp_path: Path) -> None:
    prefix = str(tmp_path / "model-3")
    write_text(prefix, text)
    with pytest.raises(DataLossError) as caught:
        read_session(prefix)
    assert caught.value.message.startswith(message)
    assert str(caught.value.location).startswith(f"{prefix}.index")


def test_a_checkpoint_that_is_not_ours(tmp_path: Path) -> None:
    prefix = str(tmp_path / "model-3")
    write_bundle(prefix, [SavedTensor("w", FLOAT, np.zeros(2, np.float32))])
    with pytest.raises(NotFoundError, match="the checkpoint was not written by placesim") as caught:
        read_session(prefix)
    assert caught.value.help[0].startswith(f"`--checkpoint {prefix}` without")


def test_what_a_checkpoint_lacks_is_named() -> None:
    records = [
        DeviceRecord("/cpu:0", {}, (), ("w", "other"), ("Stack 's'",)),
        DeviceRecord("/gpu:0", {}, (), (), ("Stack 't'",)),
    ]
    assert find_missing_state(records, GRAPH) == ["iterator of other of /cpu:0", "Stack 's' of /cpu:0", "Stack 't' of /gpu:0"]


# --- variables that are placed elsewhere now ------------------------------------------------------------------------

KIND = VARIABLE_OPS["VarHandleOp"]
CPU, GPU = (f"/job:localhost/replica:0/task:0/device:{kind}:0" for kind in ("CPU", "GPU"))


def kept_on(device: str, *handles: ResourceHandle) -> dict[str, SavedState]:
    state = SavedState(ResourceManager(), {"h": {"generator": 7}})
    for handle in handles:
        state.resources.put(handle, VariableResource(handle.name, FLOAT))
    return {device: state}


@pytest.mark.parametrize(("attrs", "name"), [({}, "h"), ({"shared_name": "mine", "container": "c"}, "mine")])
def test_a_variable_moves_to_the_device_that_it_is_placed_on(attrs: dict[str, str], name: str) -> None:
    node = {"op": "VarHandleOp", "name": "h", "attrs": {"dtype": "float", "shape": [], **attrs}}
    placement = placesim.place({"nodes": [node], "raw": True}).placed[0]
    (device,) = build_devices([TaskInventory()])
    states = {CPU: DeviceState(device)}
    container = attrs.get("container", "localhost")
    found = kept_on(GPU, ResourceHandle(GPU, container, name, KIND), ResourceHandle(GPU, "d", name, KIND))
    settle(found, placement, states)
    moved = states[CPU].resources.find(ResourceHandle(CPU, container, name, KIND))
    assert isinstance(moved, VariableResource)
    assert found[GPU].resources.find(ResourceHandle(GPU, container, name, KIND)) is None
    assert states[CPU].resources.find(ResourceHandle(CPU, "d", name, KIND)) is None
    assert states[CPU].node_states["h"] == {"generator": 7}
    there = kept_on(CPU, ResourceHandle(CPU, container, name, KIND))
    settle(there, placement, states)
    assert isinstance(states[CPU].resources.find(ResourceHandle(CPU, container, name, KIND)), VariableResource)


def test_what_no_device_can_keep_is_refused() -> None:
    placement = placesim.place({"nodes": [{"op": "NoOp", "name": "n"}]}).placed[0]
    with pytest.raises(FailedPreconditionError) as caught:
        settle(kept_on(GPU, ResourceHandle(GPU, "c", "q", "Queue")), placement, {})
    assert caught.value.message == f"the checkpoint has Variable 'q' of {GPU}, which this machine lacks"
    assert caught.value.help == ("restart with the devices of the original run",)
    settle(
        kept_on(GPU, ResourceHandle(GPU, "c", "q", KIND)), placement, {CPU: DeviceState(build_devices([TaskInventory()])[0])}
    )
