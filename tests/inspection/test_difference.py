"""Two placements compared: what moved, folded by scope, what came and went, transfers and errors."""

from __future__ import annotations

from pathlib import Path

from placesim.graph.node_patterns import enclosing_scopes
from placesim.inspection.byte_amounts import Amount
from placesim.inspection.difference import ScopeMove, compare, tensor_text
from placesim.inspection.snapshot import PlacedNode, Snapshot
from placesim.report.text.difference import format_difference
from tests.inspection.subjects import CPU, GPU, LOCAL, ROOT, snapshot


def placed(**devices: str) -> Snapshot:
    nodes = tuple(PlacedNode(name.replace("__", "/"), "NoOp", device, "") for name, device in devices.items())
    return Snapshot("x", (), nodes)


def test_nothing_differs_from_itself() -> None:
    found = snapshot(ROOT / "graphs" / "towers.yaml", gpu=4)
    assert not compare(found, found)


def test_moves_are_folded_by_the_largest_uniform_scope() -> None:
    before = placed(a__b__x="1", a__b__y="1", a__c="1", d__x="1", d__y="1", e__x="1", e__y="2", f__only="1", g="1")
    after = placed(a__b__x="2", a__b__y="2", a__c="2", d__x="2", d__y="1", e__x="3", e__y="3", f__only="2", g="1")
    assert compare(before, after).folded == (
        ScopeMove("a/", "1", "2", 3),
        ScopeMove("d/x", "1", "2", 1),
        ScopeMove("e/x", "1", "3", 1),
        ScopeMove("e/y", "2", "3", 1),
        ScopeMove("f/only", "1", "2", 1),
    )


def test_nodes_come_and_go() -> None:
    difference = compare(placed(a="1", b="1"), placed(b="1", c="1"))
    assert (difference.removed, difference.added, difference.moved) == (("a",), ("c",), ())


def test_transfers_of_each_pair() -> None:
    path = ROOT / "graphs" / "towers.yaml"
    difference = compare(snapshot(path, gpu=4), snapshot(path, gpu=1, soft_placement=True))
    gpu_2, gpu_3 = f"{LOCAL}GPU:2", f"{LOCAL}GPU:3"
    assert {(c.source, c.target): (c.before, c.after) for c in difference.transfers} == {
        (gpu_2, CPU): (Amount(1, 16), Amount()),
        (gpu_3, CPU): (Amount(1, 16), Amount()),
        (GPU, CPU): (Amount(), Amount(2, 32)),
    }
    assert difference.transfers[0].text == "GPU:2 -> CPU:0: 0 transfers (-1), 0 bytes (-16)"


def test_errors_that_appear() -> None:
    path = ROOT / "graphs" / "towers.yaml"
    difference = compare(snapshot(path, gpu=4), snapshot(path, gpu=1))
    assert difference.error_before is None
    assert difference.error_after is not None
    assert difference.error_after.type == "InvalidArgumentError"


def test_scopes_around_a_name() -> None:
    assert list(enclosing_scopes("a/b/c")) == ["a/", "a/b/"]
    assert list(enclosing_scopes("c")) == []


def test_new_transfers_are_named_for_each_pair(tmp_path: Path) -> None:
    nodes = (
        "devices: {cpu: 1, gpu: 1}\nnodes:\n"
        "  - {op: Const, name: a, value: [1.0, 2.0], device: /cpu:0}\n"
        "  - {op: Const, name: c, value: [1.0, 2.0], device: /cpu:0}\n"
        "  - {op: Mul, name: b, inputs: [a, OTHER], device: /gpu:0}\nfetch: [b]\n"
    )
    found = []
    for other in ("a", "c"):
        path = tmp_path / f"{other}.yaml"
        path.write_text(nodes.replace("OTHER", other), encoding="utf-8")
        found.append(snapshot(path))
    (change,) = compare(*found).transfers
    assert [tensor_text(row) for row in change.new] == ["c:0"]
    assert "    new: c:0 (8 bytes)\n" in format_difference(compare(*found), "a", "c")
    (back,) = compare(*reversed(found)).transfers
    assert back.new == ()
