"""`placesim diff`, and `--summary` and `--log-filter` of `run` and `place`, at the level of the command line."""

from __future__ import annotations

import json
import re
from typing import Any

import pytest

import placesim
from tests.cli.shell import ROOT, Shell

TOWERS = str(ROOT / "graphs" / "cifar10-towers.yaml")
STAGES = str(ROOT / "graphs" / "pipeline.yaml")
LOCAL = "/job:localhost/replica:0/task:0/device:"
HEADS = ("nodes", "variables", "constants", "sent", "received", "peak")
GPU_CELLS = ("1", "0", "0", "1 (16 B)", "1 (16 B)", "1.8 KiB")
GRAPH = """devices: {cpu: 1, gpu: 1}
nodes:
  - {op: Const, name: t/a, value: [[1.0, 2.0], [3.0, 4.0]], device: '/cpu:0'}
  - {op: MatMul, name: t/m, inputs: [t/a, t/a]}
"""


@pytest.mark.slow
def test_the_same_is_silent(shell: Shell) -> None:
    assert shell("diff", STAGES, STAGES) == (0, "", "")


def test_two_graphs(shell: Shell) -> None:
    old = shell.write("old.yaml", GRAPH)
    new = shell.write("new.yaml", GRAPH.replace("t/a, t/a]", "t/a, t/a], device: '/cpu:0'") + "  - {op: NoOp, name: n}\n")
    ended = shell("diff", old, new, "--no-time")
    assert (ended.code, ended.complaint) == (1, "")
    assert shell("diff", old, new).output.startswith(ended.output + "step time: ")
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
        "peak memory:\n"
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
    lines = shell("diff", old, new, "--batch", "64", "--no-time").output.splitlines()
    assert lines[lines.index("peak memory:") + 1 :] == [
        "  CPU:0: 16384 -> 8 bytes (-16376)",
    ]
    document = json.loads(shell("diff", old, new, "--batch", "64", "--format", "json").output)
    assert document["memory"][0] == {"device": LOCAL + "CPU:0", "before": 16384, "after": 8}
    assert json.loads(shell("diff", old, new, "--format", "json").output)["memory"] is None
    assert json.loads(shell("diff", old, new, "--batch", "64", "--no-memory", "--format", "json").output)["memory"] is None


@pytest.mark.slow
def test_one_graph_on_two_machines(shell: Shell) -> None:
    ended = shell("diff", TOWERS, "--soft-placement", "--a-gpu", "2", "--b-gpu", "1")
    assert ended.code == 1
    lines = ended.output.splitlines()
    assert lines[0].endswith("cifar10-towers.yaml (gpu=2)")
    assert "  tower_1/ (65 nodes): GPU:1 -> GPU:0" in lines


def test_one_graph_with_a_scope_elsewhere(shell: Shell) -> None:
    graph = shell.write("g.yaml", GRAPH)
    ended = shell("diff", graph, "--gpu", "2", "--device", "t/=/gpu:0", "--b-device", "t/m=/gpu:1", "--format", "json")
    assert [(move["name"], move["before"], move["after"]) for move in json.loads(ended.output)["moved"]] == [
        ("t/m", LOCAL + "GPU:0", LOCAL + "GPU:1")
    ]
    ended = shell("diff", graph, "--gpu", "2", "--b-device", "t/=/gpu:0", "--b-device", "t/m=/gpu:1", "--b-soft-placement")
    assert ended.output.splitlines()[1].endswith("g.yaml (device=t/=/gpu:0 t/m=/gpu:1, soft-placement=true)")


LAYER = """devices: {cpu: 1, gpu: 2}
nodes:
  - {variable: w, initializer: {value: [1.0]}, device: '/gpu:0'}
  - {op: Neg, name: layer/a, inputs: [w], device: '/gpu:0'}
  - {gradients: {of: layer/a, with_respect_to: w, colocate_gradients_with_ops: true}}
"""


def test_what_is_colocated_with_a_layer_moves_with_it(shell: Shell) -> None:
    graph = shell.write("g.yaml", LAYER)
    first = ["gradients/Shape", "gradients/grad_ys_0", "gradients/grad_ys_0/Const"]  # the gradient that the others begin with
    option = json.loads(shell("diff", graph, "--b-device", "layer/=/gpu:1", "--format", "json").output)
    assert sorted(move["name"] for move in option["moved"]) == [*first, "gradients/layer/a_grad/Neg", "layer/a"]
    row = shell.write("r.yaml", LAYER + "placement: {layer/: '/gpu:1'}\n")
    assert json.loads(shell("diff", graph, row, "--format", "json").output)["moved"] == option["moved"]
    alone = ("--device", "layer/=/gpu:1", "--device", "gradients/layer/*=/gpu:0")
    assert shell("place", graph, *alone).complaint.startswith("InvalidArgumentError: Cannot colocate nodes")


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


def test_options_and_a_page_need_a_graph_that_is_placed(shell: Shell) -> None:
    graph = shell.write("g.yaml", GRAPH)
    report = shell.write("r.json", shell("place", graph, "--format", "json").output)
    own = shell("diff", report, graph, "--a-gpu", "0", "--a-device", "t/=/cpu:0")
    assert own == (
        2,
        "",
        "UsageError: options for a report: got --a-gpu, --a-device for r.json, expected a graph, which can be placed again\n",
    )
    paged = shell("diff", graph, report, "--html", "page.html")
    assert paged == (
        2,
        "",
        "UsageError: cannot make a page from a report: got r.json, expected the graph, to simulate its steps\n",
    )
    for wrong, options in (("options for a report: got gpu", {"after_options": {"gpu": 0}}), ("a page", {"page": True})):
        for source in (report, placesim.place(graph)):
            with pytest.raises(placesim.UsageError, match=wrong):
                placesim.diff(graph, source, **options)


def test_a_size_known_on_one_side_only_is_no_difference(shell: Shell) -> None:
    graph = shell.write("g.yaml", PRODUCT)
    report = shell.write("r.json", shell("place", graph, "--format", "json").output)
    assert shell("diff", report, graph, "--batch", "8") == (0, "", "")
    assert shell("diff", graph, report, "--batch", "8") == (0, "", "")
    assert (
        "GPU:0 -> GPU:1: 0 transfers (-1), 0 bytes (+0), not counting tensors of unknown size\n"
        in shell("diff", report, graph, "--b-device", "z=/gpu:0").output
    )
    table = shell("diff", report, graph, "--b-device", "z=/gpu:0", "--format", "csv", "--table", "transfers").output
    assert "src,dst,before.count,before.bytes,before.unknown,after.count,after.bytes,after.unknown\n" in table
    assert f"{LOCAL}GPU:0,{LOCAL}GPU:1,1,0,1,0,0,0\n" in table


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((TOWERS,), "UsageError: nothing to compare with"),
        (("-", "-"), "UsageError: standard input used twice"),
        (("-", "--a-gpu", "2"), "UsageError: standard input used twice"),
        ((STAGES, "none.yaml"), "GraphFileError: none.yaml: cannot read the graph file"),
    ],
)
def test_wrong_command_lines(shell: Shell, arguments: tuple[str, ...], message: str) -> None:
    ended = shell("diff", *arguments)
    assert (ended.code, ended.output) == (2, "")
    assert ended.complaint.startswith(message)


# --- time -----------------------------------------------------------------------------------------------------------

PRODUCT = """devices: {cpu: 1, gpu: 2}
nodes:
  - {op: Placeholder, name: x, dtype: float32, shape: [null, 1024]}
  - {op: Const, name: w, dtype: float32, shape: [1024, 1024], value: 1.0, device: '/gpu:0'}
  - {op: MatMul, name: y, inputs: [x, w], device: '/gpu:0'}
  - {op: Relu, name: z, inputs: [y], device: '/gpu:1'}
fetch: [z]
"""


def prediction(shell: Shell, graph: str, *options: str) -> dict[str, Any]:
    document: dict[str, Any] = json.loads(shell("simulate", graph, *options, "--format", "json").output)
    return document


def test_what_got_slower_and_why(shell: Shell) -> None:
    graph = shell.write("g.yaml", PRODUCT)
    models = ("Tesla V100-SXM2-16GB", "Tesla K80")
    sides = ("--a-gpu-model", models[0], "--b-gpu-model", models[1], "--batch", "512")
    ended = shell("diff", graph, *sides)
    assert (ended.code, ended.complaint) == (1, "")
    fast, slow = (prediction(shell, graph, "--gpu-model", model, "--batch", "512") for model in models)
    found = json.loads(shell("diff", graph, *sides, "--format", "json").output)["time"]
    assert found["before"] == {key: fast[key] for key in ("seconds", "low", "high")}
    assert found["after"] == {key: slow[key] for key in ("seconds", "low", "high")}
    assert found["seconds"] == pytest.approx(slow["seconds"] - fast["seconds"])
    changes = {(change["what"], change["name"]): change for change in found["changes"]}
    taken = {node["node"]: node["seconds"] for node in slow["nodes"]}
    assert changes["node", "y"]["after"]["seconds"] == taken["y"]
    assert changes["node", "y"]["before"]["where"] == changes["node", "y"]["after"]["where"] == LOCAL + "GPU:0"
    assert changes["link", "GPU:0 NVLink out"]["after"] is None
    assert changes["transfer", "y"]["seconds"] > 0
    assert re.search(r"^    y \(MatMul\) on GPU:0: .* -> .* \(\+.*\)$", ended.output, re.MULTILINE)
    assert re.search(r"^    y from GPU:0 to GPU:1: .* -> .* \(\+.*\)$", ended.output, re.MULTILINE)


def test_two_batches_of_one_graph(shell: Shell) -> None:
    graph = shell.write("g.yaml", PRODUCT)
    ended = shell("diff", graph, "--a-batch", "64", "--b-batch", "128", "--format", "json")
    found = json.loads(ended.output)
    assert ended.code == 1
    for side, batch in (("before", "64"), ("after", "128")):
        assert found["time"][side]["seconds"] == prediction(shell, graph, "--batch", batch)["seconds"]
    assert {row["device"]: row["after"] > row["before"] for row in found["memory"]}[LOCAL + "GPU:1"]


def test_a_difference_within_the_intervals_is_said_to_be(shell: Shell) -> None:
    graph = shell.write("g.yaml", PRODUCT)
    for batches, said in ((("64", "65"), "the intervals overlap"), (("64", "65536"), "the intervals do not overlap")):
        sides = [shell.write(f"{batch}.json", json.dumps(prediction(shell, graph, "--batch", batch))) for batch in batches]
        ended = shell("diff", *sides)
        assert ended.code == 1
        (line,) = [line for line in ended.output.splitlines() if line.startswith("step time:")]
        assert said in line


def test_a_written_prediction_is_compared_with_its_graph(shell: Shell) -> None:
    graph = shell.write("g.yaml", PRODUCT)
    written = shell.write("p.json", json.dumps(prediction(shell, graph, "--batch", "64")))
    assert shell("diff", written, graph, "--batch", "64") == (0, "", "")
    assert shell("diff", written, written) == (0, "", "")
    document = json.loads(shell("diff", written, graph, "--batch", "128", "--format", "json").output)
    assert (document["same"], document["moved"], document["added"]) == (False, [], [])
    assert document["time"]["after"]["seconds"] == prediction(shell, graph, "--batch", "128")["seconds"]
    ended = shell("diff", written, graph)
    assert (ended.code, ended.output) == (2, "")
    complaint, why = ended.complaint.splitlines()
    assert (
        complaint == "UsageError: cannot compare with the prediction p.json: got no times for g.yaml, expected simulated steps"
    )
    assert why.startswith("  Unavailable: placeholders have unknown shapes")
    assert shell("diff", written, graph, "--batch", "64", "--no-time").code == 2
    assert shell("diff", written, written, "--no-time").code == 2
    assert placesim.diff(written, graph, batch=64).is_same
    note = "p.json: memory is not compared. A report holds no memory.\n"
    assert shell("diff", written, graph, "--batch", "64", "--memory") == (0, "", note)


def test_a_written_plan_is_compared_with_a_simulation(shell: Shell) -> None:
    graph = shell.write("g.yaml", PRODUCT)
    simulated = shell.write("s.json", json.dumps(prediction(shell, graph, "--batch", "64")))
    search = ("--batch", "64", "--free-all", "--soft-placement", "--evaluations", "20", "--output", "planned.yaml")
    planned = json.loads(shell("plan", graph, *search, "--format", "json").output)
    written = shell.write("p.json", json.dumps(planned))
    document = json.loads(shell("diff", simulated, written, "--format", "json").output)
    assert document["time"]["after"]["seconds"] == planned["seconds"] < document["time"]["before"]["seconds"]
    assert shell("diff", written, "planned.yaml", "--batch", "64") == (0, "", "")
    missing = shell("diff", simulated, shell.write("none.json", json.dumps(planned | {"step": None})))
    assert (missing.code, missing.output) == (2, "")
    assert missing.complaint.endswith("`plan --format json`: step: got null, expected the step of a plan that fits\n")


def test_only_diff_reads_a_prediction(shell: Shell) -> None:
    written = shell.write("p.json", json.dumps(prediction(shell, shell.write("g.yaml", PRODUCT), "--batch", "64")))
    for command in ("check", "show", "explain"):
        ended = shell(command, written)
        assert (ended.code, ended.output) == (2, "")
        assert ended.complaint == (
            "UsageError: not a graph: got the prediction p.json, which only `placesim diff` reads, expected a graph\n"
        )


@pytest.mark.parametrize(
    ("keys", "value", "message"),
    [
        (("seconds",), "1", 'seconds: got "1", expected a number of seconds'),
        (("high",), float("nan"), "high: got NaN, expected a number of seconds"),
        (("nodes", 0, "device"), "GPU:0", 'nodes[0].device: got "GPU:0", expected a full device name'),
        (("nodes",), {}, "nodes: got {}, expected a list"),
        (("links", 1, "bytes"), -1, "links[1].bytes: got -1, expected a number from 0"),
        (("transfers", 0), 3, "transfers[0]: got 3, expected a mapping"),
        (("critical_path", 0, "kind"), None, "critical_path[0].kind: got null, expected text"),
    ],
)
def test_a_damaged_prediction_is_refused_at_its_place(
    shell: Shell, keys: tuple[str | int, ...], value: object, message: str
) -> None:
    graph = shell.write("g.yaml", PRODUCT)
    document = prediction(shell, graph, "--batch", "64")
    part: Any = document
    for key in keys[:-1]:
        part = part[key]
    part[keys[-1]] = value
    ended = shell("diff", shell.write("p.json", json.dumps(document)), graph, "--batch", "64")
    assert (ended.code, ended.output) == (2, "")
    assert ended.complaint == f"GraphFileError: p.json:1:1: not a prediction from `simulate --format json`: {message}\n"


def test_parts_that_python_callers_ask_for_and_do_not_get_are_named() -> None:
    graph = {"devices": {"cpu": 1}, "nodes": [{"op": "NoOp", "name": "n"}]}
    with pytest.warns(UserWarning, match="<mapping>: memory is not compared. A report holds no memory.") as caught:
        placesim.diff(placesim.place(graph), graph, memory=True)
    assert caught[0].filename == __file__
    with pytest.warns(UserWarning, match="time is not compared. A report holds no times."):
        placesim.diff(graph, placesim.place(graph), time=True)


def test_times_that_are_asked_for_and_not_known_are_said_to_be(shell: Shell) -> None:
    graph = shell.write("g.yaml", PRODUCT)
    assert shell("diff", graph, graph) == (0, "", "")
    ended = shell("diff", graph, graph, "--time")
    assert (ended.code, ended.output) == (0, "")
    assert ended.complaint.startswith("g.yaml: time is not compared. Unavailable: placeholders have unknown shapes: x [?,1024]")


# --- what `run` and `place` print -----------------------------------------------------------------------------------


@pytest.mark.parametrize(("command", "peaks"), [("run", ("      peak", "  32 bytes", "  1792 bytes")), ("place", ("", "", ""))])
def test_a_summary_comes_last(shell: Shell, command: str, peaks: tuple[str, str, str]) -> None:
    graph = shell.write("g.yaml", GRAPH)
    plain = shell(command, graph).output
    ended = shell(command, graph, "--summary")
    assert ended.code == 0
    assert ended.output.removeprefix(plain).splitlines() == [
        "device                                        nodes  variables  constants     sent          received" + peaks[0],
        f"{LOCAL}CPU:0  1      0          1 (16 bytes)  1 (16 bytes)  1 (16 bytes){peaks[1]}",
        f"{LOCAL}GPU:0  1      0          0             1 (16 bytes)  1 (16 bytes){peaks[2]}",
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


@pytest.mark.slow
@pytest.mark.parametrize(
    "arguments",
    [
        ("explain", TOWERS, "conv1/weights", "--gpu", "1", "--soft-placement"),
        ("explain", TOWERS, "--gpu", "1"),
        ("check", TOWERS, "--rule", "max-transfers=0", "--rule", "variables-with-consumers"),
        ("diff", STAGES, "--soft-placement", "--a-gpu", "2", "--b-gpu", "1"),
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


def test_a_batch_sets_the_bytes_of_transfers(shell: Shell) -> None:
    nodes = "  - {op: Placeholder, name: x, dtype: float32, shape: [null, 4], device: /cpu:0}\n"
    nodes += "  - {op: Relu, name: one, inputs: [x], device: /gpu:0}\n"
    shell.write("a.yaml", f"devices: {{cpu: 1, gpu: 2}}\nnodes:\n{nodes}")
    shell.write(
        "b.yaml", f"devices: {{cpu: 1, gpu: 2}}\nnodes:\n{nodes}  - {{op: Relu, name: two, inputs: [one], device: /gpu:1}}\n"
    )
    ended = shell("diff", "a.yaml", "b.yaml", "--batch", "100", "--no-time", "--no-memory")
    assert "1600" in ended.output, ended.output
