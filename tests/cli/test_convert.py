"""`placesim convert`: between the forms of a graph, with the devices it got, cut by device."""

from __future__ import annotations

import json
import re
from pathlib import Path

import numpy as np
import pytest

import placesim
from placesim.formats.sources.loading import load
from placesim.formats.tensorflow.messages import Message, as_binary, parse, parse_text
from tests.cli.shell import ROOT, Shell

GRAPHS = sorted((ROOT / "graphs").glob("*.yaml"))
FILES = ROOT / "tests" / "data" / "tensorflow-files"
TOWERS = str(ROOT / "graphs" / "towers.yaml")


def message(path: Path) -> Message:
    """A GraphDef; attrs have no order."""
    data = path.read_bytes()
    return parse("GraphDef", data) if path.suffix == ".pb" else parse_text("GraphDef", data)


@pytest.mark.slow
@pytest.mark.parametrize("graph", GRAPHS, ids=lambda path: path.stem)
def test_there_and_back_is_the_same_graph(graph: Path, shell: Shell) -> None:
    for source, target in (
        (str(graph), "1.pb"),
        ("1.pb", "2.yaml"),
        ("2.yaml", "3.json"),
        ("3.json", "4.pbtxt"),
        ("4.pbtxt", "5.pb"),
    ):
        assert shell("convert", source, target).code == 0
    assert message(shell.directory / "1.pb") == message(shell.directory / "5.pb")


@pytest.mark.parametrize("name", ["frozen.pb", "frozen.pbtxt", "control.pb"])
def test_a_graph_def_loses_nothing_on_the_way(name: str, shell: Shell) -> None:
    assert shell("convert", str(FILES / name), "1.yaml").complaint == ""
    assert shell("convert", "1.yaml", "2.pb").code == 0
    assert message(shell.directory / "2.pb") == message(FILES / name)


UNSORTED = """
node {
  name: "c" op: "Const"
  attr { key: "value" value { tensor { dtype: DT_FLOAT tensor_shape { dim { size: 4 } } float_val: 2 } } }
  attr { key: "dtype" value { type: DT_FLOAT } }
}
node {
  name: "y" op: "f" input: "c"
  attr { key: "_b" value { func { name: "f" attr { key: "z" value { i: 1 } } attr { key: "a" value { i: 0 } } } } }
  attr { key: "_a" value { s: "" } }
}
library {
  function {
    signature {
      name: "f" input_arg { name: "x" type: DT_FLOAT }
      output_arg { name: "r" type: DT_FLOAT } output_arg { name: "q" type: DT_FLOAT }
    }
    node_def { name: "n" op: "Neg" input: "x" attr { key: "_z" value { b: true } } attr { key: "T" value { type: DT_FLOAT } } }
    ret { key: "r" value: "n:y:0" } ret { key: "q" value: "n:y:0" }
    attr { key: "_y" value { i: 1 } } attr { key: "_x" value { i: 2 } }
    resource_arg_unique_id { key: 1 value: 3 } resource_arg_unique_id { key: 0 value: 0 }
  }
}
versions { producer: 21 bad_consumers: 7 }
"""


@pytest.mark.parametrize("name", ["frozen.pb", "control.pb", "unsorted.pb"])
def test_a_binary_graph_def_comes_back_from_text_byte_by_byte(name: str, shell: Shell) -> None:
    data = (FILES / name).read_bytes() if name != "unsorted.pb" else bytes(as_binary("GraphDef", UNSORTED.encode()))
    (shell.directory / "1.pb").write_bytes(data)
    for source, target in (("1.pb", "2.pbtxt"), ("2.pbtxt", "3.pb"), ("3.pb", "4.pbtxt"), ("1.pb", "5.pb")):
        assert shell("convert", source, target) == (0, "", "")
    assert (shell.directory / "3.pb").read_bytes() == (shell.directory / "5.pb").read_bytes() == data
    assert (shell.directory / "4.pbtxt").read_bytes() == (shell.directory / "2.pbtxt").read_bytes()
    assert placesim.convert(shell.directory / "2.pbtxt", format="pb").content == data
    # a changed graph is no copy
    shell("convert", "1.pb", "6.pb", "--device", "*=/cpu:0")
    assert {node.device for node in message(shell.directory / "6.pb").node} == {"/device:CPU:0"}


def test_a_text_says_that_it_lacks_unknown_fields(shell: Shell) -> None:
    data = bytes(as_binary("GraphDef", b'node { name: "a" op: "NoOp" }'))
    (shell.directory / "1.pb").write_bytes(data[:1] + bytes([data[1] + 4]) + data[2:] + bytes.fromhex("9a06012a"))
    assert shell("convert", "1.pb", "2.pb").complaint == ""
    assert shell("convert", "1.pb", "2.pbtxt").complaint == "not in pbtxt: unknown fields\n"


def test_yaml_keeps_all_of_a_machine(shell: Shell) -> None:
    machine = """{cpu: {count: 2, memory: 1GiB}, xla_gpu: 1, gpu: {count: 2, memory: 8GiB, model: {name: Acme,
      memory: 16GiB, compute_capability: '7.0', pci_bus_id: ['0000:0a:00.0'], flops: 10e12, bandwidth: 500e9,
      rates: {float16: 20e12, float64: 1e12}, launch: 3e-6}},
      host: {name: mine, cores: 4, flops: 1e11, bandwidth: 1e10, rates: {float64: 4e10}, dispatch: 2e-6, launch: 4e-6}}"""
    nodes = "[{op: Const, name: a, value: 1.0}]"
    source = shell.write("m.yaml", f"tensorflow: '1.15'\ndevices: {machine}\nnodes: {nodes}\n")
    expected = load(shell.directory / source).file
    assert expected is not None
    for target in ("1.yaml", "2.json"):
        assert shell("convert", source, target) == (0, "", "")
        file = load(shell.directory / target).file
        assert file is not None
        assert str(file.inventory) == str(expected.inventory)
        assert file.graph.registry.release == expected.graph.registry.release
    assert shell("convert", source, "3.pb").complaint == "not in pb: tensorflow, devices\n"


def test_standard_output_is_yaml_or_what_is_asked_for(shell: Shell) -> None:
    assert shell("convert", TOWERS, "-").output.startswith("name: towers\n")
    assert json.loads(shell("convert", TOWERS, "-", "--format", "json").output)["raw"] is True
    assert shell("convert", TOWERS, "-", "--format", "pbtxt").output.startswith("node {\n")


def test_what_has_no_place_is_named(shell: Shell) -> None:
    assert shell("convert", TOWERS, "towers.pb").complaint == "not in pb: devices, config, run, ids (a, b, c, ...)\n"
    entries = "[{op: NoOp, name: a}, {scope: s, nodes: [{op: NoOp, name: a}, {op: NoOp}, {op: NoOp, id: NoOp}]}"
    Path("ids.yaml").write_text(f"nodes: {entries}, {{op: NoOp, name: b_1, id: b}}, {{op: NoOp, name: c, id: d}}]")
    assert shell("convert", "ids.yaml", "names.yaml").complaint == "not in yaml: ids (d)\n"
    assert shell("convert", TOWERS, "towers.json").complaint == "not in json: ids (a, b, c, ...)\n"
    assert "the values of its variables" in shell("convert", str(FILES / "tf2_model"), "model.yaml").complaint


def test_placed_devices_are_written(shell: Shell) -> None:
    assert shell("convert", TOWERS, "placed.yaml", "--placed", "--gpu", "1", "--soft-placement").code == 0
    file = load(shell.directory / "placed.yaml").file
    assert file is not None
    assert {node.device for node in file.graph.nodes} == {
        "/job:localhost/replica:0/task:0/device:CPU:0",
        "/job:localhost/replica:0/task:0/device:GPU:0",
    }


def test_options_that_change_nothing_are_named(shell: Shell) -> None:
    note = "Note: --gpu, --soft-placement have no effect without --placed or --partitioned\n"
    assert note in shell("convert", TOWERS, "-", "--gpu", "1", "--soft-placement", "--timeout", "60").complaint
    assert "Note" not in shell("convert", TOWERS, "-", "--placed", "--gpu", "4", "--device", "AddN=/gpu:0").complaint
    assert "Note: --cost has no effect without a NODE\n" in shell("explain", TOWERS, "--gpu", "4", "--cost").complaint
    report = shell.write("r.json", shell("place", TOWERS, "--gpu", "4", "--format", "json").output)
    for command in ("explain", "check", "show"):
        assert "Note: --gpu has no effect on the report r.json\n" in shell(command, report, "--gpu", "1").complaint
    said = shell("explain", report, "AddN", "--cost", "--no-soft-placement").complaint
    assert "Note: --no-soft-placement, --cost have no effect on the report r.json\n" in said


def test_a_file_for_each_device(shell: Shell) -> None:
    ended = shell("convert", TOWERS, "--partitioned", "parts", "--gpu", "4")
    assert ended.code == 0
    written = sorted(path.name for path in (shell.directory / "parts").iterdir())
    assert written == [f"job_localhost.replica_0.task_0.device_{name}.pb" for name in ("CPU_0", "GPU_2", "GPU_3")]
    ops: dict[str, list[str]] = {}
    for name in written:
        shell("convert", f"parts/{name}", "part.json")
        document = json.loads((shell.directory / "part.json").read_text())
        device = "/" + name.removesuffix(".pb").replace(".", "/").replace("_", ":").replace("CPU:", "CPU:")
        assert {node["device"] for node in document["nodes"]} == {device}
        ops[name.split("device_")[1]] = sorted(node["op"] for node in document["nodes"])
    assert ops["GPU_2.pb"] == ["Const", "Const", "MatMul", "_Send"]
    assert ops["CPU_0.pb"].count("_Recv") == 2


def test_a_graph_that_cannot_be_placed_writes_nothing(shell: Shell) -> None:
    ended = shell("convert", str(ROOT / "graphs" / "missing-gpu.yaml"), "placed.pb", "--placed")
    assert ended.code == 1
    assert "Cannot assign a device" in ended.complaint
    assert not (shell.directory / "placed.pb").exists()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ([TOWERS], "missing argument OUT"),
        (
            [TOWERS, "towers.txt"],
            "unknown extension: got 'towers.txt', expected one of .yaml, .yml, .json, .pb, .pbtxt, .onnx, or --format",
        ),
        ([TOWERS, "/dev/null/towers.pb"], "cannot write /dev/null/towers.pb"),
        (["nowhere.yaml", "out.pb"], "No such file or directory"),
    ],
)
def test_what_cannot_be_is_said(arguments: list[str], message: str, shell: Shell) -> None:
    ended = shell("convert", *arguments)
    assert (ended.code, ended.output) == (2, "")
    assert message in ended.complaint


def test_every_field_of_a_graph_def_goes_through_yaml(shell: Shell) -> None:
    text = """
        node { name: "x" op: "Placeholder" device: "/gpu:0"
          attr { key: "dtype" value { type: DT_FLOAT } } attr { key: "_more" value { list { i: [1, 2] } } }
          experimental_debug_info { original_node_names: "a" original_func_names: "f" } }
        node { name: "call" op: "Twice" input: "x" attr { key: "T" value { type: DT_FLOAT } } }
        library {
          function {
            signature { name: "Twice" input_arg { name: "a" type_attr: "T" } output_arg { name: "b" type_attr: "T" }
              attr { name: "T" type: "type" } description: "two of it" }
            node_def { name: "add" op: "Add" input: ["a", "a"] attr { key: "T" value { placeholder: "T" } } }
            ret { key: "b" value: "add:z:0" }
          }
          gradient { function_name: "Twice" gradient_func: "TwiceGradient" }
        }
        versions { producer: 2474 min_consumer: 12 bad_consumers: [7, 9] }
        debug_info { files: "model.py" }
    """
    shell.write("1.pbtxt", text)
    for source, target in (("1.pbtxt", "2.pb"), ("2.pb", "3.yaml"), ("3.yaml", "4.json"), ("4.json", "5.pb")):
        ended = shell("convert", source, target)
        assert ended.code == 0, ended.complaint
    assert message(shell.directory / "5.pb") == message(shell.directory / "1.pbtxt")


@pytest.mark.slow
@pytest.mark.parametrize("graph", GRAPHS, ids=lambda path: path.stem)
def test_a_converted_graph_prints_what_the_graph_printed(graph: Path, shell: Shell) -> None:
    (shell.directory / graph.name).write_bytes(graph.read_bytes())
    ways: tuple[tuple[str, ...], ...] = (("--format", "json", "--summary"),)
    forms: tuple[str, ...] = ("yaml", "json")
    if graph.stem in ("cond", "queue"):  # a report as JSON tells the most, and the texts are written from the same
        ways = ((), ("--log-placement", "--summary"), *ways)
    if graph.stem in ("alexnet", "cifar10-towers"):  # the others show the same in less time
        forms = forms[:1]
    command = "place" if graph.stem in ("alexnet", "cifar10-towers") else "run"  # their values take long to compute
    for form in forms:
        assert shell("convert", graph.name, f"converted.{form}").code == 0
    for arguments in ways:
        before = shell(command, graph.name, *arguments)
        for form in forms if arguments == ways[-1] else forms[:1]:
            after = shell(command, f"converted.{form}", *arguments)
            assert (after.code, located(after.output)) == (before.code, located(before.output))
            assert located(after.complaint) == located(before.complaint)


def located(text: str) -> str:
    """A text without the places in the file, which are others in another file, and the scope's place, which JSON lacks."""
    return re.sub(r"[\w.-]+\.(yaml|json)(:\d+)+", "PLACE", re.sub(r"  requested at .*\n", "", text))


FETCHES = """nodes:
  - {op: Placeholder, name: x, dtype: float32, shape: [2]}
  - {variable: v, initializer: {value: [1.0, 2.0]}}
  - {variable: w, initializer: {value: [1.0, 2.0]}, kind: resource}
  - {initializer: init}
  - {op: NoOp, name: nothing}
  - scope: part
    nodes:
      - {id: both, op: Unique, inputs: [[3, 1, 3]]}
      - {op: Neg, name: minus, inputs: [x]}
run:
  - fetch: [init]
  - {fetch: [v, w, part/minus, both, 'both:1', nothing, {'a label': 'x:0'}], feed: {x: {file: x.npy}}, repeat: 2}
  - {nodes: [{op: Add, name: late, inputs: [v, [1.0, 1.0]]}], fetch: [late], feed: {x: [5, 6]}}
  - {nodes: [{op: Unique, name: sink, inputs: [[7, 7]]}], feed: {x: [5, 6]}}
"""


@pytest.mark.parametrize("form", ["yaml", "json"])
def test_fetches_of_all_kinds_survive(form: str, shell: Shell) -> None:
    np.save(shell.directory / "x.npy", np.array([8, 9], np.float32))
    graph = shell.write("graph.yaml", FETCHES)
    for number, target in enumerate((f"once.{form}", f"elsewhere/twice.{form}")):
        source = graph if number == 0 else f"once.{form}"
        assert shell("convert", source, target).code == 0
        for arguments in ((), ("--format", "json")):
            before = shell("run", graph, *arguments)
            assert before.code == 0, before.complaint
            # the fed file lies beside the graph, not below the folder of what it was converted to
            assert shell("run", target, *arguments, "--allow-read", ".") == before


def test_labels_of_a_signature_survive(shell: Shell) -> None:
    assert shell("convert", str(FILES / "tf2_model"), "model.json").code == 0
    document = json.loads((shell.directory / "model.json").read_text())
    assert any(isinstance(fetch, dict) for step in document["run"] for fetch in step["fetch"])


@pytest.mark.parametrize("fetch", ["{a: 1}", "{1: a}", "{a: [b]}", "[a]"])
def test_a_wrong_label(fetch: str, shell: Shell) -> None:
    ended = shell("run", shell.write("g.yaml", f"nodes: [{{op: Const, name: a, value: 1}}]\nfetch: [{fetch}]\n"))
    assert (ended.code, ended.complaint.count("\n")) == (2, 1)
    assert ended.complaint.startswith("GraphFileError: g.yaml:2:9: wrong type of a ")
