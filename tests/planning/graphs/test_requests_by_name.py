"""`placement` as a plan writes it: as few names and scopes as say it."""

from __future__ import annotations

from collections.abc import Mapping

import pytest
from hypothesis import given
from hypothesis import strategies as st

from placesim.formats.graph_file.reader import read_graph_file
from placesim.formats.graph_file.writing.text_edits import EditableText
from placesim.graph.node_patterns import matcher
from placesim.planning.graphs.requests_by_name import needed_rows, placement_rows

NAMES = st.lists(st.sampled_from("abc"), min_size=1, max_size=4).map("/".join)


def given_by(rows: Mapping[str, str], name: str) -> str | None:
    """What the last row that fits a name gives it."""
    return next((device for pattern, device in reversed(list(rows.items())) if matcher((pattern,))(name)), None)


@pytest.mark.slow
@given(st.dictionaries(NAMES, st.sampled_from("xyz"), min_size=1, max_size=12), st.data())
def test_rows_give_what_moves_its_device_and_nothing_another(where: dict[str, str], data: st.DataObject) -> None:
    moved = data.draw(st.sets(st.sampled_from(sorted(where))))
    rows = placement_rows(moved, where)
    assert len(rows) <= len(moved)
    for name, device in where.items():
        assert given_by(rows, name) in ((device,) if name in moved else (device, None))


def test_a_scope_is_asked_for_as_one_with_exceptions() -> None:
    where = {"a/b/c": "x", "a/b/d": "x", "a/e": "x", "a/f": "y", "g": "y"}
    assert placement_rows(where, where) == {"a/": "x", "a/f": "y", "g": "y"}


@given(st.sets(NAMES), st.sets(NAMES), st.integers(0, 40))
def test_rows_that_are_not_needed_are_left_out(names: set[str], needed: set[str], trials: int) -> None:
    rows, tried = dict.fromkeys(sorted(names | needed), "x"), list[set[str]]()

    def is_enough(left: Mapping[str, str]) -> bool:
        tried.append({*left})
        return needed <= left.keys()

    left = needed_rows(rows, is_enough, trials)
    assert needed <= left.keys() <= rows.keys()
    assert len(tried) <= trials
    if trials >= 2 * len(rows):
        assert left.keys() == needed


def test_a_name_as_deep_as_it_likes() -> None:
    name = "a/" * 5000 + "a"
    assert placement_rows({name}, {name: "x"}) == {name: "x"}


GRAPH = """\
nodes:
  - {op: Const, name: x, value: 1.0}  # one
  - {op: Neg, name: y, inputs: [x]}
placement: {x: /cpu:0, y: null}  # two
run:
  - fetch: [y]
"""


def test_rows_come_after_those_that_are_there() -> None:
    text = EditableText(GRAPH).with_placement({"x": "/gpu:0", "*": "/gpu:1"})
    assert text.startswith("nodes:\n  - {op: Const, name: x, value: 1.0}  # one\n")
    assert text.endswith("placement:\n  y: null\n  x: /gpu:0\n  '*': /gpu:1\n")
    assert [node.device for node in read_graph_file(text).graph.nodes] == ["/device:GPU:1"] * 2


def test_json_gets_it_as_json() -> None:
    text = EditableText('{"nodes": [{"op": "NoOp", "name": "x"}]}').with_placement({"x": "/gpu:0"})
    assert text == '{"placement": {"x": "/gpu:0"}, "nodes": [{"op": "NoOp", "name": "x"}]}'
