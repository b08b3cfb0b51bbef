"""Conflicts are minimal, and edits do what placing the edited graph does: over the corpus' failures, and in small graphs."""

from __future__ import annotations

from dataclasses import replace
from itertools import islice
from typing import Any

import pytest

from placesim.inspection.explaining.annotations import Annotation, Annotations
from placesim.inspection.explaining.conflict import find_conflict
from placesim.inspection.explaining.edits import Setting, SoftPlacementSwitch, more_devices
from placesim.inspection.explaining.inquiry import inquire
from placesim.inspection.explaining.trials import Trials, place_setting
from placesim.inspection.snapshot import ReportedError, SimulationState
from tests.inspection.subjects import ROOT, corpus_snapshots, inquiry, snapshot

LABELS = """devices: {cpu: 3}
raw: true
nodes:
  - {op: NoOp, name: far, device: '/device:CPU:2'}
  - {op: NoOp, name: a, device: '/device:CPU:1'}
  - {op: NoOp, name: b, device: '/device:CPU:2', attrs: {_class: ['loc:@a']}}
"""


def setting_of(live: SimulationState) -> Setting:
    assert live.placement is not None
    placement = live.placement
    annotations = Annotations(live.graph, live.is_raw)
    return Setting(live.graph, annotations, placement.device_set, placement.groups.soft, live.sizes)


@pytest.mark.corpus
def test_a_conflict_is_minimal(subtests: pytest.Subtests) -> None:
    failures = list(islice(corpus_snapshots("hostile", 40, wants_error=True), 80))
    assert len(failures) == 80
    for case, found in failures:
        with subtests.test(case):
            live = found.live
            assert live is not None
            assert live.placement is not None
            setting = setting_of(live)
            conflict = find_conflict(Trials(setting, live.placement))
            assert conflict.is_minimal
            rest = [annotation for annotation in setting.annotations.all() if annotation not in conflict.annotations]
            assert not is_placeable(setting, rest)
            for annotation in conflict.annotations:
                assert is_placeable(setting, [*rest, annotation])


def is_placeable(setting: Setting, dropped: list[Annotation]) -> bool:
    changes = dict.fromkeys(dropped, "")
    graph = setting.annotations.changed(setting.graph, changes, changes)
    return place_setting(replace(setting, graph=graph)).error is None


def test_what_contradicts_is_named_and_mended() -> None:
    found = snapshot(LABELS)
    asked = inquire(found)
    assert asked is not None
    error = asked.explained_error(found)
    assert error is not None
    assert error.conflict is not None
    assert error.remedies is not None
    assert [(str(a.location), str(a)) for a in error.conflict.annotations] == [
        ("g.yaml:5:5", "device /device:CPU:1 of a"),
        ("g.yaml:6:5", "device /device:CPU:2 of b"),
        ("g.yaml:6:5", "colocation of b with a"),
    ]
    mended = {outcome.edit.text: outcome.device for outcome in error.remedies.outcomes}
    assert {text: device and device[-5:] for text, device in mended.items()} == {
        "drop the device /device:CPU:2 of b": "CPU:1",
        "drop the colocation of b with a": "CPU:2",
        "change the device /device:CPU:2 of b to /device:CPU:1": "CPU:1",
        "drop the device /device:CPU:1 of a": "CPU:2",
        "change the device /device:CPU:1 of a to /device:CPU:2": "CPU:2",
        "turn soft placement on (--soft-placement)": "CPU:0",
    }


MISSING = """devices: {cpu: 1, gpu: 2}
nodes:
  - device: /gpu:2
    nodes:
      - {variable: w, shape: [4, 4]}
      - {op: MatMul, name: y, inputs: [w, w]}
  - {op: Mean, name: loss, inputs: [y, [0, 1]]}
  - {train: {minimize: loss, optimizer: {GradientDescent: {learning_rate: 0.1}}}, name: train}
  - {initializer: init}
run:
  - fetch: [init]
  - fetch: [train]
"""


def test_a_scope_is_to_blame_for_requests_copied_from_its_nodes() -> None:
    found = snapshot(MISSING)
    asked = inquire(found)
    assert asked is not None
    error = asked.explained_error(found)
    assert error is not None
    assert error.conflict is not None
    assert error.remedies is not None
    assert [(str(a.location), str(a)) for a in error.conflict.annotations] == [
        ("g.yaml:3:13", "device /gpu:2 of the scope around w")
    ]
    assert {str(outcome.edit.text): (outcome.device, outcome.error) for outcome in error.remedies.outcomes}[
        "change the device /gpu:2 of the scope around w to /device:GPU:1"
    ] == ("/job:localhost/replica:0/task:0/device:GPU:1", None)


def test_without_an_annotation_none_is_to_blame() -> None:
    found = snapshot(
        "nodes:\n  - {op: NcclAllReduce, inputs: [1.0], attrs: {reduction: sum, num_devices: 1, shared_name: s}}\n"
    )
    asked = inquire(found)
    assert asked is not None
    error = asked.explained_error(found)
    assert error is not None
    assert error.conflict is not None
    assert error.remedies is not None
    assert error.conflict.annotations == ()
    assert [outcome.edit.text for outcome in error.remedies.outcomes if outcome.error is None] == ["one more GPU (--gpu 1)"]


@pytest.mark.parametrize(
    ("edit", "options"),
    [
        (SoftPlacementSwitch(True), {"gpu": 1, "soft_placement": True}),
        (None, {"gpu": 2, "soft_placement": False}),
    ],
)
def test_a_session_wide_edit_is_the_command_lines_option(edit: SoftPlacementSwitch | None, options: dict[str, Any]) -> None:
    path = ROOT / "graphs" / "cifar10-towers.yaml"
    live = snapshot(path, gpu=1, soft_placement=False).live
    assert live is not None
    setting = setting_of(live)
    made = edit or more_devices(setting.devices, setting.devices.client.spec.address_space, "GPU")
    placement = place_setting(made.apply(setting))
    expected = {node.name: node.device for node in snapshot(path, **options).nodes}
    nodes = placement.graph.nodes
    found = {nodes[i].name: device.name for i in placement.log if (device := placement.devices[i]) is not None}
    assert found == expected


def test_the_smallest_edits_come_first() -> None:
    asked = inquiry(ROOT / "graphs" / "cifar10-towers.yaml", gpu=1, soft_placement=True)
    (explained,) = asked.explained(["tower_1/conv1"])
    assert explained.alternatives is not None
    outcomes = explained.alternatives.outcomes
    assert [(o.edit.reach, o.device) for o in outcomes] == sorted((o.edit.reach, o.device) for o in outcomes)
    assert [o.edit.text for o in outcomes][-1] == "one more GPU (--gpu 2)"
    assert explained.alternatives.untried == 0


def test_another_element_type_is_tried_where_only_that_excludes_a_kernel() -> None:
    asked = inquiry("nodes:\n  - {op: Const, name: a, value: [[1]]}\n  - {op: MatMul, name: m, inputs: [a, a]}\n", gpu=1)
    (explained,) = asked.explained(["m"])
    assert explained.alternatives is not None
    assert [(o.edit.text, o.device and o.device[-5:]) for o in explained.alternatives.outcomes] == [
        ("change T of m from int32 to float32", "GPU:0")
    ]


def test_a_variable_and_what_is_colocated_with_it_change_their_element_type_together() -> None:
    variable = "{variable: v, shape: [], dtype: int32, initializer: {value: 0}, device: '/gpu:0'}"
    asked = inquiry(f"nodes:\n  - {variable}\nrun: [{{fetch: [v]}}]\n", gpu=1, soft_placement=True)
    (explained,) = asked.explained(["v"])
    assert explained.alternatives is not None
    (outcome,) = explained.alternatives.outcomes
    assert (outcome.edit.text, outcome.moved) == (
        "change dtype of v from int32 to int64",
        3,
    )  # the constant goes where its consumer is
    assert (outcome.device or "").endswith("GPU:0")


def test_trials_end_when_their_nodes_are_used_up() -> None:
    live = snapshot(ROOT / "graphs" / "towers.yaml", gpu=4).live
    assert live is not None
    assert live.placement is not None
    assert Trials(setting_of(live), live.placement, budget=0).remaining == 12
    assert Trials(setting_of(live), live.placement, budget=700).remaining == 100


GROWING = """devices: {cpu: 3}
raw: true
nodes:
  - {op: VariableV2, name: v, device: '/device:CPU:1', attrs: {dtype: float, shape: []}}
run:
  - fetch: []
  - nodes:
      - {op: Identity, name: read, inputs: [v], device: '/device:CPU:2', attrs: {T: float}}
      - {op: VariableV2, name: w, attrs: {dtype: float, shape: [], _class: ['loc:@read']}}
    fetch: [w]
"""


def test_a_graph_that_grows_is_placed_as_often_as_the_session_does() -> None:
    live = snapshot(GROWING).live
    assert live is not None
    assert live.placement is not None
    assert live.sizes == (1, 3)
    placement = place_setting(setting_of(live))
    assert placement.devices == live.placement.devices
    assert placement.groups.assigned == live.placement.groups.assigned == {0: live.placement.devices[0].name}  # type: ignore[union-attr]


@pytest.mark.parametrize(
    ("entry", "node"),
    [
        ("{variable: v, shape: [2], initializer: zeros}", "v/read"),
        ("{variable: v, shape: [2], initializer: zeros, kind: resource}", "v"),
        ("{op: Neg, name: n, inputs: [[1.0]]}", "n/x"),
    ],
)
def test_a_device_that_is_given_is_a_line_that_gives_one(entry: str, node: str) -> None:
    text = f"devices: {{gpu: 1}}\nnodes:\n  - {entry}\n"
    (explained,) = inquiry(text).explained([node])
    assert explained.alternatives is not None
    (given,) = [outcome for outcome in explained.alternatives.outcomes if outcome.edit.text.startswith("set the device ")]
    edited = snapshot(text.replace("}\n", ", device: '/device:CPU:0'}\n").replace("1, device: '/device:CPU:0'}", "1}"))
    devices = {placed.name: placed.device for placed in edited.nodes}
    before = {placed.name: placed.device for placed in snapshot(text).nodes}
    assert given.device == devices[node]
    assert given.moved == sum(device != before[name] for name, device in devices.items())


def test_a_large_scope_takes_few_trials() -> None:
    nodes = "".join(f"      - {{op: NoOp, name: n{i}, device: '/gpu:{i % 3}'}}\n" for i in range(2000))
    live = snapshot(f"nodes:\n  - device: /job:localhost\n    nodes:\n{nodes}").live
    assert live is not None
    assert live.placement is not None
    trials = Trials(setting_of(live), live.placement)
    before = trials.remaining
    conflict = find_conflict(trials)
    assert [annotation.node for annotation in conflict.annotations] == ["n0"]
    assert before - trials.remaining < 30


def test_a_summary_says_node_once_before_a_member_of_a_group() -> None:
    error = ReportedError("InvalidArgumentError", "{{node a}}: because the node {{colocation_node b}} was colocated")
    assert str(error.summary) == "InvalidArgumentError: node a: because the node b was colocated"
