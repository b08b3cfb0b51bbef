"""`placesim.explain`, `check`, `diff`, `show` and `convert`: what the commands say, for Python callers."""

from __future__ import annotations

import inspect
import io
import json
from collections.abc import Callable
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest

import placesim
from placesim.machine.options import OptionValues, SimulationOptions
from tests.cli.shell import ROOT, Shell

TOWERS = str(ROOT / "graphs" / "towers.yaml")
MISSING = str(ROOT / "graphs" / "missing-gpu.yaml")
GRAPH: dict[str, Any] = {
    "devices": {"cpu": 1, "gpu": 2},
    "nodes": [
        {"op": "Const", "name": "a", "value": [1.0, 2.0], "device": "/cpu:0"},
        {"op": "Square", "name": "b", "inputs": ["a"], "device": "/gpu:1"},
    ],
    "fetch": ["b"],
}
BARE: dict[str, Any] = {**GRAPH, "devices": {"cpu": 1}}
FUNCTIONS: dict[str, Callable[..., Any]] = {
    name: getattr(placesim, name)
    for name in ("run", "place", "memory", "simulate", "sweep", "plan", "explain", "check", "diff", "show", "convert")
}


class Frame(HTMLParser):
    """The page in a notebook's frame, as a browser reads it."""

    page = ""

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.page = dict(attrs).get("srcdoc") or self.page


def page_in(html: str) -> str:
    frame = Frame()
    frame.feed(html)
    return frame.page


@pytest.mark.slow
@pytest.mark.parametrize(
    ("command", "report"),
    [
        (["explain", TOWERS, "--gpu", "4"], lambda: placesim.explain(TOWERS, gpu=4)),
        (["explain", TOWERS, "MatMul*", "--gpu", "4"], lambda: placesim.explain(TOWERS, "MatMul*", gpu=4)),
        (["explain", TOWERS, "Const", "--gpu", "4", "--edits", "0"], lambda: placesim.explain(TOWERS, "Const", gpu=4, edits=0)),
        (["explain", MISSING], lambda: placesim.explain(MISSING)),
        (
            ["check", TOWERS, "--gpu", "1", "--soft-placement", "--rule", "no-soft-fallback", "--rule", "max-transfers=1"],
            lambda: placesim.check(TOWERS, "no-soft-fallback", {"max-transfers": 1}, gpu=1, soft_placement=True),
        ),
        (["check", MISSING], lambda: placesim.check(MISSING)),
        (
            ["check", TOWERS, "--gpu", "4", "--rule", "max-peak-memory=1KiB", "--rule", "max-step-time=1us"],
            lambda: placesim.check(TOWERS, "max-peak-memory=1KiB", "max-step-time=1us", gpu=4),
        ),
        (["diff", TOWERS, MISSING, "--gpu", "4"], lambda: placesim.diff(TOWERS, MISSING, gpu=4)),
        (["diff", TOWERS, TOWERS, "--gpu", "4"], lambda: placesim.diff(TOWERS, TOWERS, gpu=4)),
        (
            ["diff", TOWERS, "--soft-placement", "--a-gpu", "4", "--b-gpu", "1"],
            lambda: placesim.diff(TOWERS, soft_placement=True, before_options={"gpu": 4}, after_options={"gpu": 1}),
        ),
        (
            ["diff", TOWERS, "--gpu", "4", "--b-no-soft-placement", "--b-device", "AddN=/gpu:1"],
            lambda: placesim.diff(TOWERS, gpu=4, after_options={"soft_placement": False, "device": {"AddN": "/gpu:1"}}),
        ),
        (["simulate", TOWERS, "--gpu", "4"], lambda: placesim.simulate(TOWERS, gpu=4)),
        (
            ["plan", TOWERS, "--gpu", "4", "--free-all", "--evaluations", "5", "--jobs", "1"],
            lambda: placesim.plan(TOWERS, gpu=4, free="*", evaluations=5, jobs=1),
        ),
        (["show", TOWERS, "--gpu", "4"], lambda: placesim.show(TOWERS, gpu=4)),
        (["show", TOWERS, "--gpu", "4", "--memory"], lambda: placesim.show(TOWERS, gpu=4, memory=True)),
        (["show", TOWERS, "--no-memory", "--depth", "1"], lambda: placesim.show(TOWERS, depth=1, memory=False)),
    ],
    ids=lambda case: " ".join(case[:1]) if isinstance(case, list) else "",
)
def test_a_report_says_what_the_command_says(shell: Shell, command: list[str], report: Callable[[], Any]) -> None:
    found = report()
    assert shell(*command).output == found.text()
    document = json.loads(shell(*command, "--format", "json").output)
    assert found.document() == document
    assert found.to_dict() == document
    assert json.loads(json.dumps(document)) == document
    assert "\n" not in repr(found)
    assert len(repr(found).replace(TOWERS, "towers.yaml")) < 150


def test_rules_are_texts_or_mappings_and_a_policy_a_file_or_its_content(tmp_path: Path) -> None:
    rules = ["no-soft-fallback", {"max-transfers": 0}]
    (tmp_path / "policy.yaml").write_text(json.dumps({"rules": rules}))
    found = [
        placesim.check(GRAPH, *rules),  # type: ignore[arg-type]  # a list of both kinds
        placesim.check(GRAPH, policy={"rules": rules}),
        placesim.check(GRAPH, policy=tmp_path / "policy.yaml"),
        placesim.check(GRAPH, "no-soft-fallback", "max-transfers=0"),
    ]
    assert [report.rules for report in found] == [("no-soft-fallback", "max-transfers")] * 4
    assert [[str(finding.message) for finding in report.findings] for report in found] == [
        ["2 transfers, limit 0; largest: a:0 to GPU:1 (8 bytes), b:0 to CPU:0 (8 bytes); the rule `baseline` names new ones"]
    ] * 4
    assert not found[0].is_kept
    assert found[0].sarif()["runs"][0]["results"][0]["ruleId"] == "max-transfers"
    assert found[0].github().startswith("::error file=")
    with pytest.raises(placesim.UsageError, match="did you mean 'max-transfers'"):
        placesim.check(GRAPH, "max-transfer=1")
    with pytest.raises(placesim.GraphFileError, match="unknown rule"):
        placesim.check(GRAPH, {"max-transfer": 1})
    with pytest.raises(placesim.GraphFileError, match="no rules"):
        placesim.check(GRAPH, policy={})


def test_an_explanation_by_name() -> None:
    found = placesim.explain(GRAPH, "b")
    assert found["b"].proof.device == "/job:localhost/replica:0/task:0/device:GPU:1"  # type: ignore[union-attr]
    with pytest.raises(KeyError):
        found["a"]
    with pytest.raises(placesim.UsageError, match="did you mean 'b'"):
        placesim.explain(GRAPH, "B")
    with pytest.raises(placesim.UsageError, match="wrong edits: got -1"):
        placesim.explain(GRAPH, "b", edits=-1)


def test_what_run_and_place_give_is_a_source_as_is_a_written_report(tmp_path: Path) -> None:
    placed = placesim.place(GRAPH)
    (tmp_path / "placed.json").write_text(json.dumps(placed.document()))
    written = str(tmp_path / "placed.json")
    assert placesim.diff(placed, GRAPH).is_same
    assert placesim.diff(written, placed).is_same
    assert placesim.explain(placed, "b").text() == placesim.explain(GRAPH, "b", cost=False).text()
    assert placesim.explain(written, "b").to_dict()["nodes"][0]["requested"] == "/device:GPU:1"
    assert placesim.check(placed, "max-transfers=1").text() == placesim.check(GRAPH, "max-transfers=1").text()
    assert placesim.show(placed).to_dict()["scopes"] == placesim.show(GRAPH).to_dict()["scopes"]
    with pytest.raises(placesim.UsageError, match="a report holds no memory: got a report, expected the graph"):
        placesim.check(placed, "max-peak-memory=1KiB")
    with pytest.raises(placesim.UsageError, match="nothing to compare with"):
        placesim.diff(GRAPH)


def test_an_open_file_is_read_once() -> None:
    text = json.dumps(GRAPH)
    assert not placesim.diff(io.StringIO(text), before_options={"gpu": 2}, after_options={"gpu": 3}).difference.moved
    assert placesim.check(io.BytesIO(text.encode()), "max-peak-memory=4GiB", "max-step-time=1s").is_kept


def test_a_graph_that_cannot_be_placed_is_an_answer() -> None:
    assert placesim.explain(BARE).to_dict()["error"]["type"] == "InvalidArgumentError"
    assert [finding.rule for finding in placesim.check(BARE, "no-soft-fallback").findings] == ["placeable"]
    assert placesim.diff(GRAPH, BARE).difference.error_after is not None
    assert "can't be placed" in repr(placesim.show(BARE))
    with pytest.raises(placesim.InvalidArgumentError):
        placesim.convert(BARE, placed=True)


@pytest.mark.parametrize("form", ["yaml", "json", "pb", "pbtxt"])
def test_a_converted_graph_is_the_same_graph(form: str, tmp_path: Path) -> None:
    path = tmp_path / "new" / f"graph.{form}"
    written = placesim.convert(GRAPH, path)
    assert written.content == path.read_bytes() == placesim.convert(GRAPH, format=form).content
    assert written.form == form
    assert placesim.place(path, gpu=2).placements == placesim.place(GRAPH).placements
    assert bool(written.notes) == (form in ("pb", "pbtxt"))  # its devices and steps
    if form == "pb":
        with pytest.raises(placesim.UsageError, match="not text: got a binary GraphDef"):
            written.text()
    else:
        assert written.text().encode() == written.content


def test_a_converted_graph_may_ask_for_the_devices_of_its_placement() -> None:
    graph = {**GRAPH, "nodes": [{**node, "device": None} for node in GRAPH["nodes"]]}
    assert "/gpu:0" in placesim.convert(graph, placed=True).text()
    assert "/gpu:" not in placesim.convert(graph).text()
    assert "raw: true" in placesim.convert(graph, nodes="raw").text()


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"out": "graph.txt"}, "unknown extension: got 'graph.txt', expected one of .yaml"),
        ({"format": "xml"}, "wrong format: got 'xml', expected one of yaml, json, pb, pbtxt"),
        ({"nodes": "flat"}, "wrong nodes: got 'flat', expected one of exact, raw, scopes"),
        ({"out": "/proc/no/graph.pb"}, "cannot write /proc/no/graph.pb"),
        ({"gpus": 1}, "no such option: got gpus.*did you mean 'gpu'"),
    ],
)
def test_a_wrong_conversion_is_a_usage_error(options: dict[str, Any], message: str) -> None:
    with pytest.raises(placesim.UsageError, match=message):
        placesim.convert(GRAPH, **options)


def test_a_difference_has_a_page_of_both_steps_where_one_is_asked_for() -> None:
    source = {"devices": {"cpu": 1, "gpu": 1}, "nodes": [{"op": "Const", "name": "a", "value": 1.0}], "fetch": ["a"]}
    plain = placesim.diff(source, after_options={"gpu": 2})
    assert plain.page() is None
    assert plain._repr_html_().startswith("<pre>")
    shown = placesim.diff(source, before_options={"gpu": 2}, after_options={"gpu": 3}, page=True)
    page = shown.page()
    assert page is not None
    assert page.startswith("<!DOCTYPE html>")
    assert shown._repr_html_().startswith("<iframe")
    with pytest.raises(placesim.UsageError, match="cannot make a page from a report"):
        placesim.diff(placesim.place(source), source, page=True)


def test_a_notebook_shows_the_page_in_a_frame_and_the_text_where_there_is_none() -> None:
    shown, placed, timed = placesim.show(GRAPH), placesim.place(GRAPH), placesim.simulate(GRAPH)
    assert page_in(shown._repr_html_()) == shown.page()
    assert page_in(placed._repr_html_()) == placed.page()
    assert page_in(timed._repr_html_()) == timed.page()
    assert shown.page().lower().startswith("<!doctype html>")
    assert placesim.check(GRAPH, "max-transfers=0")._repr_html_().startswith("<pre>&lt;mapping&gt;:1:1: max-transfers")
    swept = placesim.sweep(GRAPH, {"gpu": [2, 3]})
    assert page_in(swept._repr_html_()) == swept.page()
    ran = placesim.run(GRAPH)
    assert ran._repr_html_() == "<pre>[1. 4.]\n</pre>" + placed._repr_html_()
    same = placesim.diff(GRAPH, after_options={"timeout": 60})
    assert (
        same._repr_html_()
        == "<pre>&lt;placesim.DiffReport of &lt;mapping&gt; and &lt;mapping&gt; (timeout=60): the same&gt;</pre>"
    )
    planned = placesim.plan(GRAPH, evaluations=2, jobs=1)
    assert planned.page() is None
    assert planned._repr_html_().startswith("<pre>a step takes ")
    assert page_in(placesim.plan(GRAPH, evaluations=2, jobs=1, page=True)._repr_html_()) != ""


def test_every_report_is_the_rows_of_its_main_table() -> None:
    reports: tuple[tuple[Any, str, list[Any]], ...] = (
        (placesim.run(GRAPH), "node", ["b", "a"]),
        (placesim.memory(GRAPH), "allocator", ["cpu", "GPU_1_bfc"]),
        (placesim.simulate(GRAPH), "node", ["b"]),
        (placesim.explain(GRAPH), "node", ["b", "a"]),
        (placesim.check(GRAPH, "max-transfers=0"), "rule", ["max-transfers"]),
        (placesim.check(GRAPH, "max-transfers=1"), "rule", []),
        (placesim.diff(GRAPH, after_options={"device": {"b": "/gpu:0"}}), "node", ["b"]),
        (placesim.show(GRAPH, gpu=3), "nodes", [2]),
        (placesim.plan(GRAPH, evaluations=2, jobs=1), "label", ["as annotated"]),
    )
    for report, column, values in reports:
        rows = list(report)
        assert len(report) == len(rows) == len(report.to_dataframe())
        assert report[:] == tuple(rows) == tuple(report.rows)
        assert [row[column] for row in rows[: len(values)]] == values
        assert report
    why = placesim.explain(GRAPH)
    assert why["a"] is why.nodes[1]


def test_a_report_is_told_in_a_line() -> None:
    assert repr(placesim.place(TOWERS, gpu=4)) == "<placesim.Report of towers: 7 nodes on 5 devices>"
    assert repr(placesim.run(GRAPH)) == "<placesim.Report of <mapping>: 2 nodes on 3 devices, 1 result>"
    with pytest.raises(placesim.InvalidArgumentError) as caught:
        placesim.run(BARE)
    assert repr(caught.value.report).endswith(", InvalidArgumentError>")


@pytest.mark.parametrize("name", FUNCTIONS)
def test_a_function_tells_its_options(name: str) -> None:
    function = FUNCTIONS[name]
    parameters = inspect.signature(function).parameters
    assert set(SimulationOptions.__dataclass_fields__) <= set(parameters)
    assert not [p for p in parameters.values() if p.kind is inspect.Parameter.VAR_KEYWORD]
    own = {"batch": "int | Literal['auto'] | None"} if name == "memory" else {}
    for option in SimulationOptions.__dataclass_fields__:
        assert parameters[option].annotation == own.get(option, SimulationOptions.__dataclass_fields__[option].type)
    assert function.__doc__ is not None
    assert "`inventory`: a file with a `devices:` document" in function.__doc__


def test_every_parameter_is_in_the_manual() -> None:
    from placesim.cli.manual_pages import read_page

    page = read_page("python")
    documented = {
        name.strip(" `") for row in page.splitlines() if row.startswith("| `") for name in row.split("|")[1].split(",")
    }
    for name, function in FUNCTIONS.items():
        taken = {p.name for p in inspect.signature(function).parameters.values() if p.kind is inspect.Parameter.KEYWORD_ONLY}
        assert taken <= documented, (name, taken - documented)


def test_type_checkers_see_every_option() -> None:
    seen = {name: value.__forward_arg__ for name, value in OptionValues.__annotations__.items()}
    assert seen == SimulationOptions.__annotations__
