"""What TensorFlow 1.15 does in its own way, rule by rule (`placesim manual placement 13`), beside its recordings."""

from __future__ import annotations

import io
from typing import Any

import numpy as np
import pytest

import placesim
from placesim.core.errors import GraphFileError, OpError, UsageError
from placesim.core.releases import CURRENT, RELEASES, find_release
from placesim.machine.gpu_memory import reserved_memory
from placesim.machine.gpu_models import GPU_MODELS, MIB
from placesim.ops.registry import load_registry

TASK = "/job:localhost/replica:0/task:0/device:"
CONST = {"op": "Const", "name": "k", "value": 1.0}
RELEASE_NAMES = ["1.15", "2.21"]


def _placed(nodes: list[dict[str, Any]], release: str, **more: Any) -> dict[str, str]:
    report = placesim.place({"raw": True, "nodes": nodes, "tensorflow": release, **more})
    return {row.node: row.device.removeprefix(TASK) for row in report.placements}


def _message(nodes: list[dict[str, Any]], release: str, **more: Any) -> str:
    with pytest.raises(OpError) as raised:
        _placed(nodes, release, **more)
    return raised.value.message


def _variable(name: str, device: str) -> dict[str, Any]:
    return {"op": "VarHandleOp", "name": name, "device": device, "attrs": {"dtype": "float", "shape": []}}


def _read(name: str, variable: str, device: str) -> dict[str, Any]:
    return {"op": "ReadVariableOp", "name": name, "inputs": [variable], "device": device, "attrs": {"dtype": "float"}}


@pytest.mark.parametrize("given", ["1.15", 1.15, "1.15.5", " 1.15 "])
def test_ways_to_name_a_release(given: Any) -> None:
    assert find_release(given) is RELEASES["1.15"]


@pytest.mark.parametrize("given", ["1.14", 2, True, "", None, ["1.15"]])
def test_what_is_no_release(given: Any) -> None:
    with pytest.raises(UsageError, match=r"unknown release of TensorFlow: got .*, expected 1\.15 or 2\.21"):
        find_release(given)


def test_each_release_has_a_table_of_its_version() -> None:
    assert {load_registry(name).release for name in RELEASES} == {release.version for release in RELEASES.values()}
    assert load_registry().rules is CURRENT


@pytest.mark.parametrize(
    ("inventory", "names"),
    [
        ({}, ["CPU:0", "XLA_CPU:0"]),
        ({"cpu": 2, "gpu": 2}, ["CPU:0", "CPU:1", "XLA_CPU:0", "GPU:0", "GPU:1"]),
        ({"gpu": 1, "xla_gpu": 1}, ["CPU:0", "XLA_CPU:0", "XLA_GPU:0", "GPU:0"]),
        ({"gpu": 1, "xla_cpu": 0}, ["CPU:0", "GPU:0"]),
    ],
)
def test_xla_devices_come_before_gpus(inventory: dict[str, int], names: list[str]) -> None:
    """13.1."""
    made = placesim.devices(inventory={"devices": inventory}, tensorflow="1.15")
    assert [device.name.removeprefix(TASK) for device in made] == names


@pytest.mark.parametrize(("release", "job"), [("1.15", "ps"), ("2.21", "worker")])
def test_only_late_releases_prefer_local_devices(release: str, job: str) -> None:
    """13.2."""
    cluster = [{"job": "ps"}, {"job": "worker"}]
    placed = _placed([CONST], release, devices=cluster, config={"master": "/job:worker/replica:0/task:0"})
    assert placed["k"].startswith(f"/job:{job}/")


def test_what_only_xla_has_a_kernel_for() -> None:
    """13.3."""
    nodes = [
        {"op": "Placeholder", "name": "p", "attrs": {"dtype": "uint64"}},
        {"op": "AddN", "name": "sum", "inputs": ["p", "p"], "attrs": {"N": 2, "T": "uint64"}},
    ]
    assert _placed(nodes, "1.15", devices={"gpu": 1})["sum"] == "XLA_CPU:0"


@pytest.mark.parametrize(("release", "device"), [("1.15", "CPU:1"), ("2.21", "CPU:1")])
def test_a_request_that_says_less_is_kept(release: str, device: str) -> None:
    nodes = [_variable("v", "/device:CPU:*"), _read("r", "v", "/cpu:1")]
    assert _placed(nodes, release, devices={"cpu": 3}) == {"v": device, "r": device}


@pytest.mark.parametrize(("release", "device"), [("1.15", "CPU:0"), ("2.21", "CPU:1")])
def test_devices_that_tie_are_nested(release: str, device: str) -> None:
    """13.5: neither of the two requests says all that the other says."""
    nodes = [_variable("v", "/task:0"), _read("r", "v", "/cpu:1")]
    assert _placed(nodes, release, devices={"cpu": 3}) == {"v": device, "r": device}


def test_resources_whose_devices_are_not_nested() -> None:
    nodes = [_variable("v", "/cpu:1"), _variable("w", "/task:0"), CONST]
    inputs = ["v", "w", "k", "k", "k"]
    nodes.append({"op": "ResourceApplyMomentum", "name": "M", "inputs": inputs, "attrs": {"T": "float"}})
    assert set(_placed(nodes, "2.21", devices={"cpu": 3}).values()) == {"CPU:1"}
    assert _message(nodes, "1.15", devices={"cpu": 3}) == (
        "Cannot place the graph because a reference or resource edge connects colocation groups with incompatible resource "
        "devices: /task:0 vs /device:CPU:1. The edge src node is w , and the dst node is M"
    )


@pytest.mark.parametrize(("release", "device"), [("1.15", "CPU:0"), ("2.21", "CPU:1")])
def test_a_labelled_node_holds_its_name_in_late_releases(release: str, device: str) -> None:
    """13.7: c asks to be with b, which is labelled itself."""
    nodes: list[dict[str, Any]] = [
        {**CONST, "name": "a"},
        {**CONST, "name": "b", "device": "/cpu:1", "attrs": {"_class": ["loc:@x"]}},
        {**CONST, "name": "c", "attrs": {"_class": ["loc:@b"]}},
    ]
    assert _placed(nodes, release, devices={"cpu": 2})["c"] == device


@pytest.mark.parametrize(("release", "device"), [("1.15", "CPU:0"), ("2.21", "CPU:1")])
def test_identities_follow_inputs_in_late_releases(release: str, device: str) -> None:
    """13.9."""
    nodes: list[dict[str, Any]] = [
        {"op": "Neg", "name": "n", "inputs": ["k"], "device": "/cpu:1", "attrs": {"T": "float"}},
        {"op": "Identity", "name": "i", "inputs": ["n"], "attrs": {"T": "float"}},
        {"op": "Neg", "name": "m", "inputs": ["i"], "device": "/cpu:1", "attrs": {"T": "float"}},
    ]
    assert _placed([CONST, *nodes], release, devices={"cpu": 2})["i"] == device


def test_cut_control_edges_and_small_constants() -> None:
    """13.10 and 13.11."""
    nodes: list[dict[str, Any]] = [
        CONST,
        *(
            {"op": "Neg", "name": n, "inputs": ["k"], "device": f"/cpu:{i}", "attrs": {"T": "float"}}
            for i, n in enumerate("ab")
        ),
        {"op": "NoOp", "name": "last", "inputs": ["^b"], "device": "/cpu:0"},
    ]
    sent = {
        release: [row.tensor for row in placesim.place({"raw": True, "nodes": nodes, "tensorflow": release}, cpu=2).transfers]
        for release in RELEASE_NAMES
    }
    assert sent == {"1.15": ["k:0", "b/_2:0"], "2.21": ["b/ctrl/_0:0"]}


@pytest.mark.parametrize(("release", "mib"), [("1.15", 819), ("2.21", 1536)])
def test_what_is_left_to_the_system(release: str, mib: int) -> None:
    """13.12: 5 % of 16 GiB, or what a GPU of compute capability 8 is told to leave."""
    assert reserved_memory(16384 * MIB, "8.0", RELEASES[release]) // MIB == mib
    assert reserved_memory(3072 * MIB, "8.0", RELEASES["1.15"]) == 300 * MIB


@pytest.mark.parametrize(
    ("release", "line"),
    [
        (
            "1.15",
            f"Created TensorFlow device ({TASK}GPU:0 with 10868 MB memory) -> physical GPU (device: 0, name: Tesla K40c, ",
        ),
        ("2.21", f"Created device {TASK}GPU:0 with 10941 MB memory:  -> device: 0, name: Tesla K40c, "),
    ],
)
def test_what_is_told_of_a_gpu_that_is_made(release: str, line: str) -> None:
    log: list[Any] = []
    placesim.devices(gpu=1, gpu_model="Tesla K40c", tensorflow=release, log=log.append)
    assert GPU_MODELS["Tesla K40c"].memory == 11441 * MIB
    assert log[0].text.startswith(line)


NO_KERNEL = [{"op": "Placeholder", "name": "p", "attrs": {"dtype": "string"}}]
NO_KERNEL += [{"op": "Neg", "name": "n", "inputs": ["p"], "attrs": {"T": "string"}}]


def test_a_node_without_kernel() -> None:
    """13.13: the definition, which allows no `Neg` of strings, is not asked."""
    with pytest.raises(GraphFileError):
        _placed(NO_KERNEL, "1.15")
    nodes: list[dict[str, Any]] = [{"op": "KernelLabelRequired", "name": "n", "inputs": ["k"]}]
    asked = [{**CONST, "value": 1}, *nodes]
    assert "used by {{node n}}with these attrs: []\nRegistered devices: [CPU, XLA_CPU]" in _message(asked, "1.15")
    assert "used by {{node n}} with these attrs: []\nRegistered devices: [CPU]" in _message(asked, "2.21")


@pytest.mark.parametrize(("release", "devices"), [("1.15", "{}"), ("2.21", "{requested: '/foo:bar', assigned: ''}")])
def test_the_debug_string_of_a_node(release: str, devices: str) -> None:
    assert f"op device:{devices} def:" in _message([{**CONST, "device": "/foo:bar"}], release)


def test_an_op_of_another_release() -> None:
    op = {"op": "Rpc", "name": "r"}
    with pytest.raises(GraphFileError, match=r"an op of TensorFlow 2\.21\.0.*; TensorFlow 1\.15 has it \(--tensorflow 1\.15\)"):
        placesim.place({"nodes": [op]})
    with pytest.raises(GraphFileError, match=r"an op of TensorFlow 1\.15\.5; TensorFlow 2\.21 has it"):
        placesim.place({"nodes": [{"op": "RaggedBincount"}]}, tensorflow="1.15")


def test_what_the_command_line_says_counts() -> None:
    graph = {"nodes": [CONST], "tensorflow": 1.15}
    assert len(placesim.place(graph).devices) == 2
    assert len(placesim.place(graph, tensorflow="2.21").devices) == 1


def test_the_key_may_follow_the_nodes() -> None:
    text = "nodes:\n  - {op: TensorForestTreeResourceHandleOp, name: t}\ntensorflow: 1.15\n"
    assert [row.op for row in placesim.place(io.StringIO(text)).placements] == ["TensorForestTreeResourceHandleOp"]


def test_a_builder_of_a_release() -> None:
    builder = placesim.GraphBuilder(tensorflow="1.15")
    builder.add("TensorForestTreeResourceHandleOp", name="t")
    assert len(placesim.place(builder).devices) == 2
    with pytest.raises(UsageError, match="release differs from the builder's"):
        placesim.place(builder, tensorflow="2.21")


def test_kernels_have_the_attrs_that_only_the_current_release_knows() -> None:
    """13.15: in 1.15 `FusedBatchNormV3` has no `exponential_avg_factor`."""
    x = np.arange(8, dtype=np.float32).reshape(1, 2, 2, 2)
    nodes: list[dict[str, Any]] = [
        {"op": "Const", "name": "x", "value": x},
        {"op": "Const", "name": "s", "value": np.ones(2, np.float32)},
        {"op": "Const", "name": "e", "value": np.zeros(0, np.float32)},
        {"op": "FusedBatchNormV3", "name": "y", "inputs": ["x", "s", "s", "e", "e"], "attrs": {"T": "float", "U": "float"}},
    ]
    found = [placesim.run({"nodes": nodes, "fetch": ["y"]}, tensorflow=name).results["y"] for name in RELEASE_NAMES]
    assert "exponential_avg_factor" not in load_registry("1.15").op("FusedBatchNormV3").attrs  # type: ignore[union-attr]
    np.testing.assert_array_equal(*found)
