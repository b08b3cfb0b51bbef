"""Plans of scripts as Python: a device function for `tf.device`, and a patch of the lines that open scopes."""

from __future__ import annotations

import json
import subprocess
from itertools import chain
from pathlib import Path
from typing import Any

import pytest

from placesim.formats.sources.loading import load
from placesim.studies.plan_files import patch_note
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
def test_a_patched_script_takes_the_planned_time(tmp_path: Path) -> None:
    told, complaint = _plan(tmp_path, "--changes", "1", "--output", "plan.patch")
    assert complaint == ""
    (edit,) = told["edits"]
    _apply(tmp_path, "plan.patch")
    assert f'tf.device({{"{edit["path"]}": "/gpu:1"}}.get(' in (tmp_path / "model.py").read_text()
    assert _step_seconds(tmp_path, "model.py") == told["seconds"] < told["curve"][0]["seconds"]


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
