"""`placesim simulate`: what it prints in a pipe and on a terminal, what it writes, and how it ends."""

from __future__ import annotations

import json
import re
from pathlib import Path

import numpy as np
import pytest

from tests.cli.shell import ROOT, Shell, rows

GRAPH = """
devices: {cpu: 1, gpu: {count: 2, model: Tesla K80, memory: 1GiB}}
nodes:
  - {op: Placeholder, name: x, dtype: float32, shape: [null, 1024]}
  - {op: Placeholder, name: n, dtype: int32, shape: []}
  - {variable: v, shape: [1024, 1024], initializer: zeros, device: /gpu:0}
  - {op: MatMul, name: tower/a, inputs: [x, v], device: /gpu:0}
  - {op: Relu, name: tower/b, inputs: [tower/a], device: /gpu:1}
  - {op: Range, name: r, inputs: [0, n, 1]}
  - {initializer: init}
run:
  - fetch: [init]
  - {fetch: [tower/b], repeat: 3}
"""
TOWERS = str(ROOT / "graphs" / "cifar10-towers.yaml")


@pytest.fixture
def graph(shell: Shell) -> str:
    return shell.write("g.yaml", GRAPH)


def test_a_pipe_gets_a_line_for_each_fact(shell: Shell, graph: str) -> None:
    ended = shell("simulate", graph, "--batch", "256")
    assert (ended.code, ended.complaint) == (0, "")
    ((seconds, low, high),) = rows(ended.output, "time")
    assert 0 < float(low) <= float(seconds) <= float(high)
    assert [row[:2] for row in rows(ended.output, "step")] == [["0", "1"], ["1", "3"]]
    assert [row[0] for row in rows(ended.output, "bound")] == ["path", "resource", "link"]
    assert all(0 < float(row[3]) <= 1 for row in rows(ended.output, "bound"))
    devices = {row[0]: row[1:] for row in rows(ended.output, "device")}
    assert list(devices) == ["CPU:0", "GPU:0", "GPU:1"]
    size = 256 * 1024 * 4
    assert devices["GPU:0"][0] == "Tesla K80"
    assert devices["GPU:1"][5:7] == [str(size), str(size)]
    assert int(devices["GPU:0"][7]) > 1024 * 1024 * 4
    assert {row[0] for row in rows(ended.output, "node")} >= {"tower/a", "tower/b"}
    assert ["tower/a", "GPU:0", "GPU:1", str(size)] in [row[:4] for row in rows(ended.output, "transfer")]
    assert "tower/" in {row[0] for row in rows(ended.output, "path")}
    assert any("assumed to have 8 cores" in row[0] for row in rows(ended.output, "assumption"))
    helps = rows(ended.output, "help")
    assert {row[0] for row in helps} == {"link", "resource", "node"}
    assert [float(row[2]) for row in helps] == sorted(float(row[2]) for row in helps)
    assert all(float(row[3]) == pytest.approx(1 - float(row[2]) / float(seconds), abs=1e-4) for row in helps)


def test_top_says_how_many_rows_there_are(shell: Shell) -> None:
    output = shell("simulate", TOWERS, "--top", "2").output
    assert [len(rows(output, kind)) for kind in ("node", "transfer", "path", "help")] == [2, 2, 2, 2]
    (first, second) = (float(row[5]) for row in rows(output, "node"))
    assert first >= second > 0


@pytest.mark.slow
def test_a_faster_machine_takes_less(shell: Shell) -> None:
    def seconds(*options: str) -> float:
        return float(rows(shell("simulate", TOWERS, *options).output, "time")[0][0])

    assert seconds("--gpu-model", "Tesla V100-SXM2-16GB") < seconds("--gpu-model", "Tesla K80")
    assert seconds() < seconds("--gpu", "1", "--soft-placement")


def test_json_has_each_execution(shell: Shell, graph: str) -> None:
    document = json.loads(shell("simulate", graph, "--batch", "256", "--steps", "10", "--format", "json").output)
    keys = {"steps", "devices", "links", "nodes", "transfers", "critical_path", "bounds", "assumptions", "memory", "helps"}
    assert document.keys() == keys | {"graph", "seconds", "low", "high", "error"}
    assert document["steps"][-1]["repeat"] == 10
    assert document["steps"][-1]["total_seconds"] == pytest.approx(10 * document["seconds"])
    product = next(node for node in document["nodes"] if node["node"] == "tower/a")
    assert (product["op"], product["stream"], product["is_uncertain"]) == ("MatMul", "GPU:0 compute", False)
    assert product["end"] - product["start"] == pytest.approx(product["seconds"])
    (gpu,) = [device for device in document["devices"] if device["device"].endswith("GPU:0")]
    assert 0 < gpu["peak_bytes"] < gpu["limit_bytes"]
    assert document["critical_path"][-1]["end"] == pytest.approx(document["seconds"])
    assert document["error"] is None
    (memory,) = [memory for memory in document["memory"] if memory["device"] == gpu["device"]]
    assert memory["limit_bytes"] == gpu["limit_bytes"]
    assert memory["changes"][0] == [0.0, memory["changes"][-1][1]]
    assert memory["changes"][-1][0] == document["seconds"]


def test_the_ending_of_the_output_file_tells_the_form(shell: Shell, graph: str, tmp_path: Path) -> None:
    target = tmp_path / "o.json"
    assert shell("simulate", graph, "--batch", "2", "--output", str(target)) == (0, "", "")
    assert json.loads(target.read_text())["graph"] == graph


def test_a_terminal_gets_lanes_and_tables(shell: Shell, graph: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FORCE_COLOR", "1")
    monkeypatch.setenv("COLUMNS", "140")
    shown = re.sub(r"\x1b\[[0-9;]*m", "", shell("simulate", graph, "--batch", "256").output)
    lines = shown.splitlines()
    assert re.match(r"step [0-9.]+ m?u?s \([0-9.]+ m?u?s to [0-9.]+ m?u?s\)   lower bound .*-[0-9]+%\): ", lines[0])
    at = next(number for number, line in enumerate(lines) if line.startswith("GPU:0  Tesla K80   busy "))
    assert re.fullmatch("  computes [·▁▂▃▄▅▆▇█]+", lines[at + 1])
    assert re.fullmatch("  copies   [·░▒▓]+", lines[at + 2])
    assert re.search("[▁▂▃▄▅▆▇█]", lines[at + 1])
    assert re.search("[░▒▓]", lines[at + 2])
    host = next(number for number, line in enumerate(lines) if line.startswith("CPU:0  host "))
    assert at == host + 2  # a host has no copy streams
    for heading in ("link ", "critical path ", "node ", "transfer ", "if this were free "):
        assert any(line.startswith(heading) for line in lines), heading


@pytest.mark.parametrize("columns", [40, 60, 80, 120, 200])
def test_lanes_are_as_wide_as_the_window(shell: Shell, graph: str, monkeypatch: pytest.MonkeyPatch, columns: int) -> None:
    monkeypatch.setenv("FORCE_COLOR", "1")
    monkeypatch.setenv("COLUMNS", str(columns))
    shown = re.sub(r"\x1b\[[0-9;]*m", "", shell("simulate", graph, "--batch", "256").output)
    lanes = [line for line in shown.splitlines() if line.startswith(("  computes ", "  copies   "))]
    assert len(lanes) == 5
    assert {len(line) for line in lanes} == {min(columns, 161)}
    (scale,) = [line for line in shown.splitlines() if re.match(" +0 +[0-9.]", line)]
    assert len(scale) == len(lanes[0])


def test_a_page_is_written_to_a_file(shell: Shell, graph: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    target = tmp_path / "o.html"
    assert shell("simulate", graph, "--batch", "2", "--output", str(target)) == (0, "", "")
    page = target.read_text("utf-8")
    assert page.startswith("<!DOCTYPE html>")
    assert shell("simulate", graph, "--batch", "2", "--format", "html").output == page
    monkeypatch.setattr("sys.stdout.isatty", lambda: True)
    assert shell("simulate", graph, "--batch", "2", "--format", "html") == (
        2,
        "",
        "UsageError: cannot print a page to a terminal: got --format html, expected --output FILE as well\n",
    )


# --- how it ends otherwise ------------------------------------------------------------------------------------------


def test_open_placeholders_are_named(shell: Shell, graph: str) -> None:
    assert shell("simulate", graph) == (
        2,
        "",
        "UsageError: placeholders have unknown shapes: x [?,1024]\n  `--batch N` sets the first dimension of all\n"
        "  `--assume-unknown N` assumes N for each unknown dimension\n",
    )


def test_a_size_that_nothing_tells_is_an_error_that_names_what_would(shell: Shell, graph: str) -> None:
    ended = shell("simulate", graph, "--fetch", "r")
    assert (ended.code, ended.output) == (2, "")
    assert "  `--feed n=VALUE` resolves it\n" in ended.complaint
    assert shell("simulate", graph, "--fetch", "r", "--feed", "n=5").code == 0


def test_a_batch_that_nothing_asks_for_is_refused(shell: Shell) -> None:
    ended = shell("simulate", TOWERS, "--batch", "4")
    assert ended.code == 2
    assert ended.complaint.startswith("UsageError: no batch dimension: got --batch, expected a placeholder")


def test_a_device_that_runs_out_is_said_beside_the_times_without_a_limit(shell: Shell, graph: str) -> None:
    ended = shell("simulate", graph, "--batch", str(1 << 18))
    assert ended.code == 1
    assert ended.complaint.startswith("ResourceExhaustedError: ")
    ((device, _),) = rows(ended.output, "out")
    (peak, limit) = next(map(int, row[8:10]) for row in rows(ended.output, "device") if row[0] == device)
    assert peak > limit
    assert float(rows(ended.output, "time")[0][0]) > 0


def test_a_model_without_figures_is_refused(shell: Shell) -> None:
    model = "{name: Acme X1, memory: 1GiB, compute_capability: 7.0}"
    graph = shell.write("g.yaml", GRAPH.replace("model: Tesla K80, memory: 1GiB", f"model: {model}"))
    ended = shell("simulate", graph, "--batch", "4")
    assert ended == (2, "", "UsageError: Acme X1: got bandwidth 0, expected a value above 0\n")


def test_no_step_is_an_error(shell: Shell) -> None:
    graph = shell.write("g.yaml", "nodes: [{op: NoOp, name: n}]\nrun: [{fetch: [n], repeat: 0}]\n")
    assert shell("simulate", graph).code == 2


def test_a_graph_that_tensorflow_refuses(shell: Shell) -> None:
    ended = shell("simulate", str(ROOT / "graphs" / "missing-gpu.yaml"))
    assert (ended.code, ended.output) == (1, "")
    assert ended.complaint.startswith("InvalidArgumentError: ")


# --- what is not known ----------------------------------------------------------------------------------------------

LOOP = """
nodes:
  - {op: Placeholder, name: x, dtype: float32, shape: [64, 64]}
  - {op: Placeholder, name: bound, dtype: float32, shape: []}
  - {op: Enter, name: enter, inputs: [x], attrs: {frame_name: power/while_context}}
  - {op: Enter, name: limit, inputs: [bound], attrs: {frame_name: power/while_context, is_constant: true}}
  - {op: Merge, name: merge, inputs: [enter, next]}
  - {op: Const, name: axes, value: [0, 1], dtype: int32, inputs: [^merge]}
  - {op: Max, name: largest, inputs: [merge, axes]}
  - {op: Less, name: less, inputs: [largest, limit]}
  - {op: LoopCond, name: goes_on, inputs: [less]}
  - {op: Switch, name: switch, inputs: [merge, goes_on]}
  - {op: MatMul, name: product, inputs: ["switch:1", "switch:1"]}
  - {op: NextIteration, name: next, inputs: [product]}
  - {op: Exit, name: out, inputs: ["switch:0"]}
run:
  - {fetch: [out]}
"""


def products(output: str) -> int:
    return sum(int(row[4]) for row in rows(output, "node") if row[0] == "product")


@pytest.mark.parametrize("command", ["simulate", "memory"])
def test_a_loop_that_nothing_counts_is_warned_of(shell: Shell, command: str) -> None:
    graph = shell.write("loop.yaml", LOOP)
    ended = shell(command, graph)
    assert ended.code == 0
    assert ended.complaint == (
        "Warning: loop power/while_context is assumed to run once, as its trip count is unknown: "
        "set it with `--iterations power/while_context=N`\n"
    )
    assert any(
        sentence.startswith("loop power/while_context is assumed to run once")
        for (sentence,) in rows(ended.output, "assumption")
    )
    said = shell(command, graph, "--iterations", "power=7")
    assert (said.code, said.complaint) == (0, "")
    assert ["loop power/while_context runs 7 times, as given"] in rows(said.output, "assumption")
    if command == "simulate":
        assert (products(ended.output), products(said.output)) == (1, 7)


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        (
            ["--iterations", "powre=3"],
            "no such loop: got 'powre' in --iterations, expected one of power; did you mean 'power'?",
        ),
        (["--iterations", "power"], "wrong iterations: got 'power', expected NAME=N"),
        (["--iterations", "power=-1"], "wrong iterations of power: got '-1', expected a number from 0 to 1048576"),
        (["--iterations", "power=two"], "wrong iterations of power: got 'two'"),
        (["--assume-unknown", "-1"], "got -1, expected a whole number of at least 1"),
        (
            ["--execute", "--iterations", "power=3"],
            "assumed sizes do not apply with --execute: got --iterations",
        ),
    ],
)
@pytest.mark.parametrize("command", ["simulate", "memory"])
def test_wrong_guesses_end_with_2(shell: Shell, command: str, arguments: list[str], complaint: str) -> None:
    ended = shell(command, shell.write("loop.yaml", LOOP), *arguments)
    assert (ended.code, ended.output) == (2, "")
    assert complaint in ended.complaint


def test_iterations_are_as_they_really_come_where_it_is_executed(shell: Shell) -> None:
    graph = shell.write("loop.yaml", LOOP.replace("{fetch: [out]}", "{fetch: [out], feed: {x: {file: x.npy}, bound: 40.0}}"))
    np.save(shell.directory / "x.npy", np.full((64, 64), 1 / 64 + 1e-2, np.float32))
    matrix, times = np.full((64, 64), 1 / 64 + 1e-2, np.float32), 0
    while matrix.max() < 40 and times < 100:
        matrix, times = matrix @ matrix, times + 1
    ended = shell("simulate", graph, "--execute")
    assert (ended.code, ended.complaint) == (0, "")
    assert products(ended.output) == times > 1
    assert not any("loop" in sentence for (sentence,) in rows(ended.output, "assumption"))
    told = shell("simulate", graph, "--iterations", f"power={times}")
    assert rows(told.output, "time") == rows(ended.output, "time")


def test_the_report_says_for_how_many_tensors_a_number_was_taken(shell: Shell, graph: str) -> None:
    ended = shell("simulate", graph, "--assume-unknown", "16", "--format", "json")
    assert ended.code == 0
    assert "unknown dimensions of 1 tensor are assumed to be 16" in json.loads(ended.output)["assumptions"]
    both = shell("simulate", graph, "--assume-unknown", "16", "--fetch", "r", "--fetch", "tower/b")
    assert ["unknown dimensions of 2 tensors are assumed to be 16"] in rows(both.output, "assumption")


def test_a_link_to_what_the_machine_has_not_is_an_error(shell: Shell, graph: str) -> None:
    ended = shell("simulate", graph, "--batch", "8", "--link", "GPU:0-GPU:9=1GB/s")
    assert (ended.code, ended.output) == (2, "")
    assert ended.complaint.startswith("UsageError: link to an unknown device: got 'GPU:9', expected a device of the machine: ")


def test_what_a_raw_graph_leaves_out_is_refused_as_it_is_by_run(shell: Shell) -> None:
    graph = shell.write("v.yaml", "raw: true\nnodes:\n  - {op: VariableV2, name: v, attrs: {dtype: float}}\n")
    for command in ("simulate", "memory", "run"):
        ended = shell(command, graph)
        assert ended.code == 1
        assert ended.complaint.startswith("NotFoundError: No attr named 'shape' in NodeDef:")


def test_two_results_of_one_name_are_refused(shell: Shell) -> None:
    graph = shell.write(
        "f.yaml",
        "raw: true\n"
        "nodes:\n"
        "  - {op: Const, name: c, dtype: float, value: 1}\n"
        "  - {op: PartitionedCall, name: call, inputs: [c], attrs: {f: {func: F}, Tin: [float], Tout: [float, float]}}\n"
        "functions:\n"
        "  - name: F\n"
        "    inputs: [{name: a, type: float}]\n"
        '    outputs: [{name: o, type: float, value: "x:output:0"}, {name: o, type: float, value: "x:output:0"}]\n'
        "    nodes: [{op: Const, name: x, dtype: float, value: 1.0}]\n",
    )
    for command in ("simulate", "run"):
        assert shell(command, graph).complaint.startswith("InvalidArgumentError: Node 'o_RetVal' is not unique")


def test_sizes_beyond_64_bits_are_refused_with_the_node(shell: Shell) -> None:
    text = (
        "nodes: [{op: Placeholder, name: x, dtype: float32, shape: [null, 9]}, {op: Neg, name: y, inputs: [x]}]\nfetch: [y]\n"
    )
    graph = shell.write("g.yaml", text)
    for command in ("simulate", "memory"):
        for machine in ((), ("--gpu", "1")):
            ended = shell(command, graph, "--batch", str((1 << 63) - 1), *machine)
            assert (ended.code, ended.output) == (1, "")
            assert re.match(r"InvalidArgumentError: \S+ would hold \d+ bytes at once, more than 2\*\*63 - 1\n", ended.complaint)
