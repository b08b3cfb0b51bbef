"""`placesim diff`, and `--summary` and `--log-filter` of `run` and `place`, at the level of the command line."""

from __future__ import annotations

import json
import re

import pytest

from tests.cli.shell import ROOT, Shell

TOWERS = str(ROOT / "graphs" / "cifar10-towers.yaml")
LOCAL = "/job:localhost/replica:0/task:0/device:"
HEADS = ("nodes", "variables", "constants", "sent", "received", "peak")
GPU_CELLS = ("1", "0", "0", "1 (16 B)", "1 (16 B)", "1.8 KiB")
GRAPH = """devices: {cpu: 1, gpu: 1}
nodes:
  - {op: Const, name: t/a, value: [[1.0, 2.0], [3.0, 4.0]], device: '/cpu:0'}
  - {op: MatMul, name: t/m, inputs: [t/a, t/a]}
"""


def test_the_same_is_silent(shell: Shell) -> None:
    assert shell("diff", TOWERS, TOWERS) == (0, "", "")


def test_two_graphs(shell: Shell) -> None:
    old = shell.write("old.yaml", GRAPH)
    new = shell.write("new.yaml", GRAPH.replace("t/a, t/a]", "t/a, t/a], device: '/cpu:0'") + "  - {op: NoOp, name: n}\n")
    ended = shell("diff", old, new)
    assert (ended.code, ended.complaint) == (1, "")
    assert ended.output == (
        "--- old.yaml\n"
        "+++ new.yaml\n"
        "moved: 1 node\n"
        "  t/m: GPU:0 -> CPU:0\n"
        "new: 1 node\n"
        "+ n\n"
        "transfers:\n"
        "  CPU:0 -> GPU:0: 0 transfers (-1), 0 bytes (-16)\n"
        "  GPU:0 -> CPU:0: 0 transfers (-1), 0 bytes (-16)\n"
        "memory at the peak:\n"
        "  GPU:0: 1792 -> 1280 bytes (-512)\n"
    )


def test_the_peaks_of_two_batches(shell: Shell) -> None:
    graph = """devices: {cpu: 1, gpu: 1}
nodes:
  - {op: Placeholder, name: x, dtype: float32, shape: [null, 64]}
  - {op: Neg, name: y, inputs: [x], device: '/gpu:0'}
  - {op: Identity, name: z, inputs: [y], device: '/gpu:0'}
fetch: [z]
"""
    old, new = shell.write("old.yaml", graph), shell.write("new.yaml", graph.replace("Neg", "Shape"))
    assert "memory" not in shell("diff", old, new).output
    lines = shell("diff", old, new, "--batch", "64").output.splitlines()
    assert lines[lines.index("memory at the peak:") + 1 :] == [
        "  CPU:0: 16384 -> 8 bytes (-16376)",
    ]
    document = json.loads(shell("diff", old, new, "--batch", "64", "--format", "json").output)
    assert document["memory"][0] == {"device": LOCAL + "CPU:0", "before": 16384, "after": 8}
    assert json.loads(shell("diff", old, new, "--format", "json").output)["memory"] is None
    assert json.loads(shell("diff", old, new, "--batch", "64", "--no-memory", "--format", "json").output)["memory"] is None


def test_one_graph_on_two_machines(shell: Shell) -> None:
    ended = shell("diff", TOWERS, "--soft-placement", "--a-gpu", "2", "--b-gpu", "1")
    assert ended.code == 1
    lines = ended.output.splitlines()
    assert lines[0].endswith("cifar10-towers.yaml (gpu=2)")
    assert "  tower_1/ (52 nodes): GPU:1 -> GPU:0" in lines


def test_an_error_appears(shell: Shell) -> None:
    ended = shell("diff", TOWERS, "--a-gpu", "2", "--b-gpu", "1", "--format", "json")
    document = json.loads(ended.output)
    assert (ended.code, document["same"], document["error"]["before"]) == (1, False, None)
    assert document["error"]["after"]["type"] == "InvalidArgumentError"


def test_a_report_against_its_graph(shell: Shell) -> None:
    graph = shell.write("g.yaml", GRAPH)
    report = shell.write("r.json", shell("place", graph, "--format", "json").output)
    assert shell("diff", report, graph) == (0, "", "")
    document = json.loads(shell("diff", report, graph, "--b-gpu", "0", "--format", "json").output)
    assert [move["name"] for move in document["moved"]] == ["t/m"]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((TOWERS,), "UsageError: nothing to compare"),
        (("-", "-"), "UsageError: standard input twice"),
        (("-", "--a-gpu", "2"), "UsageError: standard input twice"),
        ((TOWERS, "none.yaml"), "GraphFileError: none.yaml: cannot read the file"),
    ],
)
def test_wrong_command_lines(shell: Shell, arguments: tuple[str, ...], message: str) -> None:
    ended = shell("diff", *arguments)
    assert (ended.code, ended.output) == (2, "")
    assert ended.complaint.startswith(message)


# --- what `run` and `place` print -----------------------------------------------------------------------------------


@pytest.mark.parametrize(("command", "cpu_peak", "gpu_peak"), [("run", "32 bytes", "1792 bytes"), ("place", "?", "?")])
def test_a_summary_comes_last(shell: Shell, command: str, cpu_peak: str, gpu_peak: str) -> None:
    graph = shell.write("g.yaml", GRAPH)
    plain = shell(command, graph).output
    ended = shell(command, graph, "--summary")
    assert ended.code == 0
    assert ended.output.removeprefix(plain).splitlines() == [
        "device                                        nodes  variables  constants     sent          received      peak",
        f"{LOCAL}CPU:0  1      0          1 (16 bytes)  1 (16 bytes)  1 (16 bytes)  {cpu_peak}",
        f"{LOCAL}GPU:0  1      0          0             1 (16 bytes)  1 (16 bytes)  {gpu_peak}",
    ]


@pytest.mark.parametrize(
    ("columns", "lines"),
    [
        (
            80,
            [
                "device  nodes  variables  constants  sent      received  peak",
                "CPU:0   1      0          1 (16 B)   1 (16 B)  1 (16 B)  32 B",
                "GPU:0   1      0          0          1 (16 B)  1 (16 B)  1.8 KiB",
            ],
        ),
        (40, ["GPU:0", *(f"  {head:<9}  {cell}" for head, cell in zip(HEADS, GPU_CELLS, strict=True))]),
    ],
)
def test_a_summary_fits_a_terminal(shell: Shell, monkeypatch: pytest.MonkeyPatch, columns: int, lines: list[str]) -> None:
    for name, value in (("FORCE_COLOR", "1"), ("NO_COLOR", "1"), ("COLUMNS", str(columns))):
        monkeypatch.setenv(name, value)
    assert shell("run", shell.write("g.yaml", GRAPH), "--summary").output.splitlines()[-len(lines) :] == lines


def test_a_summary_in_json(shell: Shell) -> None:
    graph = shell.write("g.yaml", GRAPH)
    document = json.loads(shell("place", graph, "--summary", "--format", "json").output)
    assert [row["nodes"] for row in document["summary"]] == [1, 1]
    assert document["summary"][0]["constants"] == {"count": 1, "bytes": 16, "unknown": 0}
    assert [row["peak"] for row in document["summary"]] == [None, None]
    assert "summary" not in json.loads(shell("place", graph, "--format", "json").output)


@pytest.mark.parametrize("style", ["modern", "classic"])
def test_a_filter_leaves_some_of_the_log(shell: Shell, style: str) -> None:
    everything = shell("place", TOWERS, "--log-style", style).output.splitlines()
    wanted = [
        line for line in everything if line.startswith("tower_1/conv") or "-> device" in line or line == "Device mapping:"
    ]
    filtered = shell("place", TOWERS, "--log-style", style, "--log-filter", "tower_1/conv*").output.splitlines()
    assert filtered == wanted
    assert len(wanted) < len(everything)


def test_a_filter_of_run_asks_for_the_log(shell: Shell) -> None:
    graph = shell.write("g.yaml", GRAPH)
    ended = shell("run", graph, "--log-filter", "*/m")
    assert [line for line in ended.output.splitlines() if line.startswith("t/")] == [f"t/m: (MatMul): {LOCAL}GPU:0"]
    rows = json.loads(shell("run", graph, "--log-filter", "t/a", "--log-filter", "x", "--format", "json").output)["placements"]
    assert [row["node"] for row in rows] == ["t/a"]


@pytest.mark.parametrize(
    "arguments",
    [
        ("explain", TOWERS, "conv1/weights", "--gpu", "1", "--soft-placement"),
        ("explain", TOWERS, "--gpu", "1"),
        ("check", TOWERS, "--rule", "max-transfers=0", "--rule", "variables-with-consumers"),
        ("diff", TOWERS, "--soft-placement", "--a-gpu", "2", "--b-gpu", "1"),
    ],
)
def test_a_terminal_shows_the_same_words_in_colour(
    shell: Shell, monkeypatch: pytest.MonkeyPatch, arguments: tuple[str, ...]
) -> None:
    plain = shell(*arguments)
    monkeypatch.setenv("FORCE_COLOR", "1")
    coloured = shell(*arguments)
    assert coloured.code == plain.code
    assert "\x1b[" in coloured.output
    assert re.sub(r"\x1b\[[0-9;]*m", "", coloured.output) == plain.output
    assert shell(*arguments, "--format", "json").output.startswith("{")
