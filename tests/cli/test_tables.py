"""Tables as CSV and Markdown, wherever a report has some: the lists of its JSON object."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Sequence
from importlib import import_module
from typing import Any

import click
import pytest

from placesim.cli.commands import command_named
from placesim.cli.option_types import Word
from placesim.report.text.tables import TableSpec
from placesim.studies import plan_study
from placesim.studies.plan_study import study_plan
from tests.cli.shell import ROOT, Shell

STAGES = str(ROOT / "graphs/pipeline.yaml")
SMALL = str(ROOT / "graphs/towers.yaml")
REPORTS = {
    "show": ("scopes", [STAGES, "--memory"]),
    "explain": ("explanation", [SMALL, "MatMul"]),
    "diff": ("difference", [SMALL, "--soft-placement", "--a-gpu", "4", "--b-gpu", "1", "--time", "--memory"]),
    "memory": ("memory", [SMALL]),
    "simulate": ("timing", [SMALL]),
    "plan": ("planning", [SMALL, "--free-all", "--evaluations", "5", "--jobs", "1"]),
    "check": ("findings", [SMALL, "--gpu", "1", "--soft-placement", "--rule", "no-soft-fallback"]),
}
"""Each command that has tables: the module of its text, and what to ask."""


def kinds_of(command: str) -> Sequence[TableSpec]:
    found: Sequence[TableSpec] = import_module(f"placesim.report.text.{REPORTS[command][0]}").TABLES
    return found


def parsed(text: str) -> list[dict[str, str]]:
    return list(csv.DictReader(io.StringIO(text)))


@pytest.mark.slow
@pytest.mark.parametrize("command", REPORTS)
def test_tables_of_reports(shell: Shell, command: str, monkeypatch: pytest.MonkeyPatch) -> None:
    found_once: dict[str, Any] = {}  # every form tells of the same search

    def study(*given: Any, **options: Any) -> Any:
        return found_once.get("plan") or found_once.setdefault("plan", study_plan(*given, **options))

    monkeypatch.setattr(plan_study, "study_plan", study)
    words, kinds = [command, *REPORTS[command][1]], kinds_of(command)
    whole = shell(*words, "--format", "markdown").output
    document = json.loads(shell(*words, "--format", "json").output)
    options = command_named(command).params
    names = next((param.type.words for param in options if param.name == "table" and isinstance(param.type, Word)), None)
    assert names == (tuple(kind.name for kind in kinds) if len(kinds) > 1 else None)
    shown = 0
    for index, kind in enumerate(kinds):
        chosen = ["--table", kind.name] if names else []
        rows = parsed(shell(*words, "--format", "csv", *chosen).output)
        ended = shell(*words, "--format", "markdown", *chosen)
        assert ended.output.splitlines()[0] == "| " + " | ".join(kind.columns) + " |"
        assert (f"### {kind.name}\n" in whole) is bool(rows and names)
        assert all(tuple(row) == kind.columns for row in rows)
        # each column is told of somewhere, but where there is nothing of its kind
        found = document.get(kind.path[0]) if len(kind.path) == 1 else None
        if isinstance(found, list):
            assert len(rows) == len(found)
            for column in kind.columns:
                assert all(column.split(".")[0] in row for row in found), column
        if not index:
            assert parsed(shell(*words, "--format", "csv").output) == rows
        shown += len(rows)
    assert shown


@pytest.mark.slow
def test_cells(shell: Shell) -> None:
    words = ["simulate", SMALL, "--top", "2"]
    document = json.loads(shell(*words, "--format", "json").output)
    rows = parsed(shell(*words, "--format", "csv").output)
    assert len(rows) == len(document["nodes"]) > 2
    assert {row["node"]: float(row["seconds"]) for row in rows} == {row["node"]: row["seconds"] for row in document["nodes"]}
    assert [float(row["seconds"]) for row in rows] == sorted((row["seconds"] for row in document["nodes"]), reverse=True)
    assert {row["is_uncertain"] for row in rows} == {"true", "false"}
    listed = shell(*words, "--format", "markdown", "--table", "nodes").output.splitlines()
    assert len(listed) == 6
    assert listed[-1] == f"{len(rows) - 2} more"


def test_what_became_of_nodes(shell: Shell) -> None:
    shell.write("a.yaml", "nodes: [{op: Const, name: a, value: 1}, {op: Const, name: b, value: 1}]")
    shell.write("b.yaml", "nodes: [{op: Const, name: a, value: 1}, {op: Const, name: c, value: 1}]")
    rows = parsed(shell("diff", "a.yaml", "b.yaml", "--a-gpu", "1", "--b-gpu", "0", "--format", "csv").output)
    gpu, cpu = (f"/job:localhost/replica:0/task:0/device:{kind}:0" for kind in ("GPU", "CPU"))
    assert [tuple(row.values()) for row in rows] == [("moved", "a", gpu, cpu), ("gone", "b", "", ""), ("new", "c", "", "")]
    shell.write("wrong.yaml", "nodes: [{op: Const, name: a, value: 1, device: '/gpu:7'}]")
    words = ["diff", "a.yaml", "wrong.yaml", "--gpu", "1", "--no-soft-placement", "--format", "csv", "--table", "errors"]
    assert [(row["side"], row["type"], row["node"]) for row in parsed(shell(*words).output)] == [
        ("after", "InvalidArgumentError", "a")
    ]


@pytest.mark.parametrize(
    ("words", "ending"),
    [
        (["show", SMALL], ".csv"),
        (["explain", SMALL], ".md"),
        (["explain", SMALL, "MatMul"], ".json"),
        (["diff", SMALL, "--soft-placement", "--a-gpu", "4", "--b-gpu", "1"], ".csv"),
        (["memory", SMALL], ".csv"),
        (["simulate", SMALL], ".md"),
        (["check", SMALL, "--gpu", "1", "--rule", "no-soft-fallback", "--soft-placement"], ".sarif"),
        (["check", SMALL, "--gpu", "1", "--rule", "no-soft-fallback", "--soft-placement"], ".xml"),
        (["check", SMALL, "--gpu", "1", "--rule", "no-soft-fallback", "--soft-placement"], ".jsonl"),
    ],
)
def test_the_ending_tells_the_form(shell: Shell, words: list[str], ending: str) -> None:
    forms = {".md": "markdown", ".xml": "junit"}
    printed = shell(*words, "--format", forms.get(ending, ending[1:]))
    written = shell(*words, "--output", f"out{ending}")
    assert (written.code, written.output) == (printed.code, "")
    assert (shell.directory / f"out{ending}").read_text() == printed.output != ""


def test_a_finding_a_line(shell: Shell) -> None:
    words = ["check", SMALL, "--gpu", "1", "--soft-placement", "--rule", "no-soft-fallback"]
    rows = list(map(json.loads, shell(*words, "--format", "jsonl").output.splitlines()))
    assert rows == json.loads(shell(*words, "--format", "json").output)["findings"] != []


@pytest.mark.parametrize(
    ("words", "complaint"),
    [
        (["memory", SMALL, "--table", "holders"], "--table needs tables: got format text"),
        (["memory", SMALL, "--table", "holder", "--format", "csv"], "got 'holder', expected devices or holders"),
        (["explain", SMALL, "--output", "a.svg"], "cannot infer a format from a.svg in --output"),
    ],
)
def test_what_is_no_table(shell: Shell, words: list[str], complaint: str) -> None:
    ended = shell(*words)
    assert ended.code == 2
    assert complaint in ended.complaint


def test_a_renamed_table_has_its_old_name(shell: Shell) -> None:
    new, old = (shell("simulate", SMALL, "--format", "csv", "--table", name) for name in ("speedups", "helps"))
    assert (old.code, old.output) == (new.code, new.output)
    assert old.complaint == f"Warning: 'helps' is now 'speedups'\n{new.complaint}"


def test_every_table_command_is_tried() -> None:
    """Whatever offers csv offers markdown, and is tried here or prints plain rows."""
    for name in ("run", "place", *REPORTS, "ops", "devices", "sweep"):
        for param in command_named(name).params:
            if isinstance(param, click.Option) and param.name == "form" and isinstance(param.type, Word):
                assert ("csv" in param.type.words) is ("markdown" in param.type.words) is (name not in ("run", "place"))


# --- in a pipe ------------------------------------------------------------------------------------------------------

PIPED = """
devices: {cpu: 1, gpu: {count: 2, memory: 24MiB}}
nodes:
  - {op: Placeholder, name: x, dtype: float32, shape: [null, 1024]}
  - {variable: w, shape: [1024, 1024], initializer: zeros, kind: resource}
  - {op: MatMul, name: tower/product, inputs: [x, w]}
  - {op: Relu, name: tower/active, inputs: [tower/product], device: /gpu:1}
  - {initializer: init}
run: [{fetch: [init]}, {fetch: [tower/active]}]
"""


@pytest.mark.parametrize(
    "words",
    [
        ("memory", "--batch", "8"),
        ("memory", "--batch", "9000"),
        ("memory", "--batch", "auto"),
        ("simulate", "--batch", "8"),
        ("plan", "--batch", "8", "--evaluations", "20", "--jobs", "1", "--explain", "--free-all"),
        ("show", "--batch", "8"),
    ],
    ids=" ".join,
)
def test_every_row_of_a_report_is_below_the_names_of_its_columns(shell: Shell, words: tuple[str, ...]) -> None:
    command, *options = words
    graph = shell.write("g.yaml", PIPED)
    text = shell(command, graph, *options).output
    columns: list[str] = []
    for cells in (line.split("\t") for line in text.splitlines()):
        if cells[0] == "table":
            columns = cells
        assert len(cells) == len(columns)
    assert text.startswith("table\t")
    rows = [line for line in text.splitlines(keepends=True) if not line.startswith("table\t")]
    assert shell(command, graph, *options, "--no-header").output == "".join(rows)
