"""The outputs that the guides show are what placesim prints, to the byte, where a line that a page wrapped is joined again."""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

import pytest

import placesim

GRAPHS = Path(__file__).parent.parent / "graphs"
TASK = "/job:localhost/replica:0/task:0"
K40C = f"Device mapping:\n{TASK}/device:GPU:0 -> device: 0, name: Tesla K40c, pci bus\nid: 0000:05:00.0\n"
K20M = "Device mapping:\n" + "".join(
    f"{TASK}/device:GPU:{i} -> device: {i}, name: Tesla K20m, pci bus\nid: 0000:{bus}:00.0\n"
    for i, bus in enumerate(("02", "03", "83", "84"))
)
PRODUCT = "[[ 22.  28.]\n [ 49.  64.]]\n"


class GuideExample(NamedTuple):
    """What a guide shows for a graph, its lines wrapped as on the page."""

    graph: str
    text: str
    style: str = "classic"


OUTPUTS = (
    GuideExample(
        "logging",
        f"{K40C}b: {TASK}/device:GPU:0\na: {TASK}/device:GPU:0\nMatMul: {TASK}/device:GPU:0\n{PRODUCT}",
    ),
    GuideExample("manual", f"{K40C}b: {TASK}/cpu:0\na: {TASK}/cpu:0\nMatMul: {TASK}/device:GPU:0\n{PRODUCT}"),
    GuideExample(
        "towers",
        f"{K20M}Const_3: {TASK}/device:GPU:3\nConst_2: {TASK}/device:GPU:3\nMatMul_1: {TASK}/device:GPU:3\n"
        f"Const_1: {TASK}/device:GPU:2\nConst: {TASK}/device:GPU:2\nMatMul: {TASK}/device:GPU:2\nAddN: {TASK}/cpu:0\n"
        "[[  44.   56.]\n [  98.  128.]]\n",
    ),
)
ERRORS = (
    GuideExample(
        "missing-gpu",
        "InvalidArgumentError: Invalid argument: Cannot assign a device to node 'b':\n"
        "Could not satisfy explicit device specification '/device:GPU:2'\n"
        "   [[Node: b = Const[dtype=DT_FLOAT, value=Tensor<type: float shape: [3,2]\n"
        '   values: 1 2 3...>, _device="/device:GPU:2"]()]]\n',
    ),
    GuideExample(
        "assign-missing-cpu",
        "InvalidArgumentError: Cannot assign a device for operation conv1_2/Assign_3/value: node conv1_2/Assign_3/value "
        "(defined at assign-missing-cpu.yaml:18) was explicitly assigned to /device:CPU:1 but available devices are [ "
        f"{TASK}/device:CPU:0, {TASK}/device:XLA_CPU:0 ]. Make sure the device specification refers to a valid device.\n",
        "modern",
    ),
)
VARIABLES = tuple(
    f"{layer}/{variable}/Initializer/random_uniform/{part}" if layer != "Shape" else "Shape"
    for layer, variables in (("conv1", ("weights", "biases")), ("Shape", ("",)), ("conv2", ("weights", "biases")))
    for variable in variables
    for part in (("shape", "min", "max") if layer != "Shape" else ("",))
)


def unwrapped(text: str) -> str:
    """A page's text with its wrapped lines joined."""
    for start in ("id: ", "Could not satisfy", "   values: "):
        text = text.replace("\n" + start, " " + start.strip(" ") + (" " if start.endswith(" ") else ""))
    return text


@pytest.mark.parametrize("shown", OUTPUTS, ids=lambda shown: shown.graph)
def test_an_output_is_as_shown(shown: GuideExample) -> None:
    report = placesim.run(GRAPHS / f"{shown.graph}.yaml", log_style=shown.style)
    assert report.text() == unwrapped(shown.text)


@pytest.mark.parametrize("shown", ERRORS, ids=lambda shown: shown.graph)
def test_an_error_is_as_shown(shown: GuideExample) -> None:
    with (GRAPHS / f"{shown.graph}.yaml").open() as file, pytest.raises(placesim.InvalidArgumentError) as caught:
        placesim.run(file, log_style=shown.style)
    told = caught.value.report.error_text().replace(f"{GRAPHS}/", "")
    assert told.startswith(unwrapped(shown.text))


def test_the_log_of_the_variables_ends_as_shown() -> None:
    shown = [f"{name}: (Const): {TASK}/device:CPU:0" for name in VARIABLES]
    lines = placesim.run(GRAPHS / "variable-scopes.yaml").text().splitlines()
    assert lines[-len(shown) :] == shown
    assert len(shown) == 13


def test_soft_placement_gives_what_it_gives_on_a_present_device() -> None:
    report = placesim.run(GRAPHS / "soft-placement.yaml", log_style="classic")
    assert report.text() == placesim.run(GRAPHS / "logging.yaml", log_style="classic").text()


def test_each_graph_says_what_it_shows() -> None:
    for path in GRAPHS.glob("*.yaml"):
        assert path.read_text().startswith("# "), path.name


def test_the_issues_graphs_are_there() -> None:
    named = "logging manual missing-gpu soft-placement towers device-count variable-scopes assign-missing-cpu parallelism"
    assert {*named.split(), "alexnet", "cifar10-towers"} <= {path.stem for path in GRAPHS.glob("*.yaml")}
