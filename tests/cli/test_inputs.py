"""Inputs that would explode, or meet a defect: each a clear error, an exit code of its own, and nothing that takes long."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path
from typing import Any

import pytest

import placesim
from placesim.formats.tensorflow.messages import message_class
from tests.cli.shell import Shell

GRAPH = """nodes:
  - {op: Placeholder, name: x, dtype: float, shape: [null, 2]}
  - {op: Relu, name: y, inputs: [x]}
"""
FUNCTION = """nodes:
  - {op: Const, name: x, value: 1.0}
  - {op: f, name: y, inputs: [x]}
functions:
  - name: f
    inputs: {a: float}
    nodes: [{op: Neg, name: b, inputs: [a]}]
    outputs: {c: b}
config: {graph_options: {place_pruned_graph: true}}
run: []
"""
GPU = """nodes: [{op: NoOp}]
devices: {gpu: {count: 1, model: {name: "x\\n::error::y", memory: 4GiB}}}
"""
GATHER = """nodes:
  - {op: Const, name: x, value: [1.0, 2.0]}
  - {op: Const, name: i, value: [0]}
  - {op: Const, name: axis, value: 0}
  - {op: GatherV2, name: y, inputs: [x, i, axis], attrs: {batch_dims: -2147483648}}
"""


@pytest.mark.parametrize("command", ["show", "explain", "check", "place", "run", "simulate", "memory"])
def test_a_timeout_that_no_session_can_have(shell: Shell, command: str) -> None:
    ended = shell(command, shell.write("g.yaml", GRAPH), "--timeout", "1e308")
    assert ended.code == 2
    assert "timeout out of range: got 1e+308, expected a number of seconds above 0" in ended.complaint


@pytest.mark.parametrize("command", ["simulate", "memory", "plan", "explain", "simulate --assume-unknown 0"])
def test_no_step_is_simulated_without_an_example(shell: Shell, command: str) -> None:
    name, *options = command.split()
    ended = shell(name, shell.write("g.yaml", GRAPH), *(options or ("--batch", "0")))
    assert ended.code == 2
    assert (
        "got 0, expected a whole number of at least 1" in ended.complaint
        or "batch out of range: got 0, expected" in ended.complaint
    )


def test_a_rank_that_no_shape_has(shell: Shell) -> None:
    ended = shell("place", shell.write("g.yaml", GATHER))
    assert ended.code == 2
    assert "Shape must be at most rank 253 but is rank 2147483648" in ended.complaint


def test_a_name_that_would_end_a_line_of_the_log(shell: Shell) -> None:
    ended = shell("place", shell.write("g.yaml", GPU))
    assert ended.code == 2
    assert "bad 'name': got 'x\\n::error::y', expected a text without control characters" in ended.complaint


def test_nothing_to_place_is_converted_as_it_is(shell: Shell) -> None:
    assert shell("convert", shell.write("g.yaml", FUNCTION), "out.pb", "--placed").code == 0


def test_a_current_directory_that_is_gone(shell: Shell, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "g.yaml"
    path.write_text(GRAPH)
    folder = tmp_path / "gone"
    folder.mkdir()
    monkeypatch.chdir(folder)
    folder.rmdir()
    for arguments in (("place", "../g.yaml"), ("convert", str(path), "out.pb")):
        ended = shell(*arguments)
        assert ended.code == 2
        assert "cannot read the current directory" in ended.complaint


def test_a_result_is_not_written_through_a_circle_of_links(shell: Shell) -> None:
    (shell.directory / "circle").symlink_to("circle")
    ended = shell("convert", shell.write("g.yaml", GRAPH), "circle", "--format", "yaml")
    assert ended.code == 2
    assert "cannot write circle: got 'Too many levels of symbolic links'" in ended.complaint


def test_variables_of_no_elements(shell: Shell) -> None:
    lines = ["nodes:", "- {initializer: init}", "run:", "- {fetch: init}", "- {fetch: [zeros, ones]}"]
    lines[1:1] = [f"- {{variable: {name}, shape: [0, 3], initializer: {name}}}" for name in ("zeros", "ones")]
    ended = shell("run", shell.write("g.yaml", "\n".join(lines)))
    assert ended == (0, "zeros:\n[]\nones:\n[]\n", "")


def repeated(dtype: int, field: str, value: object, count: int) -> bytes:
    """A GraphDef of one constant of so many elements, of which it spells out one."""
    graph = message_class("GraphDef")()
    node = graph.node.add(name="c", op="Const")
    node.attr["dtype"].type = dtype
    tensor = node.attr["value"].tensor
    tensor.dtype = dtype
    tensor.tensor_shape.dim.add(size=count)
    getattr(tensor, field).append(value)
    return bytes(graph.SerializeToString())


@pytest.mark.parametrize("command", [("place", "c.pb"), ("run", "c.pb", "--fetch", "c"), ("convert", "c.pb", "c.yaml")])
def test_strings_that_a_file_only_declares(shell: Shell, command: tuple[str, ...]) -> None:
    shell.write("c.pb", repeated(7, "string_val", b"x", 2147483646))
    ended = shell(*command)
    assert ended.code == 2
    assert (
        "tensor too large: got 17179869168 bytes for shape [2147483646], expected at most 2147483648 (2 GiB)" in ended.complaint
    )


@pytest.mark.parametrize("kind", [(7, "string_val", b"x", 1 << 28), (1, "float_val", 2.0, 1 << 29)])
def test_the_largest_constant_of_one_value_is_written_as_one(shell: Shell, kind: tuple[int, str, object, int]) -> None:
    """Nothing of it is ever spelled out: that would take seconds, and gigabytes."""
    shell.write("c.pb", repeated(*kind))
    assert shell("convert", "c.pb", "c.yaml").code == 0
    assert (shell.directory / "c.yaml").stat().st_size < 200


@pytest.mark.parametrize("name", ["g.pb", "g.onnx", "g.yaml", "g.jsonl", "g.json"])
def test_a_huge_file_is_not_read(shell: Shell, name: str) -> None:
    """A sparse one, which takes no space on a disk and would take all of the memory."""
    with (shell.directory / name).open("wb") as file:
        file.truncate(5 << 30)
    ended = shell("place", name)
    assert ended.code == 2
    assert "cannot read the graph file: 5368709120 bytes, expected at most 2147483648" in ended.complaint


def test_a_huge_file_of_a_saved_model_is_not_read(shell: Shell) -> None:
    with (shell.directory / "saved_model.pb").open("wb") as file:
        file.truncate(5 << 30)
    ended = shell("place", str(shell.directory))
    assert ended.code == 2
    assert "5368709120 bytes, expected at most 2147483648" in ended.complaint


@pytest.mark.parametrize(
    ("content", "got"),
    [
        (b"", "an empty file"),
        (b"\n", "an empty file"),
        (b"\xff\xfe\0junk", "7 bytes of another kind"),
        (b"\x89PNG\r\n\x1a\n\0\0", "10 bytes of another kind"),
        (b"hello\n", "text of no known format"),
        (b"404: Not Found", "text of no known format"),
    ],
)
@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("g.pb", "a GraphDef, a MetaGraphDef or a SavedModel"),
        ("g.pbtxt", "a GraphDef, a MetaGraphDef or a SavedModel"),
        ("g.ONNX", "an ONNX model"),
    ],
)
def test_what_is_no_graph_is_told_by_its_name(shell: Shell, name: str, expected: str, content: bytes, got: str) -> None:
    ended = shell("place", shell.write(name, content))
    assert ended.code == 2
    assert ended.complaint == f"GraphFileError: {name}: not a graph: got {got}, expected {expected}\n"


@pytest.mark.posix("pipes in /dev/fd")
def test_a_pipe_that_nobody_writes_into_is_waited_for_as_long_as_is_said(shell: Shell) -> None:
    reader, writer = os.pipe()
    # the pipe ends with a process: a traced CPython 3.11 calls no function while an exception for a blocked thread is pending
    with subprocess.Popen(["sleep", "10"], pass_fds=[writer]) as holder:
        os.close(writer)
        try:
            ended = shell("place", f"/dev/fd/{reader}", "--timeout", "0.2")
        finally:
            holder.kill()
            os.close(reader)
    assert ended.code == 1
    assert f"Timed out reading /dev/fd/{reader}: it takes more than 0.2 seconds" in ended.complaint


TEXTS = ["\U0001f600", "a\\ud83d\\ude00", "\\", "x\U0001f600y\"\U0001f601'", "# \U0010ffff"]


@pytest.mark.parametrize("form", [{}, {"indent": 1}, {"indent": "\t"}, {"separators": (",", ":")}, {"ensure_ascii": False}])
def test_json_may_escape_any_character(shell: Shell, form: dict[str, object]) -> None:
    nodes = [{"op": "Const", "name": f"c{i}", "value": [text]} for i, text in enumerate(TEXTS)]
    graph = {"nodes": nodes, "run": [{"fetch": [node["name"] for node in nodes]}]}
    ended = shell("run", shell.write("g.json", json.dumps(graph, **form)), "--format", "json")  # type: ignore[arg-type]
    assert [row["value"] for row in json.loads(ended.output)["results"]] == [[text] for text in TEXTS]


def test_such_a_character_moves_no_column(shell: Shell) -> None:
    def complaint(text: str) -> str:
        graph = {"nodes": [{"op": "Const", "name": "c", "value": text}, {"op": "Constt"}]}
        return shell("run", shell.write("g.json", json.dumps(graph))).complaint

    assert complaint("\U0001f600\U0001f600") == complaint("x" * 24)
    assert "found invalid Unicode character escape code" in complaint("\ud83d")


def branching(number: int) -> dict[str, Any]:
    """A conditional that is lowered, both of whose branches are the function of that number."""
    branch = {"func": f"f{number}"}
    attrs = {"then_branch": branch, "else_branch": branch, "Tout": ["bool"], "_lower_using_switch_merge": True}
    return {"op": "If", "name": "y", "inputs": ["x", "x"], "attrs": attrs}


def lowered(count: int) -> dict[str, Any]:
    """A graph whose conditionals hold one in each branch."""
    ends = {"inputs": {"x": "bool"}, "outputs": {"z": "y"}}
    functions = [{"name": f"f{i}", **ends, "nodes": [branching(i + 1)]} for i in range(count)]
    functions.append({"name": f"f{count}", **ends, "nodes": [{"op": "LogicalNot", "name": "y", "inputs": ["x"]}]})
    return {"nodes": [{"op": "Const", "name": "x", "value": True}, branching(0)], "functions": functions}


def test_branches_in_branches_expand_within_a_bound(monkeypatch: pytest.MonkeyPatch) -> None:
    from placesim.placement import lowering

    monkeypatch.setattr(lowering, "MOST_LOWERED", 300)
    assert len(placesim.place(lowered(2)).placements) < 300
    with pytest.raises(placesim.InvalidArgumentError, match="functions expand too far: got more than 300 nodes"):
        placesim.place(lowered(31))


@pytest.mark.parametrize(
    ("name", "option"),
    [("run", "--trace"), ("simulate", "--trace"), ("simulate", "--output"), ("run", "--report"), ("diff", "--html")],
)
def test_a_dash_names_no_file(shell: Shell, name: str, option: str) -> None:
    graph = shell.write("g.yaml", GRAPH)
    ended = shell(name, *([graph] * (2 if name == "diff" else 1)), option, "-")
    assert ended.code == 2
    assert "'-' is no file: expected a path, or ./- for a file of that name." in ended.complaint
    assert not (shell.directory / "-").exists()
