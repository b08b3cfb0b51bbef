"""What a long run shows before it ends: each step's results when it ends, and all of them where Ctrl-C ends it."""

from __future__ import annotations

import io
import json
import re
import sys
import time
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

import placesim
from placesim.graph.builder import ScopedGraphBuilder
from tests.cli.shell import Shell, start
from tests.cli.test_process import ESCAPE, TERMINAL, on_a_terminal
from tests.cli.test_reports import CALLED, COUNTED
from tests.cli.warm import start_warm
from tests.processes import interrupt, read_until, resident_bytes, until

NODES = [
    {"op": "Const", "name": "a", "value": [1.0, 2.0]},
    {"op": "Fill", "name": "x", "inputs": [[9000, 9000], 0.5]},
    {"op": "MatMul", "name": "product", "inputs": ["x", "x"]},
]
LATE = {"nodes": NODES, "run": [{"fetch": ["a"], "repeat": 2}, {"fetch": ["product"], "repeat": 100000}]}
"""Two short steps, and then kernels that take longer than anybody waits."""
QUEUE = {"component_types": ["float"], "shapes": [[]], "capacity": 1}
WAITING = {
    "nodes": [
        NODES[0],
        {"op": "FIFOQueueV2", "name": "queue", "attrs": QUEUE},
        {"op": "QueueDequeueV2", "name": "x", "inputs": ["queue"], "attrs": {"component_types": ["float"]}},
    ],
    "run": [{"fetch": ["a"], "repeat": 2}, {"fetch": ["x"], "repeat": 100000}],
}
"""Likewise, but what comes then waits for its time to be up, and needs no processor."""
CONSTANTS = [{"op": "Const", "name": f"n{number}", "value": 1.0} for number in range(1000)]
MANY = {
    "nodes": [
        {"op": "NoOp", "name": "first"},
        *CONSTANTS,
        {"op": "Neg", "name": "middle", "inputs": ["n0"]},
        *({**node, "name": f"m{number}"} for number, node in enumerate(CONSTANTS)),
    ],
    "run": [{"fetch": ["middle"]}],
}
BRANCHES = {
    **CALLED,
    "nodes": [*CALLED["nodes"], {"op": "Neg", "name": "before", "inputs": ["a"]}],
    "run": [{"fetch": ["before"]}, {"fetch": ["c:0"]}],
}
"""A function that only the second step calls."""


@pytest.mark.slow
@pytest.mark.parametrize("options", [(), ("--format", "jsonl"), ("--log-placement",)])
def test_a_steps_results_do_not_wait_for_the_next(options: tuple[str, ...], tmp_path: Path) -> None:
    (tmp_path / "waiting.json").write_text(json.dumps(WAITING))
    with start_warm("run", str(tmp_path / "waiting.json"), "--timeout", "60", *options) as process:
        shown = read_until(process, b'"step":1' if "jsonl" in options else b"[1. 2.]\n[1. 2.]\n").decode()
        assert shown.startswith("Device mapping:") == ("--log-placement" in options)
        assert process.poll() is None
        ended = interrupt(process)
    assert (ended.code, ended.complaint) == (130, "")
    if "jsonl" in options:
        last = json.loads((shown + ended.output).splitlines()[-1])
        assert last["kind"] == "end"
        assert last["error"]["type"] == "Interrupted"


@pytest.mark.slow
def test_ctrl_c_in_a_kernel_closes_the_json(tmp_path: Path) -> None:
    (tmp_path / "late.json").write_text(json.dumps(LATE))
    with start("run", str(tmp_path / "late.json"), "--format", "json") as process:
        # nothing is printed while steps are to be cut, as transfers stand before results; the product has 324 MB of operands
        assert until(lambda: resident_bytes(process) > 350e6)
        ended = interrupt(process)
    assert (ended.code, ended.complaint) == (130, "")
    document = json.loads(ended.output)
    assert [row["value"] for row in document["results"]] == [[1.0, 2.0], [1.0, 2.0]]
    assert document["error"] == {"type": "Interrupted", "message": "interrupted in step 2", "node": None, "location": None}


@pytest.mark.slow
@pytest.mark.parametrize("form", ["json", "jsonl"])
def test_ctrl_c_between_short_steps_closes_the_json(form: str, tmp_path: Path) -> None:
    endless = {**COUNTED, "run": [{"fetch": ["init"]}, {"fetch": ["o:0"], "repeat": 1_000_000_000}]}
    (tmp_path / "endless.json").write_text(json.dumps(endless))
    with start_warm("run", str(tmp_path / "endless.json"), "--format", form) as process:
        shown = read_until(process, b'"step":9').decode()
        ended = interrupt(process)
    assert (ended.code, ended.complaint) == (130, "")
    documents = [json.loads(line) for line in (shown + ended.output).splitlines()]
    rows = [row for document in documents for row in document.get("results", ())]
    assert [row["value"] for row in rows] == [2 * number for number in range(1, len(rows) + 1)]
    assert documents[-1]["error"]["type"] == "Interrupted"


def test_a_python_caller_gets_its_own_interrupt(monkeypatch: pytest.MonkeyPatch) -> None:
    from placesim.runtime.sessions.session import GraphSession

    def interrupted(*_: Any, **__: Any) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(GraphSession, "run", interrupted)
    with pytest.raises(KeyboardInterrupt):
        placesim.run(COUNTED)


# --- a line for each step -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("graph", [COUNTED, CALLED, BRANCHES], ids=["counted", "called", "branches"])
def test_the_lines_together_are_the_report(shell: Shell, graph: dict[str, Any]) -> None:
    name = shell.write("graph.json", json.dumps(graph))
    lines = [json.loads(line) for line in shell("run", name, "--format", "jsonl", "--summary").output.splitlines()]
    kinds = [line.pop("kind") for line in lines]
    assert kinds[0] == "placed"
    assert kinds[-1] == "end"
    document = json.loads(shell("run", name, "--format", "json", "--summary").output)
    joined: dict[str, Any] = {}
    for line in lines:
        line.pop("step", None)
        for key, value in line.items():
            joined[key] = [*joined.get(key, []), *value] if isinstance(value, list) else value
    assert joined == document


def test_every_step_has_its_own_line(shell: Shell) -> None:
    name = shell.write("graph.json", json.dumps(COUNTED))
    lines = [json.loads(line) for line in shell("run", name, "--format", "jsonl").output.splitlines()]
    assert [line["step"] for line in lines if line["kind"] == "step"] == list(range(1, 41))


def test_a_bodys_log_stands_before_the_step_that_calls_it(shell: Shell) -> None:
    name = shell.write("graph.json", json.dumps(BRANCHES))
    lines = shell("run", name, "--log-placement").output.splitlines()
    assert sorted(lines) == sorted(placesim.run(BRANCHES, log_placement=True).text().splitlines())
    body = next(number for number, line in enumerate(lines) if line.startswith("y: (Neg)"))
    assert [number for number, line in enumerate(lines) if line == "-1.0"] == [lines.index("-1.0"), len(lines) - 1]
    assert lines.index("-1.0") < body < len(lines) - 1


# --- the bar --------------------------------------------------------------------------------------------------------


@pytest.mark.slow
def test_the_bar_tells_the_time(tmp_path: Path) -> None:
    (tmp_path / "waiting.json").write_text(json.dumps(WAITING))
    shown = on_a_terminal("run", str(tmp_path / "waiting.json"), "--timeout", "60", interrupt_at="0:01")
    assert re.search(r"2/100002.*0:0\d", shown)
    assert "[1. 2.]\n[1. 2.]\n" in shown


@pytest.mark.parametrize("command", ["simulate", "memory", "place", "show", "check", "convert"])
def test_what_is_counted_has_a_time_that_is_left(command: str, shell: Shell, monkeypatch: pytest.MonkeyPatch) -> None:
    """By a clock that is ten seconds further when the first node is read, half of the text takes as long as the other half."""
    terminal, clock = io.StringIO(), SimpleNamespace(now=100.0)
    monkeypatch.setattr(terminal, "isatty", lambda: True)
    monkeypatch.setattr(sys, "stderr", terminal)
    monkeypatch.setenv("TERM", TERMINAL["TERM"])
    monkeypatch.setattr("placesim.cli.progress.PATIENCE_SECONDS", 0.0)
    for module in ("cli.progress", "core.process.progress", "report.terminal.progress_bar"):
        monkeypatch.setattr(f"placesim.{module}.time", SimpleNamespace(monotonic=lambda: clock.now))
    unique_name, names = ScopedGraphBuilder.unique_name, list[str]()

    def shown() -> str:
        return ESCAPE.sub("", terminal.getvalue())

    def name_slowly(builder: ScopedGraphBuilder, name: str) -> str:
        if name in ("first", "middle"):
            names.append(name)
        if name == "first":
            clock.now += 10
        if name == "middle":
            assert until(lambda: re.search(r"reading KiB .*\d+/\d+ 0:10, 0:(09|10) left", shown())), shown()
        return unique_name(builder, name)

    monkeypatch.setattr(ScopedGraphBuilder, "unique_name", name_slowly)
    more = ("out.pb",) if command == "convert" else ()
    assert shell(command, shell.write("many.json", json.dumps(MANY)), *more).code == 0
    assert names == ["first", "middle"]
    assert "interrupted" not in shown()


@pytest.mark.slow
def test_an_interrupted_reading_tells_how_far_it_is(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It reads up to the node in the middle, as long as a test takes."""
    unique_name = ScopedGraphBuilder.unique_name

    def name_slowly(builder: ScopedGraphBuilder, name: str) -> str:
        time.sleep(60 if name == "middle" else 0)
        return unique_name(builder, name)

    monkeypatch.setattr(ScopedGraphBuilder, "unique_name", name_slowly)
    monkeypatch.setattr("placesim.cli.progress.PATIENCE_SECONDS", 0.05)
    monkeypatch.setattr("placesim.cli.progress.TICK_SECONDS", 0.02)
    (tmp_path / "many.json").write_text(json.dumps(MANY))
    stopped = ESCAPE.sub("", on_a_terminal("simulate", str(tmp_path / "many.json"), interrupt_at="left"))
    assert re.search(r"interrupted: reading KiB, \d+% done", stopped), stopped
    assert "Traceback" not in stopped


@pytest.mark.slow
def test_interrupted_checks_tell_what_they_found(tmp_path: Path) -> None:
    nodes = [{"op": "Const", "name": f"n{number}", "value": 1.0} for number in range(60_000)]
    (tmp_path / "large.json").write_text(json.dumps({"nodes": nodes}))
    words = ["graphs/towers.yaml", str(tmp_path / "large.json"), "--gpu", "1", "--soft-placement", "--rule", "no-soft-fallback"]
    shown = ESCAPE.sub("", on_a_terminal("check", *words, interrupt_at="1/2"))
    assert "interrupted: checked 1 of 2 graphs" in shown
    assert "no-soft-fallback: Const requested /device:GPU:2" in shown
