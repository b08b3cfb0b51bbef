"""`placesim plan`: what it prints, what it writes, and how it ends."""

from __future__ import annotations

import json
import math
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.cli.shell import ROOT, Shell, rows

BRANCHES = """
devices: {cpu: 1, gpu: {count: 2, model: Tesla V100-SXM2-16GB}}
nodes:
- {op: Placeholder, name: x, dtype: float32, shape: [4096, 4096]}
- {op: MatMul, name: a1, inputs: [x, x]DEVICE}
- {op: MatMul, name: a2, inputs: [a1, x]DEVICE}
- {op: MatMul, name: b1, inputs: [x, x]DEVICE}
- {op: MatMul, name: b2, inputs: [b1, x]DEVICE}
- {op: Add, name: sum, inputs: [a2, b2]DEVICE}
fetch: [sum]
"""
FREE = BRANCHES.replace("DEVICE", "")
HELD = BRANCHES.replace("DEVICE", ", device: /gpu:0").replace("shape: [4096, 4096]", "shape: [4096, 4096], device: /gpu:0")
FEW = ("--evaluations", "300", "--jobs", "1")


@pytest.mark.parametrize("name", ["planned.yaml", "planned.json", "planned.pb", "planned.pbtxt"])
def test_what_is_written_is_placed_as_planned(shell: Shell, name: str) -> None:
    ended = shell("plan", shell.write("g.yaml", FREE), *FEW, "--format", "json", "--output", name)
    assert (ended.code, ended.complaint) == (0, "")
    told = json.loads(ended.output)
    default = next(placed for placed in told["placements"] if placed["label"] == "TensorFlow's default")
    assert told["bound"]["value"] <= told["seconds"] < default["seconds"]
    # the machine of a graph file comes along; a GraphDef has none
    machine = ("--gpu", "2", "--gpu-model", "Tesla V100-SXM2-16GB") if "pb" in name else ()
    placed = shell("place", name, *machine, "--format", "json")
    devices = {node["node"]: node["device"] for node in json.loads(placed.output)["placements"]}
    assert told["devices"]
    assert {node: devices[node] for node in told["devices"]} == told["devices"]


def test_lines_tell_the_plan_its_bound_and_what_it_was_held_against(shell: Shell) -> None:
    ended = shell("plan", shell.write("g.yaml", FREE), *FEW, "--explain")
    ((sought, value, bound, gap, _, _),) = rows(ended.output, "plan")
    assert sought == "latency"
    assert math.isclose(1 - float(bound) / float(value), float(gap), abs_tol=1e-4)
    placements = {row[0]: float(row[1]) for row in rows(ended.output, "placement")}
    assert float(value) == min(placements.values())
    assert {"TensorFlow's default", "all on CPU:0", "round robin"} <= placements.keys()
    moves = rows(ended.output, "move")
    assert moves
    assert [float(row[-1]) for row in moves] == sorted((float(row[-1]) for row in moves), reverse=True)


@pytest.mark.parametrize(("objective", "column"), [("throughput", 4), ("memory", 5)])
def test_other_objectives_are_the_least_of_their_own(shell: Shell, objective: str, column: int) -> None:
    ended = shell("plan", shell.write("g.yaml", FREE), *FEW, "--objective", objective)
    ((sought, value, *_),) = rows(ended.output, "plan")
    assert sought == objective
    assert float(value) == pytest.approx(min(float(row[column]) for row in rows(ended.output, "placement")), rel=1e-5)


def test_where_nothing_can_move_that_is_said_with_the_way_out(shell: Shell) -> None:
    held = shell("plan", shell.write("g.yaml", HELD), *FEW)
    assert held.code == 0
    assert "`--free PATTERN` or `--free-all`" in held.complaint
    assert not rows(held.output, "move")
    freed = shell("plan", "g.yaml", *FEW, "--free", "b*", "--free", "sum")
    assert freed.complaint == ""
    # the nodes that are not freed stay
    assert {row[0] for row in rows(freed.output, "ask")} <= {"b1", "b2", "sum"}
    assert float(rows(freed.output, "plan")[0][1]) < float(rows(held.output, "plan")[0][1])


def test_where_nothing_fits_it_is_said_what_would(shell: Shell) -> None:
    large = HELD.replace("4096", "30000").replace("Tesla V100-SXM2-16GB", "Tesla K20m")
    ended = shell("plan", shell.write("g.yaml", large), *FEW, "--output", "planned.yaml")
    assert ended.code == 1
    assert ended.complaint.startswith("no plan fits: on GPUs such as ")
    assert "would do" in ended.complaint
    assert not (shell.directory / "planned.yaml").exists()
    more = json.loads(shell("plan", "g.yaml", *FEW, "--format", "json").output)
    assert more["seconds"] is None
    assert more["ways_out"]
    # what it names does
    name = more["ways_out"][0].removeprefix("on GPUs such as ").partition(" (")[0]
    assert shell("plan", "g.yaml", *FEW, "--gpu-model", name).code == 0


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("--method", "mov"), "unknown method: got 'mov', expected one of auto, "),
        (("--method", "mov"), "did you mean 'move'?"),
        (("--method", "cut"), "expected one that fits the objective: list, dispatch, move, exact"),
        (("--contiguous",), "only plans for throughput are contiguous"),
        (("--output", "planned.txt"), "unknown ending: got 'planned.txt', expected one of .yaml"),
        (("--objective", "speed"), "'speed' is not one of"),
        (("--seconds", "0"), "--seconds"),
    ],
)
def test_a_wrong_option_is_told(shell: Shell, arguments: tuple[str, ...], words: str) -> None:
    ended = shell("plan", shell.write("g.yaml", FREE), *arguments)
    assert (ended.code, ended.output) == (2, "")
    assert words in ended.complaint


def test_a_contiguous_plan_of_real_towers(shell: Shell) -> None:
    towers = str(ROOT / "graphs" / "cifar10-towers.yaml")
    options = ("--objective", "throughput", "--contiguous", "--free-all", "--soft-placement", "--evaluations", "3000")
    ended = shell("plan", towers, *options, "--jobs", "1", "--gpu-model", "Tesla K80")
    assert ended.code == 0
    ((_, value, bound, *_),) = rows(ended.output, "plan")
    assert 0 < float(bound) <= float(value)


@pytest.mark.skipif(not Path("/proc/self/task").is_dir(), reason="children of a process are listed on Linux only")
def test_the_best_so_far_is_told_and_written_when_the_search_is_interrupted(shell: Shell) -> None:
    graph = shell.write("g.yaml", FREE)
    command = [sys.executable, "-m", "placesim", "plan", graph, "--seconds", "300", "--output", "planned.yaml"]
    with subprocess.Popen(command, cwd=shell.directory, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        until = time.monotonic() + 60
        while not _searches(process.pid) and time.monotonic() < until:
            time.sleep(0.05)
        process.send_signal(signal.SIGINT)
        output, complaint = process.communicate(timeout=60)
    assert (process.returncode, complaint) == (130, "")
    assert rows(output, "plan")
    assert (shell.directory / "planned.yaml").exists()


def _searches(process: int) -> bool:
    """Whether the search has begun, for which there are processes; libraries that are imported may start others."""
    children = Path(f"/proc/{process}/task/{process}/children").read_text().split()
    commands = (Path(f"/proc/{child}/cmdline") for child in children)
    return any(b"forkserver" in command.read_bytes() for command in commands if command.exists())
