"""What is said of things that people often get wrong: where it is, and what to write instead."""

from __future__ import annotations

import pytest

from tests.cli.shell import Shell

CONST = "nodes:\n  - {{op: Const, name: a, value: 1.0, {}}}\n"
DEVICE = "  a device is written '/cpu:0', '/gpu:1', '/gpu:*' or '/job:ps/task:0/cpu:0'"
NEG = "nodes:\n  - {op: Placeholder, name: x, dtype: int32, shape: [2]}\n  - {op: Neg, name: y, inputs: [x]}\n"
SAID = {
    "a device without its colon": (
        CONST.format("device: gpu0"),
        [
            "ValueError: g.yaml:2:46: Unknown attribute 'gpu0' is encountered while parsing the device spec: 'gpu0'.",
            "  did you mean '/gpu:0'?",
            DEVICE,
        ],
    ),
    "another library's device": (
        CONST.format("device: '/cuda:1'"),
        [
            "ValueError: g.yaml:2:46: Unknown attribute 'cuda' is encountered while parsing the device spec: '/cuda:1'.",
            "  TensorFlow's name for CUDA's devices is GPU: '/gpu:1'",
            DEVICE,
        ],
    ),
    "a device whose number is none": (
        CONST.format("device: '/gpu:x'"),
        ["ValueError: g.yaml:2:46: invalid literal for int() with base 10: 'x'", DEVICE],
    ),
    "a part of a GPU's name": (
        "devices: {cpu: 1, gpu: {count: 1, model: P4}}\nnodes: []\n",
        [
            "GraphFileError: g.yaml:1:42: unknown GPU model: got 'P4', expected one of the catalogue or a mapping with its"
            " figures; did you mean 'Tesla P4' or 'Tesla P40'?",
            "  `placesim devices --gpu-models` lists them",
        ],
    ),
    "a GPU by another maker's name": (
        "devices: {cpu: 1, gpu: {count: 1, model: NVIDIA RTX 4090}}\nnodes: []\n",
        [
            "GraphFileError: g.yaml:1:42: unknown GPU model: got 'NVIDIA RTX 4090', expected one of the catalogue or a mapping"
            " with its figures; did you mean 'GeForce RTX 4090'?",
            "  `placesim devices --gpu-models` lists them",
        ],
    ),
    "a policy as a graph": (
        "rules: [no-soft-fallback]\n",
        [
            "GraphFileError: g.yaml:1:1: unknown key in a graph file: got 'rules', expected name, description, tensorflow, devices, links,"
            " config, nodes, run, fetch, feed, functions, placement, raw, versions, rest or marks",
            "  g.yaml:1:1: no nodes: got no key 'nodes', expected one",
            "  a policy is what a graph is held to: placesim check GRAPH --policy FILE",
        ],
    ),
    "other libraries' types": (
        CONST.format("dtype: fp16"),
        ["GraphFileError: g.yaml:2:45: unknown type: got 'fp16', expected one of TensorFlow's; did you mean 'float16'?"],
    ),
    "a tab": (
        "nodes:\n\t- {op: NoOp}\n",
        ["GraphFileError: g.yaml:2:1: not valid YAML: got a tab, expected spaces, which alone indent"],
    ),
    "a column that is not its list's": (
        "nodes:\n  - op: Const\n   name: a\n",
        [
            "GraphFileError: g.yaml:3:4: not valid YAML while parsing a block collection that begins in line 2:"
            " did not find expected '-' indicator",
            "  the entries of one list, and the keys of one mapping, begin in the same column",
        ],
    ),
    "a name that YAML takes for a boolean": (
        "nodes:\n  - {op: NoOp, name: no}\n",
        [
            "GraphFileError: g.yaml:2:22: wrong type of 'name': got false, expected a text: YAML reads yes, no, on and off as"
            " booleans unless it stands in quotes"
        ],
    ),
    "an attr among the keys": (
        "nodes:\n  - {op: MatMul, inputs: [[[1.0]], [[1.0]]], transpose_a: true}\n",
        [
            "GraphFileError: g.yaml:2:46: an attr of 'MatMul' among a node's keys: got 'transpose_a',"
            " expected it under 'attrs': attrs: {transpose_a: ...}"
        ],
    ),
    "a file as a text": (
        NEG + "run: [{fetch: [y], feed: {x: numbers.csv}}]\n",
        ["GraphFileError: g.yaml:4:30: wrong feed: got the text 'numbers.csv', expected {file: numbers.csv} to read that file"],
    ),
    "a generator's key": (
        NEG + "run: [{fetch: [y], feed: {x: {random_uniform: [2], sed: 1}}}]\n",
        [
            "GraphFileError: g.yaml:4:30: unknown key beside 'random_uniform': got 'sed', expected minval, maxval or seed;"
            " did you mean 'seed'?"
        ],
    ),
    "whole numbers without an end": (
        NEG + "run: [{fetch: [y], feed: {x: {random_uniform: [2]}}}]\n",
        ["ValueError: Cannot feed x: Must specify maxval for integer dtype int32", "  at g.yaml:4:27"],
    ),
}


@pytest.mark.parametrize("case", SAID)
def test_what_is_said(shell: Shell, case: str) -> None:
    text, complaint = SAID[case]
    ended = shell("run", shell.write("g.yaml", text))
    assert ended.code in (1, 2)
    assert ended.complaint.splitlines() == complaint


@pytest.mark.parametrize(
    ("name", "loader"), [("a.csv", "numpy.loadtxt('a.csv', delimiter=',')"), ("a.npz", "numpy.load('a.npz')['NAME']")]
)
def test_other_files_of_numbers(shell: Shell, name: str, loader: str) -> None:
    shell.write(name, b"1,2\n3,4\n")
    ended = shell("run", shell.write("g.yaml", NEG), "--feed", f"x=@{shell.directory / name}")
    assert f"numpy.save('a.npy', {loader}) makes one" in ended.complaint


def test_random_whole_numbers(shell: Shell) -> None:
    graph = shell.write(
        "g.yaml", NEG + "run: [{fetch: [y], feed: {x: {random_uniform: [2], minval: -3, maxval: -2, seed: 1}}}]\n"
    )
    assert shell("run", graph) == (0, "[3 3]\n", "")


def test_random_numbers_of_other_figures(shell: Shell) -> None:
    graph = shell.write(
        "g.yaml", "nodes:\n  - {op: Placeholder, name: x, dtype: float32}\n  - {op: Neg, name: y, inputs: [x]}\nfetch: [y]\n"
    )
    uniform = shell("run", graph, "--feed", "x={random_uniform: [1], minval: 7, maxval: 8, seed: 3}").output
    assert -8 < float(uniform.strip("[]\n")) <= -7
    assert shell("run", graph, "--feed", "x={random_normal: [2], mean: 4, stddev: 0}").output == "[-4. -4.]\n"


def test_a_list_that_is_too_short_for_its_shape(shell: Shell) -> None:
    graph = shell.write("g.yaml", "nodes:\n  - {op: Const, name: a, value: [1, 2, 3, 4], shape: [2, 3]}\nfetch: [a]\n")
    assert shell("run", graph) == (
        0,
        "[[1 2 3]\n [4 4 4]]\n",
        "g.yaml:2:33: 4 values for shape [2, 3], which holds 6: the last one is repeated\n",
    )


def test_one_value_that_fills_a_shape_is_meant(shell: Shell) -> None:
    graph = shell.write("g.yaml", "nodes:\n  - {op: Const, name: a, value: [1], shape: [2]}\nfetch: [a]\n")
    assert shell("run", graph) == (0, "[1 1]\n", "")
