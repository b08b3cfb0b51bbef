"""`placesim show`: what it prints in a pipe and on a terminal, and what it writes for other programs."""

from __future__ import annotations

import base64
import gzip
import json
import re
import shlex
from pathlib import Path
from typing import Any

import pytest

from placesim.cli import graph_arguments
from placesim.cli.graph_arguments import open_subject
from tests.cli.shell import ROOT, Shell, rows
from tests.inspection.pictures import towers_text

PREFIX = "/job:localhost/replica:0/task:0/device:"


@pytest.fixture
def graph(shell: Shell) -> str:
    return shell.write("towers.yaml", towers_text(2, 1))


def test_a_pipe_gets_a_line_for_each_scope_and_each_pair_of_devices(shell: Shell) -> None:
    graph = shell.write(
        "g.yaml", "nodes: [{scope: s, nodes: [{op: Const, name: a, value: [1.0, 2.0], device: /gpu:0}]}]\nfetch: [s/a]"
    )
    ended = shell("show", graph, "--gpu", "1")
    scopes, transfers = "scope\t.\t1\t8\tGPU:0=1\nscope\ts\t1\t8\tGPU:0=1\n", "transfers\tGPU:0\tCPU:0\t1\t8\n"
    heads = "table\tscope\tnodes\tbytes\tdevices\n", "table\tsrc\tdst\ttensors\tbytes\n"
    assert ended == (0, f"{heads[0]}{scopes}{heads[1]}{transfers}", "")
    assert shell("show", graph, "--gpu", "1", "--no-header").output == scopes + transfers
    shell("show", graph, "--gpu", "1", "--no-header", "--output", "lines.tsv")
    assert (shell.directory / "lines.tsv").read_text() == scopes + transfers


def test_the_lines_add_up(shell: Shell, graph: str) -> None:
    lines = [line.split("\t") for line in shell("show", graph, "--gpu", "2").output.splitlines()]
    scopes = {line[1]: line[2:] for line in lines if line[0] == "scope"}
    top = [name for name in scopes if name != "." and "/" not in name]
    assert sum(int(scopes[name][0]) for name in top) == int(scopes["."][0])
    assert sum(int(scopes[name][1]) for name in top) == int(scopes["."][1])
    transfers = {tuple(line[1:3]): line[3:] for line in lines if line[0] == "transfers"}
    assert transfers["CPU:0", "GPU:1"] == ["2", str((64 * 64 + 64) * 4)]


def test_depth_says_how_far_scopes_are_opened(shell: Shell, graph: str) -> None:
    lines = shell("show", graph, "--gpu", "2", "--depth", "1").output.splitlines()
    assert [line.split("\t")[1] for line in lines if line.startswith("scope")] == [".", "model", "tower_0", "tower_1", "train"]


def test_json_has_full_names(shell: Shell, graph: str) -> None:
    document = json.loads(shell("show", graph, "--gpu", "2", "--format", "json").output)
    assert document["devices"] == [PREFIX + name for name in ("CPU:0", "GPU:0", "GPU:1")]
    (tower,) = (scope for scope in document["scopes"] if scope["scope"] == "tower_1")
    assert [row["device"] for row in tower["by_device"]] == [PREFIX + "GPU:1"]
    assert {"src": PREFIX + "CPU:0", "dst": PREFIX + "GPU:1", "tensors": 2, "bytes": 16640, "unknown": 0} in document[
        "transfers"
    ]
    assert document["error"] is None


# --- on a terminal --------------------------------------------------------------------------------------------------


def terminal(shell: Shell, monkeypatch: pytest.MonkeyPatch, size: tuple[int, int], *arguments: str) -> list[str]:
    """What a terminal of that width and height shows, without its escapes."""
    for name, value in (("FORCE_COLOR", "1"), ("NO_COLOR", "1"), ("COLUMNS", size[0]), ("LINES", size[1])):
        monkeypatch.setenv(name, str(value))
    return [re.sub(r"\x1b\[[0-9;]*m", "", line).rstrip() for line in shell("show", *arguments).output.splitlines()]


def test_a_terminal_gets_a_tree_with_bars_and_a_matrix(shell: Shell, graph: str, monkeypatch: pytest.MonkeyPatch) -> None:
    lines = terminal(shell, monkeypatch, (100, 24), graph, "--gpu", "2")
    text = "\n".join(lines)
    assert lines[0].split() == ["scope", "nodes", "bytes", "devices"]
    assert re.search(r"^tower_1 .* 9 +64 KiB  ▒{24} GPU:1$", text, re.M)
    assert re.search(r"^train/layer_0 .* CPU:0 4, GPU:0 1$", text, re.M)
    assert re.search(r"^copied from \\ to +CPU:0 +GPU:0 +GPU:1$", text, re.M)
    assert re.search(r"^CPU:0 +· +16 KiB \(2\) +16 KiB \(2\)$", text, re.M)


@pytest.mark.slow
@pytest.mark.parametrize("size", [(80, 24), (60, 20), (120, 50)])
def test_the_tree_fits_the_terminal(shell: Shell, monkeypatch: pytest.MonkeyPatch, size: tuple[int, int]) -> None:
    graph = shell.write("large.yaml", towers_text(4, 70))
    lines = terminal(shell, monkeypatch, size, graph, "--gpu", "4")
    assert len(lines) < size[1]
    assert max(map(len, lines)) <= size[0]


def test_a_small_graph_is_shown_with_its_ops(shell: Shell, monkeypatch: pytest.MonkeyPatch) -> None:
    text = "\n".join(terminal(shell, monkeypatch, (80, 40), str(ROOT / "graphs" / "towers.yaml")))
    assert re.search(r"^MatMul_1 MatMul +16 B  \S\S GPU:3$", text, re.M)


# --- for other programs ---------------------------------------------------------------------------------------------


def test_dot_has_clusters_and_bytes(shell: Shell, graph: str) -> None:
    text = shell("show", graph, "--gpu", "2", "--format", "dot").output
    assert text.startswith('digraph "towers.yaml" {\n')
    assert text.endswith("}\n")
    assert text.count("{") == text.count("}")
    assert 'label="tower_1";' in text
    assert 'label="matmul\\nMatMul on GPU:1", fillcolor="#009E73"' in text
    assert '[xlabel="16 KiB", color="#B54800"' in text


def test_mermaid_has_subgraphs_and_bytes(shell: Shell, graph: str) -> None:
    lines = shell("show", graph, "--gpu", "2", "--format", "mermaid", "--depth", "1").output.splitlines()
    assert lines[0] == "flowchart TD"
    assert '  b1[["tower_0<br>GPU:0 9"]]:::d1' in lines
    assert "  b0 == 16 KiB ==> b1" in lines
    opened = shell("show", graph, "--gpu", "2", "--format", "mermaid").output.splitlines()
    assert sum(line.strip().startswith("subgraph ") for line in opened) == sum(line.strip() == "end" for line in opened) > 4


@pytest.mark.parametrize(
    ("name", "start"),
    [
        ("p.html", "<!DOCTYPE html>"),
        ("p.dot", "digraph"),
        ("p.mmd", "flowchart"),
        ("p.json", '{"devices"'),
        ("p.txt", "table\tscope\t"),
    ],
)
def test_a_files_ending_tells_the_form(shell: Shell, graph: str, name: str, start: str) -> None:
    assert shell("show", graph, "--gpu", "2", "--output", name) == (0, "", "")
    assert (shell.directory / name).read_text().startswith(start)


def test_the_form_that_is_asked_for_wins(shell: Shell, graph: str) -> None:
    shell("show", graph, "--gpu", "2", "--output", "p.html", "--format", "json")
    assert json.loads((shell.directory / "p.html").read_text())["devices"]


# --- what it takes ---------------------------------------------------------------------------------------------------


def test_a_written_report_has_scopes_and_transfers(shell: Shell, graph: str) -> None:
    shell.write("report.json", shell("place", graph, "--gpu", "2", "--format", "json").output)
    live = shell("show", graph, "--gpu", "2").output.splitlines()
    written = shell("show", "report.json").output.splitlines()
    assert [line.split("\t")[:3] for line in written if line.startswith("scope")] == [
        line.split("\t")[:3] for line in sorted_like(live, written)
    ]
    assert [line for line in written if line.startswith("transfers")] == [line for line in live if line.startswith("transfers")]


def sorted_like(lines: list[str], others: list[str]) -> list[str]:
    """The scopes' lines in the others' order: a report has its nodes in the order of the log."""
    order = [line.split("\t")[1] for line in others if line.startswith("scope")]
    return sorted((line for line in lines if line.startswith("scope")), key=lambda line: order.index(line.split("\t")[1]))


def test_a_graph_that_cannot_be_placed_is_shown_as_far_as_it_came(shell: Shell) -> None:
    ended = shell("show", str(ROOT / "graphs" / "missing-gpu.yaml"))
    assert ended.code == 1
    assert ended.output.splitlines()[1].startswith("scope\t.\t3\t")
    assert ended.output.endswith("not-placed=3\n")
    assert ended.complaint.startswith(
        "InvalidArgumentError: Cannot assign a device for operation MatMul: node MatMul (defined at "
    )


# --- memory ----------------------------------------------------------------------------------------------------------

MEMORY = """devices: {cpu: 1, gpu: {count: 1, memory: 6MiB}}
config: {gpu_options: {experimental: {gpu_system_memory_size_in_mb: 2}}}
nodes:
  - {op: Placeholder, name: x, dtype: float32, shape: [null, 262144]}
  - {op: Neg, name: s/a, inputs: [x], device: '/gpu:0'}
  - {op: Add, name: s/b, inputs: [s/a, x], device: '/gpu:0'}
  - {op: Const, name: text, dtype: string, value: hello}
  - {op: PrintV2, name: print, inputs: [text]}
fetch: [s/b, print]
"""
MIB = 1 << 20


def test_memory_is_told_in_lines_where_it_is_asked_for(shell: Shell) -> None:
    graph = shell.write("m.yaml", MEMORY)
    assert "memory" not in shell("show", graph).output
    said = "placeholders have unknown shapes: x [?,262144]; `--batch N` sets the first dimension of all."
    assert shell("show", graph, "--memory").output.splitlines()[-1] == f"note\tmemory: Unavailable: {said}"
    ended = shell("show", graph, "--batch", "1")
    assert (ended.code, ended.complaint) == (0, "")  # what a walk meets is not printed
    rows = [line.split("\t")[1:] for line in ended.output.splitlines() if line.startswith("memory")]
    assert rows[1] == ["GPU:0", str(2 * MIB + 1280), str(4 * MIB), "s/a"]
    assert shell("memory", graph, "--batch", "1").output.split("\n")[2].split("\t")[4] == rows[1][1]


def test_json_tells_memory_by_itself(shell: Shell) -> None:
    graph = shell.write("m.yaml", MEMORY)
    found = json.loads(shell("show", graph, "--format", "json", "--batch", "4").output)
    # more than there is: it is counted all the same
    gpu = {"device": PREFIX + "GPU:0", "peak": 8 * MIB + 1280, "limit": 4 * MIB, "node": "s/a"}
    assert (found["memory"][1], found["memory_note"]) == (gpu, None)
    unknown = json.loads(shell("show", graph, "--format", "json").output)
    assert unknown["memory"] is None
    assert unknown["memory_note"].startswith("Unavailable: placeholders have unknown shapes")
    silent = json.loads(shell("show", graph, "--format", "json", "--no-memory").output)
    assert (silent["memory"], silent["memory_note"]) == (None, None)
    report = shell.write("r.json", shell("place", graph, "--format", "json").output)
    assert json.loads(shell("show", report, "--format", "json").output)["memory_note"] == "A report holds no memory."


@pytest.mark.parametrize(
    ("old", "new", "why"),
    [
        ("fetch: [s/b, print]", "run: [{fetch: [s/b], repeat: 100000}]", "they have 500,000 nodes"),
        ("fetch: [s/b, print]", "functions: []", None),
        ("{op: Neg, name: s/a", "{op: NextIteration, name: s/a", "the graph has loops"),
    ],
)
def test_a_costly_walk_has_to_be_asked_for(shell: Shell, old: str, new: str, why: str | None) -> None:
    graph = shell.write("m.yaml", MEMORY.replace(old, new).replace("[null, 262144]", "[1, 4]"))
    note = json.loads(shell("show", graph, "--format", "json").output)["memory_note"]
    assert note == (None if why is None else f"Steps are only simulated with `--memory`: {why}.")


def test_steps_that_fail_leave_memory_unknown(shell: Shell) -> None:
    nodes = "[{op: Placeholder, name: x, dtype: float}, {op: MatMul, name: n, inputs: [x, x]}]"
    graph = shell.write("v.yaml", f"nodes: {nodes}\nfetch: [n]\nfeed: {{x: [[1.0, 2.0, 3.0]]}}")
    ended = shell("show", graph, "--memory")
    said = "the steps end with InvalidArgumentError: Matrix size-incompatible: In[0]: [1,3], In[1]: [1,3]"
    assert (ended.code, ended.output.splitlines()[-1]) == (0, f"note\tmemory: Unavailable: {said}")


def test_a_variable_without_initializer_has_memory_as_for_memory(shell: Shell) -> None:
    nodes = "[{op: VariableV2, name: v, shape: [2], dtype: float}, {op: Neg, name: n, inputs: [v]}]"
    graph = shell.write("v.yaml", f"nodes: {nodes}\nfetch: [n]")
    peaks = [(row[0], row[3]) for row in rows(shell("memory", graph).output, "device")]
    assert [(row[0], row[1]) for row in rows(shell("show", graph, "--memory").output, "memory")] == peaks


def test_a_size_that_fits_nothing_is_an_error(shell: Shell) -> None:
    ended = shell("show", shell.write("m.yaml", MEMORY), "--shape", "y=1")
    assert (ended.code, ended.output) == (2, "")
    assert ended.complaint.startswith("UsageError: no such placeholder: got 'y'")


def test_the_page_has_the_command_that_explains_on_the_same_machine(shell: Shell) -> None:
    entries = "{op: Placeholder, name: x, dtype: float32, shape: [null, 2]}, {op: Neg, name: a, inputs: [x], device: /gpu:3}"
    graph = shell.write("my graph.yaml", f"nodes: [{entries}]\nfetch: [a]\n")
    options = ("--gpu", "2", "--gpu-model", "Tesla K80", "--soft-placement", "--batch", "4")
    assert shell("show", graph, *options, "--memory", "--output", "x.html").code == 0
    packed_data = re.search(r'id="packed-data">([^<]*)<', (shell.directory / "x.html").read_text())
    assert packed_data is not None
    command = json.loads(gzip.decompress(base64.b64decode(packed_data[1])))["explain"]
    assert shlex.split(command) == ["placesim", "explain", graph, *options]
    explained = shell(*shlex.split(command)[1:], "a")
    assert explained.code == 0
    assert "GPU:0" in explained.output


@pytest.mark.parametrize("size", [(60, 30), (80, 24), (120, 50)])
def test_memory_fits_the_terminal(shell: Shell, monkeypatch: pytest.MonkeyPatch, size: tuple[int, int]) -> None:
    lines = terminal(shell, monkeypatch, size, shell.write("m.yaml", MEMORY), "--batch", "4")
    assert max(map(len, lines)) <= size[0]
    assert len(lines) < size[1]
    assert re.search(r"^GPU:0 +8\.0 MiB +200\.0% of 4\.0 MiB +s/a$", "\n".join(lines), re.M)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (
            ["--format", "htlm"],
            "expected text or json or csv or markdown or dot or mermaid or html or svg or png; did you mean 'html'?",
        ),
        (["--depth", "0"], "got 0, expected a whole number of at least 1"),
        (["--output", "no/such/directory.html"], "cannot write no/such/directory.html: got no folder no/such"),
    ],
)
def test_a_wrong_command_line_is_one_line(shell: Shell, graph: str, arguments: list[str], message: str) -> None:
    ended = shell("show", graph, *arguments)
    assert (ended.code, ended.output) == (2, "")
    assert message in ended.complaint.splitlines()[0]
    assert "Traceback" not in ended.complaint


@pytest.mark.slow
def test_every_example_graph_is_shown(shell: Shell, monkeypatch: pytest.MonkeyPatch) -> None:
    opened: dict[str, Any] = {}

    def open_once(graph: str, *options: Any, wishes: Any) -> Any:
        key = f"{graph} {wishes}"  # the forms that draw the same share it
        if key not in opened:
            opened[key] = open_subject(graph, *options, wishes=wishes)
        return opened[key]

    monkeypatch.setattr(graph_arguments, "open_subject", open_once)
    for path in sorted((ROOT / "graphs").glob("*.yaml")):
        for form in ("text", "json", "dot", "mermaid", "html"):
            ended = shell("show", str(path), "--format", form)
            assert ended.code in (0, 1), path
            assert ended.output, path


def test_the_same_graph_gives_the_same_page(shell: Shell, graph: str) -> None:
    pages = []
    for name in ("a.html", "b.html"):
        shell("show", graph, "--gpu", "2", "--output", name)
        pages.append(Path(name).read_bytes())
    assert pages[0] == pages[1]


def test_a_graph_without_nodes_has_no_empty_cells_and_no_legend(shell: Shell, monkeypatch: pytest.MonkeyPatch) -> None:
    empty = shell.write("empty.yaml", "nodes: []")
    assert shell("show", empty, "--no-header").output == "scope\t.\t0\t0\t-\n"
    monkeypatch.setenv("FORCE_COLOR", "1")
    assert "\n\n\n" not in shell("show", empty).output
