"""What the commands print where all is well: text and JSON, from files, standard input and lists of graphs."""

from __future__ import annotations

import io
import json
import sys
from pathlib import Path

import numpy as np
import pytest

from tests.cli.shell import ROOT, Shell

LOGGING = ROOT / "graphs" / "logging.yaml"
GPU = "/job:localhost/replica:0/task:0/device:GPU:0"
CPU = "/job:localhost/replica:0/task:0/device:CPU:0"
MAPPING = f"{GPU} -> device: 0, name: Tesla K40c, pci bus id: 0000:05:00.0, compute capability: 3.5"
ADD = """nodes:
  - {op: Placeholder, name: x, dtype: float, shape: [2]}
  - {op: Const, name: c, value: [1.0, 2.0]}
  - {op: AddV2, name: sum, inputs: [x, c]}
  - {op: Mul, name: product, inputs: [x, c]}
fetch: [sum, product]
feed: {x: [3.0, 4.0]}
"""


def test_the_first_example(shell: Shell) -> None:
    ended = shell("run", str(LOGGING), "--log-placement")
    log = f"MatMul: (MatMul): {GPU}\na: (Const): {GPU}\nb: (Const): {GPU}\n"
    assert ended == (0, f"Device mapping:\n{MAPPING}\n{log}[[22. 28.]\n [49. 64.]]\n", "")


def test_the_first_guides_text(shell: Shell) -> None:
    graph = ROOT / "graphs" / "manual.yaml"
    assert shell("run", str(graph), "--log-style", "classic").output == (
        "Device mapping:\n"
        f"{GPU} -> device: 0, name: Tesla K40c, pci bus id: 0000:05:00.0\n"
        "b: /job:localhost/replica:0/task:0/cpu:0\n"
        "a: /job:localhost/replica:0/task:0/cpu:0\n"
        f"MatMul: {GPU}\n"
        "[[ 22.  28.]\n [ 49.  64.]]\n"
    )


def test_no_log_leaves_the_results(shell: Shell) -> None:
    assert shell("run", str(LOGGING), "--no-log-placement").output == "[[22. 28.]\n [49. 64.]]\n"


def test_several_fetches_have_their_names(shell: Shell) -> None:
    graph = shell.write("g.yaml", ADD)
    assert shell("run", graph).output == "sum:\n[4. 6.]\nproduct:\n[3. 8.]\n"


def test_fetch_and_feed_override_the_file(shell: Shell) -> None:
    graph = shell.write("g.yaml", ADD)
    np.save("x.npy", np.array([10, 20], np.float32))
    assert shell("run", graph, "--fetch", "sum").output == "[4. 6.]\n"
    assert shell("run", graph, "--fetch", "sum:0", "--feed", "x=[0.5, 0.5]").output == "[1.5 2.5]\n"
    assert shell("run", graph, "--fetch", "product", "--feed", "x=@x.npy").output == "[10. 40.]\n"
    assert shell("run", graph, "--feed", "x={ones: [2]}").output == "sum:\n[2. 3.]\nproduct:\n[1. 2.]\n"


def test_fetch_keeps_the_steps_that_only_run_targets(shell: Shell) -> None:
    graph = shell.write(
        "g.yaml",
        """nodes:
  - {variable: v, shape: [2], initializer: ones}
  - {initializer: init}
  - {op: Neg, name: minus, inputs: [v]}
run: [{fetch: [init]}, {fetch: [v]}]
""",
    )
    assert shell("run", graph, "--fetch", "minus").output == "[-1. -1.]\n"


def test_targets_print_nothing(shell: Shell) -> None:
    graph = shell.write("g.yaml", "nodes:\n  - {op: NoOp, name: nothing}\n")
    assert shell("run", graph) == (0, "", "")


@pytest.mark.parametrize(
    ("value", "shown"),
    [
        ("hello", "b'hello'\n"),
        ("[a, bc]", "[b'a' b'bc']\n"),
        ("true", "True\n"),
        ("7", "7\n"),
        ("0.1", "0.1\n"),
        ("[.nan, .inf]", "[nan inf]\n"),
    ],
)
def test_values_print_as_python_shows_them(value: str, shown: str, shell: Shell) -> None:
    graph = shell.write("g.yaml", f"nodes:\n  - {{op: Const, name: c, value: {value}}}\n")
    assert shell("run", graph).output == shown


def test_steps_print_one_after_another(shell: Shell) -> None:
    graph = shell.write(
        "g.yaml",
        """nodes:
  - {variable: v, shape: [], initializer: zeros}
  - {initializer: init}
  - {op: AssignAdd, name: more, inputs: [v, 1.5]}
run: [{fetch: [init]}, {fetch: [more], repeat: 3}]
""",
    )
    assert shell("run", graph).output == "1.5\n3.0\n4.5\n"
    steps = json.loads(shell("run", graph, "--format", "json").output)["results"]
    assert [(row["step"], row["name"], row["value"]) for row in steps] == [(1, "more", 1.5), (2, "more", 3.0), (3, "more", 4.5)]


def test_json_is_one_line(shell: Shell) -> None:
    ended = shell("run", str(ROOT / "graphs" / "manual.yaml"), "--format", "json")
    document = json.loads(ended.output)
    assert ended.output.count("\n") == 1
    assert list(document) == ["devices", "mapping", "placements", "transfers", "warnings", "results", "error"]
    assert document["mapping"] == [MAPPING]
    assert [device["name"] for device in document["devices"]] == [CPU, GPU]
    assert document["placements"][1] == {"node": "a", "op": "Const", "device": CPU, "requested": "/device:CPU:0"}
    sizes = {row["tensor"]: (row["src"], row["dst"], row["bytes"]) for row in document["transfers"]}
    assert sizes == {"a:0": (CPU, GPU, 24), "b:0": (CPU, GPU, 24), "MatMul:0": (GPU, CPU, 16)}
    assert document["results"] == [
        {"step": 0, "name": "MatMul", "dtype": "float32", "shape": [2, 2], "value": [[22.0, 28.0], [49.0, 64.0]]}
    ]
    assert document["error"] is None


def test_standard_input(shell: Shell, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(ADD.encode())))
    assert shell("run", "-", "--fetch", "sum").output == "[4. 6.]\n"
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(b"nodes: [")))
    assert shell("run", "-").complaint.startswith("GraphFileError: <stdin>:2:1: ")


def test_no_execute_is_place(shell: Shell) -> None:
    placed = shell("place", str(LOGGING))
    assert shell("run", str(LOGGING), "--no-execute") == placed
    assert placed.output.splitlines()[0] == "Device mapping:"
    assert len(placed.output.splitlines()) == 5


def test_place_needs_neither_feeds_nor_values_nor_kernels(shell: Shell) -> None:
    graph = shell.write(
        "g.yaml",
        """nodes:
  - {op: Placeholder, name: x, dtype: float}
  - {op: Neg, name: minus, inputs: [x]}
fetch: [minus]
feed: {x: {file: missing.npy}}
""",
    )
    for form in ("text", "json"):
        ended = shell("place", graph, "--format", form)
        assert (ended.code, ended.complaint) == (0, "")


def test_several_graphs(shell: Shell) -> None:
    good = shell.write("good.yaml", "nodes:\n  - {op: NoOp, name: n}\n")
    bad = shell.write("bad.yaml", "nodes:\n  - {op: NoOp, name: n, device: '/gpu:0'}\n")
    wrong = shell.write("wrong.yaml", "nods: []\n")
    line = f"n: (NoOp): {CPU}\n"
    head = "Device mapping: no known devices.\n"
    ended = shell("place", good, bad, good)
    assert ended.code == 1
    assert ended.output == f"==> good.yaml <==\n{head}{line}==> bad.yaml <==\n{head}==> good.yaml <==\n{head}{line}"
    assert ended.complaint.startswith("InvalidArgumentError: ")
    assert shell("place", wrong, bad).code == 2
    assert shell("place", good, good).code == 0


def test_a_list_of_graphs(shell: Shell) -> None:
    graphs = [{"nodes": [{"op": "NoOp", "name": f"n{i}"}]} for i in range(2)]
    listed = shell.write("list.jsonl", "\n".join(map(json.dumps, graphs)) + "\n\n{\n")
    ended = shell("place", listed, "--format", "json")
    documents = [json.loads(line) for line in ended.output.splitlines()]
    assert ended.code == 2
    assert [(document["graph"], [row["node"] for row in document["placements"]]) for document in documents] == [
        ("list.jsonl:1", ["n0"]),
        ("list.jsonl:2", ["n1"]),
        ("list.jsonl:4", []),
    ]
    assert [document["error"] is None for document in documents] == [True, True, False]


def test_devices_in_a_pipe(shell: Shell) -> None:
    prefix = "/job:localhost/replica:0/task:0/device:"
    head, *rows = [line.split("\t") for line in shell("devices", "--cpu", "3", "--gpu", "2").output.splitlines()]
    assert head == ["name", "type", "memory_limit", "physical_device_desc"]
    assert [row[:3] for row in rows[:3]] == [[f"{prefix}CPU:{i}", "CPU", "268435456"] for i in range(3)]
    assert [row[0] for row in rows[3:]] == [f"{prefix}GPU:0", f"{prefix}GPU:1"]
    assert rows[3][3] == MAPPING.partition(" -> ")[2]
    assert all(len(row) == 4 for row in rows)


def test_devices_of_the_guides_machines(shell: Shell) -> None:
    ended = shell("devices", "--gpu", "4", "--gpu-model", "Tesla K20m", "--format", "json")
    described = [row["physical_device_desc"] for row in json.loads(ended.output)["devices"][1:]]
    assert [text.split("pci bus id: ")[1].split(",")[0] for text in described] == [
        "0000:02:00.0",
        "0000:03:00.0",
        "0000:83:00.0",
        "0000:84:00.0",
    ]


def test_an_inventory_file(shell: Shell) -> None:
    inventory = shell.write("machines.yaml", "devices:\n  - {job: ps, cpu: 2}\n  - {job: worker, tasks: 2, gpu: 1}\n")
    names = [line.split("\t")[0] for line in shell("--no-header", "devices", "--inventory", inventory).output.splitlines()]
    assert len(names) == 2 + 2 * 2
    assert names[-1] == "/job:worker/replica:0/task:1/device:GPU:0"
    assert len(shell("devices", "--inventory", inventory, "--gpu", "3").output.splitlines()) == 1 + 5 + 2 * 4


def test_the_catalogue(shell: Shell) -> None:
    lines = shell("devices", "--gpu-models").output.splitlines()
    assert lines[:2] == ["name\tmemory\tmemory_limit\tcompute_capability", "Tesla K40c\t11996758016\t11472470016\t3.5"]


def test_flags_take_the_place_of_the_files_machine(shell: Shell) -> None:
    document = json.loads(
        shell("place", str(ROOT / "graphs/device-count.yaml"), "--cpu", "4", "--gpu", "3", "--format", "json").output
    )
    assert [device["name"].rpartition("/device:")[2] for device in document["devices"]] == [
        *(f"CPU:{i}" for i in range(4)),
        *(f"GPU:{i}" for i in range(3)),
    ]


def test_warnings_go_to_standard_error(shell: Shell) -> None:
    graph = shell.write(
        "g.yaml",
        """raw: true
devices: {cpu: 1, gpu: 1}
config: {allow_soft_placement: true}
nodes:
  - {op: VarHandleOp, name: v, device: "/device:CPU:0", attrs: {dtype: float, shape: []}}
  - {op: ReadVariableOp, name: r, inputs: [v], device: "/device:GPU:0", attrs: {dtype: float}}
run: []
""",
    )
    ended = shell("place", graph, "--format", "json")
    warnings = json.loads(ended.output)["warnings"]
    assert len(warnings) == 1
    assert warnings[0].startswith("I colocation_graph.cc: Ignoring device specification /device:GPU:0 for node 'r'")
    assert ended.complaint == f"{warnings[0]}\n"


@pytest.mark.parametrize("arguments", [("--help",), ("run", "--help"), ("place", "-h"), ("devices", "--help"), ("--version",)])
def test_help_shows_examples(arguments: tuple[str, ...], shell: Shell) -> None:
    ended = shell(*arguments)
    assert ended.code == 0
    assert ("Examples:" in ended.output) is (arguments != ("--version",))


def test_a_bare_call_shows_the_help(shell: Shell) -> None:
    ended = shell()
    assert ended.code == 2
    assert "Commands:" in ended.output


@pytest.mark.slow
@pytest.mark.parametrize("style", ["modern", "classic"])
def test_a_log_of_thirty_thousand_lines(style: str) -> None:
    import placesim

    nodes = [{"op": "NoOp", "name": f"n{i}"} for i in range(30_000)]
    report = placesim.place({"raw": True, "nodes": nodes, "run": []}, log_style=style)
    lines = report.log().splitlines()
    assert len(lines) == 30_001
    assert len(set(lines)) == len(lines)


def test_the_same_from_python(tmp_path: Path) -> None:
    import placesim

    report = placesim.run(LOGGING, gpu=2, log_placement=True)
    np.testing.assert_array_equal(report.results["MatMul:0"], [[22, 28], [49, 64]])
    assert len(report.devices) == 3
    assert report.text().endswith("[[22. 28.]\n [49. 64.]]\n")
    assert report.document()["error"] is None


def test_the_list_of_gpu_models_takes_no_name(shell: Shell) -> None:
    ended = shell("devices", "--gpu-models", "P40")
    assert (ended.code, ended.output) == (2, "")
    assert "got 'P40', expected no graph; did you mean 'Tesla P40'?" in ended.complaint
