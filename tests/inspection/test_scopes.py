"""The tree of name scopes, and what is drawn of it."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from placesim.inspection.byte_amounts import Amount
from placesim.inspection.picturing.drawing import copies_by_edge, draw
from placesim.inspection.picturing.picture import InputSource, PictureNode
from placesim.inspection.picturing.scopes import FOLD_LIMIT, Scope, find_open_scopes, scope_tree, unfold
from placesim.inspection.short_device_names import short_names
from tests.inspection.pictures import picture, towers_text


def nodes(*names: str) -> list[PictureNode]:
    return [PictureNode(name, "NoOp", 0, "", 4) for name in names]


def shape(scope: Scope) -> object:
    """The tree as labels and ids."""
    return {scope.label: [shape(child) if isinstance(child, Scope) else child for child in scope.children]}


@pytest.mark.parametrize(
    ("names", "tree"),
    [
        (["a", "b"], {"": [0, 1]}),
        (["s/a", "t", "s/b"], {"": [{"s": [0, 2]}, 1]}),
        (["v", "v/read", "w"], {"": [{"v": [0, 1]}, 2]}),
        (["s/t/a", "s/t/b", "x"], {"": [{"s/t": [0, 1]}, 2]}),
        (["s/v", "s/v/read"], {"": [{"s/v": [0, 1]}]}),
        (["s/t/a", "s/b"], {"": [{"s": [{"t": [0]}, 1]}]}),
        ([], {"": []}),
    ],
)
def test_nodes_stand_in_their_scopes(names: list[str], tree: object) -> None:
    assert shape(scope_tree(nodes(*names))) == tree


def test_without_folding_every_scope_stands_by_itself() -> None:
    assert shape(scope_tree(nodes("s/t/a"), fold_limit=None)) == {"": [{"s": [{"t": [0]}]}]}


def test_what_differs_in_numbers_becomes_a_series() -> None:
    tree = scope_tree(nodes("x", *(f"layer_{i}/a" for i in range(5)), "y"), fold_limit=4)
    ranges = [{"layer_0 … layer_1": list_of(0, 2)}, {"layer_2 … layer_3": list_of(2, 4)}, *list_of(4, 5)]
    assert shape(tree) == {"": [0, {"layer_*": ranges}, 6]}


def list_of(first: int, end: int) -> list[object]:
    return [{f"layer_{i}": [i + 1]} for i in range(first, end)]


def test_a_series_is_no_scope_of_the_graph() -> None:
    tree = scope_tree(nodes(*(f"a_{i}" for i in range(100))))
    assert [(scope.label, scope.is_folded) for scope in tree.scopes] == [("a_*", True)]


def test_many_children_fold_their_long_series_and_keep_the_rest() -> None:
    names = [*(f"other_{chr(97 + i)}" for i in range(32)), "AddN", *(f"AddN_{i}" for i in range(1, 6)), "conv1", "conv2"]
    tree = scope_tree(nodes(*names))
    assert [(scope.label, scope.total.number) for scope in tree.scopes] == [("AddN_*", 6)]
    assert len(tree.children) == 35


def test_a_series_that_is_all_there_is_stays_as_it_is() -> None:
    tree = scope_tree(nodes(*(f"layer_{i}/a" for i in range(48))))
    assert [scope.label for scope in tree.scopes] == [f"layer_{i}" for i in range(48)]


def test_a_series_is_named_by_what_is_seen() -> None:
    tree = scope_tree(nodes("x", *(f"s/layer_{i}/sub/{end}" for i in range(61) for end in "ab")))
    assert [scope.label for scope in tree.scopes] == ["s"]
    assert [(scope.name, scope.label) for scope in tree.scopes[0].scopes] == [("s/layer_*/sub", "layer_*/sub")]


words = st.sampled_from(["a", "b", "c_1", "c_2", "c_3", "d10"])
names_of_nodes = st.lists(st.lists(words, min_size=1, max_size=4).map("/".join), unique=True, max_size=60)


@given(names_of_nodes, st.integers(2, 6))
def test_the_tree_holds_every_node_once_and_folds_what_is_too_much(names: list[str], limit: int) -> None:
    tree = scope_tree(nodes(*names), limit)
    assert sorted(tree.node_ids()) == list(range(len(names)))
    assert all(len(scope.children) <= limit for _, scope in tree.walk())
    for _, scope in tree.walk():
        assert scope.total == Amount(len(inside := list(scope.node_ids())), 4 * len(inside))
        assert scope.first == min(inside, default=0)


def test_scopes_may_be_nested_deeper_than_the_stack() -> None:
    tree = scope_tree(nodes("/".join(["s"] * 5000) + "/a", "s/b"))
    assert tree.total.number == 2


def test_a_scope_counts_by_device() -> None:
    rows = [PictureNode("s/a", "NoOp", 1, "", 8), PictureNode("s/b", "NoOp", 0, "", None), PictureNode("c", "NoOp", -1, "", 1)]
    tree = scope_tree(rows)
    assert tree.by_device == {-1: Amount(1, 1), 0: Amount(1, 0, 1), 1: Amount(1, 8)}
    assert tree.scopes[0].by_device == {0: Amount(1, 0, 1), 1: Amount(1, 8)}


def test_whole_levels_are_opened_while_they_fit() -> None:
    tree = scope_tree(nodes("s/a/x", "s/a/y", "s/b", "t/c", "t/d"))
    s, t = tree.scopes
    assert unfold(tree, 2) == {tree}
    assert unfold(tree, 6) == {tree, s, t}
    assert unfold(tree, 8) == {tree, s, t, s.scopes[0]}
    assert find_open_scopes(tree, 1) == {tree}
    assert find_open_scopes(tree, 2) == {tree, s, t}


def test_what_stands_alone_is_opened_however_much_it_holds() -> None:
    tree = scope_tree(nodes(*(f"only/a_{i}" for i in range(10))))
    assert unfold(tree, 5) == {tree, tree.scopes[0]}


# --- what is drawn --------------------------------------------------------------------------------------------------


def test_links_join_what_is_seen_and_each_copy_counts_once() -> None:
    seen = picture(towers_text(2, 2), gpu=2)
    tree = scope_tree(seen.nodes)
    drawing = draw(seen, tree, {tree})
    assert [box.name for box in drawing.boxes if isinstance(box, Scope)] == ["model", "tower_0", "tower_1", "train"]
    # each tower gets two weights of 64 * 64 and two biases of 64 floats, once each though forward and gradients read them
    link = next(link for link in drawing.links if (link.source, link.target) == (0, 1))
    assert link.copies == Amount(4, 2 * (64 * 64 + 64) * 4)
    assert link.edges == 6
    assert link.is_data


def test_every_copy_belongs_to_an_edge_or_to_a_fetch() -> None:
    seen = picture(towers_text(2, 2), gpu=2)
    needed = copies_by_edge(seen)
    used = {
        needed[source.node, source.slot, node.device]
        for node in seen.nodes
        for source in node.inputs
        if (source.node, source.slot, node.device) in needed
    }
    fetched = {index for index, copy in enumerate(seen.copies) if seen.nodes[copy.node].op == "Shape"}
    assert len(fetched) == 4
    assert used == set(range(len(seen.copies))) - fetched


def test_an_open_scope_is_no_box() -> None:
    seen = picture(towers_text(1, 1), gpu=1)
    tree = scope_tree(seen.nodes)
    everything = {scope for _, scope in tree.walk()}
    drawing = draw(seen, tree, everything)
    assert sorted(box for box in drawing.boxes if isinstance(box, int)) == list(range(len(seen.nodes)))
    edges = {(drawing.boxes[link.source], drawing.boxes[link.target]) for link in drawing.links}
    assert edges == {(source.node, node_id) for node_id, node in enumerate(seen.nodes) for source in node.inputs}


def test_control_edges_are_told_from_data() -> None:
    seen = picture("nodes: [{op: NoOp, name: a}, {op: NoOp, name: b, inputs: [^a]}]")
    assert seen.nodes[1].inputs == (InputSource(0, -1),)
    tree = scope_tree(seen.nodes)
    (link,) = draw(seen, tree, {tree}).links
    assert not link.is_data


def test_devices_have_short_names() -> None:
    assert short_names(["/job:localhost/replica:0/task:0/device:GPU:0"]) == ["GPU:0"]
    tasks = ["/job:ps/replica:0/task:0/device:CPU:0", "/job:worker/replica:0/task:1/device:GPU:2"]
    assert short_names(tasks) == ["ps:0/CPU:0", "worker:1/GPU:2"]


def test_a_large_scope_fits_on_a_screen() -> None:
    tree = scope_tree(nodes(*(f"a_{i}/b" for i in range(20_000))))
    assert max(len(scope.children) for _, scope in tree.walk()) <= FOLD_LIMIT
