"""The order of execution, and what of a scope is alike."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from placesim.cli.graph_arguments import open_subject
from placesim.inspection.picturing.details import allowed_devices, attr_texts, device_tasks, device_work, output_texts
from placesim.inspection.picturing.order import box_places, node_depths
from placesim.inspection.picturing.picture import InputSource, PictureNode, picture_of
from placesim.inspection.picturing.scopes import Scope, scope_tree
from placesim.studies.snapshots import DryRunNeed, DryRunNeeds
from tests.inspection.pictures import picture, towers_text

CIFAR = Path(__file__).parent.parent.parent / "graphs" / "cifar10-towers.yaml"


def node(name: str, *inputs: int, op: str = "Neg", device: int = 0) -> PictureNode:
    return PictureNode(name, op, device, "", 4, tuple(InputSource(i, 0) for i in inputs))


def test_a_nodes_depth_is_its_longest_path() -> None:
    chain = [node("a"), node("b", 0), node("c", 1), node("late"), node("end", 0, 2, 3)]
    assert node_depths(chain) == [0, 1, 2, 2, 3]


def test_what_leads_back_round_a_loop_does_not_count() -> None:
    loop = [
        node("start"),
        node("merge", 0, 3, op="Merge"),
        node("body", 1),
        node("next", 2, op="NextIteration"),
        node("exit", 1),
    ]
    assert node_depths(loop) == [0, 1, 2, 3, 2]
    ring = [node("a", 1), node("b", 0)]
    assert sorted(node_depths(ring)) == [0, 1]


@given(st.lists(st.integers(0, 9), min_size=1, max_size=12), st.lists(st.tuples(st.integers(0, 11), st.integers(0, 11))))
def test_places_follow_the_links_and_leave_no_gap(depths: list[int], links: list[tuple[int, int]]) -> None:
    inside = [(a, b) for a, b in links if a < len(depths) and b < len(depths) and a != b]
    places = box_places(depths, inside)
    for source, target in inside:
        if (depths[source], source) < (depths[target], target):
            assert places[source] < places[target]
    assert set(places) == set(range(max(places) + 1))


def folded(scope: Scope) -> dict[str, int]:
    return {child.label: child.copies for child in scope.scopes if child.copies}


def test_siblings_of_one_shape_are_one_box() -> None:
    seen = picture_of(open_subject(str(CIFAR), {}, wishes=DryRunNeeds()))
    tree = scope_tree(seen.nodes, folds_alike=True)
    assert folded(tree)["conv1 … softmax"] == 5
    assert not any(child.label.startswith("tower") and child.copies for child in tree.scopes)
    assert folded(scope_tree(seen.nodes)) == {}
    inside = next(child for child in tree.scopes if child.label == "conv1 … softmax")
    assert [child.label for child in inside.scopes] == ["conv1", "conv2", "local3", "local4", "softmax"]


def test_what_leads_from_one_to_another_is_not_alike() -> None:
    serial = [node("layer_0/a"), *(node(f"layer_{i}/a", i - 1) for i in range(1, 20))]
    assert folded(scope_tree(serial, folds_alike=True)) == {}
    parallel = [node("first"), *(node(f"layer_{i}/a", 0) for i in range(19))]
    assert folded(scope_tree(parallel, folds_alike=True)) == {"layer_*": 19}
    # the same but for what reads it: the last is the odd one
    read = [*parallel, node("reader", 19)]
    assert folded(scope_tree(read, folds_alike=True)) == {"layer_*": 18}


def test_devices_and_ops_tell_apart() -> None:
    nodes = [node("first"), *(node(f"n_{i}", 0, device=i % 2) for i in range(20))]
    assert folded(scope_tree(nodes, folds_alike=True)) == {"n_*": 10}
    tree = scope_tree(nodes, folds_alike=True)
    assert [scope.copies for scope in tree.scopes] == [10, 10]
    others = [node("first"), *(node(name, 0) for name in "abcdefghijklmnop")]
    assert folded(scope_tree(others, folds_alike=True)) == {}


# --- details


def test_a_request_allows_what_it_matches() -> None:
    devices = [f"/job:w/replica:0/task:{task}/device:{kind}:0" for task in (0, 1) for kind in ("CPU", "GPU")]
    assert allowed_devices("", devices) == [0, 1, 2, 3]
    assert allowed_devices("/device:GPU:0", devices) == [1, 3]
    assert allowed_devices("/job:w/task:1", devices) == [2, 3]
    assert allowed_devices("/device:GPU:7", devices) == []
    assert device_tasks(devices) == ["/job:w/task:0"] * 2 + ["/job:w/task:1"] * 2
    assert device_tasks(devices[:2]) == ["", ""]


def test_outputs_and_attributes_are_those_of_the_node() -> None:
    seen = picture(towers_text(1, 1), gpu=1)
    at = [found.name for found in seen.nodes].index("tower_0/layer_0/matmul")
    assert list(output_texts(seen))[at] == ("float32 [32,64]",)
    assert "transpose_a: false" in list(attr_texts(seen))[at]
    variable = [found.name for found in seen.nodes].index("model/layer_0/weights")
    assert list(output_texts(seen))[variable] == ("float32& [64,64]",)


def test_the_work_of_devices_is_what_their_nodes_cost() -> None:
    found = open_subject(str(CIFAR), {}, wishes=DryRunNeeds(costs=DryRunNeed.KNOWN))
    seen = picture_of(found)
    work = device_work(seen)
    assert found.costs is not None
    costs = [found.costs.of(node.name, ()) for node in seen.nodes if node.device == 1]
    assert work[1] == pytest.approx(sum(cost.here.seconds for cost in costs if cost is not None and cost.here is not None))
    assert device_work(picture(towers_text(1, 1), gpu=1)) == [None, None]
