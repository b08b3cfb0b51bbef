"""`placesim explain` at the level of the command line."""

from __future__ import annotations

import io
import json
import re
import sys

import pytest

from tests.cli.shell import ROOT, Shell

GRAPHS = ROOT / "graphs"
LOCAL = "/job:localhost/replica:0/task:0/device:"
SMALL = """devices: {cpu: 1, gpu: 1}
nodes:
  - {op: Const, name: a, value: [[1.0]]}
  - {op: MatMul, name: m, inputs: [a, a], device: '/gpu:0'}
"""


def test_a_node_with_its_proof_and_edits(shell: Shell) -> None:
    graph = shell.write("g.yaml", SMALL)
    ended = shell("explain", graph, "m", "--no-cost")
    assert (ended.code, ended.complaint) == (0, "")
    assert ended.output == (
        f"m: (MatMul): {LOCAL}GPU:0 at g.yaml:4:5\n"
        "  requested       /device:GPU:0 by g.yaml:4:5\n"
        "  kernels         GPU: yes\n"
        "                  CPU: yes\n"
        "  group           alone\n"
        "  candidates      GPU:0\n"
        "  chosen          the first of the candidates\n"
        "  what would change this\n"
        "    g.yaml:4:5: change the device /device:GPU:0 of m to /device:CPU:0; the node is then on CPU:0, and 1 other node "
        "moves\n"
    )


# --- what a node takes -----------------------------------------------------------------------------------------------

COSTED = """devices: {cpu: 1, gpu: {count: 3, model: Tesla V100-SXM2-16GB}}
nodes:
  - {op: Placeholder, name: x, dtype: float32, shape: [null, 1024]}
  - {op: Const, name: w, dtype: float32, shape: [1024, 1024], value: 1.0, device: '/gpu:0'}
  - {op: MatMul, name: y, inputs: [x, w], device: '/gpu:0'}
  - {op: Reshape, name: flat, inputs: [y, [-1]], device: '/gpu:0'}
  - {op: Relu, name: unused, inputs: [y]}
fetch: [flat]
"""


def cost_lines(output: str) -> list[str]:
    lines = output.splitlines()
    first = next(n for n, line in enumerate(lines) if line.startswith("  cost "))
    return [line for line in lines[first:] if line.startswith(("  cost ", "  elsewhere ", " " * 18))]


def test_what_a_node_takes_here_and_elsewhere(shell: Shell) -> None:
    graph = shell.write("g.yaml", COSTED)
    here, work, inputs, cpu, others = cost_lines(shell("explain", graph, "y", "--batch", "4096", "--edits", "0").output)
    assert re.fullmatch(r"  cost            [\d.]+ us \([\d.]+ us to [\d.]+ [mu]s\) on GPU:0 in step 0, bound by compute", here)
    operations, moved = 2 * 4096 * 1024 * 1024, 4 * (2 * 4096 * 1024 + 1024 * 1024)
    assert re.search(
        rf"product kernel on Tesla V100-SXM2-16GB: .* us for {operations:,} operations, .* for {moved:,} bytes",
        work,
    )
    assert inputs.strip().endswith(f": x ({4096 * 1024 * 4:,} bytes from CPU:0)")
    assert re.match(r"  elsewhere       CPU:0: .*\? \(.*\), bound by compute, inputs ", cpu)
    assert re.match(r" {18}GPU:1, GPU:2: .*, bound by compute, inputs ", others)


def test_what_costs_its_dispatch(shell: Shell) -> None:
    graph = shell.write("g.yaml", COSTED)
    lines = cost_lines(shell("explain", graph, "flat", "--batch", "16", "--edits", "0").output)
    assert lines[0] == "  cost            dispatch only (1 us) on GPU:0 in step 0"
    assert lines[-1].startswith(" " * 18 + "GPU:1, GPU:2: dispatch only (1 us), inputs ")


def test_a_cost_in_json(shell: Shell) -> None:
    graph = shell.write("g.yaml", COSTED)
    (node,) = json.loads(shell("explain", graph, "y", "--batch", "64", "--format", "json").output)["nodes"]
    cost = node["cost"]
    assert (cost["step"], cost["runs"], cost["calls"], cost["unknown"], node["cost_note"]) == (0, 1, False, [], None)
    simulated = json.loads(shell("simulate", graph, "--batch", "64", "--format", "json").output)
    (run,) = [run for run in simulated["nodes"] if run["node"] == "y"]
    assert {key: cost["here"][key] for key in ("device", "seconds", "low", "high")} == {
        key: run[key] for key in ("device", "seconds", "low", "high")
    }
    assert [row["device"] for row in cost["elsewhere"]] == [LOCAL + name for name in ("CPU:0", "GPU:1", "GPU:2")]
    (transfer,) = [run for run in simulated["transfers"] if run["receiver"] == LOCAL + "GPU:0"]
    assert cost["here"]["transfer_seconds"] == pytest.approx(transfer["end"] - transfer["start"])
    assert json.loads(shell("explain", graph, "y", "--no-cost", "--format", "json").output)["nodes"][0]["cost"] is None


@pytest.mark.parametrize(
    ("node", "options", "note"),
    [
        ("y", (), "Unavailable: placeholders have unknown shapes: x [?,1024]; `--batch N` sets the first dimension of all."),
        ("unused", ("--batch", "2"), "No step runs it."),
    ],
)
def test_a_cost_that_is_not_known(shell: Shell, node: str, options: tuple[str, ...], note: str) -> None:
    graph = shell.write("g.yaml", COSTED)
    ended = shell("explain", graph, node, *options)
    assert (ended.code, ended.complaint) == (0, "")
    assert f"  cost            {note}\n" in ended.output
    document = json.loads(shell("explain", graph, node, *options, "--format", "json").output)
    assert (document["nodes"][0]["cost"], document["nodes"][0]["cost_note"]) == (None, note)


def test_a_large_graph_is_walked_only_if_asked(shell: Shell) -> None:
    chain = "".join(f"  - {{op: Neg, name: n{n + 1}, inputs: [n{n}]}}\n" for n in range(60))
    graph = shell.write(
        "g.yaml", f"nodes:\n  - {{op: Const, name: n0, value: 1.0}}\n{chain}run: [{{fetch: [n60], repeat: 200}}]\n"
    )
    note = "Steps are only simulated with `--cost`: they have 12,200 nodes."
    assert f"  cost            {note}\n" in shell("explain", graph, "n7", "--edits", "0").output
    assert " on GPU:0 in step 0" in shell("explain", graph, "n7", "--edits", "0", "--cost", "--gpu", "1").output


def test_a_size_that_does_not_fit_is_an_error(shell: Shell) -> None:
    graph = shell.write("g.yaml", COSTED)
    ended = shell("explain", graph, "y", "--shape", "x=2,3")
    assert (ended.code, ended.output) == (2, "")
    assert ended.complaint.startswith("UsageError: wrong shape of x: got [2,3]")


def test_a_device_without_figures_has_no_cost(shell: Shell) -> None:
    acme = "model: {name: Acme X1, memory: 1GiB, compute_capability: 7.0}"
    graph = shell.write("g.yaml", COSTED.replace("model: Tesla V100-SXM2-16GB", acme))
    ended = shell("explain", graph, "y", "--batch", "64", "--edits", "0")
    assert (ended.code, ended.complaint) == (0, "")
    assert "  cost            Unavailable: Acme X1: got bandwidth 0, expected a value above 0.\n" in ended.output


def test_a_type_without_a_rate_is_told_of_the_device_that_lacks_it(shell: Shell) -> None:
    figures = "flops: 1.0e+13, bandwidth: 3.0e+11, compute_capability: 7.0"
    acme = f"model: {{name: Acme X2, memory: 1GiB, {figures}}}"
    text = COSTED.replace("model: Tesla V100-SXM2-16GB", acme).replace("float32", "float64").replace(", device: '/gpu:0'", "")
    graph = shell.write("g.yaml", text.replace("name: y,", "name: y, device: '/cpu:0',"))
    lines = cost_lines(shell("explain", graph, "y", "--batch", "64", "--edits", "0").output)
    assert " on CPU:0 in step 0" in lines[0]
    assert lines[-3:] == [
        f"{title}{name}: unavailable: no time for y: Acme X2 has no rate for float64: got rates for float32, float16, "
        "bfloat16, int8; the nearest is float32"
        for title, name in (("  elsewhere       ", "GPU:0"), (" " * 18, "GPU:1"), (" " * 18, "GPU:2"))
    ]


def test_without_a_node_each_has_one_line(shell: Shell) -> None:
    graph = shell.write("g.yaml", SMALL)
    assert shell("explain", graph).output == (
        f"m: (MatMul): {LOCAL}GPU:0: requested /device:GPU:0 by g.yaml:4:5\n"
        f"a: (Const): {LOCAL}GPU:0: a generator follows its consumers, which share a device; the first is m (6.3 A)\n"
    )


def test_a_group_that_is_held_to_a_device(shell: Shell) -> None:
    nodes = "[{op: NoOp, name: a, attrs: {_class: ['loc:@b']}}, {op: NoOp, name: b, device: '/device:CPU:0'}]"
    graph = shell.write("g.yaml", f"devices: {{gpu: 1}}\nraw: true\nnodes: {nodes}\n")
    first, second = shell("explain", graph).output.splitlines()
    assert first == f"a: (NoOp): {LOCAL}CPU:0: its group is limited to /device:CPU:0"
    assert second == f"b: (NoOp): {LOCAL}CPU:0: the device of its group, set by its first member, a"


def test_a_graph_that_cannot_be_placed(shell: Shell) -> None:
    graph = shell.write("g.yaml", SMALL)
    ended = shell("explain", graph, "--gpu", "0")
    assert ended.code == 1
    first, *rest = ended.output.splitlines()
    assert first.startswith("InvalidArgumentError: Cannot assign a device for operation m: ")
    assert rest == [
        "  this annotation cannot be satisfied",
        "    g.yaml:4:5: device /device:GPU:0 of m",
        "  possible fixes",
        "    g.yaml:4:5: drop the device /device:GPU:0 of m; the node is then on CPU:0",
        "    g.yaml:4:5: change the device /device:GPU:0 of m to /device:CPU:0; the node is then on CPU:0",
        "    turn soft placement on (--soft-placement); the node is then on CPU:0",
        "    one more GPU (--gpu 1); the node is then on GPU:0",
    ]


def test_json_has_nodes_groups_and_error(shell: Shell) -> None:
    ended = shell("explain", str(GRAPHS / "cifar10-towers.yaml"), "conv1/weights", "conv1/biases", "--format", "json")
    document = json.loads(ended.output)
    assert list(document) == ["nodes", "groups", "error"]
    assert document["error"] is None
    assert [node["node"] for node in document["nodes"]] == ["conv1/weights", "conv1/biases"]
    weights = document["nodes"][0]
    assert weights["device"] == f"{LOCAL}CPU:0"
    assert "conv1/weights" in document["groups"][weights["group"]]["members"]
    assert len(document["groups"]) == 2
    assert all(edit["device"] != weights["device"] for edit in weights["edits"])


def test_json_of_an_error(shell: Shell) -> None:
    ended = shell("explain", str(GRAPHS / "missing-gpu.yaml"), "--format", "json")
    error = json.loads(ended.output)["error"]
    assert (ended.code, error["type"], error["conflict_is_minimal"]) == (1, "InvalidArgumentError", True)
    assert [annotation["text"] for annotation in error["conflict"]] == ["/device:GPU:2"]
    assert {edit["reach"] for edit in error["edits"]} == {"group", "session", "machine"}


def test_no_edits_are_tried_on_request(shell: Shell) -> None:
    graph = shell.write("g.yaml", SMALL)
    assert "what would" not in shell("explain", graph, "m", "--edits", "0").output
    assert json.loads(shell("explain", graph, "m", "--edits", "0", "--format", "json").output)["nodes"][0]["edits"] is None


def test_a_report_says_what_was_asked_for(shell: Shell) -> None:
    graph = shell.write("g.yaml", SMALL)
    report = shell.write("r.json", shell("place", graph, "--format", "json").output)
    assert shell("explain", report, "m").output == f"m: (MatMul): {LOCAL}GPU:0\n  requested       /device:GPU:0\n"
    rows = json.loads(shell("explain", report, "--format", "json").output)["nodes"]
    assert [row["node"] for row in rows] == ["m", "a"]


def test_a_graph_from_standard_input(shell: Shell, monkeypatch: pytest.MonkeyPatch) -> None:
    stream = io.TextIOWrapper(io.BytesIO(SMALL.encode()))
    monkeypatch.setattr(sys, "stdin", stream)
    assert shell("explain", "-", "a").output.startswith(f"a: (Const): {LOCAL}GPU:0 at <stdin>:3:5\n")


def test_an_unknown_node(shell: Shell) -> None:
    graph = shell.write("g.yaml", SMALL)
    ended = shell("explain", graph, "M")
    assert (ended.code, ended.output) == (2, "")
    assert ended.complaint.startswith("UsageError: no such node: got 'M', expected a node's name")


def test_a_file_that_is_wrong(shell: Shell) -> None:
    graph = shell.write("g.yaml", "nodes: 3\n")
    ended = shell("explain", graph)
    assert (ended.code, ended.output) == (2, "")
    assert "g.yaml:1:8" in ended.complaint


def test_a_machine_that_is_none(shell: Shell) -> None:
    graph = shell.write("g.yaml", SMALL)
    error = "NotFoundError: No CPU devices are available in this process\n"
    assert shell("explain", graph, "--cpu", "0") == (1, error, "")
    assert shell("check", graph, "--cpu", "0").output == f"{graph}:1:1: placeable: {error}"


def test_a_machine_without_tasks(shell: Shell) -> None:
    ended = shell("explain", shell.write("g.yaml", "devices: [{tasks: 0}]\nnodes: [{op: NoOp, name: a}]\n"))
    assert ended.code == 1
    assert ended.output.startswith("FailedPreconditionError: No devices are registered\n")
    assert "bug in placesim" not in ended.complaint


def test_a_node_of_a_scope_may_move_alone(shell: Shell) -> None:
    scope = (
        "{scope: tower, device: '/job:w/gpu:0', nodes: [{op: Neg, name: a, inputs: [1.0]}, {op: Neg, name: b, inputs: [a]}]}"
    )
    graph = shell.write("g.yaml", f"devices: [{{job: w, cpu: 1, gpu: 2}}]\nnodes:\n  - {scope}\n")
    offered = shell("explain", graph, "tower/b", "--no-cost").output.partition("what would change this\n")[2].splitlines()
    worker = "/job:w/replica:0/task:0/device:"
    change = "g.yaml:3:28: change the device /job:w/gpu:0 of the scope around tower/a to /device:"
    assert [line.strip() for line in offered][:4] == [
        f"g.yaml:3:87: set the device of tower/b to /device:GPU:1; the node is then on {worker}GPU:1",
        f"g.yaml:3:87: set the device of tower/b to /device:CPU:0; the node is then on {worker}CPU:0",
        f"{change}GPU:1; the node is then on {worker}GPU:1, and 2 other nodes move",
        f"{change}CPU:0; the node is then on {worker}CPU:0, and 2 other nodes move",
    ]


def test_what_takes_its_device_from_a_node_moves_along(shell: Shell) -> None:
    text = (
        "devices: {cpu: 1, gpu: 2}\nnodes:\n  - {variable: w, initializer: {value: [1.0]}, device: '/cpu:0'}\n"
        "  - device: /gpu:1\n    nodes:\n      - {op: Neg, name: a, inputs: [w]}\n      - {op: Neg, name: b, inputs: [a]}\n"
        "  - gradients: {of: b, with_respect_to: w, colocate_gradients_with_ops: true}\n"
    )
    offered = shell("explain", shell.write("g.yaml", text), "a", "--no-cost").output
    assert (
        "    g.yaml:6:9: set the device of a to /device:GPU:0; the node is then on GPU:0, and 1 other node moves\n" in offered
    )
    moved = shell.write("h.yaml", text.replace("inputs: [w]}", "inputs: [w], device: '/gpu:0'}"))
    assert shell("diff", "g.yaml", moved, "--no-time", "--no-memory").output.splitlines()[2:5] == [
        "moved: 2 nodes",
        "  a: GPU:1 -> GPU:0",
        "  gradients/a_grad/Neg: GPU:1 -> GPU:0",
    ]


def test_a_large_group_begins_with_the_way_to_its_first_member(shell: Shell) -> None:
    nodes = "".join(f"  - {{op: Neg, name: n{i}, inputs: [x], attrs: {{_class: ['loc:@x']}}}}\n" for i in range(12))
    graph = shell.write("g.yaml", "nodes:\n  - {op: Const, name: x, value: 1.0}\n" + nodes + "fetch: [n11]\n")
    lines = shell("explain", graph, "n11").output.splitlines()
    start = next(i for i, line in enumerate(lines) if line.startswith("  group "))
    assert lines[start].split()[1:3] == ["13", "nodes:"]
    assert lines[start + 1].split()[0] == "n11"


def test_a_fed_placeholder_runs_no_kernel(shell: Shell) -> None:
    graph = shell.write(
        "g.yaml",
        "nodes:\n  - {op: Placeholder, name: x, dtype: float32, shape: [2]}\n  - {op: Neg, name: n, inputs: [x]}\n"
        "run:\n  - {fetch: [n], feed: {x: [1.0, 2.0]}}\n",
    )
    assert "No kernel runs: the steps feed it, or do not need it." in shell("explain", graph, "x").output
    assert "No kernel runs" not in shell("explain", graph, "n").output


def test_an_unknown_dimension_is_shown_as_it_was_written(shell: Shell) -> None:
    ended = shell("place", shell.write("g.yaml", "nodes: [{variable: w, shape: [null, 10]}]\n"))
    assert "got [null, 10], expected known dimensions" in ended.complaint
