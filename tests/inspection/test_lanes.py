"""Lanes: what each device runs, in the order of execution, and what is copied between them."""

from __future__ import annotations

from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from placesim.inspection.picturing.drawing import copies_by_edge
from placesim.inspection.picturing.lanes import PictureLanes, arrange_lanes, columns_of
from placesim.inspection.picturing.picture import Picture, picture_of
from placesim.inspection.picturing.scopes import Scope, page_tree
from placesim.inspection.written_placement import baseline_snapshot
from tests.inspection.pictures import picture, snapshot, towers_text

TOWERS = towers_text(2, 2)
PLACED = st.lists(st.tuples(st.integers(0, 12), st.integers(-1, 3)), min_size=1, max_size=30).map(
    # every place has a box, as `box_places` makes them
    lambda rows: [(place, device) for place, device in rows] + [(place, 0) for place in range(max(row[0] for row in rows))]
)


def lanes_of(seen: Picture, most: int = 7) -> PictureLanes:
    return arrange_lanes(seen, *page_tree(seen.nodes), most)


def names(seen: Picture, lanes: PictureLanes, device: int) -> list[str]:
    return [p.item.name if isinstance(p.item, Scope) else seen.nodes[p.item].name for p in lanes.of_device(device)]


def test_a_scope_on_two_devices_stands_in_both_lanes() -> None:
    seen = picture(TOWERS, gpu=2)
    lanes = lanes_of(seen)
    assert names(seen, lanes, 2) == ["tower_1/images", "tower_1/layer_0", "tower_1/layer_1", "tower_1/gradients"]
    assert "train/layer_1" in names(seen, lanes, 0)
    assert "train/layer_1" in names(seen, lanes, 1)
    assert sorted(node for piece in lanes.pieces for node in piece.nodes) == list(range(len(seen.nodes)))


def test_wires_are_what_is_copied_and_lead_between_lanes() -> None:
    seen = picture(TOWERS, gpu=2)
    lanes = lanes_of(seen)
    read = {(source.node, source.slot, node.device) for node in seen.nodes for source in node.inputs}
    copied = {copy for key, copy in copies_by_edge(seen).items() if key in read}
    assert sum(wire.copies.number for wire in lanes.wires) >= len(copied) > 0
    for wire in lanes.wires:
        assert wire.target is not None
        assert lanes.pieces[wire.source].device != lanes.pieces[wire.target].device == wire.lane


def test_where_all_is_on_one_device_its_links_are_wires() -> None:
    lanes = lanes_of(picture("nodes: [{op: Const, name: a, value: 1.0}, {op: Neg, name: b, inputs: [a]}]"))
    assert [(wire.source, wire.target, wire.copies.number) for wire in lanes.wires] == [(0, 1, 0)]
    assert [piece.column for piece in lanes.pieces] == [0, 1]


def test_a_written_report_leads_to_lanes() -> None:
    live = snapshot(TOWERS, gpu=2)
    document = {
        "devices": [device._asdict() for device in live.devices],
        "placements": [{"node": n.name, "op": n.op, "device": n.device, "requested": n.requested} for n in live.nodes],
        "transfers": [row._asdict() for row in live.transfers],
        "error": None,
    }
    seen = picture_of(baseline_snapshot(document, "report.json"))
    lanes = lanes_of(seen)
    assert sum(wire.copies.number for wire in lanes.wires) == sum(copy.node >= 0 for copy in seen.copies)
    assert {wire.target for wire in lanes.wires} == {None}


def highest(placed: list[tuple[int, int]], columns: list[int]) -> int:
    """The most boxes that a lane has in a column."""
    stacks = [(columns[place], device) for place, device in placed]
    return max(map(stacks.count, stacks))


def partitions(count: int, most: int) -> list[list[int]]:
    """All ways to cut so many places into at most so many columns."""
    found = [[0]]
    for _ in range(count - 1):
        found = [[*cut, cut[-1] + step] for cut in found for step in (0, 1)]
    return [cut for cut in found if cut[-1] < most]


@given(PLACED, st.integers(1, 5))
def test_columns_keep_the_order_and_the_highest_stack_is_as_low_as_can_be(placed: list[tuple[int, int]], most: int) -> None:
    columns = columns_of(placed, most)
    places = max(place for place, _ in placed) + 1
    assert len(columns) == places
    assert columns[0] == 0
    assert all(after - before in (0, 1) for before, after in pairwise(columns))
    assert columns[-1] < max(most, 1)
    if places <= 9:
        assert highest(placed, columns) == min(highest(placed, cut) for cut in partitions(places, most))
