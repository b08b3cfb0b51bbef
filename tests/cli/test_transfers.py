"""One count of transfers: what every command says is the same, and what is none is told apart."""

from __future__ import annotations

import json
import re

import pytest

from tests.cli.shell import ROOT, Shell

CIFAR = str(ROOT / "graphs" / "cifar10-towers.yaml")
ORDERED = """
devices: {cpu: 1, gpu: 2}
nodes:
  - {op: Const, name: a, value: [1.0, 2.0], device: /gpu:0}
  - {op: Const, name: none, value: [], dtype: float32, shape: [0], device: /gpu:0}
  - {op: Neg, name: b, inputs: [a], control_inputs: [a], device: /gpu:1}
  - {op: Neg, name: c, inputs: [none], device: /gpu:1}
  - {op: NoOp, name: done, control_inputs: [b, c], device: /gpu:0}
run: [{fetch: [done]}]
"""


def rows(shell: Shell, *arguments: str) -> dict[str, list[list[str]]]:
    """The lines of `show` in a pipe, by what they are."""
    found: dict[str, list[list[str]]] = {}
    for line in shell("show", *arguments).output.splitlines():
        kind, *cells = line.split("\t")
        found.setdefault(kind, []).append(cells)
    return found


@pytest.mark.slow
def test_every_command_counts_the_same_transfers(shell: Shell) -> None:
    shown = rows(shell, CIFAR)
    total = sum(int(cells[2]) for cells in shown["transfers"])
    assert total == 46
    summary = json.loads(shell("place", CIFAR, "--summary", "--format", "json").output)["summary"]
    assert sum(device["sent"]["count"] for device in summary) == total
    assert sum(device["received"]["count"] for device in summary) == total
    assert shell("check", CIFAR, "--rule", f"max-transfers={total}").code == 0
    assert f"{total} transfers" in shell("check", CIFAR, "--rule", f"max-transfers={total - 1}").output
    document = json.loads(shell("show", CIFAR, "--format", "json").output)
    assert sum(row["tensors"] for row in document["transfers"]) == total


def test_a_sweep_counts_the_last_steps_transfers(shell: Shell) -> None:
    steps = json.loads(shell("simulate", CIFAR, "--format", "json").output)["transfers"]
    between = [row for row in steps if row["sender"] != row["receiver"]]
    assert len(between) < len(steps)
    swept = json.loads(shell("sweep", CIFAR, "--gpu", "2", "--jobs", "1", "--format", "json").output)
    assert swept["rows"][0]["transfers"] == len(between)


def test_host_memory_and_control_edges_are_no_transfers(shell: Shell) -> None:
    graph = shell.write("ordered.yaml", ORDERED)
    shown = rows(shell, graph)
    assert shown["transfers"] == [["GPU:0", "GPU:1", "1", "8"]]
    assert {tuple(cells[:2]) for cells in shown["signals"]} == {("GPU:0", "GPU:1"), ("GPU:1", "GPU:0")}
    assert rows(shell, CIFAR)["host-copies"] == [["GPU:0", "1", "32"], ["GPU:1", "1", "32"]]


def test_a_written_report_is_counted_likewise(shell: Shell) -> None:
    graph = shell.write("ordered.yaml", ORDERED)
    for source in (graph, CIFAR):
        shell.write("report.json", shell("place", source, "--format", "json").output)
        live, written = rows(shell, source), rows(shell, "report.json")
        for kind in ("transfers", "signals", "host-copies"):
            assert written.get(kind) == live.get(kind)


@pytest.mark.slow
@pytest.mark.parametrize("size", [(60, 24), (80, 24), (120, 50), (200, 30)])
@pytest.mark.parametrize("graph", ["cifar10-towers", "alexnet", "towers"])
def test_a_shipped_graph_fits_the_terminal(
    shell: Shell, monkeypatch: pytest.MonkeyPatch, size: tuple[int, int], graph: str
) -> None:
    for name, value in (("FORCE_COLOR", "1"), ("COLUMNS", size[0]), ("LINES", size[1])):
        monkeypatch.setenv(name, str(value))
    lines = re.sub(r"\x1b\[[0-9;]*m", "", shell("show", str(ROOT / "graphs" / f"{graph}.yaml")).output).splitlines()
    assert len(lines) < size[1]
    assert max(map(len, lines)) <= size[0]


def test_scopes_without_room_are_counted(shell: Shell, monkeypatch: pytest.MonkeyPatch) -> None:
    shown = []
    for lines, depth in (("16", ()), ("24", ("--depth", "1"))):
        for name, value in (("FORCE_COLOR", "1"), ("NO_COLOR", "1"), ("COLUMNS", "80"), ("LINES", lines)):
            monkeypatch.setenv(name, value)
        shown.append(re.sub(r"\x1b\[[0-9;]*m", "", shell("show", CIFAR, *depth).output))
    few, all_of_them = (
        [int(found) for found in re.findall(r"^(?!everything)\S.*?  +(\d+) .*[█▓▒]", text, re.M)] for text in shown
    )
    assert sum(few) == sum(all_of_them)
    assert len(few) < len(all_of_them)
    assert re.search(rf"^{len(all_of_them) - len(few) + 1} more ", shown[0], re.M)


def test_show_tells_an_error_as_run_does(shell: Shell) -> None:
    graph = str(ROOT / "graphs" / "missing-gpu.yaml")
    assert shell("show", graph).complaint == shell("run", graph).complaint
