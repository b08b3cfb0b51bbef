"""Names, labels, files and reports that hold control characters or GitHub's commands: none of them reaches what is printed."""

from __future__ import annotations

import json
import os
import re
from typing import Any
from xml.etree import ElementTree

import pytest

from tests.cli.shell import ROOT, CommandResult, Shell

TOWERS = str(ROOT / "graphs" / "towers.yaml")
BAD = "\x1b[31m\n::error::x##[error]y\r\t\x9b\u2028\u202e\uffff%,:'\"&<b>"
CONTROLS = re.compile("[\0-\x08\x0b-\x1f\x7f-\x9f\u2028-\u202e\ud800-\udfff\ufffe\uffff]")
COMMANDS = re.compile(r"^\s*::[a-z-]+ ?.*?::|##\[", re.MULTILINE)
LATER_LINE = re.compile(r"  |device annotations in the file: |\w+Error: ")
STYLES = re.compile(r"\x1b\[[0-9;]*m")
A = {"op": "Const", "name": "a", "value": 1.0, "dtype": "float"}
NEG = {"op": "Neg", "name": "n", "inputs": ["x"], "attrs": {"T": "float"}}
FUNCTION = {
    "name": f"f{BAD}",
    "inputs": [{"name": "x", "type": "float"}],
    "outputs": [{"name": "y", "type": "float", "value": "n:y:0"}],
    "nodes": [NEG],
}
GRAPHS: dict[str, dict[str, Any]] = {
    "names": {
        "nodes": [
            {"op": "Const", "name": f"a{BAD}", "value": 1},
            {"op": f"Zork{BAD}", "id": BAD},
            {"op": "Neg", "name": "c", "inputs": [BAD], "device": BAD, "attrs": {BAD: 1}},
        ],
        "run": [{"fetch": [BAD], "feed": {BAD: 1}}],
        BAD: 3,
    },
    "raw-names": {
        "raw": True,
        "functions": [{**FUNCTION, "inputs": [{"name": BAD, "type": "float"}]}],
        "nodes": [{**A, "name": BAD}, {"op": BAD, "name": "b"}, {**NEG, "inputs": [BAD], "attrs": {"T": BAD, BAD: 1}}],
        "versions": {BAD: 3},
    },
    "a-function": {"raw": True, "functions": [FUNCTION], "nodes": [A, {"op": f"f{BAD}", "name": "b", "inputs": ["a"]}]},
    "a-device": {"raw": True, "nodes": [{**A, "device": f"/device:GPU:0{BAD}"}]},
    "a-class": {
        "raw": True,
        "nodes": [{**A, "device": "/gpu:7"}, {**NEG, "inputs": ["a"], "attrs": {"T": "float", "_class": [BAD]}}],
    },
    "a-label": {"nodes": [A], "run": [{"fetch": [{BAD: "a:0"}, "a"]}]},
    "a-message": {"nodes": [{"op": "Const", "name": "a", "value": [BAD]}, {"op": "StringToNumber", "inputs": ["a"]}]},
    "settings": {"name": BAD, "nodes": [A], "config": {"master": BAD, BAD: 1}, "devices": {"gpu": {"model": BAD, BAD: 1}}},
}
FORMS = (
    ("run",),
    ("run", "--log-style", "classic", "--log-placement"),
    ("place", "--summary"),
    ("place", "--format", "json"),
    ("explain",),
    ("explain", "--format", "json"),
    ("show",),
    ("show", "--format", "dot"),
    ("show", "--format", "mermaid"),
    ("show", "--format", "json"),
    ("show", "--format", "html"),
    ("check",),
    ("check", "--rule", "max-transfers=0", "--rule", "no-soft-fallback", "--format", "github"),
    ("check", "--format", "sarif"),
    ("check", "--format", "junit"),
    ("diff", TOWERS),
    ("diff", TOWERS, "--format", "json"),
)


def check_clean(command: tuple[str, ...], ended: CommandResult) -> None:
    """No control characters, lines that are what they should be, and JSON that can be read."""
    for text in ended[1:]:
        assert not CONTROLS.search(STYLES.sub("", text))
    assert not COMMANDS.search(ended.complaint if "github" in command else STYLES.sub("", ended.output + ended.complaint))
    assert "bug in placesim" not in ended.complaint
    assert all(LATER_LINE.match(line) for line in ended.complaint.splitlines()[1:])
    if "json" in command or "sarif" in command:
        list(map(json.loads, ended.output.splitlines()))
    if "junit" in command:
        ElementTree.fromstring(ended.output.encode())
    if "github" in command:
        assert all(line.startswith("::error file=") and "##[" not in line for line in ended.output.splitlines())
    if command == ("show",):
        assert {line.count("\t") for line in ended.output.splitlines()} <= {4}


@pytest.mark.slow
@pytest.mark.parametrize("name", GRAPHS)
def test_graphs(name: str, shell: Shell) -> None:
    graph = shell.write("graph.json", json.dumps(GRAPHS[name]))
    for command, *options in FORMS:
        check_clean((command, *options), shell(command, graph, *options))


@pytest.mark.parametrize("name", ["a-function", "a-device", "a-class"])
def test_graph_defs(name: str, shell: Shell) -> None:
    graph = shell.write("graph.json", json.dumps(GRAPHS[name]))
    for form in ("pb", "pbtxt"):
        assert shell("convert", graph, f"graph.{form}").code == 0
        assert shell("convert", f"graph.{form}", "-", "--format", "pbtxt").output.isascii()
        for command in ("run", "show", "explain"):
            check_clean((command,), shell(command, f"graph.{form}"))


@pytest.mark.parametrize("forced", [False, True])
def test_reports(forced: bool, shell: Shell, monkeypatch: pytest.MonkeyPatch) -> None:
    document = json.loads(shell("place", TOWERS, "--gpu", "4", "--format", "json").output)
    for row in document["placements"][:3]:
        row["node"] += BAD
        row["op"] += BAD
    document["placements"][3]["requested"] += BAD
    for key in ("tensor", "send", "send_op"):
        document["transfers"][0][key] += BAD
    document["warnings"] = [BAD]
    shell.write("report.json", json.dumps(document))
    shell.write("failed.json", json.dumps({**document, "error": dict.fromkeys(("type", "message", "node", "location"), BAD)}))
    if forced:
        monkeypatch.setenv("FORCE_COLOR", "1")
    for report in ("report.json", "failed.json"):
        for command, *options in FORMS[4:]:
            ended = shell(command, report, *options)
            if not forced:
                check_clean((command, *options), ended)
            assert not CONTROLS.search(STYLES.sub("", ended.output + ended.complaint))


@pytest.mark.parametrize("is_there", [False, True])
def test_names_of_files_that_are_no_text(is_there: bool, shell: Shell) -> None:
    name = os.fsdecode(b"n\xff\x1b\n.yaml")
    if is_there:
        (shell.directory / name).write_bytes((ROOT / "graphs" / "missing-gpu.yaml").read_bytes())
    for command, *options in FORMS:
        ended = shell(command, name, *options)
        check_clean((command, *options), ended)
        assert ended.code in (1, 2)
    assert r"n\xff\x1b\n.yaml" in shell("run", name).complaint
    assert [
        shell(*arguments).code for arguments in (("check", TOWERS, "--rule", name), ("run", TOWERS, "--feed", f"a={name}"))
    ] == [2, 2]


def test_a_finding_is_one_command_of_github(shell: Shell) -> None:
    graph = shell.write("graph.json", json.dumps({"raw": True, "nodes": [{**A, "device": "100%\r\x1b"}]}))
    (line,) = shell("check", graph, "--format", "github").output.splitlines()
    assert line.startswith("::error file=graph.json,line=1,")
    assert r"100%25\r\x1b" in line
