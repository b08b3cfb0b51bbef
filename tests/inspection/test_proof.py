"""Every part of a proof agrees with the placement, over TensorFlow's own models; and what the proofs of small graphs say."""

from __future__ import annotations

from itertools import islice

import pytest

from placesim.core.errors import UsageError
from placesim.inspection.explaining.inquiry import Inquiry, inquire, select_nodes
from tests.inspection.subjects import CPU, GPU, LOCAL, ROOT, corpus_snapshots, inquiry, snapshot

VARIABLE = """devices: {cpu: 2, gpu: 1}
nodes:
  - {variable: v, shape: [2], initializer: zeros, kind: resource, device: '/cpu:0'}
  - {op: Const, name: c, value: [1.0, 2.0]}
  - {op: AssignVariableOp, name: set, inputs: [v, c], device: '/cpu:1'}
"""
MADE = ("IsInitialized/VarIsInitializedOp", "Assign", "Read/ReadVariableOp")
INT_MATMUL = """devices: {cpu: 1, gpu: 1}
nodes:
  - {op: Const, name: a, value: [[1]]}
  - {op: MatMul, name: m, inputs: [a, a]}
"""


@pytest.mark.slow
@pytest.mark.parametrize("name", ["models", "small"])
def test_every_proof_agrees_with_the_placement(name: str) -> None:
    for case, found in islice(corpus_snapshots(name, 420, wants_error=False), 60):
        inquiry = inquire(found)
        assert inquiry is not None, case
        check_proofs(inquiry, {node.name: node.device for node in found.nodes})


def check_proofs(inquiry: Inquiry, devices: dict[str, str]) -> None:
    for explained in inquiry.explained_briefly():
        proof = explained.proof
        assert proof.device == devices[proof.node]
        assert proof.device in proof.candidates or proof.rule in ("assigned", "argument", "result")
        if proof.rule == "default":
            assert proof.device == proof.candidates[0]
        supported = [support.device_type for support in proof.kernels if support.priority is not None]
        assert set(proof.types) <= set(supported) or not supported
        if proof.group is not None:
            assert {devices[name] for name in proof.group.members} == {proof.device}
            # what joins n nodes is a tree of n - 1 merges
            assert len(proof.group.merges) == len(proof.group.members) - 1
        if proof.followed is not None:
            assert devices[proof.followed] == proof.device


def test_the_whole_proof_of_an_overridden_request() -> None:
    proof = inquiry(VARIABLE).explain("set")
    assert proof is not None
    assert (proof.device, proof.requested, str(proof.location)) == (CPU, "/device:CPU:1", "g.yaml:5:5")
    assert [str(origin.location) for origin in proof.origins] == ["g.yaml:5:5"]
    assert proof.overridden is not None
    assert (proof.overridden.source, proof.overridden.ignored, proof.overridden.taken) == (
        "v",
        "/device:CPU:1",
        "/device:CPU:0",
    )
    assert proof.group is not None
    assert proof.group.members == ("v/Initializer/zeros", "v", *(f"v/{n}" for n in MADE), "set")
    assert [merge.text for merge in proof.group.merges] == [
        *(f"v/{name} refers to v by its input 0" for name in MADE),
        "set refers to v by its input 0",
        "v is colocated with v/Initializer/zeros by the label loc:@v",
    ]
    assert (proof.held_to.requested, proof.held_to.resource) == ("/device:CPU:0", "/device:CPU:0")
    assert (proof.rule, proof.followed) == ("group", "v/IsInitialized/VarIsInitializedOp")


def test_the_constraint_that_excludes_a_kernel_is_named() -> None:
    proof = inquiry(INT_MATMUL).explain("m")
    assert proof is not None
    (gpu, cpu) = proof.kernels
    assert (gpu.device_type, gpu.priority, gpu.registered) == ("GPU", None, True)
    (exclusion,) = gpu.exclusions
    assert (exclusion.attr, exclusion.value.name) == ("T", "int32")
    assert str(exclusion).startswith("T is int32, kernels accept")
    assert "float32" in str(exclusion)
    assert (cpu.device_type, cpu.priority) == ("CPU", 0)
    assert proof.device == CPU


def test_a_request_names_the_scopes_that_it_comes_from() -> None:
    asked = inquiry(
        "nodes:\n"
        "  - device: /job:localhost\n"
        "    nodes:\n"
        "      - device: [/cpu:0, /cpu:1]\n"
        "        nodes:\n"
        "          - {op: Const, name: c, value: 1.0}\n"
        "          - {op: Const, name: own, value: 1.0, device: /cpu:2}\n",
        cpu=3,
    )

    def origins(name: str) -> list[tuple[str, str]]:
        proof = asked.explain(name)
        assert proof is not None
        return [(str(origin.location), origin.text) for origin in proof.origins]

    assert origins("c") == [("g.yaml:4:18", "/cpu:0"), ("g.yaml:2:13", "/job:localhost")]
    assert origins("c_1") == [("g.yaml:4:26", "/cpu:1"), ("g.yaml:2:13", "/job:localhost")]
    assert origins("own")[0] == ("g.yaml:7:13", "/job:localhost/device:CPU:2")


def test_soft_placement_says_what_it_gave_up() -> None:
    proof = inquiry(ROOT / "graphs" / "towers.yaml", gpu=1, soft_placement=True).explain("MatMul_1")
    assert proof is not None
    assert (proof.device, proof.requested) == (GPU, "/device:GPU:3")
    assert proof.soft_steps == (
        "no device with a kernel matches /device:GPU:3; "
        "TensorFlow drops type and id, and the request then matches any device (7.2c i)",
    )


def test_soft_merges_and_ignored_labels_are_told() -> None:
    text = """devices: {cpu: 3}
config: {allow_soft_placement: true}
raw: true
nodes:
  - {op: Const, name: k, attrs: {dtype: float, value: {tensor: {dtype: float, shape: [], value: 1.0}}}}
  - {op: Neg, name: a, inputs: [k], device: '/device:CPU:1', attrs: {T: float}}
  - {op: Neg, name: b, inputs: [k], device: '/device:CPU:2', attrs: {T: float, _class: ['loc:@a']}}
  - {op: VariableV2, name: v, device: '/device:CPU:1', attrs: {dtype: float, shape: []}}
  - {op: VariableV2, name: w, device: '/device:CPU:2', attrs: {dtype: float, shape: [], _class: ['loc:@v']}}
"""
    asked = inquiry(text)
    b, w = asked.explain("b"), asked.explain("w")
    assert b is not None
    assert w is not None
    assert b.soft_steps == (
        "conflicting requests in the group (/device:CPU:1 of a, /device:CPU:2 of b): they have /device:CPU:* in common (7.2a)",
    )
    ((label, sentence),) = w.ignored_labels
    assert label == "v"
    assert sentence.endswith("Cannot merge devices with incompatible ids: '/device:CPU:2' and '/device:CPU:1'")


@pytest.mark.parametrize(
    ("pattern", "names"),
    [
        ("a", ["a"]),
        ("v*", ["v", "v/Assign", "v/read", "v/Initializer/zeros"]),
        ("v/", ["v/Assign", "v/read", "v/Initializer/zeros"]),
    ],
)
def test_patterns_choose_nodes(pattern: str, names: list[str]) -> None:
    text = "nodes:\n  - {op: Const, name: a, value: 1.0}\n  - {variable: v, shape: [], initializer: zeros}\n"
    assert select_nodes(snapshot(text), [pattern]) == names


def test_a_pattern_for_nothing_names_the_nearest() -> None:
    with pytest.raises(UsageError, match=r"no such node: got 'Matmul', expected .*; did you mean 'MatMul'"):
        select_nodes(snapshot(ROOT / "graphs" / "logging.yaml"), ["Matmul"])


def test_locals_are_what_the_corpus_calls_them() -> None:
    assert snapshot(INT_MATMUL).nodes[0].device.startswith(LOCAL)
