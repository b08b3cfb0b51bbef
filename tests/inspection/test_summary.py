"""What each device holds and does."""

from __future__ import annotations

import pytest

from placesim.api.runs import place
from placesim.formats.graph_file.reader import read_graph_file
from placesim.graph.node_patterns import matcher
from placesim.inspection.byte_amounts import Amount
from placesim.inspection.summary import held_bytes, operations, summarise_outcome
from tests.inspection.subjects import CPU, GPU, ROOT, snapshot


def test_the_rows_of_the_towers() -> None:
    rows = summarise_outcome(place(str(ROOT / "graphs" / "cifar10-towers.yaml"), gpu=1, soft_placement=True))
    by_device = {row.device: row for row in rows}
    assert list(by_device) == [CPU, GPU]
    assert sum(row.nodes for row in rows) == len(place(str(ROOT / "graphs" / "cifar10-towers.yaml"), gpu=2).placements)
    assert by_device[GPU].variables == Amount()
    assert by_device[CPU].sent == by_device[GPU].received
    assert by_device[CPU].received == by_device[GPU].sent


@pytest.mark.parametrize(
    ("entry", "size"),
    [
        ("{op: Const, value: [1.0, 2.0, 3.0]}", 12),
        ("{op: Const, value: 1, shape: [10, 10], dtype: int64}", 800),
        ("{op: Const, value: [ab, cde]}", 5),
        ("{op: VarHandleOp, attrs: {dtype: double, shape: [3, 4]}}", 96),
        ("{op: VarHandleOp, attrs: {dtype: double, shape: [-1, 4]}}", None),
        ("{op: VarHandleOp, attrs: {dtype: double, shape: unknown}}", None),
        ("{op: VarHandleOp, attrs: {dtype: string, shape: [2]}}", None),
    ],
)
def test_what_a_node_holds(entry: str, size: int | None) -> None:
    assert held_bytes(read_graph_file(f"nodes:\n  - {entry}\n").graph.nodes[0]) == size


def test_floating_point_operations_of_each_device() -> None:
    product = "{op: MatMul, inputs: [a, a], attrs: {transpose_b: true}}"
    text = f"nodes:\n  - {{op: Const, name: a, value: 1.0, shape: [3, 4]}}\n  - {product}\n"
    live = snapshot(text, gpu=1).live
    assert live is not None
    assert live.placement is not None
    found, unknown = operations(live.placement)
    assert (found, unknown) == ({CPU: 0, GPU: 2 * 3 * 4 * 3}, 0)


NAMES = ("a", "a/b", "a/b/c", "ab", "d[0]")


@pytest.mark.parametrize(
    ("patterns", "names"),
    [
        (["a"], ["a"]),
        (["a/"], ["a/b", "a/b/c"]),
        (["a*"], ["a", "a/b", "a/b/c", "ab"]),
        (["a/?"], ["a/b"]),
        (["[ad]b", "a/b"], ["a/b", "ab"]),
        (["d[0]"], ["d[0]"]),
        (["A"], []),
        ([], []),
    ],
)
def test_patterns_over_names(patterns: list[str], names: list[str]) -> None:
    assert list(filter(matcher(patterns), NAMES)) == names
