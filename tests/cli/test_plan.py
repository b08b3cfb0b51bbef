"""`placesim plan`: what it prints, what it writes, and how it ends."""

from __future__ import annotations

import io
import json
import math
import re
import sys
from io import BytesIO
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from placesim.cli.commands.plan import _BestPlanLine
from placesim.formats.sources.loading import load
from placesim.machine.options import make_options
from placesim.planning.bounds import Bound
from placesim.planning.graphs.plan_comparison import PLANNED, PlanMeasure
from placesim.planning.methods.exact import has_solver
from placesim.planning.portfolio import Effort, PlanResult
from placesim.planning.problem import Plan
from placesim.report.terminal.planning import styled_plan
from placesim.studies import plan_study
from placesim.studies.plan_study import study_plan
from tests.cli.shell import ROOT, Shell, rows
from tests.cli.warm import start_warm
from tests.processes import interrupt, until

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
_CHAIN = "".join(f"- {{op: Tanh, name: t{n}, inputs: [{f't{n - 1}' if n else 'x'}]}}\n" for n in range(12))
LONG = FREE.replace("fetch: [sum]", f"{_CHAIN}fetch: [sum, t11]")
"""A graph with more placements than are enumerated."""
FEW = ("--evaluations", "100", "--jobs", "1")
FEWER = ("--evaluations", "20", "--jobs", "1")
"""Where nothing fits, no placement is better than another, and all that are tried are simulated."""


@pytest.mark.parametrize("machine", [(), ("--gpu-model", "Tesla T4")])
@pytest.mark.parametrize("name", ["planned.yaml", "planned.json"])
def test_a_written_plan_has_the_host_of_the_graph_and_takes_the_planned_time(
    shell: Shell, name: str, machine: tuple[str, ...]
) -> None:
    graph = shell.write(
        "g.yaml", FREE.replace("devices: {", "devices: {host: {cores: 2, flops: 3.0e+10, rates: {float64: 1.0e+9}}, ")
    )
    ended = shell("plan", graph, *FEW, *machine, "--output", name)
    assert ended.code == 0
    planned = rows(ended.output, "plan")[0][1]
    assert rows(shell("simulate", name).output, "time")[0][0] == planned
    assert rows(shell("simulate", shell.write("other.yaml", FREE), *machine).output, "time")[0][0] != planned


@pytest.mark.slow
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


@pytest.mark.slow
def test_where_nothing_fits_it_is_said_what_would(shell: Shell) -> None:
    large = HELD.replace("4096", "30000").replace("Tesla V100-SXM2-16GB", "Tesla K20m")
    ended = shell("plan", shell.write("g.yaml", large), *FEWER, "--output", "planned.yaml")
    assert ended.code == 1
    assert ended.complaint.startswith("no plan fits: on GPUs such as ")
    assert "or a smaller batch" in ended.complaint
    assert not (shell.directory / "planned.yaml").exists()
    more = json.loads(shell("plan", "g.yaml", *FEWER, "--format", "json").output)
    assert more["seconds"] is None
    assert more["ways_out"]
    # what it names does
    name = more["ways_out"][0].removeprefix("on GPUs such as ").partition(" (")[0]
    assert shell("plan", "g.yaml", *FEWER, "--gpu-model", name).code == 0


@pytest.mark.slow
def test_a_plan_says_if_more_edits_than_allowed_are_needed(shell: Shell) -> None:
    memory = "model: Tesla V100-SXM2-16GB, memory: 700MiB"
    text = FREE.replace("model: Tesla V100-SXM2-16GB", memory).replace("[4096, 4096]", "[8192, 8192]")
    graph = shell.write("graph.yaml", text)
    for changes in ("4", "5"):
        planned = shell("plan", graph, *FEWER, "--changes", changes)
        assert planned.code == 0
        assert len(rows(planned.output, "move")) == 5
        beyond = "no plan with at most 4 edits was found that fits: this plan requests devices for 5 nodes, and "
        assert planned.complaint.startswith(beyond) == (changes == "4")
        assert len(rows(planned.output, "edit")) == 5 * (changes == "5")


@pytest.mark.parametrize("words", [("--output", "no/folder.yaml"), ("--html", "no/page.html")])
def test_a_file_that_cannot_be_written_is_told_before_the_search(
    shell: Shell, monkeypatch: pytest.MonkeyPatch, words: tuple[str, str]
) -> None:
    monkeypatch.setattr("placesim.studies.plan_study.study_plan", None)
    told = shell("plan", shell.write("graph.yaml", FREE), *words)
    assert (told.code, told.output) == (2, "")
    assert f"cannot write {words[1]}: got no folder no" in told.complaint


@pytest.mark.slow
def test_what_is_to_be_apart_shares_no_device(shell: Shell) -> None:
    graph = shell.write("g.yaml", FREE)
    for objective in ("latency", "throughput", "memory"):
        ended = shell("plan", graph, *FEW, "--apart", "a*", "--objective", objective, "--format", "json", "--output", "p.yaml")
        assert ended.code == 0
        placed = json.loads(shell("place", "p.yaml", "--format", "json").output)["placements"]
        devices = {node["node"]: node["device"] for node in placed}
        assert devices["a1"] != devices["a2"], objective
        told = {row["label"]: row["is_allowed"] for row in json.loads(ended.output)["placements"]}
        assert not told["TensorFlow's default"]
    # each pattern stands for itself
    both = json.loads(shell("plan", graph, *FEW, "--apart", "a1", "--apart", "a2", "--format", "json").output)
    assert all(row["is_allowed"] for row in both["placements"])


WEIGHTS = (
    "devices: {cpu: {count: 1, memory: 64MiB}, gpu: {count: 1, model: Tesla K20m}}\nnodes:\n"
    + "".join(
        f"- {{op: Const, name: w{n}, value: 0.5, shape: [18000, 18000]}}\n- {{op: Sum, name: s{n}, inputs: [w{n}, [0, 1]]}}\n"
        for n in range(4)
    )
    + "- {op: AddN, name: sum, inputs: [s0, s1, s2, s3]}\nfetch: [sum]\n"
)


@pytest.mark.slow
def test_where_more_gpus_would_do_that_is_said(shell: Shell) -> None:
    ended = shell("plan", shell.write("g.yaml", WEIGHTS), *FEWER)
    assert ended.code == 1
    told = json.loads(shell("plan", "g.yaml", *FEWER, "--format", "json").output)
    (count,) = (way for way in told["ways_out"] if way.startswith("a plan fits on "))
    assert count in ended.complaint
    number = count.split()[4]
    assert shell("plan", "g.yaml", *FEWER, "--gpu", number).code == 0


@pytest.mark.slow
def test_no_gpu_is_named_where_the_host_lacks_memory(shell: Shell) -> None:
    large = FREE.replace("cpu: 1", "cpu: {count: 1, memory: 64MiB}").replace("shape: [4096, 4096]}", "shape: [30000, 30000]}")
    ended = shell("plan", shell.write("g.yaml", large), *FEWER, "--gpu-model", "Tesla K20m")
    assert ended.code == 1
    assert "on GPUs such as" not in ended.complaint
    assert " on CPU:0" in ended.complaint


@pytest.mark.slow
def test_where_an_option_says_the_machine_it_is_written(shell: Shell) -> None:
    (shell.directory / "folder").mkdir()
    np.save(shell.directory / "folder" / "x.npy", np.zeros((512, 512), np.float32))
    graph = shell.write("folder/g.yaml", FREE.replace("4096", "512") + "feed: {x: {file: x.npy}}\n")
    ended = shell("plan", graph, *FEWER, "--gpu", "3", "--soft-placement", "--format", "json", "--output", "planned.yaml")
    assert ended.code == 0
    written = (shell.directory / "planned.yaml").read_text()
    assert "devices: {cpu: 1, gpu: {count: 3, model: Tesla V100-SXM2-16GB}}" in written
    assert "allow_soft_placement: true" in written
    assert "feed: {x: {file: folder/x.npy}}" in written
    told = json.loads(ended.output)["devices"]
    placed = json.loads(shell("place", "planned.yaml", "--format", "json").output)["placements"]
    assert told.items() <= {node["node"]: node["device"] for node in placed}.items()


@pytest.mark.slow
def test_a_count_of_devices_that_an_option_makes_void_goes(shell: Shell) -> None:
    shell.write("g.yaml", FREE + "config: {device_count: {CPU: 2, GPU: 1}}\n")
    assert shell("plan", "g.yaml", *FEWER, "--gpu", "3", "--output", "planned.yaml").code == 0
    assert "config: {device_count: {CPU: 2}}" in (shell.directory / "planned.yaml").read_text()


@pytest.mark.slow
def test_what_one_entry_makes_is_split_by_name(shell: Shell) -> None:
    """A plan that puts the gradients of a branch elsewhere than the branch: the text stays, with `placement` below it."""
    text = BRANCHES.replace("DEVICE", "").replace(
        "x, dtype: float32, shape: [4096, 4096]", "x, dtype: float32, shape: [512, 512]"
    )
    text = text.replace("fetch: [sum]", "- {gradients: {of: sum, with_respect_to: {slope: x}}}\nfetch: [sum, slope]")
    shell.write("g.yaml", text)
    told = json.loads(shell("plan", "g.yaml", *FEWER, "--format", "json", "--output", "planned.yaml").output)
    written = (shell.directory / "planned.yaml").read_text()
    assert written.startswith(text)
    assert "\nplacement:\n" in written
    placed = json.loads(shell("place", "planned.yaml", "--format", "json").output)["placements"]
    assert told["devices"].items() <= {node["node"]: node["device"] for node in placed}.items()


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("--apart", "*"), "too few devices to keep groups apart: got 3 for 5 groups (a1, a2, b1, b2, sum)"),
        (("--apart", "c*"), "no node matches --apart: got 'c*', expected a node that the step runs"),
        (("--method", "mov"), "unknown method: got 'mov', expected one of auto, "),
        (("--method", "mov"), "did you mean 'move'?"),
        (("--method", "xx", "--objective", "memory"), "unknown method: got 'xx', expected one of auto, anneal, exact\n"),
        (("--method", "cut"), "expected one that fits the objective: list, dispatch, move, exact"),
        (
            ("--method", "fit"),
            "'fit', which is for plans by node where memory is short, of at most 1,000 nodes; expected one of list, ",
        ),
        (
            ("--method", "layers"),
            "'layers', which is for large graphs (more than 1,000 nodes), and for plans by node where memory ",
        ),
        (("--contiguous",), "got latency, expected throughput"),
        (("--output", "planned.txt"), "unknown extension: got 'planned.txt', expected one of .yaml"),
        (("--objective", "speed"), "got 'speed', expected latency or throughput or memory"),
        (("--seconds", "0"), "--seconds': got 0.0, expected a number above 0, at most 86400"),
    ],
)
def test_a_wrong_option_is_told(shell: Shell, arguments: tuple[str, ...], words: str) -> None:
    ended = shell("plan", shell.write("g.yaml", FREE), *arguments)
    assert (ended.code, ended.output) == (2, "")
    assert words in ended.complaint


@pytest.mark.slow
def test_a_contiguous_plan_of_real_towers(shell: Shell) -> None:
    towers = str(ROOT / "graphs" / "cifar10-towers.yaml")
    options = ("--objective", "throughput", "--contiguous", "--free-all", "--soft-placement", "--evaluations", "20")
    ended = shell("plan", towers, *options, "--jobs", "1", "--gpu-model", "Tesla K80")
    assert ended.code == 0
    ((_, value, bound, *_),) = rows(ended.output, "plan")
    assert 0 < float(bound) <= float(value)


@pytest.mark.usefixtures("forked_workers")
@pytest.mark.slow
@pytest.mark.parametrize(
    ("objective", "method"),
    [
        *((objective, "auto") for objective in ("latency", "throughput", "memory")),
        ("latency", "exact"),
        ("throughput", "exact"),
        ("memory", "exact"),
    ],
)
def test_counted_work_gives_the_same_bytes_again_and_in_however_many_processes(
    shell: Shell, objective: str, method: str
) -> None:
    if method == "exact" and not has_solver():
        pytest.skip("OR-tools is not installed: pip install 'placesim[plan]'")
    graph = shell.write("g.yaml", FREE)
    command = ("plan", graph, "--evaluations", "400", "--seed", "5", "--objective", objective, "--method", method)
    outputs = {shell(*command, "--jobs", jobs, "--format", "json").output for jobs in ("1", "1", "2")}
    assert len(outputs) == 1


@pytest.mark.slow
def test_a_loop_that_is_lowered_is_planned_after_the_change_that_the_error_names(shell: Shell) -> None:
    shell("convert", str(ROOT / "graphs" / "while.yaml"), "loop.yaml")
    text = (shell.directory / "loop.yaml").read_text(encoding="utf-8")
    assert "set `_lower_using_switch_merge` of this node to false" in shell("plan", "loop.yaml", *FEWER).complaint
    shell.write("loop.yaml", text.replace("_lower_using_switch_merge: true", "_lower_using_switch_merge: false"))
    assert rows(shell("plan", "loop.yaml", *FEWER).output, "plan")


@pytest.mark.slow
@pytest.mark.skipif(not Path("/proc/self/task").is_dir(), reason="children of a process are listed on Linux only")
def test_the_best_so_far_is_told_and_written_when_the_search_is_interrupted(shell: Shell) -> None:
    graph = shell.write("g.yaml", LONG)
    with start_warm("plan", graph, "--seconds", "300", "--output", "planned.yaml", cwd=shell.directory) as process:
        assert until(lambda: _searches(process.pid))
        ended = interrupt(process)
    assert (ended.code, ended.complaint) == (130, "")
    assert rows(ended.output, "plan")
    assert (shell.directory / "planned.yaml").exists()


def test_what_is_found_is_written_when_its_simulation_is_interrupted(shell: Shell, monkeypatch: pytest.MonkeyPatch) -> None:
    simulated = plan_study._Planner._simulated
    seen: list[str] = []

    def interrupted(planner: Any, candidate: Any) -> Any:
        seen.append(candidate.label)
        if candidate.label == PLANNED and seen.count(PLANNED) == 1:
            raise KeyboardInterrupt
        return simulated(planner, candidate)

    whole = shell("plan", shell.write("g.yaml", LONG), *FEW)
    monkeypatch.setattr(plan_study._Planner, "_simulated", interrupted)
    ended = shell("plan", "g.yaml", *FEW, "--output", "planned.yaml")
    assert (ended.code, ended.complaint) == (130, "")
    # the simulation that is interrupted, and then those of both plans
    assert seen.count(PLANNED) == 3
    assert rows(ended.output, "plan") == rows(whole.output, "plan")
    assert (shell.directory / "planned.yaml").exists()


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ((), "nothing is written"),
        (("--output", "p.yaml"), "p.yaml not written"),
        (("--output", "p.yaml", "--html", "p.html"), "p.yaml and p.html not written"),
    ],
)
def test_an_interrupt_before_any_plan_is_said(
    shell: Shell, monkeypatch: pytest.MonkeyPatch, options: tuple[str, ...], said: str
) -> None:
    def interrupted(*arguments: Any, **options: Any) -> Any:
        raise KeyboardInterrupt

    monkeypatch.setattr(plan_study, "study_dry_run", interrupted)
    ended = shell("plan", shell.write("g.yaml", FREE), *FEW, *options)
    assert (ended.code, ended.output) == (130, "")
    assert ended.complaint == f"interrupted: no plan was found yet, and {said}\n"
    assert [path.name for path in shell.directory.iterdir()] == ["g.yaml"]


def _searches(process: int) -> bool:
    """Whether the search has begun, for which there are processes; libraries that are imported may start others."""
    children = Path(f"/proc/{process}/task/{process}/children").read_text().split()
    commands = (Path(f"/proc/{child}/cmdline") for child in children)
    return any(b"placesim.planning.worker" in command.read_bytes() for command in commands if command.exists())


def test_a_page_is_written_beside_the_report(shell: Shell) -> None:
    ended = shell("plan", shell.write("g.yaml", FREE), *FEWER, "--html", "plan.html", "--format", "json")
    assert (ended.code, ended.complaint) == (0, "")
    told = json.loads(ended.output)
    # the page's rows have gains
    assert all(move["loss"] is not None for move in told["moves"])
    assert "placesim" in (shell.directory / "plan.html").read_text().partition("\n")[2]


def test_a_terminal_is_told_if_the_graph_s_own_placement_is_the_best() -> None:
    options = make_options({"gpu": 1})
    text = (
        b"nodes:\n- {op: Placeholder, name: x, dtype: float32, shape: [4096, 4096]}\n- {op: MatMul, name: y, inputs: [x, x]}\n"
    )
    study = study_plan(load(BytesIO(text + b"fetch: [y]\n"), "g.yaml", options), options, "g", Effort(evaluations=9, jobs=1))
    told = styled_plan(study, io.TextIOWrapper(BytesIO(), encoding="utf-8"), 1)
    assert " (TensorFlow's default): no better placement was found\n" in re.sub(r"\x1b\[[0-9;]*m", "", told)


@pytest.mark.slow
@pytest.mark.parametrize("columns", [50, 60, 80, 120, 200])
def test_a_terminal_is_told_in_its_width(columns: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", str(columns))
    options = make_options({})
    text = FREE.replace("a1", "a_scope_with_a_long_name/and_another_one/first").encode()
    study = study_plan(load(BytesIO(text), "g.yaml", options), options, "g.yaml", Effort(evaluations=100, jobs=1))
    told = styled_plan(study, io.TextIOWrapper(BytesIO(), encoding="utf-8"), 1, "planned.yaml")
    lines = re.sub(r"\x1b\[[0-9;]*m", "", told).splitlines()
    assert max(map(len, lines)) <= columns
    assert lines[0].startswith("a step takes ")
    table = next(line.split() for line in lines if line.startswith("placement"))
    assert table[:2] == ["placement", "step"]
    assert ("load" in table) == (columns >= 80)
    assert "…" not in "".join(line for line in lines if line.startswith("the plan"))
    assert any(line.endswith("more (see --top)") for line in lines) or len(study.moves) == 1


def test_the_line_of_progress_has_the_terminal_s_width_and_goes(monkeypatch: pytest.MonkeyPatch) -> None:
    terminal = io.StringIO()
    monkeypatch.setattr(terminal, "isatty", lambda: True)
    monkeypatch.setattr(sys, "stderr", terminal)
    monkeypatch.setenv("COLUMNS", "30")
    plan = Plan(0.02, (0,))
    with _BestPlanLine(60.0, PlanMeasure.LATENCY) as best:
        best.show(PlanResult(plan, Bound(0.01, "why"), "move", 1.0))
    *lines, last = terminal.getvalue().split("\r\x1b[K")[1:]
    assert {len(line) for line in lines} == {29}
    assert re.match(r"0:0\d, (1:00|0:5\d) left: best 20 ms", lines[0])
    assert last == ""


@pytest.mark.usefixtures("forked_workers")
@pytest.mark.slow
def test_peaks_are_sought_from_several_seeds_as_long_as_there_is_time(shell: Shell, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(plan_study, "LEAST_ROUND", 0.1)
    ended = shell("plan", shell.write("g.yaml", FREE), "--seconds", "0.8", "--objective", "memory")
    assert (ended.code, ended.complaint) == (0, "")
    ((_, value, *_),) = rows(ended.output, "plan")
    assert float(value) == pytest.approx(min(float(row[5]) for row in rows(ended.output, "placement")), rel=1e-5)


def test_freed_nodes_that_colocated_requests_hold_are_named(shell: Shell) -> None:
    graph = shell.write(
        "g.yaml",
        "devices: {cpu: 1, gpu: 2}\nnodes:\n"
        "  - {op: Fill, name: head/a, inputs: [[64, 64], 0.5], device: /gpu:1}\n"
        "  - {op: Neg, name: other/b, inputs: [head/a], attrs: {_class: ['loc:@head/a']}, device: /gpu:1}\n"
        "  - {op: Tanh, name: head/c, inputs: [head/a], device: /gpu:1}\nfetch: [other/b, head/c]\n",
    )
    found = rows(shell("plan", graph, "--free", "head/", *FEWER).output, "stay")
    assert found == [["1", "head/a", "GPU:1", "colocated with other/b, which requests /device:GPU:1: free this one, too"]]
    assert rows(shell("plan", graph, "--free", "head/", "--free", "other/", *FEWER).output, "stay") == []
    # once, if their device is also avoided
    found = rows(shell("plan", graph, "--free", "head/", "--without", "gpu:1", *FEWER).output, "stay")
    assert [row[1] for row in found].count("head/a") == 1
