"""`placesim memory`: what it prints in a pipe and on a terminal, what it writes, and how it ends."""

from __future__ import annotations

import json
import re
import shlex
from pathlib import Path

import numpy as np
import pytest

import placesim
from tests.cli.shell import ROOT, Shell, rows

# a GPU of 20 MiB: a chunk for each 1 MiB of `x` times its batch
GRAPH = """
devices: {cpu: 1, gpu: {count: 1, memory: 24MiB}}
config: {gpu_options: {experimental: {gpu_system_memory_size_in_mb: 4}}}
nodes:
  - {op: Placeholder, name: x, dtype: float32, shape: [null, 262144]}
  - {variable: v, shape: [65536], initializer: zeros, device: /gpu:0}
  - scope: tower
    device: /gpu:0
    nodes:
      - {op: Neg, name: a, inputs: [x]}
      - {op: Mul, name: b, inputs: [a, x]}
      - {op: Max, name: c, inputs: [b, [0, 1]]}
  - {initializer: init}
run:
  - fetch: [init]
  - fetch: [tower/c]
"""
MIB = 1 << 20
LIMIT = 20 * MIB


@pytest.fixture
def graph(shell: Shell) -> str:
    return shell.write("g.yaml", GRAPH)


def test_a_pipe_gets_a_line_for_each_fact(shell: Shell, graph: str) -> None:
    ended = shell("memory", graph, "--batch", "4")
    assert ended.code == 0
    assert ended.complaint == ""
    devices = {row[0]: row[1:] for row in rows(ended.output, "device")}
    assert list(devices) == ["CPU:0", "GPU:0"]
    allocator, limit, peak, room, _, node = devices["GPU:0"]
    assert (allocator, limit) == ("GPU_0_bfc", str(LIMIT))
    assert int(peak) + int(room) == LIMIT
    assert node == "tower/a"
    assert devices["CPU:0"][:2] == ["cpu", "-"]
    assert rows(ended.output, "batch") == [["4", "given"]]
    assert rows(ended.output, "out") == []


def test_the_peak_is_what_is_held_at_it(shell: Shell, graph: str) -> None:
    output = shell("memory", graph, "--batch", "4").output
    (peak,) = [int(row[3]) for row in rows(output, "device") if row[0] == "GPU:0"]
    held = {row[2]: int(row[4]) for row in rows(output, "holder") if row[0] == "GPU:0"}
    assert sum(held.values()) == peak
    assert held["v"] == MIB // 4
    assert max(map(int, rows(output, "curve")[1][1].split())) == peak


def test_the_largest_batch_fits_and_the_next_does_not(shell: Shell, graph: str) -> None:
    found = shell("memory", graph, "--batch", "auto")
    assert found.code == 0
    ((batch, word),) = rows(found.output, "batch")
    assert word == "largest"
    assert int(batch) > 4
    assert shell("memory", graph, "--batch", batch).code == 0
    assert shell("memory", graph, "--batch", str(int(batch) + 1)).code == 1


def test_a_step_that_is_split_gets_a_multiple(shell: Shell) -> None:
    nodes = """
  - {op: Split, name: s, inputs: [0, x], attrs: {num_split: 3}, device: /gpu:0}
  - {op: AddN, name: y, inputs: ['s:0', 's:1', 's:2'], device: /gpu:0}
"""
    head, _, _ = GRAPH.partition("  - {variable")
    graph = shell.write("g.yaml", head + nodes + "run:\n  - fetch: [y]\n")
    ((batch, _),) = rows(shell("memory", graph, "--batch", "auto").output, "batch")
    assert int(batch) % 3 == 0
    assert shell("memory", graph, "--batch", batch).code == 0
    assert shell("memory", graph, "--batch", str(int(batch) + 3)).code == 1


def test_no_batch_fits(shell: Shell) -> None:
    graph = shell.write("g.yaml", GRAPH.replace("262144", "8388608").replace("24MiB", "8MiB"))
    ended = shell("memory", graph, "--batch", "auto")
    assert ended.code == 1
    assert rows(ended.output, "batch") == [["0", "largest"]]


def test_a_graph_that_cannot_be_placed_is_said_with_its_place(shell: Shell) -> None:
    nodes = "[{op: Placeholder, name: x, dtype: float, shape: [null]}, {op: Neg, name: y, inputs: [x], device: /gpu:0}]"
    graph = shell.write("g.yaml", f"nodes:\n  {nodes}\nfetch: [y]")
    ended = shell("memory", graph, "--batch", "auto")
    assert (ended.code, ended.output) == (1, "")
    assert ended.complaint == shell("run", graph, "--no-execute").complaint.removeprefix("Device mapping: no known devices.\n")
    assert "node y (defined at g.yaml:2) was explicitly assigned to /device:GPU:0" in ended.complaint
    assert "  --soft-placement allows another device" in ended.complaint


def test_any_batch_fits_where_nothing_has_a_limit(shell: Shell) -> None:
    nodes = "[{op: Placeholder, name: x, dtype: float, shape: [null]}, {op: Neg, name: y, inputs: [x]}]"
    ended = shell("memory", shell.write("cpu.yaml", f"nodes: {nodes}\nfetch: [y]"), "--batch", "auto")
    assert (ended.code, rows(ended.output, "batch")) == (0, [["-", "largest"]])


def test_running_out_names_the_node_and_what_would_do(shell: Shell, graph: str) -> None:
    ended = shell("memory", graph, "--batch", "16")
    assert ended.code == 1
    assert rows(ended.output, "out") == [["GPU:0", "tower/a"]]
    (room,) = [int(row[4]) for row in rows(ended.output, "device") if row[0] == "GPU:0"]
    assert room < 0
    assert re.match(
        r"ResourceExhaustedError: OOM when allocating tensor with shape\[16,262144\] and type float on \S+GPU:0 by allocator",
        ended.complaint,
    )
    (_, (largest, word)) = rows(ended.output, "batch")
    assert word == "largest"
    assert rows(shell("memory", graph, "--batch", "auto").output, "batch") == [[largest, "largest"]]
    edits = [row[:2] + row[3:] for row in rows(ended.output, "edit")]
    assert edits == [["devices", "--device 'tower/=/cpu:0'", "fits"], ["batch", f"--batch {largest}", "fits"]]
    # the holders are those of the run that has the peak
    peaks = {row[0]: int(row[3]) for row in rows(ended.output, "device")}
    held = [int(row[4]) for row in rows(ended.output, "holder") if row[0] == "GPU:0"]
    assert sum(held) == peaks["GPU:0"] > LIMIT
    ((model, limit),) = rows(ended.output, "gpu-model")
    assert shell("memory", graph, "--batch", "16", "--gpu", "1", "--gpu-model", model).code == 0
    assert int(limit) > LIMIT


def test_the_smallest_gpu_is_found_by_what_fits(shell: Shell) -> None:
    graph = shell.write("g.yaml", GRAPH.replace("experimental: {gpu_system_memory_size_in_mb: 4}", "allow_growth: false"))
    ((small, _),) = rows(shell("memory", graph, "--batch", "500").output, "gpu-model")
    ((large, _),) = rows(shell("memory", graph, "--batch", "12000").output, "gpu-model")
    assert shell("memory", graph, "--batch", "12000", "--gpu-model", large).code == 0
    assert shell("memory", graph, "--batch", "12000", "--gpu-model", small).code == 1
    assert rows(shell("memory", graph, "--batch", "1000000").output, "gpu-model") == [["-", "-"]]


def test_growth_is_told_where_it_matters(shell: Shell) -> None:
    # growing, the first region has 2 MiB, and what the limit leaves then is too little for the tensor
    text = """
devices: {cpu: 1, gpu: {count: 1, memory: 24MiB}}
config: {gpu_options: {allow_growth: GROWTH, experimental: {gpu_system_memory_size_in_mb: 4}}}
nodes:
  - {op: Fill, name: a, inputs: [[4950000], 1.0], device: /gpu:0}
fetch: [a]
"""
    plain = shell("memory", shell.write("plain.yaml", text.replace("GROWTH", "false")))
    growing = shell("memory", shell.write("growing.yaml", text.replace("GROWTH", "true")))
    assert (plain.code, rows(plain.output, "allow-growth")) == (0, [["true", "fails"]])
    assert (growing.code, rows(growing.output, "allow-growth")) == (1, [["false", "fits"]])


DEEP = """
devices: {cpu: 1, gpu: {count: 2, memory: 24MiB}}
config: {gpu_options: {experimental: {gpu_system_memory_size_in_mb: 4}}}
nodes:
  - {op: Placeholder, name: x, dtype: float32, shape: [null, 64]}
LAYERS
  - {op: Mean, name: loss, inputs: [r9, [0, 1]], device: /gpu:0}
  - {train: {minimize: loss, optimizer: {Momentum: {learning_rate: 0.1, momentum: 0.9}}}, name: train}
  - {initializer: init}
run: [{fetch: [init]}, {fetch: [train]}]
"""
LAYER = """
  - {variable: w%d, shape: [64, 64], initializer: zeros, device: /gpu:0}
  - {op: MatMul, name: h%d, inputs: [%s, w%d], device: /gpu:0}
  - {op: Relu, name: r%d, inputs: [h%d], device: /gpu:0}"""


@pytest.mark.slow
def test_edits_that_would_make_it_fit_are_measured(shell: Shell) -> None:
    layers = "".join(LAYER % (i, i, f"r{i - 1}" if i else "x", i, i, i) for i in range(10))
    graph = shell.write("deep.yaml", DEEP.replace("LAYERS", layers))
    ended = shell("memory", graph, "--batch", "10000")
    (peak,) = [int(row[3]) for row in rows(ended.output, "device") if row[0] == "GPU:0"]
    edits = rows(ended.output, "edit")
    assert [kind for kind, *_ in edits] == ["devices", "strategy", "strategy", "strategy", "batch"]
    commands = [change.split(graph)[1] for kind, change, *_ in edits if kind == "strategy"]
    assert commands == [" --replicas 2", " --accumulate 2", " --recompute 3"]
    # the edits have the peaks of runs with them
    for kind, change, least, outcome in edits:
        assert int(least) < 0.95 * peak
        words = shlex.split(f"--batch 10000 {change}") if kind != "strategy" else ["--batch", "10000"]
        if kind == "strategy":
            rewritten = shell(*shlex.split(change)[1:], "--output", "rewritten.yaml")
            assert rewritten.code == 0
        changed = shell("memory", "rewritten.yaml" if kind == "strategy" else graph, *words)
        assert int(next(row for row in rows(changed.output, "device") if row[0] == "GPU:0")[3]) == int(least)
        assert (changed.code, outcome) == (0, "fits")


def test_of_micro_batches_the_fewest_are_offered_and_other_graphs_get_no_rewrite(shell: Shell, graph: str) -> None:
    layers = "".join(LAYER % (i, i, f"r{i - 1}" if i else "x", i, i, i) for i in range(4))
    text = DEEP.replace("LAYERS", layers).replace("r9", "r3").replace("count: 2", "count: 1")
    deep = shell.write("deep.yaml", text)
    strategies = [row for row in rows(shell("memory", deep, "--batch", "40000").output, "edit") if row[0] == "strategy"]
    ((*_, change, _, fits),) = strategies
    assert (change.split(deep)[1], fits) == (" --accumulate 8", "fits")
    shell(*shlex.split(change.replace("8", "5"))[1:], "--output", "fewer.yaml")
    assert shell("memory", "fewer.yaml", "--batch", "40000").code == 1
    # a batch without divisors has no equal parts, and a graph without gradients has no strategy
    for name, batch in ((deep, "40009"), (graph, "16")):
        assert not [row for row in rows(shell("memory", name, "--batch", batch).output, "edit") if row[0] == "strategy"]


def test_a_move_never_only_takes_the_shortage_to_another_device(shell: Shell, graph: str) -> None:
    # GPU:1 is as small as GPU:0 and would also have to hold a copy of `x`, so the tower goes to the CPU
    edits = rows(shell("memory", graph, "--gpu", "2", "--batch", "16").output, "edit")
    assert edits[0] == ["devices", "--device 'tower/=/cpu:0'", str(MIB // 2 + 1536), "fits"]


def test_a_move_from_one_of_two_full_devices_is_told_as_that(shell: Shell, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FORCE_COLOR", "1")
    monkeypatch.setenv("COLUMNS", "200")
    graph = TOWERS.replace("count: 1, memory: 24", "count: 2, memory: 12").replace(
        "{scope: tower, device: /gpu:0,", "{scope: tower, device: /gpu:1,"
    )
    shown = shell("memory", shell.write("t.yaml", graph), "--batch", "1").output
    assert "--device 'tower/=/cpu:0': GPU:0 then has room for its peak of " in shown
    assert ", but the graph still does not fit" in shown


def test_assumptions_and_dumps_are_told_on_a_terminal_as_in_a_pipe(
    shell: Shell, graph: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FORCE_COLOR", "1")
    monkeypatch.setenv("COLUMNS", "200")
    lines = shell("memory", graph, "--assume-unknown", "4", "--dump").output.splitlines()
    assert "unknown dimensions of 1 tensor are assumed to be 4" in lines
    assert any(line.startswith("Bin (256):") and "\\t" not in line for line in lines)


def test_a_graph_without_tensors_is_told_as_that(shell: Shell) -> None:
    graph = shell.write("noop.yaml", "nodes: [{op: NoOp, name: a}]\nrun: [{fetch: [a]}]")
    assert shell("memory", graph).output == "table\tsentence\nnote\tthe steps allocate no memory on any device\n"
    device = rows(shell("simulate", graph).output, "device")[0]
    assert device[8:10] == ["0", "-"]  # as in `sweep`: a peak of 0, and no limit


TOWERS = """
devices: {cpu: 1, gpu: {count: 1, memory: 24MiB}}
config: {gpu_options: {experimental: {gpu_system_memory_size_in_mb: 4}}}
nodes:
  - {op: Placeholder, name: x, dtype: float32, shape: [null, 262144]}
  - scope: tower
    device: /gpu:0
    nodes: &tower
      - {op: Tile, name: a, inputs: [x, [3, 1]]}
      - {op: Tile, name: b, inputs: [a, [2, 1]]}
      - {op: Max, name: c, inputs: [b, [0, 1]]}
  - {scope: tower, device: /gpu:0, nodes: *tower}
  - {op: Add, name: y, inputs: [tower/c, tower_1/c], device: /gpu:0}
fetch: [y]
"""


def test_towers_that_fit_one_after_another_are_told(shell: Shell) -> None:
    orders = {}
    for memory in (12, 18, 24):
        ended = shell("memory", shell.write("t.yaml", TOWERS.replace("24MiB", f"{memory}MiB")), "--batch", "1")
        orders[memory] = (ended.code, rows(ended.output, "order"))
    assert orders == {12: (1, []), 18: (1, [["tower tower_1"]]), 24: (0, [])}
    # what the report asks for, done
    serial = TOWERS.replace("24MiB", "18MiB").replace(
        "  - {scope: tower, device: /gpu:0, nodes: *tower}",
        "  - {scope: tower, device: /gpu:0, control_inputs: [tower/c], nodes: *tower}",
    )
    assert shell("memory", shell.write("serial.yaml", serial), "--batch", "1").code == 0


def test_dump_is_tensorflows(shell: Shell, graph: str) -> None:
    printed = shell("memory", graph, "--batch", "4", "--dump").output.splitlines()
    dump = [line.partition("GPU:0\t")[2] for line in printed if line.startswith("dump\t")]
    assert dump[0] == "BFCAllocator dump for GPU_0_bfc"
    assert "Limit:                        20.00MiB" in dump
    in_use = [int(line.split(" of size ")[1].split()[0]) for line in dump if line.startswith("InUse at")]
    (peak,) = [int(row[3]) for row in rows(shell("memory", graph, "--batch", "4").output, "device") if row[0] == "GPU:0"]
    assert sum(in_use) == peak


def test_dump_where_it_runs_out_is_that_of_the_failure(shell: Shell, graph: str) -> None:
    output = shell("memory", graph, "--batch", "16", "--dump").output
    assert "dump\tGPU:0\tBin for 16.00MiB was 16.00MiB, Chunk State: " in output.splitlines()


def test_json_has_everything(shell: Shell, graph: str) -> None:
    document = json.loads(shell("memory", graph, "--batch", "16", "--format", "json").output)
    assert not document["fits"]
    assert document["error"]["device"] == "/job:localhost/replica:0/task:0/device:GPU:0"
    (gpu,) = [device for device in document["devices"] if device["limit"] is not None]
    assert gpu["limit"] == LIMIT
    assert gpu["room"] == LIMIT - gpu["peak"] < 0
    assert gpu["asked"] == 16 * MIB
    assert gpu["reached"] <= LIMIT


def test_a_terminal_gets_blocks_and_a_table(shell: Shell, graph: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FORCE_COLOR", "1")
    monkeypatch.setenv("COLUMNS", "100")
    shown = re.sub(r"\x1b\[[0-9;]*m", "", shell("memory", graph, "--batch", "4").output)
    lines = shown.splitlines()
    assert any(re.fullmatch(r"[ ▁▂▃▄▅▆▇█]*█[ ▁▂▃▄▅▆▇█]*", line) for line in lines)
    assert any(line.startswith("GPU:0  limit 20 MiB   peak ") and "room left" in line for line in lines)
    assert max(map(len, lines)) <= 100
    assert "smallest GPU that fits: " in shown


# --- sizes that are not known ---------------------------------------------------------------------------------------


def test_open_placeholders_are_named_with_the_least_to_say(shell: Shell, graph: str) -> None:
    assert shell("memory", graph) == (
        2,
        "",
        "UsageError: placeholders have unknown shapes: x [?,262144]\n  `--batch N` sets the first dimension of all\n"
        "  `--assume-unknown N` assumes N for each unknown dimension\n",
    )


def test_a_shape_settles_one(shell: Shell, graph: str) -> None:
    by_shape = shell("memory", graph, "--shape", "x=4,262144")
    assert by_shape.code == 0
    assert rows(by_shape.output, "device") == rows(shell("memory", graph, "--batch", "4").output, "device")


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        (["--shape", "x=4,5"], "wrong shape of x: got [4,5], expected [?,262144]"),
        (["--shape", "y=4"], "no such placeholder: got 'y'"),
        (["--shape", "x"], "wrong shape: got 'x', expected NAME=1,2,3"),
        (["--batch", "many"], "got 'many', expected a number or auto"),
        (["--batch", "4", "--execute"], "assumed sizes do not apply"),
        (["--format", "dot"], "expected text or json or csv or markdown or html"),
        (["--top", "0"], "top"),
    ],
)
def test_wrong_options_end_with_2(shell: Shell, graph: str, arguments: list[str], complaint: str) -> None:
    ended = shell("memory", graph, *arguments)
    assert (ended.code, ended.output) == (2, "")
    assert complaint in ended.complaint


def test_a_batch_needs_a_placeholder_that_takes_it(shell: Shell) -> None:
    ended = shell("memory", str(ROOT / "graphs" / "alexnet.yaml"), "--batch", "128")
    assert ended.code == 2
    assert ended.complaint.endswith(
        "  images is declared as [4,67,67,3]\n  in a graph file, `shape: [null, ...]` leaves the batch open\n"
    )


DATA = """
nodes:
  - {op: Placeholder, name: v, dtype: float32, shape: [4]}
  - {op: Placeholder, name: flag, dtype: bool, shape: []}
  - NODES
run:
  - fetch: [y]
    feed: {v: [1, 2, 2, 1]}
"""


@pytest.mark.slow
def test_what_depends_on_data_is_assumed_or_executed(shell: Shell) -> None:
    np.save(shell.directory / "v.npy", np.arange(4096, dtype=np.float32) % 7)
    nodes = "{op: Unique, name: u, inputs: [v]}\n  - {op: Neg, name: y, inputs: ['u:0']}"
    graph = shell.write("g.yaml", DATA.replace("NODES", nodes).replace("[4]", "[4096]").replace("[1, 2, 2, 1]", "v.npy"))
    graph = shell.write("g.yaml", Path(graph).read_text().replace("feed: {v: v.npy}", "feed: {v: {file: v.npy}}"))
    assert rows(shell("memory", graph).output, "assumption") == [
        ["u is assumed to have 4096 elements: set it with `--assume u=N`"]
    ]
    assert rows(shell("memory", graph, "--assume", "u=7").output, "assumption") == [
        ["u is assumed to have 7 elements, as given"]
    ]
    most = shell("memory", graph, "--assume", "u=4097")
    assert (
        most.complaint
        == "UsageError: impossible size of u in --assume: got 4097, expected at most 4096, the size of its input\n"
    )
    swept = shell("sweep", graph, "--set", "assume:u=7,4097", "--jobs", "1").output
    assert [rows(swept, size)[0][-1].partition(":")[0] for size in ("7", "4097")] == ["-", "UsageError"]
    for command in (("check", graph, "--rule", "max-step-time=1s"), ("explain", graph, "u"), ("diff", graph, "--b-cpu", "2")):
        assert shell(*command, "--assume", "u=7").code == 0
    wrong = shell("memory", graph, "--assume", "v1=7")
    assert wrong.complaint == "UsageError: no such node: got 'v1' in --assume, expected a node or a loop\n"
    ended = shell("memory", graph, "--execute")
    assert ended.code == 0
    assert ["CPU:0", "step", "u", "2", str(4096 * 4 + 7 * 4)] not in [row[:5] for row in rows(ended.output, "device")]
    assert int(rows(ended.output, "device")[0][3]) > 4096 * 4


def test_of_branches_that_nothing_decides_between_the_one_that_holds_more_counts(shell: Shell) -> None:
    nodes = (
        "{op: Switch, name: s, inputs: [v, flag]}\n  - {op: Neg, name: n, inputs: ['s:0']}\n"
        "  - {op: Abs, name: a, inputs: ['s:1']}\n  - {op: Merge, name: y, inputs: [n, a]}"
    )
    graph = shell.write("g.yaml", DATA.replace("NODES", nodes))
    ended = shell("memory", graph)
    assert ended.code == 0
    ((said,),) = rows(ended.output, "assumption")
    assert said == "flag is unknown: branch true is assumed, the slowest of 2"
    told = shell("memory", graph, "--feed", "flag=true")
    assert rows(told.output, "device") == rows(ended.output, "device")
    assert rows(told.output, "assumption") == []


# --- where graphs come from and reports go ---------------------------------------------------------------------------


def test_files_that_are_no_graphs(shell: Shell) -> None:
    assert shell("memory", "missing.yaml").code == 2
    assert shell("memory", shell.write("empty.yaml", "")).code == 2
    assert shell("memory", shell.write("bad.yaml", "nodes: [{op: Nope, name: a}]")).code in (1, 2)


def test_a_device_that_is_not_there_is_tensorflows_error(shell: Shell) -> None:
    graph = shell.write("g.yaml", "nodes: [{op: Const, name: a, value: 1.0, device: /gpu:7}]\nfetch: [a]")
    ended = shell("memory", graph)
    assert (ended.code, ended.output) == (1, "")
    assert ended.complaint.startswith("InvalidArgumentError: Cannot assign a device for operation a")


def test_the_ending_of_a_file_tells_the_form(shell: Shell, graph: str) -> None:
    assert shell("memory", graph, "--batch", "4", "--output", "m.json") == (0, "", "")
    assert json.loads((shell.directory / "m.json").read_text())["fits"]
    assert shell("memory", graph, "--batch", "4", "--output", "m.html") == (0, "", "")
    assert "<title>g.yaml" in (shell.directory / "m.html").read_text()


def test_a_graph_that_grows_is_walked_as_often_as_it_takes(shell: Shell) -> None:
    text = GRAPH + "  - {nodes: [{op: Const, name: z, value: 1.0}], fetch: [z]}\n"
    assert shell("memory", shell.write("g.yaml", text), "--batch", "auto").code == 0


def test_sizes_that_follow_from_shapes_are_known(shell: Shell) -> None:
    text = """
nodes:
  - {op: Placeholder, name: x, dtype: float32, shape: [null, 4]}
  - {op: Shape, name: shape, inputs: [x]}
  - {op: ShapeN, name: shapes, inputs: [x, x]}
  - {op: Fill, name: y, inputs: [shape, 1.0]}
  - {op: Fill, name: z, inputs: ['shapes:1', 2.0]}
  - {op: AddN, name: sum, inputs: [y, z]}
fetch: [sum]
"""
    output = shell("memory", shell.write("g.yaml", text), "--batch", "3000").output
    assert [row[3:5] for row in rows(output, "holder") if row[2] in ("y", "z")] == [["1", "48000"]] * 2


@pytest.mark.slow
def test_walking_through_holds_what_executing_does(shell: Shell) -> None:
    graph = str(ROOT / "graphs" / "cifar10-towers.yaml")
    walked, executed = shell("memory", graph), shell("memory", graph, "--execute")
    assert (walked.code, executed.code) == (0, 0)
    assert walked.output == executed.output


def test_python_gets_the_same(shell: Shell, graph: str) -> None:
    usage = placesim.memory(graph, batch=4).memory[1]
    (row,) = [row for row in rows(shell("memory", graph, "--batch", "4").output, "device") if row[0] == "GPU:0"]
    assert [str(usage.limit), str(usage.peak), str(usage.room), usage.peak_node] == [*row[2:5], row[6]]
    with pytest.raises(placesim.ResourceExhaustedError) as raised:
        placesim.memory(graph, batch=16)
    assert raised.value.report.memory
    assert raised.value.report.text() == shell("memory", graph, "--batch", "16").output
    for batch in (4, "auto"):
        report = placesim.memory(graph, batch=batch)
        words = ["memory", graph, "--batch", str(batch)]
        assert report.text() == shell(*words).output
        assert report.to_dict() == json.loads(shell(*words, "--format", "json").output)
        assert report.page() == shell(*words, "--format", "html").output
    dumped = placesim.memory(graph, batch=4, dump=True)
    assert dumped.text() == shell("memory", graph, "--batch", "4", "--dump").output


def test_a_handle_is_no_tensor_of_the_shape_that_it_tells_of(shell: Shell) -> None:
    text = """
nodes:
  - {op: FIFOQueueV2, name: q, attrs: {component_types: [float], shapes: [[2]]}}
  - {op: QueueEnqueueV2, name: put, inputs: [q, [1.0, 2.0]]}
  - {op: QueueSizeV2, name: size, inputs: [q], control_inputs: [put]}
fetch: [size]
"""
    ended = shell("memory", shell.write("q.yaml", text))
    assert (ended.code, ended.complaint) == (0, "")
    assert int(rows(ended.output, "device")[0][3]) > 0


@pytest.mark.slow
@pytest.mark.parametrize("columns", [60, 80, 120, 200])
def test_devices_and_holders_fit_the_terminal(shell: Shell, monkeypatch: pytest.MonkeyPatch, columns: int) -> None:
    for name, value in (("FORCE_COLOR", "1"), ("NO_COLOR", "1"), ("COLUMNS", str(columns))):
        monkeypatch.setenv(name, value)
    text = re.sub(r"\x1b\[[0-9;]*m", "", shell("memory", str(ROOT / "graphs" / "cifar10-towers.yaml")).output)
    lines = text.splitlines()
    assert max(map(len, map(str.rstrip, lines))) <= columns
    # with less room columns go, before names are cut; numbers never are
    assert next(line for line in lines if line.startswith("held")).split()[:5] == ["held", "by", "owner", "number", "bytes"]
    assert all(re.search(r" \d+  +[\d.]+ (MiB|KiB|B)( |$)", line) for line in lines if re.match("variable|constant|step", line))
    assert ("until" in text) is (columns > 60)
    assert ("since" in text) is (columns > 80)


@pytest.mark.parametrize("columns", [60, 80, 120])
def test_a_device_keeps_its_name_whole(shell: Shell, monkeypatch: pytest.MonkeyPatch, columns: int) -> None:
    for name, value in (("FORCE_COLOR", "1"), ("NO_COLOR", "1"), ("COLUMNS", str(columns))):
        monkeypatch.setenv(name, value)
    text = re.sub(r"\x1b\[[0-9;]*m", "", shell("devices", "--gpu", "2").output)
    assert max(map(len, map(str.rstrip, text.splitlines()))) <= columns
    for name in ("CPU:0", "GPU:0", "GPU:1"):
        assert f"/job:localhost/replica:0/task:0/device:{name}" in text
    assert "11472470016" in text


def test_a_walk_prints_nothing(shell: Shell) -> None:
    graph = shell.write(
        "print.yaml",
        """nodes:
  - {op: Const, name: text, dtype: string, value: hello}
  - {op: PrintV2, name: to_stderr, inputs: [text]}
  - {op: PrintV2, name: to_stdout, inputs: [text], attrs: {output_stream: stdout}}
  - {op: Print, name: passed, inputs: [[1.0, 2.0], [text]], attrs: {message: hello}}
fetch: [passed, to_stderr, to_stdout]
""",
    )
    walked = shell("memory", graph)
    assert (walked.code, walked.complaint) == (0, "")
    assert "hello" not in walked.output
    assert rows(walked.output, "device")[0][2] == rows(shell("memory", graph, "--execute").output, "device")[0][2]


@pytest.mark.parametrize("groups", [1, 2])
def test_a_convolution_on_a_cpu_takes_the_same_with_channels_first(shell: Shell, groups: int) -> None:
    found = []
    for layout, images in (("NHWC", [2, 5, 7, 4 * groups]), ("NCHW", [2, 4 * groups, 5, 7])):
        graph = (
            f"nodes:\n  - {{op: Placeholder, name: x, dtype: float32, shape: {images}}}\n"
            "  - {op: Fill, name: w, inputs: [[3, 3, 4, 6], 0.5]}\n  - {op: Conv2D, name: c, inputs: [x, w], attrs: "
            f"{{strides: [1, 1, 1, 1], padding: SAME, data_format: {layout}}}}}\nrun: [{{fetch: [c]}}]\n"
        )
        found.append(rows(shell("memory", shell.write(f"{layout}.yaml", graph)).output, "device"))
    assert found[0] == found[1] != []


def test_an_error_of_memory_names_only_options_of_memory(shell: Shell, graph: str) -> None:
    complaint = shell("memory", graph, "--batch", "4096").complaint
    assert "`--dump`" in complaint
    assert "--log-memory" not in complaint
    assert "--no-memory-limit" not in complaint


@pytest.mark.parametrize(
    ("command", "expected"),
    [
        ("run", {"--no-memory-limit", "--log-memory"}),
        ("memory", {"--dump"}),
        ("simulate", set()),
    ],
)
def test_an_error_names_only_remedies_of_its_command(shell: Shell, command: str, expected: set[str]) -> None:
    graph = shell.write(
        "full.yaml",
        "devices: {cpu: 1, gpu: {count: 1, memory: 4MiB}}\nnodes:\n"
        "  - {op: Fill, name: a, inputs: [[1000, 1000], 0.5]}\n  - {op: Add, name: b, inputs: [a, a]}\nfetch: [b]\n",
    )
    complaint = shell(command, graph).complaint
    assert complaint.startswith("ResourceExhaustedError: OOM when allocating")
    assert set(re.findall(r"`(--[a-z-]+)", complaint)) == expected
