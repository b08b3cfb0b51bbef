"""Function bodies as the inspections see them: by paths `call/f/x`, counted apart, whether lowered or called at run time."""

from __future__ import annotations

import json
from typing import Any

import pytest

import placesim
from placesim.core.errors import UsageError
from tests.placement.test_bodies import NEGATIVE, SQUARE, F, call, choose, function, graph

DEEP = function("deep", call("inner", called="g"), {**SQUARE, "inputs": ["inner:output:0"]}, result="sq:y:0")
GRAPH = graph(
    call("call"),
    call("same"),
    call("outer", called="deep", device="/cpu:2"),
    choose("whole", device="/cpu:2"),
    choose("if", lowered=True),
    functions=(F, NEGATIVE, DEEP),
)
CPU = "/job:localhost/replica:0/task:0/device:CPU:"


def rows(**options: Any) -> dict[str, dict[str, str]]:
    return {row["node"]: row for row in placesim.place(GRAPH, **options).document()["placements"]}


def test_rows_of_a_report_say_whose_body_they_belong_to() -> None:
    found = rows()
    row = {"node": "call/f/sq", "op": "Square", "device": f"{CPU}1", "requested": "/cpu:1", "body": "call/f"}
    assert found["call/f/sq"] == row
    assert found["outer/deep/inner/g/n"]["body"] == "outer/deep/inner/g"
    assert found["if/then/_0/sq"]["lowered_from"] == "if/f/sq"
    assert "body" not in found["if/then/_0/sq"]
    assert not {"body", "lowered_from"} & found["call"].keys()


def test_a_runs_rows_are_those_of_a_placement() -> None:
    """Whether a body was called or not; the text is TensorFlow's log, which has only those that it placed."""
    report = placesim.run({**GRAPH, "run": [{"fetch": ["call"], "feed": {"x": [1.0, 2.0]}}]}, log_placement=True)
    assert [row.node for row in report.placements] == [row.node for row in placesim.place(GRAPH).placements]
    assert report.log().count("sq: (Square)") == 2
    assert [placement.is_body for placement in report.placed] == [False, True]


def test_a_filter_takes_paths() -> None:
    from placesim.report.log_filter import filter_log, warn_unmatched

    report = placesim.place(GRAPH)
    patterns = ("call/f/", "if/f/*", "nothing/*")
    assert [row.node for row in filter_log(report, patterns).placements if row.op != "Identity"] == [
        *("if/then/_0/sq", "if/then/_0/plus"),
        *("call/f/x", "call/f/sq", "call/f/plus", "call/f/z_RetVal"),
    ]
    assert [warning.partition(" in ")[0] for warning in warn_unmatched(report, patterns)] == ["no node matches 'nothing/*'"]


# --- explain --------------------------------------------------------------------------------------------------------


def explained(*names: str, edits: int = 0) -> Any:
    return placesim.explain(GRAPH, *names, edits=edits, cost=False)


def test_explain_tells_of_a_nodes_call_and_why_it_is_there() -> None:
    text = explained("outer/deep/inner").text()
    assert f"outer/deep/inner: (PartitionedCall): {CPU}2" in text
    assert "part of         function deep, called by outer (PartitionedCall) on CPU:2" in text
    assert "the device of the call, preferred wherever possible (3.7, 9.8)" in text


@pytest.mark.parametrize(
    ("name", "rule"),
    [
        ("call/f/x", "argument"),
        ("call/f/sq", "default"),
        ("call/f/plus", "caller"),
        ("whole/f/sq", "whole"),
        ("if/then/_0/sq", "default"),
    ],
)
def test_how_a_device_was_chosen(name: str, rule: str) -> None:
    (node,) = explained(name).document()["nodes"]
    assert (node["node"], node["rule"]) == (name, rule)


def test_names_of_what_was_lowered_and_of_repeated_bodies() -> None:
    assert [node.proof.node for node in explained("if/f/sq").nodes] == ["if/then/_0/sq"]
    assert [node.proof.node for node in explained("same/f/sq").nodes] == ["call/f/sq"]
    assert [node.proof.node for node in explained("same/f/").nodes] == [
        *("call/f/x", "call/f/sq", "call/f/plus", "call/f/z_RetVal"),
    ]
    assert [node.proof.node for node in explained("if").nodes] == ["if"]
    (node,) = explained("if/f/sq").document()["nodes"]
    assert (node["lowered_from"], node["body"]) == ("if/f/sq", None)
    assert node["origins"][0]["text"] == "/cpu:1"


def test_a_path_that_there_is_not() -> None:
    with pytest.raises(UsageError, match=r"no such node: got 'call/f/sp'.*did you mean 'call/f/sq'"):
        explained("call/f/sp")


def test_edits_reach_into_functions() -> None:
    (node,) = explained("call/f/sq", edits=8).nodes
    assert node.alternatives is not None
    told = [(str(trial.edit.text), str(trial.device)[-5:]) for trial in node.alternatives.outcomes]
    assert ("drop the device /cpu:1 of sq in the function f", "CPU:0") in told
    assert ("change the device /cpu:1 of sq in the function f to /device:CPU:2", "CPU:2") in told


def test_what_runs_whole_moves_with_its_call_alone() -> None:
    (node,) = explained("whole/f/sq", edits=8).nodes
    assert node.alternatives is not None
    told = [str(trial.edit.text) for trial in node.alternatives.outcomes]
    assert any("of whole" in text for text in told)
    assert not any("in the function" in text for text in told)


def test_every_node_gets_its_line() -> None:
    lines = placesim.explain(GRAPH).text().splitlines()
    assert sum(line.startswith("call/f/") for line in lines) == 4
    assert len(lines) == len(rows())


# --- check, diff ----------------------------------------------------------------------------------------------------


def found_by(rule: str, **options: Any) -> list[str]:
    return [f"{finding.rule}: {finding.message}" for finding in placesim.check(GRAPH, rule, **options).findings]


def test_patterns_meet_bodies() -> None:
    assert found_by("on-device: {nodes: [call/f/sq, same/f/plus], device: CPU:0}") == [
        "on-device: call/f/sq (Square) must be on /device:CPU:0 and is on CPU:1"
    ]
    assert found_by("on-device: {nodes: [if/f/], ops: [Square], device: CPU:0}") == [
        "on-device: if/then/_0/sq (Square) must be on /device:CPU:0 and is on CPU:1"
    ]
    assert found_by("together: [call/g/*]") == ["together: no node matches 'call/g/*'"]


def test_requests_that_are_not_looked_at() -> None:
    assert found_by("no-overridden-request") == [
        "no-overridden-request: whole/f/sq requested /cpu:1, which is ignored: whole runs its functions entirely on CPU:2"
    ]
    assert found_by("no-soft-fallback") == []


def test_soft_placement_in_a_body() -> None:
    (finding,) = found_by("no-soft-fallback: {except: [if/]}", cpu=1, soft_placement=True)[:1]
    assert finding.startswith("no-soft-fallback: ")
    assert any(
        text.startswith("no-soft-fallback: call/f/sq requested")
        for text in found_by("no-soft-fallback", cpu=1, soft_placement=True)
    )


def test_a_body_that_cannot_be_placed_is_found() -> None:
    lost = graph(call("call"), functions=(function("f", {**SQUARE, "device": "/gpu:7"}, result="sq:y:0"),))
    (finding,) = placesim.check(lost).findings
    assert (finding.rule, finding.node) == ("placeable", "call/f/sq")
    assert str(finding.message).startswith("call/f, called by call, cannot be placed: InvalidArgumentError: ")


def test_balance_counts_the_graph_alone() -> None:
    (finding, *_) = found_by("balance: {of: nodes, type: CPU, within: 0}")
    alone = sum("body" not in row and row["device"] == f"{CPU}0" for row in rows().values())
    assert f"has {alone} nodes" in finding


def test_a_difference_has_the_moves_in_bodies() -> None:
    moved = graph(call("call", device="/cpu:2"), functions=(F,))
    difference = placesim.diff(graph(call("call"), functions=(F,)), moved)
    assert [(move.name, move.after[-1]) for move in difference.difference.moved if move.name.startswith("call/")] == [
        ("call/f/x", "2"),
        ("call/f/plus", "2"),
        ("call/f/z_RetVal", "2"),
    ]


def test_a_report_that_was_written_has_bodies_too() -> None:
    written = json.dumps(placesim.place(GRAPH).document())
    assert not placesim.diff(placesim.place(GRAPH), GRAPH).difference
    from placesim.inspection.written_placement import read_baseline

    snapshot = read_baseline(written.encode(), "report.json")
    assert snapshot is not None
    assert {node.name: (node.body, node.lowered_from) for node in snapshot.nodes} == {
        name: (row.get("body", ""), row.get("lowered_from", "")) for name, row in rows().items()
    }


# --- show -----------------------------------------------------------------------------------------------------------


def test_bodies_are_counted_apart() -> None:
    lines = [line.split("\t") for line in placesim.show(GRAPH).text().splitlines()]
    scopes = {line[1]: line for line in lines if line[0] in ("scope", "body")}
    placed = rows()
    assert int(scopes["."][2]) == sum("body" not in row for row in placed.values())
    assert scopes["call/f"][:3] == ["body", "call/f", "4"]
    assert scopes["outer/deep"][:3] == ["body", "outer/deep", "4"]
    assert scopes["outer/deep/inner"][:3] == ["body", "outer/deep/inner", "1"]
    assert scopes["outer/deep/inner/g"][:3] == ["body", "outer/deep/inner/g", "3"]
    assert ["repeat", "same/f", "call/f"] in lines
    assert sum(
        int(line[2]) for line in lines if line[0] == "body" and line[1] in {row.get("body") for row in placed.values()}
    ) == sum("body" in row for row in placed.values())


def test_the_json_of_show_tells_bodies_from_scopes() -> None:
    document = placesim.show(GRAPH).document()
    bodies = {scope["scope"]: scope["body"] for scope in document["scopes"]}
    assert (bodies["call"], bodies["call/f"], bodies["outer/deep/inner"]) == (None, "call/f", "outer/deep")
    assert document["repeats"] == [{"body": "same/f", "same_as": "call/f"}]


def test_the_summary_says_both() -> None:
    from placesim.inspection.summary import summarise_outcome
    from placesim.report.text.summary import format_summary, summary_document

    summaries = summarise_outcome(placesim.place(GRAPH))
    placed = rows().values()
    for row in summary_document(summaries):
        here = [other for other in placed if other["device"] == row["device"]]
        assert (row["nodes"], row["nodes_in_bodies"]) == (
            sum("body" not in other for other in here),
            sum("body" in other for other in here),
        )
    assert " in bodies" in format_summary(summaries)


def test_the_page_has_the_nodes_of_bodies_with_their_proofs() -> None:
    from placesim.inspection.picturing.picture import picture_of
    from placesim.report.pictures.page_data import page_document

    page = page_document(picture_of(placesim.place(GRAPH).snapshot()))
    names = page["nodes"]["name"]
    assert sorted(names) == sorted(rows())
    paragraphs, proofs = page["proofs"]["paragraphs"], page["proofs"]["proofs"]
    told = {
        name: {paragraphs[i][0]: paragraphs[i][1] for i in proofs[proof]}
        for name, proof in zip(names, page["proofs"]["of_node"], strict=True)
    }
    assert told["call/f/sq"]["Part of"] == "Function f, called by call (PartitionedCall) on CPU:0."
    assert told["whole/f/sq"]["Chosen"].startswith("CPU:2. whole runs its functions entirely on its own device")
    assert told["if/then/_0/sq"]["Part of"] == "The lowered form of if/f/sq."
    assert [page["scopes"]["name"][number] for number, is_body in enumerate(page["scopes"]["bodies"]) if is_body][:1] == [
        "call/f"
    ]


# --- convert --------------------------------------------------------------------------------------------------------


def moves(before: dict[str, Any], after: dict[str, Any]) -> tuple[Any, ...]:
    found = placesim.diff(before, after, memory=False, time=False).difference
    return (*found.moved, *found.added, *found.removed)


def test_placed_functions_ask_for_the_devices_of_their_nodes() -> None:
    """But for what runs whole somewhere (f and g, which `whole` calls): nobody looks at what that asks for."""
    written = placesim.convert(GRAPH, placed=True, format="json", nodes="raw")
    functions = {function["name"]: function for function in json.loads(written.text())["functions"]}
    asked = {node["name"]: node.get("device") for node in functions["deep"]["nodes"]}
    assert asked == {"inner": f"{CPU}2", "sq": f"{CPU}1"}
    assert {node["name"]: node.get("device") for node in functions["g"]["nodes"]} == {"n": None}
    assert not moves(GRAPH, json.loads(written.text()))


def test_a_node_with_several_devices_keeps_what_it_asks_for() -> None:
    nodes = graph(call("a", device="/cpu:1"), call("b", device="/cpu:2"), functions=(F,))
    written = json.loads(placesim.convert(nodes, placed=True, format="json", nodes="raw").text())
    (function,) = written["functions"]
    assert [node.get("device") for node in function["nodes"]] == [f"{CPU}1", None]
    assert not moves(nodes, written)


def test_names_of_functions_are_shown_as_they_can_be() -> None:
    name = "f\x1b[31m\n"
    hostile = graph(call("call", called=name), choose("if", lowered=True), functions=({**F, "name": name}, F, NEGATIVE))
    text = placesim.explain(hostile, "call/*", cost=False).text()
    assert "call/f\\x1b[31m\\n/sq: (Square): " in text
    assert "\x1b" not in text
