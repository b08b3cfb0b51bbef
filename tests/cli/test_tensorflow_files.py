"""Files that TensorFlow wrote, wherever the command line takes a graph: read, counted, placed and run as recorded."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from placesim.api.runs import run
from tests.cli.shell import ROOT, Shell
from tests.cli.warm import start_warm

FILES = ROOT / "tests" / "data" / "tensorflow-files"
EXPECTED: list[dict[str, Any]] = json.loads((FILES / "expect.json").read_text())
BATCH = [[1.0, 2.0, 3.0, 4.0, 5.0, 6.0]]


def path_of(case: dict[str, Any]) -> str:
    return str(FILES / case["path"])


def flags_of(case: dict[str, Any]) -> list[str]:
    flags = ["--cpu", "1", "--gpu", "2", "--soft-placement"]
    for option in ("tag", "signature"):
        flags += [f"--{option}", case[option]] if option in case else []
    return flags + (["--checkpoint", str(FILES / case["checkpoint"])] if "checkpoint" in case else [])


@pytest.mark.parametrize("case", EXPECTED, ids=lambda case: case["path"])
def test_a_file_is_placed_and_its_annotations_counted(case: dict[str, Any], shell: Shell) -> None:
    ended = shell("place", path_of(case), *flags_of(case), "--format", "json")
    document = json.loads(ended.output)
    assert ended.code == 0
    assert document["annotations"] == case["devices"]
    assert len(document["placements"]) >= case["nodes"]


@pytest.mark.parametrize("case", EXPECTED, ids=lambda case: case["path"])
def test_a_file_runs_to_the_recorded_outputs(case: dict[str, Any], shell: Shell) -> None:
    feeds = [f"--feed={name}={json.dumps(value)}" for name, value in case["feed"].items()]
    fetches = [] if "signature" in case else [f"--fetch={name}" for name in case["outputs"]]
    ended = shell("run", path_of(case), *flags_of(case), *feeds, *fetches, "--format", "json")
    results = {row["name"]: row["value"] for row in json.loads(ended.output)["results"]}
    assert ended.code == 0
    assert results.keys() == case["outputs"].keys()
    for name, value in case["outputs"].items():
        if isinstance(value, list) and isinstance(value[0], str):
            assert results[name] == value
        else:
            np.testing.assert_allclose(results[name], value, rtol=1e-5, atol=1e-6)


def test_a_signature_runs_from_python() -> None:
    case = EXPECTED[0]
    feed = {name: np.array(value, "f4") for name, value in case["feed"].items()}
    report = run(path_of(case), feed=feed, fetch="y", gpu=2, soft_placement=True)
    np.testing.assert_allclose(report.results["y"], case["outputs"]["y"], rtol=1e-5)


def test_devices_are_dropped_and_set(shell: Shell) -> None:
    flags = ("--gpu", "2", "--clear-devices", "--device", "l1/*=/gpu:0", "--device", "xw*=cpu:0", "--format", "json")
    document = json.loads(shell("place", str(FILES / "frozen.pb"), *flags).output)
    assert document["annotations"] == {"/device:CPU:0": 2, "/device:GPU:1": 5}, (
        "what came with the file, not what was made of it"
    )
    requested = {row["node"]: row["requested"] for row in document["placements"]}
    assert requested["l1/weights"] == "/device:GPU:0"
    assert requested["xw_plus_b"] == "/device:CPU:0"
    assert requested["x"] == ""


def test_the_number_of_annotations_is_said_beside_the_text(shell: Shell) -> None:
    ended = shell("place", str(FILES / "frozen.pb"), "--gpu", "2")
    assert "device annotations in the file: 7 (/device:CPU:0: 2, /device:GPU:1: 5)\n" in ended.complaint
    assert "annotations" not in ended.output


def test_a_model_without_a_checkpoint_is_initialised_by_its_own_ops(shell: Shell) -> None:
    meta_graph = str(FILES / "checkpoint_ref" / "model.ckpt.meta")
    ended = shell("run", meta_graph, "--soft-placement", "--fetch", "y:0", "--feed", f"x={BATCH}", "--format", "json")
    assert ended.code == 0
    assert np.shape(json.loads(ended.output)["results"][0]["value"]) == (1, 2)


@pytest.mark.slow
def test_a_pipe_and_a_path_give_the_same(shell: Shell) -> None:
    arguments = ("--clear-devices", "--feed", f"x={BATCH}", "--format", "json")
    from_file = shell("run", str(FILES / "frozen.pb"), *arguments)
    with start_warm("run", "-", *arguments, stdin=subprocess.PIPE) as process:
        output, complaint = process.communicate((FILES / "frozen.pb").read_bytes(), timeout=60)
    assert from_file == (process.returncode, output.decode(), complaint.decode())
    assert from_file.code == 0


@pytest.mark.parametrize(
    ("name", "flags", "message"),
    [
        (
            "tf2_model",
            ["--signature", "serving"],
            "no signature 'serving' in the model, with available signatures: 'serving_default'",
        ),
        ("tf2_model", ["--tag", "train"], "Could not find meta graph def matching supplied tags: { train }"),
        ("frozen.pb", ["--tag", "serve"], "--tag does not apply"),
        ("frozen.pb", ["--signature", "x"], "--signature does not apply"),
        ("frozen.pb", ["--device", "conv*=/gpu:0"], "no node matches 'conv*' in --device: got 'conv*=/gpu:0'"),
        ("frozen.pb", ["--device", "conv*"], "wrong device: got 'conv*', expected PATTERN=DEVICE"),
        ("frozen.pb", ["--device", "x=/gpu:0:1:2"], "device spec"),
        ("frozen.pb", ["--checkpoint", "nowhere/model"], "nowhere/model"),
        ("checkpoint_ref/model.ckpt.meta", [], "nothing to run: got a model without a signature"),
        ("checkpoint_ref/model.ckpt.index", [], "not a TensorFlow graph: got a checkpoint's index"),
        ("checkpoint_ref", [], "got a directory without saved_model.pb"),
    ],
)
def test_what_cannot_be_is_said(name: str, flags: list[str], message: str, shell: Shell) -> None:
    ended = shell("run", str(FILES / name), *flags)
    assert ended.code in (1, 2)
    assert message in ended.complaint
    assert "Traceback" not in ended.complaint


def test_a_file_of_ours_has_no_tags(shell: Shell) -> None:
    ended = shell("run", str(ROOT / "graphs" / "logging.yaml"), "--tag", "serve")
    assert (ended.code, ended.output) == (2, "")
    assert "--tag does not apply: got a graph file" in ended.complaint


def test_a_graph_file_takes_a_checkpoint_and_devices(shell: Shell) -> None:
    entries = "\n".join(
        f"  - {{op: VariableV2, name: {name}, attrs: {{dtype: float32, shape: {shape}}}}}"
        for name, shape in (("l1/weights", [6, 5]), ("l1/biases", [5]))
    )
    graph = shell.write("graph.yaml", f"raw: true\nnodes:\n{entries}\n")
    checkpoint = FILES / "checkpoint_ref" / "model.ckpt"
    ended = shell("run", graph, "--checkpoint", str(checkpoint), "--device", "*=/cpu:0", "--format", "json")
    document = json.loads(ended.output)
    assert document["error"] is None, document["error"]
    assert {row["requested"] for row in document["placements"]} == {"/device:CPU:0"}
    assert [np.shape(row["value"]) for row in document["results"]] == [(6, 5), (5,)]


@pytest.mark.parametrize("name", ["explain", "check", "show"])
def test_every_command_reads_them(name: str, shell: Shell) -> None:
    rules = ["--rule", "no-soft-fallback"] if name == "check" else []
    ended = shell(name, str(FILES / "frozen.pb"), "--gpu", "2", *rules)
    assert ended.code == 0, ended.complaint
    assert Path(FILES / "frozen.pb").exists()


def test_the_signatures_of_a_model(shell: Shell) -> None:
    ended = shell("show", str(FILES / "tf2_model"), "--signatures")
    assert ended == (
        0,
        "signature\twhat\targument\ttype\tshape\ttensor\n"
        "serving_default\tinput\tx\tfloat32\t[?,4]\tserving_default_x:0\n"
        "serving_default\toutput\tn\tint32\t[]\tStatefulPartitionedCall:0\n"
        "serving_default\toutput\ty\tfloat32\t[?,3]\tStatefulPartitionedCall:1\n",
        "",
    )


def test_a_model_that_is_fed_too_little_says_what_it_takes(shell: Shell) -> None:
    assert "  --signature serving_default takes x (float32 [?,4])\n" in shell("run", str(FILES / "tf2_model")).complaint


@pytest.mark.parametrize(("graph", "more"), [("frozen.pb", ()), ("tf2_model", ("--format", "dot"))])
def test_signatures_that_cannot_be_shown(shell: Shell, graph: str, more: tuple[str, ...]) -> None:
    ended = shell("show", str(FILES / graph), "--signatures", *more)
    assert (ended.code, ended.output) == (2, "")
    assert "signatures" in ended.complaint
