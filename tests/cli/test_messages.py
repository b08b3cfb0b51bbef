"""What is said of things that people often get wrong: where it is, and what to write instead."""

from __future__ import annotations

from pathlib import Path

import pytest

from placesim.formats.graph_file.reader import FILE_KEYS
from tests.cli.shell import ROOT, Shell
from tests.cli.warm import run_warm

KEYS = f"{', '.join(FILE_KEYS[:-1])} or {FILE_KEYS[-1]}"
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
            "GraphFileError: g.yaml:1:42: unknown GPU model: got 'P4', expected one in the catalogue, or a mapping that"
            " describes the GPU; did you mean 'Tesla P4' or 'Tesla P40'?",
            "  `placesim devices --gpu-models` lists them",
        ],
    ),
    "a GPU by another maker's name": (
        "devices: {cpu: 1, gpu: {count: 1, model: NVIDIA RTX 4090}}\nnodes: []\n",
        [
            "GraphFileError: g.yaml:1:42: unknown GPU model: got 'NVIDIA RTX 4090', expected one in the catalogue, or a mapping"
            " that describes the GPU; did you mean 'GeForce RTX 4090'?",
            "  `placesim devices --gpu-models` lists them",
        ],
    ),
    "a GraphDef's key in YAML": (
        "node:\n  - {op: Const, name: a, value: 1.0}\n",
        [
            "GraphFileError: g.yaml:2:3: invalid GraphDef: '  - {op: Const, name: a, value: 1.0}': Expected \"{\".",
            "  the file begins like a GraphDef in text format; a graph file begins with a key such as 'nodes:'",
        ],
    ),
    "a policy as a graph": (
        "rules: [no-soft-fallback]\n",
        [
            f"GraphFileError: g.yaml:1:1: unknown key in a graph file: got 'rules', expected {KEYS}",
            "  g.yaml:1:1: no nodes: got a file without the key 'nodes', expected a graph file",
            "  to check a graph against a policy: placesim check GRAPH --policy FILE",
        ],
    ),
    "a device list without devices": (
        "nodes:\n  - {device: [], nodes: [{op: NoOp}]}\n",
        ["GraphFileError: g.yaml:2:14: scope without copies: got an empty list, expected devices"],
    ),
    "the number of a copy where there is none": (
        CONST.replace("name: a", "name: 'a{{i}}'").format("shape: []"),
        [
            "ValueError: g.yaml:2:23: `a{i}` is not a valid node name. Accepted names conform to Regex"
            " /re.compile('^[A-Za-z0-9.][A-Za-z0-9_.\\\\\\\\/>-]*$')/",
            "  in quotes, '{i}' is the copy's index in a scope with a list of devices",
        ],
    ),
    "a brace in a text without quotes": (
        "nodes:\n  - {op: NoOp, name: tower_{i}}\n",
        [
            "GraphFileError: g.yaml:2:28: not valid YAML in the {...} mapping that begins on line 2:"
            " got '{', expected ',' or '}'",
            "  close each { and [, and quote strings that contain any of {}[],",
        ],
    ),
    "a report as a graph": (
        '{"nodes": [{"node": "a"}], "groups": [], "error": null}',
        ["GraphFileError: g.yaml:1:1: not a graph file: got the JSON output of `placesim explain`, expected a graph"],
    ),
    "an inventory as a graph": (
        "devices: {cpu: 1}\n",
        ["GraphFileError: g.yaml:1:1: no nodes: got an inventory, an option for --inventory, expected nodes"],
    ),
    "a notebook as a graph": (
        '{"nodes": [], "nbformat": 4}',
        [
            f"GraphFileError: g.yaml:1:15: unknown key in a graph file: got 'nbformat', expected {KEYS}",
            "  convert a notebook to a script with `jupyter nbconvert --to script`",
        ],
    ),
    "no device at all": (
        "devices: [{job: w, tasks: 0}]\nnodes: [{op: NoOp, name: a}]\nfetch: [a]\n",
        [
            "FailedPreconditionError: No devices are registered",
            "  add devices with `devices` in the file, or with --cpu and --gpu",
        ],
    ),
    "a master that is elsewhere": (
        "devices: [{job: w, tasks: 2}]\nconfig: {master: '/job:ps/task:0'}\nnodes: [{op: NoOp, name: a}]\nfetch: [a]\n",
        [
            "InvalidArgumentError: config.master is not a task of the inventory: got '/job:ps/task:0',"
            " expected one such as /job:w/replica:0/task:0 or /job:w/replica:0/task:1"
        ],
    ),
    "too many threads": (
        "config: {intra_op_parallelism_threads: 100000}\nnodes: []\n",
        [
            "GraphFileError: g.yaml:1:40: 'intra_op_parallelism_threads' out of range: got 100000,"
            " expected a number from -2147483648 to 65536"
        ],
    ),
    "visible devices as a list": (
        "config: {gpu_options: {visible_device_list: [0, 1]}}\nnodes: []\n",
        ["GraphFileError: g.yaml:1:45: wrong type of 'visible_device_list': got a list, expected a string such as '1,0'"],
    ),
    "a gradient by whole numbers": (
        "nodes:\n  - {op: Const, name: i, value: 3}\n  - {op: Square, name: s, inputs: [i]}\n"
        "  - {gradients: {of: s, with_respect_to: i}}\n",
        [
            "GraphFileError: g.yaml:4:42: no gradient: got 'i' of int32, and 's' does not depend on it through "
            "differentiable ops, expected a variable or tensor it depends on, or 'unconnected_gradients: zero'"
        ],
    ),
    "a result that a body does not make": (
        "functions:\n  - {name: f, raw: true, inputs: [{name: x, type: float}],"
        " outputs: [{name: z, type: float, value: 'm:y:0'}],\n"
        "     nodes: [{op: Neg, name: n, inputs: [x], attrs: {T: float}}]}\nnodes:\n  - {op: f, inputs: [1.0]}\n",
        ["GraphFileError: g.yaml:2:100: unknown output of function 'f': got 'm:y:0', expected an argument or a node of it"],
    ),
    "a call that leaves a function's type open": (
        "functions:\n  - {name: f, inputs: {x: {type_attr: T}}, nodes: {op: Neg, id: y, inputs: [x]}, outputs: y}\nnodes:\n"
        "  - {op: StatefulPartitionedCall, name: c, inputs: [1.0], attrs: {Tout: [float], f: {func: f}}}\n",
        ["ValueError: g.yaml:4:5: type attr not found: T", "  the call must set it: f: {func: NAME, attrs: {T: float}}"],
    ),
    "a function that is not there": (
        "nodes:\n  - {op: StatefulPartitionedCall, name: c, inputs: [1.0], attrs: {Tout: [float], f: {func: g}}}\n",
        ['InvalidArgumentError: Failed to find function "g" in function library:', "  node c (defined at g.yaml:2)"],
    ),
    "a variable that nothing has started": (
        "nodes:\n  - {variable: w, shape: [2]}\nfetch: [w]\n",
        [
            "FailedPreconditionError: Attempting to use uninitialized value w",
            "  node _retval_w_0_0, on /job:localhost/replica:0/task:0/device:CPU:0",
            "  run the initializer of node w (defined at g.yaml:2) in a step before this one",
        ],
    ),
    "what is fed into an op, of another shape": (
        NEG + "fetch: [y]\nfeed: {y: [1, 2, 3]}\n",
        ["ValueError: Cannot feed value of shape (3,) for Tensor y:0, which has shape (2,)", "  at g.yaml:5:8"],
    ),
    "a condition that is none": (
        "nodes:\n  - {cond: {if: true, then: {op: Const, value: 1.0}, else: {op: Const, value: 2.0}}}\n",
        [
            "TypeError: g.yaml:2:5: pred must not be a Python bool",
            "  pred must be a tensor, evaluated at run time: {op: Const, name: p, value: true}",
        ],
    ),
    "other libraries' types": (
        CONST.format("dtype: fp16"),
        ["GraphFileError: g.yaml:2:45: unknown type: got 'fp16', expected a TensorFlow type; did you mean 'float16'?"],
    ),
    "a tab": (
        "nodes:\n\t- {op: NoOp}\n",
        ["GraphFileError: g.yaml:2:1: not valid YAML: got a tab, expected spaces as indentation"],
    ),
    "a column that is not its list's": (
        "nodes:\n  - op: Const\n   name: a\n",
        [
            "GraphFileError: g.yaml:3:4: not valid YAML in the list that begins on line 2: got 'n', expected '-'",
            "  entries of one list, and keys of one mapping, must start in the same column",
        ],
    ),
    "a name that YAML takes for a boolean": (
        "nodes:\n  - {op: NoOp, name: no}\n",
        [
            "GraphFileError: g.yaml:2:22: wrong type of 'name': got false, expected a string: YAML reads yes, no, on and off as"
            " booleans unless it is quoted"
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
        [
            "GraphFileError: g.yaml:4:30: feed 'x': wrong value: got the string 'numbers.csv', "
            "expected {file: numbers.csv} to read that file"
        ],
    ),
    "a generator's key": (
        NEG + "run: [{fetch: [y], feed: {x: {random_uniform: [2], sed: 1}}}]\n",
        [
            "GraphFileError: g.yaml:4:30: feed 'x': unknown key beside 'random_uniform': got 'sed', "
            "expected minval, maxval or seed; did you mean 'seed'?"
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
    assert f"create one with numpy.save('a.npy', {loader})" in ended.complaint


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
        "g.yaml:2:33: 4 values for shape [2, 3], which holds 6: the last value is repeated\n",
    )


def test_one_value_that_fills_a_shape_is_meant(shell: Shell) -> None:
    graph = shell.write("g.yaml", "nodes:\n  - {op: Const, name: a, value: [1], shape: [2]}\nfetch: [a]\n")
    assert shell("run", graph) == (0, "[1 1]\n", "")


def test_a_device_type_in_small_letters_counts_nothing(shell: Shell) -> None:
    graph = shell.write("g.yaml", "config: {device_count: {gpu: 1}}\nnodes: [{op: Const, name: a, value: 1.0}]\nfetch: [a]\n")
    said = "g.yaml:1:25: 'device_count' of 'gpu' has no effect: the type is GPU\n"
    assert shell("run", graph) == (0, "1.0\n", said)


def test_a_device_of_an_option_that_is_none(shell: Shell) -> None:
    ended = shell("place", shell.write("g.yaml", NEG), "--device", "y=gpu0")
    assert (ended.code, ended.output) == (2, "")
    assert ended.complaint.startswith("UsageError: Unknown attribute 'gpu0' is encountered while parsing the device spec")
    assert "(in --device 'y=gpu0')\n  did you mean '/gpu:0'?\n" in ended.complaint


def test_an_op_without_a_kernel_for_its_device_is_told_the_way_out(shell: Shell) -> None:
    graph = shell.write("g.yaml", "devices: {gpu: 1}\nnodes: [{op: AsString, name: a, inputs: [1.0], device: /gpu:0}]\n")
    ended = shell("place", graph)
    assert (ended.code, ended.complaint.splitlines()[-1]) == (1, "  --soft-placement allows a device with a kernel")
    assert shell("place", graph, "--soft-placement").code == 0


def test_a_file_of_nearly_that_name(shell: Shell) -> None:
    shell.write("towers.yaml", NEG)
    said = "cannot read the graph file: No such file or directory"
    assert shell("place", "tower.yaml").complaint == f"GraphFileError: tower.yaml: {said}; did you mean 'towers.yaml'?\n"
    folder = shell.directory
    assert f"did you mean '{folder}/towers.yaml'?" in shell("place", f"{folder}/Towers.yml").complaint
    assert shell("place", "nowhere/tower.yaml").complaint == f"GraphFileError: nowhere/tower.yaml: {said}\n"


def test_a_graph_as_a_policy(shell: Shell) -> None:
    graph = shell.write("g.yaml", NEG)
    assert shell("check", graph, "--policy", graph).complaint.splitlines() == [
        "GraphFileError: g.yaml:1:1: unknown key in a policy: got 'nodes', expected description or rules",
        "  to check a graph against a policy: placesim check GRAPH --policy FILE",
    ]


def test_a_checkpoint_of_another_model(shell: Shell) -> None:
    prefix = str(ROOT / "tests" / "data" / "tensorflow-files" / "checkpoint_ref" / "model.ckpt")
    ended = shell("run", shell.write("g.yaml", "nodes: [{variable: z, shape: [2]}]\nfetch: [z]\n"), "--checkpoint", prefix)
    assert (ended.code, ended.output) == (1, "")
    assert ended.complaint.splitlines()[0] == "NotFoundError: Key z not found in checkpoint, nor any other variable's"


@pytest.mark.slow
@pytest.mark.parametrize(
    ("line", "advice"),
    [
        ("tf.placehodler(tf.float32)", "  did you mean 'placeholder'?"),
        ("tf.train.AdamOptimiser()", "  did you mean 'AdamOptimizer'?"),
        (
            "tf.keras.Sequential([]).fit([1.0])",
            "  of Keras there are layers and models, but no fit: tf.train has optimizers, a Session runs their steps",
        ),
    ],
)
def test_what_tensorflow_has_not(shell: Shell, line: str, advice: str) -> None:
    ended = run_warm(shell.directory, "place", shell.write("s.py", f"import tensorflow as tf\n{line}\n"))
    assert advice in ended.complaint.splitlines()


def test_a_group_on_a_missing_device(shell: Shell) -> None:
    graph = "devices: {cpu: 1, gpu: 1}\nnodes:\n  - {variable: w, shape: [2], device: '/gpu:1'}\n"
    ended = shell("run", shell.write("g.yaml", graph))
    assert ended.complaint.splitlines()[-1] == (
        "  the machine has no /device:GPU:1: --soft-placement allows another device; --cpu and --gpu change the machine"
    )


def test_an_output_in_a_missing_folder(shell: Shell) -> None:
    ended = shell("show", shell.write("g.yaml", "nodes:\n  - {op: NoOp, name: n}\n"), "--output", "none/x.svg")
    folder = Path("none")
    assert (ended.code, ended.complaint) == (
        2,
        f"UsageError: cannot write {folder / 'x.svg'}: got no folder {folder}, expected a path in an existing folder\n",
    )
