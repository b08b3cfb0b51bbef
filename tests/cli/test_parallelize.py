"""`placesim parallelize` and `placesim.parallelize`: the rewritten graph, its report, and its errors."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
import yaml

import placesim
from tests.cli.shell import ROOT, Shell
from tests.cli.warm import run_warm
from tests.planning.strategies.models import dense
from tests.planning.strategies.test_recomputation import deep

DATASET = str(ROOT / "graphs" / "dataset.yaml")
MODEL = str(ROOT / "graphs" / "model-parallel.yaml")


@pytest.fixture
def losses() -> list[float]:
    return [float(row.array) for row in placesim.run(DATASET).results if row.name.startswith("loss")]


def test_the_graph_is_printed_or_written_and_the_report_told(shell: Shell, losses: list[float]) -> None:
    printed = shell("parallelize", DATASET, "--replicas", "2")
    assert printed.code == 0
    assert printed.complaint.splitlines() == [
        "loss: loss, a mean over the batch of 2 (input/next, input/next:1)",
        "copies: 2 replicas, each with 26 nodes (22 for gradients)",
        "gradients: averaged on the CPU",
        "variables: 1, on the CPU",
        "nodes: 45 before, 81 after",
        "note: the machine has 1 GPU, and the new graph's machine has 2",
    ]
    found = yaml.safe_load(printed.output)
    assert found["devices"]["gpu"] == 2
    assert {"tower_0", "tower_1"} <= {node["scope"] for node in found["nodes"] if "scope" in node}
    for form in ("yaml", "json", "pb", "pbtxt"):
        written = shell("parallelize", DATASET, "--replicas", "2", "--output", f"towers.{form}")
        assert (written.code, written.output) == (0, "")
        assert written.complaint.startswith(printed.complaint)
    assert (shell.directory / "towers.yaml").read_text("utf-8") == printed.output
    again = placesim.run(shell.directory / "towers.json").results
    np.testing.assert_allclose([row.array for row in again if row.name.startswith("loss")], losses, rtol=1e-5)


def test_python_gets_a_graph_for_all_functions(losses: list[float], tmp_path: Path, shell: Shell) -> None:
    graph = placesim.parallelize(placesim.load(DATASET), replicas=2, variables="mirrored", reduce="ring")
    report = shell("parallelize", DATASET, "--replicas", "2", "--variables", "mirrored", "--reduce", "ring").complaint
    assert graph.text() == report
    assert repr(graph) == f"<placesim parallel graph {DATASET}>"
    assert graph.rewrite.batch == {"input/next": 2, "input/next:1": 2}
    found = placesim.run(graph, execute=True).results
    np.testing.assert_allclose([row.array for row in found if row.name.startswith("loss")], losses, rtol=1e-5)
    assert placesim.simulate(graph).seconds > 0
    assert placesim.place(graph, clear_devices=True).text() != placesim.place(graph).text()
    assert placesim.convert(graph, tmp_path / "towers.pb").content
    with pytest.raises(placesim.UsageError, match="not a training graph"):
        placesim.parallelize(ROOT / "graphs" / "towers.yaml", accumulate=2)


def deep_network(shell: Shell, layers: int, steps: int | None = None) -> str:
    network = deep(layers)
    network["run"] = network["run"][:steps]
    return shell.write("deep.json", json.dumps(network, default=np.ndarray.tolist))


@pytest.mark.slow
def test_recomputation_is_reported_alone_and_with_replicas(shell: Shell) -> None:
    network = deep_network(shell, 12, steps=2)
    recomputed = ["recomputed: 12 forward nodes, in 2 segments", "kept for gradients: outputs of 7 forward nodes"]
    alone = shell("parallelize", network, "--recompute", "sqrt", "--output", "again.yaml")
    assert (alone.code, alone.output) == (0, "")
    *lines, memory, time = alone.complaint.splitlines()
    assert lines == ["loss: loss", *recomputed, "nodes: 232 before, 244 after"]
    assert memory == "predicted memory of GPU:0: 124 KiB before, 76 KiB after"
    assert time.startswith("predicted step: ")
    assert "scope: recompute" in (shell.directory / "again.yaml").read_text("utf-8")
    both = placesim.parallelize(shell.directory / network, replicas=2, recompute=("sqrt",)).text().splitlines()
    assert both[:3] == [*recomputed, "loss: loss, a mean over the batch of 256 (x)"]
    assert [line.partition(": ")[0] for line in both[-3:]] == ["nodes", "predicted memory of GPU:0", "predicted step"]


@pytest.mark.slow
def test_half_precision_is_reported(shell: Shell) -> None:
    network = deep_network(shell, 4)
    options = ("--precision", "float16", "--loss-scale", "dynamic", "--output", "mixed.yaml")
    found = shell("parallelize", network, *options)
    assert (found.code, found.output) == (0, "")
    assert found.complaint.splitlines()[:4] == [
        "loss: loss",
        "half precision: 29 of 44 nodes in float16, with 11 casts",
        "loss scale: dynamic, 32768 first",
        "nodes: 88 before, 160 after",
    ]
    losses = [row.array for row in placesim.run(shell.directory / "mixed.yaml").results if row.name == "loss"]
    expected = [row.array for row in placesim.run(shell.directory / network).results if row.name == "loss"]
    np.testing.assert_allclose(losses, expected, rtol=1e-2, atol=1e-5)
    same = placesim.parallelize(shell.directory / network, precision="float16", loss_scale="dynamic")
    assert same.text() == found.complaint


SCRIPT = """
import numpy as np
import tensorflow.compat.v1 as tf

tf.disable_v2_behavior()
with tf.device("/gpu:0"):
    x = tf.placeholder(tf.float32, [4, 3], name="x")
    loss = tf.reduce_mean(tf.square(tf.layers.dense(x, 2)))
    train = tf.train.GradientDescentOptimizer(0.1).minimize(loss)
with tf.Session() as session:
    session.run(tf.global_variables_initializer())
    session.run([loss, train], {x: np.ones([4, 3])})
    session.run(loss, {x: np.zeros([4, 3])})
"""


@pytest.mark.slow
def test_a_script_with_gpus_runs_to_its_end_on_a_machine_with_gpus(shell: Shell) -> None:
    (shell.directory / "train.py").write_text(SCRIPT, encoding="utf-8")
    arguments = ("parallelize", "train.py", "--replicas", "2", "--until", "end")
    complaint = run_warm(shell.directory, *arguments).complaint
    assert "All available devices [/job:localhost/replica:0/task:0/device:CPU:0]" in complaint
    found = run_warm(shell.directory, *arguments, "--gpu", "1", "--output", "towers.yaml")
    assert (found.code, found.output) == (0, "")
    assert len(yaml.safe_load((shell.directory / "towers.yaml").read_text("utf-8"))["run"]) == 3


def test_a_pipeline_is_reported_with_its_stages_and_bubble(shell: Shell) -> None:
    (shell.directory / "dense.json").write_text(json.dumps(dense("adam"), default=np.ndarray.tolist), encoding="utf-8")
    one = shell("parallelize", "dense.json", "--stages", "2", "--stage", "logits", "--output", "one.yaml")
    assert (one.code, one.output) == (0, "")
    first, *stages, memory, bubble, nodes = one.complaint.splitlines()
    assert (first, nodes) == ("loss: loss", "nodes: 127 before, 127 after")
    assert [line.partition(", forward ")[0] for line in stages] == [
        "stage 0 on GPU 0: xw to h (6 nodes)",
        "stage 1 on GPU 1: logits to loss (5 nodes)",
    ]
    assert memory.startswith("memory of the GPUs: about ")
    assert bubble.startswith("bubble (1f1b, 1 micro-batch): GPUs are idle for ")
    assert bubble.endswith(", with equal stages and free transfers 50.0%")
    several = placesim.parallelize(
        shell.directory / "dense.json", stages=2, micro_batches=4, stage=["logits"], gpu_model="Tesla V100-SXM2-16GB"
    )
    assert several.text().splitlines()[3].endswith(", with equal stages and free transfers 20.0%")
    assert "variables: 3, on the GPUs of their stages" in several.text()
    (task,) = several.rewrite.file.inventory or ()
    assert (task.gpu, task.gpu_model.name) == (4, "Tesla V100-SXM2-16GB")


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        (
            (DATASET,),
            "no strategy: got 1 replica, no accumulation, no stages, no recomputation and no precision, "
            "expected --replicas N, --accumulate N, --stages N, --recompute sqrt or --precision float16",
        ),
        ((DATASET, "--precision", "float16", "--loss-scale", "much"), "got 'much', expected a number or dynamic"),
        ((DATASET, "--loss-scale", "8", "--accumulate", "2"), "no half precision: got --loss-scale, expected --precision"),
        ((DATASET, "--recompute", "inputs"), "no such scope: got 'inputs' in --recompute, expected auto, sqrt, a number"),
        ((DATASET, "--replicas", "3"), "cannot divide the batch into equal parts: got a batch of 2, expected a multiple of 3"),
        ((MODEL, "--replicas", "2"), "name the tensors that hold the batch with --split"),
        ((MODEL, "--replicas", "2", "--split", "w"), "no such tensor: got 'w' in --split"),
        (
            (DATASET, "--accumulate", "2", "--output", "out.onnx"),
            "wrong format: got onnx, expected one of yaml, json, pb, pbtxt",
        ),
        ((DATASET, "--accumulate", "2", "--output", "out.txt"), "unknown extension: got 'out.txt'"),
    ],
)
def test_what_cannot_be_rewritten_is_refused(arguments: tuple[str, ...], expected: str, shell: Shell) -> None:
    found = shell("parallelize", *arguments)
    assert (found.code, found.output) == (2, "")
    assert expected in found.complaint
