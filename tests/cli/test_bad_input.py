"""Each kind of bad input: the exit code, one line that says what is wrong, help beneath it, and never a traceback."""

from __future__ import annotations

import json
import os
import pickle
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pytest

from tests.cli.shell import Shell

MATMUL = """nodes:
  - {op: Const, name: a, value: [1.0, 2.0, 3.0, 4.0], shape: [2, 2]}
  - {op: Placeholder, name: x, dtype: float, shape: [2, 2]}
  - {op: MatMul, name: product, inputs: [a, x]}
"""
NEST = "nodes: " + "[" * 101 + "]" * 101 + "\n"
LAUGHS = "a: &a [x, x, x, x, x, x, x, x, x, x]\n" + "".join(
    f"{new}: &{new} [{', '.join([f'*{old}'] * 10)}]\n" for old, new in zip("abcdefgh", "bcdefghi", strict=True)
)


class BadFile(NamedTuple):
    """A file and what is said of it: the exit code, and pieces of the first line and of all that follows."""

    content: str | bytes
    code: int
    first: tuple[str, ...]
    rest: tuple[str, ...] = ()


FILES = {
    "empty file": BadFile("", 2, ("GraphFileError: g.yaml:1:1: empty file",)),
    "not UTF-8": BadFile(b"nodes: []\n# \xff\n", 2, ("GraphFileError: g.yaml:2:3: not UTF-8 text: got byte 0xff",)),
    "not YAML": BadFile("nodes: [\n", 2, ("GraphFileError: g.yaml:2:1: ",)),
    "a list at the top": BadFile("[1, 2]\n", 2, ("g.yaml:1:1: not a graph file: got a list, expected a mapping",)),
    "an unknown key": BadFile("nodes: []\nnods: []\n", 2, ("g.yaml:2:1: unknown key", "got 'nods'", "did you mean 'nodes'?")),
    "an unknown op": BadFile(
        "nodes:\n  - {op: MatMull}\n", 2, ("g.yaml:2:10: unknown op: got 'MatMull'", "did you mean 'MatMul'?")
    ),
    "a missing input": BadFile("nodes:\n  - {op: Neg, inputs: [aa]}\n", 2, ("g.yaml:2:", "'aa'")),
    "too few inputs": BadFile("nodes:\n  - {op: Add, inputs: [1.0]}\n", 2, ("g.yaml:2:", "Add")),
    "too many inputs": BadFile("nodes:\n  - {op: Neg, inputs: [1.0, 2.0]}\n", 2, ("g.yaml:2:", "Neg")),
    "another type": BadFile(
        "nodes:\n  - {op: Const, name: i, value: 1}\n  - {op: Const, name: f, value: 1.5}\n  - {op: Add, inputs: [f, i]}\n",
        2,
        ("g.yaml:4:", "Input 'y' of 'Add' Op has type int32 that does not match type float32 of argument 'x'."),
    ),
    "a cycle": BadFile(
        "nodes:\n  - {op: Neg, name: a, inputs: [b]}\n  - {op: Neg, name: b, inputs: [a]}\n", 2, ("g.yaml:", "a -> b -> a")
    ),
    "a name twice": BadFile(
        "nodes:\n  - {op: Const, name: a, value: 1}\n  - {op: Const, name: a, value: 2}\n",
        2,
        ("g.yaml:3:23: duplicate name", "'a'", "g.yaml:2:5"),
    ),
    "a malformed device": BadFile(
        "nodes:\n  - {op: Const, value: 1, device: '/gpu:x:y'}\n", 2, ("ValueError: ", "g.yaml:2:", "/gpu:x:y")
    ),
    "a device that isn't there": BadFile(
        "nodes:\n  - {op: Const, name: b, value: 1, device: '/device:GPU:2'}\n",
        1,
        (
            "InvalidArgumentError: Cannot assign a device for operation b: node b (defined at g.yaml:2) was ",
            "was explicitly assigned to /device:GPU:2 but available devices are [ ",
            " [ /job:localhost/replica:0/task:0/device:CPU:0 ]. Make sure",
            " ]. Make sure the device specification refers to a valid device.",
        ),
        ("--soft-placement",),
    ),
    "a negative count": BadFile("devices: {cpu: -1}\nnodes: []\n", 2, ("g.yaml:1:16: ", "-1", "0 to 4096")),
    "an absurd count": BadFile("devices: {gpu: 1000000}\nnodes: []\n", 2, ("g.yaml:1:16: ", "1000000", "0 to 4096")),
    "no CPU": BadFile(
        "devices: {cpu: 0}\nnodes:\n  - {op: NoOp}\n", 1, ("NotFoundError: No CPU devices are available in this process",)
    ),
    "an unknown fetch": BadFile(
        "nodes:\n  - {op: Const, name: total, value: 1}\nfetch: [totla]\n",
        2,
        ("g.yaml:3:9: ", "'totla'", "did you mean 'total'?"),
    ),
    "a billion laughs": BadFile(LAUGHS + "nodes: *i\n", 2, ("g.yaml:", "10,000,000")),
    "a Python tag": BadFile("nodes: !!python/object/apply:os.system [true]\n", 2, ("g.yaml:1:8: ", "python")),
    "a 101-deep nest": BadFile(NEST, 2, ("g.yaml:1:", "100")),
    "too large a constant": BadFile(
        "nodes:\n  - {op: Const, value: 0.0, shape: [100000, 100000]}\n", 2, ("g.yaml:2:", "2 GiB")
    ),
    "an unknown GPU model": BadFile(
        "devices: {gpu: {count: 1, model: Tesla K40}}\nnodes: []\n",
        2,
        ("g.yaml:1:34: unknown GPU model", "did you mean 'Tesla K40c'?"),
    ),
    "an op without a kernel": BadFile(
        "nodes:\n  - {op: AudioSpectrogram, name: s, inputs: [[[0.0]]], attrs: {window_size: 1, stride: 1}}\n",
        1,
        (
            "UnimplementedError: placesim has no numpy kernel for op 'AudioSpectrogram', "
            "which node s (defined at g.yaml:2) uses",
        ),
        ("`placesim place` works without it",),
    ),
    "an unfed placeholder": BadFile(
        MATMUL, 1, ("InvalidArgumentError: You must feed a value for placeholder tensor 'x'",), ("--feed",)
    ),
    "an empty graph": BadFile("nodes: []\n", 1, ("RuntimeError: The Session graph is empty.",)),
    "an uninitialized variable": BadFile(
        "nodes:\n  - {variable: v, shape: [2]}\nfetch: [v/read]\n",
        1,
        ("FailedPreconditionError: Attempting to use uninitialized value v",),
        ("node v/read (defined at g.yaml:2), on /job:localhost/replica:0/task:0/device:CPU:0", "initializer"),
    ),
}


@pytest.mark.parametrize("kind", FILES)
def test_a_bad_file(kind: str, shell: Shell) -> None:
    bad = FILES[kind]
    ended = shell("run", shell.write("g.yaml", bad.content))
    first, *rest = ended.complaint.splitlines()
    assert ended.code == bad.code, ended.complaint
    assert all(piece in first for piece in bad.first), first
    assert all(piece in "\n".join(rest) for piece in bad.rest), rest
    assert all(line.startswith("  ") for line in rest)
    assert "Traceback" not in ended.complaint
    assert ended.output == ""


def test_all_problems_are_reported_in_order(shell: Shell) -> None:
    ended = shell("run", shell.write("g.yaml", "nodes:\n  - {op: Nag, inputs: [zz]}\n  - {op: Const}\nnods: 1\n"))
    lines = [line.strip().removeprefix("GraphFileError: ") for line in ended.complaint.splitlines()]
    places = [tuple(map(int, line.split(":")[1:3])) for line in lines]
    assert places == sorted(places)
    assert len({line for line, _ in places}) == 3


FEEDS = {
    "x=[[1.0, 2.0]]": "ValueError: Cannot feed value of shape (1, 2) for Tensor x:0, which has shape (2, 2)",
    "x": "UsageError: wrong feed: got 'x', expected NAME=VALUE",
    "y=1.0": "UsageError: unknown feed: got 'y'",
    "x=[": "UsageError: --feed x:",
    "x=@missing.npy": "ValueError: no such file: ",
    "x=@pickled.npy": "is not a .npy file of numbers: it holds pickled objects, which are not supported",
    "x=@torn.npy": "ValueError: ",
    "x=@.": "ValueError: ",
}


@pytest.mark.parametrize("feed", FEEDS)
def test_a_bad_feed(feed: str, shell: Shell) -> None:
    graph = shell.write("g.yaml", MATMUL)
    np.save("pickled.npy", np.array([object()], object), allow_pickle=True)
    shell.write("torn.npy", b"\x93NUMPY\x01\x00v\x00{'descr'")
    shell.write("raw.pickle", pickle.dumps(1))
    ended = shell("run", graph, "--feed", feed)
    assert ended.code == 2
    assert FEEDS[feed] in ended.complaint.splitlines()[0]
    assert "Traceback" not in ended.complaint


OPTIONS = {
    ("run",): "UsageError: Missing argument 'GRAPH'.",
    ("rum", "g.yaml"): "UsageError: no such command: got 'rum', expected one of run, place, devices",
    (
        "run",
        "g.yaml",
        "--gpux",
        "1",
    ): "UsageError: no such option: got --gpux, expected an option of `placesim run`; did you mean",
    ("memory", "g.yaml", "--seconds", "3"): "expected an option of `placesim memory`; commands with this option: plan",
    ("run", "g.yaml", "--gpu", "many"): "UsageError: Invalid value for '--gpu': got 'many', expected a whole number",
    ("plan", "g.yaml", "--seconds", "x"): "UsageError: Invalid value for '--seconds': got 'x', expected a number",
    ("run", "g.yaml", "--gpu", "-1"): "UsageError: gpu out of range: got -1, expected an integer from 0 to 4096",
    ("run", "g.yaml", "--cpu", "99999"): "UsageError: cpu out of range: got 99999, expected an integer from 0 to 4096",
    ("run", "g.yaml", "--gpu-model", "Tesla K80c"): "did you mean 'Tesla K80'?",
    ("run", "g.yaml", "--log-style", "clasic"): "did you mean 'classic'?",
    ("run", "g.yaml", "--format", "jsn"): "did you mean 'json'?",
    ("run", "g.yaml", "--fetch", "product:1"): "exists but only has 1 outputs",
    ("run", "g.yaml", "--fetch", "prodct"): "The name 'prodct' refers to an Operation not in the graph.",
    ("run", "g.yaml", "--timeout", "0"): "UsageError: timeout out of range",
    ("run", "g.yaml", "--intra-op-threads", "-1"): "UsageError: intra_op_threads out of range",
    (
        "run",
        "g.yaml",
        "--inventory",
        "missing.yaml",
    ): "GraphFileError: missing.yaml: cannot read the inventory: No such file or directory",
    ("run", "g.yaml", "--inventory", "g.yaml"): "GraphFileError: g.yaml:1:1: unknown key in an inventory: got 'nodes'",
    ("run", "."): "GraphFileError: .: cannot read the graph: got a directory without saved_model.pb",
    ("run", "missing.yaml"): "GraphFileError: missing.yaml: cannot read the graph file: No such file or directory",
    ("run", "zero\0byte"): "GraphFileError: ",
    ("devices", "--gpu", "4097"): "UsageError: gpu out of range",
    ("devices", "--cpu", "0"): "NotFoundError: No CPU devices are available in this process",
}


@pytest.mark.parametrize("arguments", OPTIONS, ids=" ".join)
def test_a_bad_command_line(arguments: tuple[str, ...], shell: Shell) -> None:
    shell.write("g.yaml", MATMUL)
    ended = shell(*arguments)
    assert ended.code == (1 if "NotFoundError" in OPTIONS[arguments] else 2)
    assert OPTIONS[arguments] in ended.complaint.splitlines()[0]
    assert "Traceback" not in ended.complaint
    assert ended.output == ""


def test_only_similar_options_and_files_are_suggested(shell: Shell) -> None:
    shell.write("g.yaml", MATMUL)
    shell.write("logging.yaml", MATMUL)
    assert shell("run", "g.yaml", "--parallel", "x").complaint.splitlines()[0].endswith("expected an option of `placesim run`")
    assert "did you mean" not in shell("check", "logging.yaml", "--policy", "nothing.yaml").complaint
    assert shell("run", "g.yaml", "--fetch", "PRODUKT").complaint.endswith("  did you mean product?\n")
    assert "did you mean 'logging.yaml'?" in shell("run", "loging.yml").complaint
    assert "`placesim new queue` writes the example of this name" in shell("run", "graphs/queue.yaml").complaint


def test_a_missing_list_of_graphs(shell: Shell) -> None:
    ended = shell("place", "missing.jsonl")
    assert ended.code == 2
    assert ended.complaint.startswith("GraphFileError: missing.jsonl: cannot read the ")


@pytest.mark.posix("permissions of files")
def test_a_file_without_read_permission(shell: Shell, monkeypatch: pytest.MonkeyPatch) -> None:
    graph = shell.write("g.yaml", MATMUL)
    os.chmod(graph, 0)
    if os.access(graph, os.R_OK):  # as the superuser everything can be read: the refusal comes from `open` itself then
        monkeypatch.setattr("builtins.open", _refuse)
    ended = shell("run", graph)
    assert ended.code == 2
    assert ended.complaint == ("GraphFileError: g.yaml: cannot read the graph file: Permission denied\n")


def _refuse(path: str | Path, *arguments: object, **named: object) -> None:
    raise PermissionError(13, "Permission denied", str(path))


def test_a_soft_placement_takes_another_device(shell: Shell) -> None:
    graph = shell.write("g.yaml", "nodes:\n  - {op: Const, name: b, value: 1, device: '/device:GPU:2'}\n")
    assert shell("run", graph).code == 1
    assert shell("run", graph, "--soft-placement").output == "1\n"


def test_an_error_is_in_the_json_object_too(shell: Shell) -> None:
    graph = shell.write("g.yaml", "nodes:\n  - {op: Const, name: b, value: 1, device: '/device:GPU:2'}\n")
    ended = shell("run", graph, "--format", "json")
    error = json.loads(ended.output)["error"]
    assert ended.code == 1
    assert error["type"] == "InvalidArgumentError"
    assert error["message"].startswith("Cannot assign a device for operation b: {{node b}} was explicitly assigned to")
    assert (error["node"], error["location"]) == ("b", "g.yaml:2:5")


def test_a_wrong_file_has_a_json_object_too(shell: Shell) -> None:
    ended = shell("run", shell.write("g.yaml", "nods: []"), "--format", "json")
    document = json.loads(ended.output)
    assert ended.code == 2
    assert document["error"]["type"] == "GraphFileError"
    assert document["devices"] == document["placements"] == document["results"] == []


def test_debug_brings_the_traceback_back(shell: Shell) -> None:
    ended = shell("run", shell.write("g.yaml", "nods: []"), "--debug")
    assert "Traceback (most recent call last)" in ended.complaint
    assert ended.code == 2


def test_a_defect_is_one_line_too(shell: Shell, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("placesim.cli.graph_arguments.load_graph", lambda graph, options: 1 / 0)
    ended = shell("run", "g.yaml")
    assert ended.code == 70
    assert ended.complaint == (
        "InternalError: ZeroDivisionError: division by zero\n  this is a bug in placesim; --debug shows where\n"
    )
