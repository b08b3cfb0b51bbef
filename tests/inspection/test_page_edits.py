"""What would change a placement, as the page tells it: tried for nodes that are not where they were asked to be."""

from __future__ import annotations

import pytest

from placesim.inspection.explaining.inquiry import inquire
from placesim.inspection.explaining.trials import LEAST_TRIALS
from placesim.inspection.picturing import edits
from placesim.inspection.picturing.edits import node_edits
from placesim.inspection.picturing.picture import picture_of
from placesim.report.pictures.page_data import page_document
from tests.inspection.pictures import picture, snapshot

MOVED = """
config: {allow_soft_placement: true}
devices: {cpu: 1, gpu: 1}
nodes:
  - {op: Const, name: a, value: 1.0, device: /gpu:3}
  - {op: Const, name: b, value: 1.0, device: /gpu:0}
  - {op: Neg, name: c, inputs: [a], device: /gpu:2}
  - {op: Neg, name: d, inputs: [c]}
"""
UNPLACED = "nodes: [{op: NoOp, name: a, device: /gpu:7}, {op: NoOp, name: b}]"


def test_nodes_that_were_moved_have_the_edits_that_explain_tries() -> None:
    seen = snapshot(MOVED)
    found = list(node_edits(picture_of(seen)))
    assert [edit.node for edit in found] == [0, 2]
    inquiry = inquire(seen)
    assert inquiry is not None
    for edit, explained in zip(found, inquiry.explained(["a", "c"]), strict=True):
        assert explained.alternatives is not None
        assert edit.found.outcomes == explained.alternatives.outcomes
        assert edit.device == explained.proof.device
    rows = page_document(picture_of(seen))["edits"]
    assert [row[0] for row in rows] == [0, 2]
    assert "graph.yaml:5:5: change the device /device:GPU:3 of a to /device:CPU:0; the node is then on CPU:0" in rows[0]


def test_where_a_graph_cannot_be_placed_the_node_to_blame_has_what_mends_it() -> None:
    [row] = page_document(picture(UNPLACED))["edits"]
    assert row[0] == 0
    assert any("turn soft placement on (--soft-placement); the node is then on CPU:0" in text for text in row[2:])


def test_a_page_does_not_wait_for_many_trials(monkeypatch: pytest.MonkeyPatch) -> None:
    entries = ", ".join(f"{{op: Const, name: c{i}, value: 1.0, device: /gpu:{i}}}" for i in range(1, 21))
    many = f"config: {{allow_soft_placement: true}}\ndevices: {{cpu: 1, gpu: 1}}\nnodes: [{entries}]"
    assert len(list(node_edits(picture(many)))) == 20
    monkeypatch.setattr(edits, "NODE_BUDGET", 20 * LEAST_TRIALS)
    some = list(node_edits(picture(many)))
    assert 0 < len(some) < 20
    assert sum(len(edit.found.outcomes) for edit in some) <= LEAST_TRIALS
    monkeypatch.setattr(edits, "NODE_BUDGET", 20 * LEAST_TRIALS - 1)
    assert list(node_edits(picture(many))) == []


def test_a_graph_that_is_no_file_has_no_command() -> None:
    assert page_document(picture(MOVED, name="<mapping>"))["explain"] == ""
    assert page_document(picture(MOVED, name="two words.yaml"))["explain"] == "placesim explain 'two words.yaml'"
