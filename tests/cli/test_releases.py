"""`--tensorflow`: on the command line, in a file of settings, for scripts, and for models that TensorFlow 1.15 saved."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest

import placesim
from placesim.formats.sources import scripts
from tests.cli.shell import ROOT, Shell
from tests.cli.warm import run_warm
from tests.scripts import run_in_fork

FILES = ROOT / "tests" / "data" / "tensorflow-files-1.15"
EXPECTED: dict[str, Any] = json.loads((FILES / "expect.json").read_text())
GRAPH = "nodes: [{op: Const, name: a, value: 1.0}]\n"
SCRIPT = """\
import tensorflow as tf
print(tf.__version__)
x = tf.constant([[1.0, 2.0]])
v = tf.get_variable("v", [2, 2], initializer=tf.ones_initializer())
y = tf.nn.max_pool(tf.reshape(tf.matmul(x, v), [1, 2, 1, 1]), [1, 2, 1, 1], [1, 1, 1, 1], "VALID")
train = tf.train.GradientDescentOptimizer(0.5).minimize(y)
session = tf.Session()
session.run(tf.global_variables_initializer())
session.run(train)
print(session.run(v).tolist(), [device.device_type for device in session.list_devices()])
with tf.device("/gpu:7"):
    z = tf.identity(y, name="z")
try:
    session.run(z)
except tf.errors.InvalidArgumentError as error:
    print(error.message.split(" was explicitly")[0])
"""


def test_a_file_of_settings_and_the_environment(shell: Shell, monkeypatch: pytest.MonkeyPatch) -> None:
    name = shell.write("g.yaml", GRAPH)
    shell.write("placesim.toml", 'tensorflow = "1.15"\n')
    assert "XLA_CPU:0 -> device: XLA_CPU device" in shell("place", name).output
    monkeypatch.setenv("PLACESIM_TENSORFLOW", "2.21")
    assert "XLA_CPU" not in shell("place", name).output


def test_an_unknown_release(shell: Shell) -> None:
    ended = shell("place", shell.write("g.yaml", GRAPH), "--tensorflow", "1.14")
    assert (ended.code, ended.complaint.splitlines()[0]) == (
        2,
        "UsageError: Invalid value for '--tensorflow': got '1.14', expected 1.15 or 2.21; did you mean '1.15'?",
    )
    ended = shell("place", shell.write("g.yaml", f"tensorflow: 1.14\n{GRAPH}"))
    assert (ended.code, ended.complaint) == (
        2,
        "GraphFileError: g.yaml:1:13: unknown release of TensorFlow: got 1.14, expected 1.15 or 2.21\n",
    )


def test_a_report_says_its_release(shell: Shell) -> None:
    name = shell.write("g.yaml", GRAPH)
    reports = [
        json.loads(shell("place", name, "--format", "json", "--tensorflow", release).output) for release in ("1.15", "2.21")
    ]
    assert [report.get("tensorflow") for report in reports] == ["1.15", None]


def test_ops_of_a_release(shell: Shell) -> None:
    assert shell("ops", "Rpc", "--tensorflow", "1.15").output.startswith("Rpc(address: string, ")
    ended = shell("ops", "Rpc")
    assert ended.code == 2
    assert "TensorFlow 1.15 has it (--tensorflow 1.15)" in ended.complaint


def test_a_converted_graph_keeps_its_release(shell: Shell) -> None:
    name = shell.write("g.yaml", f"tensorflow: 1.15\ndevices: {{cpu: 2, xla_cpu: 0}}\n{GRAPH}")
    text = shell("convert", name, "-").output
    assert "tensorflow: '1.15'\n" in text
    assert "xla_cpu: 0" in text


@pytest.mark.parametrize("release", ["1.15", "2.21"])
def test_a_model_that_1_15_saved_opens_in_either(release: str) -> None:
    report = placesim.run(FILES / "model", feed=EXPECTED["feed"], tensorflow=release)
    assert report.results["n"] == EXPECTED["outputs"]["n"]
    np.testing.assert_allclose(report.results["y"], EXPECTED["outputs"]["y"], rtol=1e-5)


@pytest.mark.slow
def test_a_script_is_told_which_tensorflow_it_has(shell: Shell, monkeypatch: pytest.MonkeyPatch) -> None:
    script = shell.directory / shell.write("s.py", SCRIPT)
    ended = run_warm(shell.directory, "run", str(script), "--tensorflow", "1.15", "--gpu", "1")
    assert ended.output.splitlines() == [
        "1.15.5",
        "[[0.5, 1.0], [0.0, 1.0]] ['CPU', 'XLA_CPU', 'GPU']",
        f"Cannot assign a device for operation z: node z (defined at {script}:12) ",
    ]
    monkeypatch.setattr(scripts, "_run", run_in_fork)
    report = placesim.place(script, tensorflow="1.15")
    assert [device.type for device in report.devices] == ["CPU", "XLA_CPU"]
