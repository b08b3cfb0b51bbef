"""`placesim ops`: a list of ops, all about one, what may be asked, and what is no op."""

from __future__ import annotations

import json
import re
import sys

import pytest

from placesim.inspection.op_facts import DEVICE_TYPES
from placesim.ops.kernels.op_families import OP_FAMILIES
from placesim.ops.registry import load_registry
from tests.cli.shell import Shell
from tests.processes import run_process

REGISTRY = load_registry()
STYLE = re.compile(r"\x1b\[[0-9;]*m")
MATMUL = """\
MatMul(a: T, b: T) -> (product: T)
  attr transpose_a: bool = false
  attr transpose_b: bool = false
  attr T: {bfloat16, half, float, double, int32, int64, uint8, uint16, uint32, uint64, complex64, complex128}
  attr grad_a: bool = false
  attr grad_b: bool = false
  kernel CPU: T in {int64, int32, int16, double, float, bfloat16, half, complex128, complex64}
  kernel GPU: T in {double, float, bfloat16, half, complex128, complex64}
  numpy linalg.matmul (placesim/ops/kernels/linalg/matmul.py)
"""


def names(shell: Shell, *arguments: str) -> list[str]:
    ended = shell("ops", *arguments)
    assert (ended.code, ended.complaint) == (0, "")
    head, *lines = ended.output.splitlines()
    assert head == "op\tsignature\tkernels\tnumpy"
    return [line.split("\t")[0] for line in lines]


def test_all_about_one_op(shell: Shell) -> None:
    assert shell("ops", "MatMul") == (0, MATMUL, "")


TOLD = [
    ("TopK", "deprecated 7: Use TopKV2 instead"),
    ("BatchCholesky", "deprecated 13: Use Cholesky instead."),
    ("IsVariableInitialized", "flags uninitialized_input"),
    ("AddN", "flags commutative, aggregate"),
    ("VarHandleOp", "flags stateful"),
    ("CollectiveReduce", "flags stateful, distributed_communication"),
    ("Conv2D", 'attr padding: {"SAME", "VALID", "EXPLICIT"}'),
    ("AddN", "attr N: int >= 1"),
    ("Barrier", "attr shapes: list(shape) >= 0 = []"),
    ("A", "kernel none"),
    ("A", "numpy none"),
    ("Abs", "kernel GPU: T in {int32}; host x, y"),
    ("Conv2DBackpropFilter", 'kernel CPU: T in {double, float, half, bfloat16}; data_format in {"NHWC"}; label "custom"'),
    ("VarHandleOp", "kernel XLA_GPU: host resource"),
]


@pytest.mark.parametrize(("name", "line"), TOLD)
def test_what_an_op_may_have(shell: Shell, name: str, line: str) -> None:
    assert f"  {line}\n" in shell("ops", name).output


@pytest.mark.slow
def test_a_list_has_an_op_a_line(shell: Shell) -> None:
    rows = [line.split("\t") for line in shell("ops", "--no-header").output.splitlines()]
    assert [row[0] for row in rows] == sorted(REGISTRY.op_names)
    assert {len(row) for row in rows} == {4}
    assert ["MatMul", "(a: T, b: T) -> (product: T)", "CPU,GPU", "numpy"] in rows
    assert {row[0] for row in rows if row[3] == "numpy"} == OP_FAMILIES.keys() & set(REGISTRY.op_names)
    assert ["A", "() -> (out: float)", "-", "-"] in rows


def test_a_pattern_lists_what_it_matches(shell: Shell) -> None:
    assert names(shell, "Mat?ul") == ["MatMul"]
    assert names(shell, "[AB]ddN*") == ["AddN"]
    assert names(shell, "*MatMulV2") == ["BatchMatMulV2"]


@pytest.mark.parametrize(
    ("arguments", "found"),
    [
        (("MatMu?", "--device", "CPU", "--dtype", "int64"), True),
        (("MatMu?", "--device", "GPU", "--dtype", "int64"), False),
        (("MatMu?", "--device", "GPU", "--dtype", "DT_FLOAT"), True),
        (("MatMu?", "--device", "XLA_CPU"), False),
        # an attr that no kernel limits is limited by the op; a fixed type counts as well as an attr
        (("AssignAddVariableO?", "--dtype", "string"), False),
        (("ReadFil?", "--dtype", "string"), True),
        (("ReadFil?", "--dtype", "float32"), False),
        # what is registered for DEFAULT serves a GPU too
        (("Shap[e]", "--device", "GPU"), True),
        (("[A]", "--device", "CPU"), False),
    ],
)
def test_kernels_may_be_asked_for(shell: Shell, arguments: tuple[str, ...], found: bool) -> None:
    assert bool(names(shell, *arguments)) is found


def test_a_numpy_kernel_may_be_asked_for(shell: Shell) -> None:
    have, lack = names(shell, "--numpy"), names(shell, "--no-numpy")
    assert sorted([*have, *lack]) == sorted(REGISTRY.op_names)
    assert "MatMul" in have
    assert "A" in lack


def test_the_words_for_devices_are_those_that_kernels_are_registered_for() -> None:
    assert set(DEVICE_TYPES) == {kernel.device_type for name in REGISTRY.op_names for kernel in REGISTRY.kernels(name)}


def test_json_is_one_object(shell: Shell) -> None:
    document = json.loads(shell("ops", "--format", "json").output)
    assert list(document) == ["tensorflow", "ops"]
    assert [op["name"] for op in document["ops"]] == sorted(REGISTRY.op_names)


def test_an_op_as_json(shell: Shell) -> None:
    (op,) = json.loads(shell("ops", "CumulativeLogsumexp", "--format", "json").output)["ops"]
    assert op["inputs"][0] == {
        "name": "x",
        "dtype": None,
        "type_attr": "T",
        "number_attr": None,
        "type_list_attr": None,
        "is_ref": False,
    }
    assert op["inputs"][1]["type_attr"] == "Tidx"
    attrs = {attr["name"]: attr for attr in op["attrs"]}
    assert attrs["exclusive"] == {
        "name": "exclusive",
        "type": "bool",
        "has_default": True,
        "default": False,
        "minimum": None,
        "allowed": None,
    }
    assert attrs["Tidx"]["allowed"] == ["int32", "int64"]
    assert {kernel["device_type"] for kernel in op["kernels"]} == {"CPU", "GPU"}
    assert op["kernels"][0].keys() == {"device_type", "constraint", "host_memory", "priority", "label"}


@pytest.mark.parametrize(
    ("name", "attr", "default"),
    [
        ("DefaultAttrs", "shape_val", [2, 1]),
        ("DefaultAttrs", "type_list_val", ["int32", "float"]),
        ("DefaultAttrs", "tensor_val", {"dtype": "int32", "shape": []}),
        ("Placeholder", "shape", None),
        ("ClipByValue", "T", None),
    ],
)
def test_defaults_as_json(shell: Shell, name: str, attr: str, default: object) -> None:
    (op,) = json.loads(shell("ops", name, "--format", "json").output)["ops"]
    assert next(row["default"] for row in op["attrs"] if row["name"] == attr) == default


@pytest.mark.parametrize("width", [20, 40, 80, 200])
def test_one_op_on_a_terminal_of_any_width(shell: Shell, monkeypatch: pytest.MonkeyPatch, width: int) -> None:
    shown = on_a_terminal(shell, monkeypatch, width, "MatMul")
    assert max(map(len, shown)) <= width
    assert "".join("".join(shown).split()) == "".join(MATMUL.split()), "the same words, however they are broken"


@pytest.mark.parametrize("width", [20, 40, 80, 200])
def test_a_list_on_a_terminal_of_any_width(shell: Shell, monkeypatch: pytest.MonkeyPatch, width: int) -> None:
    shown = on_a_terminal(shell, monkeypatch, width, "Mat*")
    assert max(map(len, shown)) <= width
    assert len(shown) > len(names(shell, "Mat*"))
    if width == 200:
        assert [line.split()[0] for line in shown] == ["op", *names(shell, "Mat*")]


def on_a_terminal(shell: Shell, monkeypatch: pytest.MonkeyPatch, width: int, name: str) -> list[str]:
    """The lines that a person sees, without their colours."""
    with monkeypatch.context() as terminal:
        terminal.setenv("FORCE_COLOR", "1")
        terminal.setenv("COLUMNS", str(width))
        ended = shell("ops", name)
    assert (ended.code, ended.complaint) == (0, "")
    assert STYLE.search(ended.output)
    return [line.rstrip() for line in STYLE.sub("", ended.output).splitlines()]


@pytest.mark.parametrize(
    ("arguments", "start"),
    [
        (("Matmul",), "UsageError: unknown op: got 'Matmul', expected a name or a pattern of TensorFlow 2.21.0's ops; did you"),
        (("Zzzzzz*",), "UsageError: unknown op: got 'Zzzzzz*', expected a name or a pattern of TensorFlow 2.21.0's ops\n"),
        (("MatMulx*",), "UsageError: unknown op: got 'MatMulx*', expected a name or a pattern of TensorFlow 2.21.0's ops; did"),
        (("--device", "gpu"), "UsageError: Invalid value for '--device': got 'gpu', expected CPU or GPU or DEFAULT or"),
        (("--dtype", "flot32"), "UsageError: Invalid value for '--dtype': got 'flot32', expected an element type such as"),
    ],
)
def test_what_is_no_op(shell: Shell, arguments: tuple[str, ...], start: str) -> None:
    ended = shell("ops", *arguments)
    assert (ended.code, ended.output) == (2, "")
    assert ended.complaint.startswith(start)


def test_the_nearest_name_is_told(shell: Shell) -> None:
    assert "; did you mean 'MatMul'?\n  `placesim ops` lists them all\n" in shell("ops", "matmul").complaint


@pytest.mark.slow
def test_an_op_is_told_without_what_others_need() -> None:
    code = "import sys; from placesim.cli import main; main(['ops', 'MatMul']); print(*sys.modules)"
    output = run_process((sys.executable, "-c", code), check=True).output
    assert output.startswith(MATMUL)
    modules = output.removeprefix(MATMUL).split()
    assert "placesim" in modules
    assert not {"numpy", "rich", "scipy", "placesim.ops.kernels.linalg.matmul"} & set(modules)
