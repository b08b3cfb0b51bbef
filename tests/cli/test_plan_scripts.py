"""Plans of scripts as Python: a device function for `tf.device`, and a patch of the lines that open scopes."""

from __future__ import annotations

import json
import subprocess
from itertools import chain
from pathlib import Path
from typing import Any

import pytest

from placesim.core.errors import UsageError
from placesim.formats.sources.loading import load
from placesim.machine.options import make_options
from placesim.studies.plan_files import patch_note, write_requests
from placesim.studies.plan_functions import DeviceRequests
from placesim.studies.plan_patches import patch_script
from tests.cli.warm import run_warm

MODEL = """\
import numpy as np
import tensorflow as tf


def dense(x, units, name):
    with tf.variable_scope(name):
        weights = tf.get_variable("weights", [x.shape[1], units])
        return tf.nn.relu(tf.matmul(x, weights))


def build():
    x = tf.placeholder(tf.float32, [2048, 2048], name="x")
    towers = []
    for i in range(2):
        with tf.name_scope("tower_%d" % i):
            towers.append(tf.matmul(tf.matmul(x, x, name="a"), x, name="b"))
    with tf.device("/gpu:0"):
        joined = tf.add_n(towers, name="joined")
    hidden = dense(joined, 2048, "one")
    hidden = dense(hidden, 2048, "two")
    loss = tf.reduce_mean(hidden, name="loss")
    return x, tf.train.GradientDescentOptimizer(0.1).minimize(loss)


x, train = build()
with tf.Session() as sess:
    sess.run(tf.global_variables_initializer())
    sess.run(train, {x: np.zeros([2048, 2048], np.float32)})
"""
LOOP = """\
import tensorflow as tf

x = tf.ones([8, 8])
y = tf.while_loop(lambda i, x: i < 5, lambda i, x: (i + 1, tf.nn.relu(x)), [0, x])[1]
"""
MACHINE = ("--gpu", "2", "--gpu-model", "Tesla V100-SXM2-16GB")
FEW = ("--evaluations", "20", "--jobs", "1", "--format", "json")


def _plan(folder: Path, *arguments: str) -> tuple[dict[str, Any], str]:
    """The JSON object of a plan, and its complaint after the line that says how far the script ran."""
    (folder / "model.py").write_text(MODEL)
    ended = run_warm(folder, "plan", "model.py", *MACHINE, *FEW, *arguments)
    assert ended.code == 0, ended.complaint
    return json.loads(ended.output), ended.complaint.partition("\n")[2]


def _apply(folder: Path, name: str) -> None:
    subprocess.run(["git", "apply", "-p0", name], cwd=folder, check=True)


def _step_seconds(folder: Path, script: str) -> float:
    ended = run_warm(folder, "simulate", script, *MACHINE, "--format", "json")
    assert ended.code == 0, ended.complaint
    seconds: float = json.loads(ended.output)["seconds"]
    return seconds


@pytest.mark.slow
def test_a_device_function_places_a_script_as_planned(tmp_path: Path) -> None:
    calls = MODEL.replace(
        "x, train = build()", "import planned\nwith tf.device(planned.planned_device):\n    x, train = build()"
    )
    (tmp_path / "calls.py").write_text(calls)
    for arguments in ((), ("--free", "joined")):
        told, complaint = _plan(tmp_path, *arguments, "--output", "planned.py")
        assert complaint == ""
        assert _step_seconds(tmp_path, "calls.py") == told["seconds"]
    assert "placesim" not in (tmp_path / "planned.py").read_text().partition('"""\n\n')[2]  # it needs nothing but Python


@pytest.mark.slow
def test_a_loop_is_written_whose_entry_runs_on_another_device_than_it_is_placed_on(tmp_path: Path) -> None:
    (tmp_path / "model.py").write_text(LOOP)
    words = ("--gpu", "2", "--by", "node", "--device", "while/Enter*=/gpu:1", "--output", "planned.yaml")
    planned = run_warm(tmp_path, "plan", "model.py", *FEW, *words)
    assert planned.code == 0, planned.complaint
    placed = run_warm(tmp_path, "place", "planned.yaml", "--log-filter", "while/[EM]*e*").output
    # the partitioner runs it where the node is that reads it
    assert {line.rpartition(" ")[0]: line[-5:] for line in placed.splitlines() if line.startswith("while")} == {
        "while/Enter: (Enter):": "GPU:1",
        "while/Enter_1: (Enter):": "GPU:1",
        "while/Merge: (Merge):": "CPU:0",
        "while/Merge_1: (Merge):": "CPU:0",
    }
    simulated = run_warm(tmp_path, "simulate", "planned.yaml", "--format", "json")
    assert json.loads(simulated.output)["seconds"] == json.loads(planned.output)["seconds"]


def test_a_patched_script_takes_the_planned_time(tmp_path: Path) -> None:
    told, complaint = _plan(tmp_path, "--changes", "1", "--output", "plan.patch")
    assert complaint == ""
    (edit,) = told["edits"]
    _apply(tmp_path, "plan.patch")
    assert f'tf.device({{"{edit["path"]}": "/gpu:1"}}.get(' in (tmp_path / "model.py").read_text()
    assert _step_seconds(tmp_path, "model.py") == told["seconds"] < told["curve"][0]["seconds"]


@pytest.mark.slow
def test_a_patch_of_gradients_alone_is_refused_with_the_ways_to_place_them(tmp_path: Path) -> None:
    script = tmp_path / "model.py"
    script.write_text(MODEL)
    options = make_options({"gpu": 2})
    loaded = load(script, None, options)
    assert loaded.file is not None, loaded.error
    node = next(node.name for node in loaded.file.graph.nodes if node.op == "MatMul" and node.name.startswith("gradients/"))
    device = "/job:localhost/replica:0/task:0/device:GPU:1"
    requests = DeviceRequests("model", "a plan", {node: device}, {f"{node}/": device}, (), {})
    with pytest.raises(UsageError, match=r"no line of the script.*`colocate_gradients_with_ops=True`.*`--output FILE.py`"):
        list(write_requests(loaded, options, requests, tmp_path / "plan.patch", lambda told: None))


@pytest.mark.slow
def test_a_patch_says_which_edits_no_line_can_express(tmp_path: Path) -> None:
    told, complaint = _plan(tmp_path, "--evaluations", "200", "--output", "plan.diff")
    # a layer's gradients belong to its edit, and no line of the script makes them alone
    layers = {edit["path"]: edit["gradients"] for edit in told["edits"] if edit["gradients"]}
    assert all(scopes == [f"gradients/{path}"] for path, scopes in layers.items())
    left = [edit["path"] for edit in told["edits"] if edit["path"].startswith("gradients/")] + [*chain(*layers.values())]
    assert left
    assert complaint.startswith(f"plan.diff: no line can express {len(left)} edit")
    lost = [name for move in told["moves"] for name in move["nodes"] if name.startswith("gradients/")]
    assert f"{len(lost)} nodes (" in complaint
    assert "are not on the planned device" in complaint
    assert "`colocate_gradients_with_ops=True`" in complaint
    refused = run_warm(tmp_path, "plan", "other.yaml", "--output", "plan.patch")
    assert refused.code == 2


def test_a_patch_is_silent_about_edits_whose_nodes_follow_their_layers() -> None:
    edits = ["gradients/one/", "gradients/two/"]
    assert patch_note(edits, ["loss", "gradients/loss_grad/x"]) == (
        "2 nodes (loss, gradients/loss_grad/x) are not on the planned device; `--output FILE.py` writes a device function"
    )
    note = patch_note(edits, ["gradients/two/MatMul"])
    assert note.startswith("no line can express 1 edit (gradients/two/); 1 node (gradients/two/MatMul) is not on the planned")
    assert "; `colocate_gradients_with_ops=True` where " in note
    assert patch_note(["*"], ["loss"]).startswith("no line can express 1 edit (*); 1 node (loss) is not")


LAYERS = """\
import tensorflow as tf
import parts

text = '''two
lines'''
with tf.variable_scope("one", reuse=tf.AUTO_REUSE) as scope:
    one = tf.ones([2, 2])
two = parts.layer("two",
    one)
three = parts.layer("three", two)
four = tf.add(three, one, name="four"); five = tf.negative(four, name="five")
six = tf.identity(five, name='''six''')
seven = tf.concat([[text], ["""
LAYERS += """'''a
b''']], 0, name="seven")
with tf.Session() as sess:
    sess.run([six, seven])
"""
PARTS = """\
from tensorflow.compat import v1 as tensor


def layer(name, x):
    with tensor.name_scope(name):
        return tensor.matmul(x, x, name="product")


def half(x):
    with tensor.name_scope("half"):
        return 0.5 * x
"""


def test_lines_of_a_script_and_its_modules_get_devices_where_scopes_are_opened(tmp_path: Path) -> None:
    (tmp_path / "layers.py").write_text(LAYERS)
    (tmp_path / "parts.py").write_text(PARTS)
    loaded = load(tmp_path / "layers.py")
    assert loaded.file is not None, loaded.error
    names = ("one", "two", "three", "five", "six", "seven")
    patch = patch_script(loaded.file.graph, {f"{name}/": "/gpu:1" for name in names})
    assert sorted(patch.left) == ["five/", "seven/"]  # two statements on a line, and a string that the margin would change
    layers, parts = (patch.texts[str(tmp_path / name)][1] for name in ("layers.py", "parts.py"))
    assert 'with tf.variable_scope("one", reuse=tf.AUTO_REUSE) as scope, tf.device("/gpu:1"):\n' in layers
    assert "with tf.device(\"/gpu:1\"):\n    six = tf.identity(five, name='''six''')\n" in layers
    assert "\ntwo = parts.layer" in layers  # this line needs nothing, since its scopes are opened in the module
    assert 'with tensor.name_scope(name), tensor.device("/gpu:1"):\n' in parts
    # scopes of one line on different devices: the lines that lead to it
    apart = patch_script(loaded.file.graph, {"two/": "/gpu:1", "three/": "/gpu:0"}).texts[str(tmp_path / "layers.py")][1]
    first = 'with tf.device("/gpu:1"):\n    two = parts.layer("two",\n        one)\n'
    assert f'{first}with tf.device("/gpu:0"):\n    three =' in apart


OWN_LINES = """\
import tensorflow as tf

with tf.device("/gpu:0"), tf.variable_scope("text"):
    x = tf.ones([64, 64], name="x")
    with tf.device('/cpu:0'):
        weights = tf.get_variable("weights", [64, 64])
    y = tf.matmul(x, weights, name="y")
with tf.device("/job:localhost/gpu:1"), tf.name_scope("head"):
    z = tf.matmul(y, y, name="z")
for i in range(2):
    with tf.device("/gpu:%d" % i), tf.name_scope("tower_%d" % i):
        z = tf.matmul(z, z, name="product")
with tf.device("/gpu:0"):
    for name in "left", "right":
        with tf.name_scope(name):
            z = tf.matmul(z, z, name="product")
with tf.Session() as sess:
    sess.run(tf.global_variables_initializer())
    sess.run(z)
"""
LAYERS_AS_GRAPH = """\
nodes:
  - {op: Placeholder, name: x, dtype: float32, shape: [8192, 512]}
  - {op: Placeholder, name: signal, dtype: float32, shape: [256, 128, 128, 1]}
  - scope: text
    nodes:
      - {variable: w, shape: [512, 512]}
      - {op: MatMul, name: a, inputs: [x, w]}
      - {op: MatMul, name: b, inputs: [a, w]}
      - {op: Mean, name: c, inputs: [b, [0, 1]]}
  - scope: wave
    nodes:
      - {variable: k1, shape: [5, 5, 1, 32]}
      - {op: Conv2D, name: conv1, inputs: [signal, k1], attrs: {strides: [1, 2, 2, 1], padding: SAME}}
      - {op: Relu, name: relu1, inputs: [conv1]}
      - {variable: k2, shape: [3, 3, 32, 64]}
      - {op: Conv2D, name: conv2, inputs: [relu1, k2], attrs: {strides: [1, 2, 2, 1], padding: SAME}}
      - {op: Relu, name: relu2, inputs: [conv2]}
      - {op: Mean, name: pooled, inputs: [relu2, [0, 1, 2, 3]]}
  - {op: AddV2, name: loss, inputs: [text/c, wave/pooled]}
  - {train: {minimize: loss, optimizer: {Adam: {learning_rate: 0.001}}}, name: train}
run: [{fetch: [train]}]
"""
RUNTIME = "/job:localhost/replica:0/task:0/device:"


def test_a_patch_changes_the_own_device_lines_of_a_script_and_adds_none_that_says_the_same(tmp_path: Path) -> None:
    script = tmp_path / "own.py"
    script.write_text(OWN_LINES)
    loaded = load(script)
    assert loaded.file is not None, loaded.error
    graph = loaded.file.graph
    moved = {"head/z": "GPU:0", "right/product": "GPU:1", "tower_0/product": "GPU:1"}
    moved |= dict.fromkeys(("text/x/shape_as_tensor", "text/x/Const", "text/x", "text/y"), "GPU:1")
    own = {node.name: node.device.rpartition(":")[0][-3:] + node.device[-2:] for node in graph.nodes if node.device}
    planned = {name: f"{RUNTIME}{moved.get(name, device)}" for name, device in own.items()}
    edits = {"head/": "/gpu:0", "text/x/": "/gpu:1", "text/y/": "/gpu:1", "right/": "/gpu:1"}
    patch = patch_script(graph, edits, planned)
    ((_, after),) = patch.texts.values()
    changed = [pair for pair in zip(OWN_LINES.splitlines(), after.splitlines(), strict=True) if pair[0] != pair[1]]
    assert changed == [
        ('with tf.device("/gpu:0"), tf.variable_scope("text"):', 'with tf.device("/gpu:1"), tf.variable_scope("text"):'),
        (
            'with tf.device("/job:localhost/gpu:1"), tf.name_scope("head"):',
            'with tf.device("/job:localhost/gpu:0"), tf.name_scope("head"):',
        ),
        (
            "        with tf.name_scope(name):",
            '        with tf.name_scope(name), tf.device({"right/": "/gpu:1"}'
            '.get(tf.get_default_graph().get_name_scope() + "/", "")):',
        ),
    ]
    script.write_text(after)
    again = load(script).file
    assert again is not None
    missed = {node.name for node in again.graph.nodes if node.name in own and not planned[node.name].endswith(node.device[-5:])}
    assert missed == {"tower_0/product"}  # the device of its line is not a plain text


@pytest.mark.slow
def test_a_script_with_its_own_device_lines_takes_the_planned_time_with_its_patch(tmp_path: Path) -> None:
    text = MODEL.replace(
        'hidden = dense(hidden, 2048, "two")', 'with tf.device("/gpu:1"):\n        hidden = dense(hidden, 2048, "two")'
    ).replace("minimize(loss)", "minimize(loss, colocate_gradients_with_ops=True)")
    (tmp_path / "model.py").write_text(text)
    options = (*MACHINE, *FEW, "--free-all", "--changes", "0", "--output", "plan.patch")
    ended = run_warm(tmp_path, "plan", "model.py", *options)
    assert ended.code == 0, ended.complaint
    assert ended.complaint.partition("\n")[2] == ""
    told = json.loads(ended.output)
    _apply(tmp_path, "plan.patch")
    assert (tmp_path / "model.py").read_text() == text.replace("/gpu:1", "/gpu:0")
    assert _step_seconds(tmp_path, "model.py") == told["seconds"]


@pytest.mark.slow
def test_a_device_function_of_a_graph_file_has_the_edits_and_the_nodes_that_they_leave_apart(tmp_path: Path) -> None:
    (tmp_path / "layers.yaml").write_text(LAYERS_AS_GRAPH)
    arguments = (*MACHINE, *FEW, "--by", "scope", "--changes", "1", "--output", "planned.py")
    ended = run_warm(tmp_path, "plan", "layers.yaml", *arguments)
    assert ended.code == 0, ended.complaint
    assert ended.complaint == ""
    (edit,) = json.loads(ended.output)["edits"]
    found: dict[str, Any] = {}
    exec((tmp_path / "planned.py").read_text(), found)
    rows = list(found["DEVICES"].items())
    device, other = ("/gpu:0", "/gpu:1") if edit["device"] == "GPU:0" else ("/gpu:1", "/gpu:0")
    assert rows[:2] == [(f"gradients/{edit['path']}", device), (edit["path"], device)]
    assert all(row[0].startswith((edit["path"], f"gradients/{edit['path']}")) for row in rows)
    assert {row[1] for row in rows[2:]} == {other}  # nodes in these scopes that the plan leaves where they are
