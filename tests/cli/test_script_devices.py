"""The `with tf.device` lines of scripts, as the reasons for devices."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.cli.warm import run_warm

TRAINED = """import tensorflow as tf

x = tf.placeholder(tf.float32, [8, 4], name="x")
with tf.device("/gpu:1"), tf.variable_scope("dense"):
    with tf.device("/cpu:0"):
        w = tf.get_variable("w", [4, 4])
    y = tf.matmul(x, w, name="y")
loss = tf.reduce_mean(y, name="loss")
tf.train.MomentumOptimizer(0.1, momentum=0.9).minimize(loss, colocate_gradients_with_ops=True)
"""


@pytest.mark.slow
def test_explain_changes_the_line_whose_device_gradients_copy(tmp_path: Path) -> None:
    (tmp_path / "script.py").write_text(TRAINED, encoding="utf-8")
    shown = run_warm(tmp_path, "explain", "script.py", "--gpu", "2", "dense/y", "gradients/dense/y_grad/MatMul").output
    assert shown.count("requested       /device:GPU:1 by the scope at script.py:4:1\n") == 2
    assert "script.py:4:1: change the device /gpu:1 of the scope around dense/w to /device:GPU:0; the node is then on" in shown
    assert "none of the edits" not in shown


@pytest.mark.slow
def test_nodes_of_one_device_line_are_one_finding_there(tmp_path: Path) -> None:
    (tmp_path / "script.py").write_text(TRAINED, encoding="utf-8")
    rule = "not-on-device: {nodes: 'dense/*', device: CPU}"
    found = run_warm(tmp_path, "check", "script.py", "--gpu", "2", "--rule", rule).output.splitlines()
    assert len(found) == 1
    assert found[0].startswith("script.py:5:1: not-on-device: device /cpu:0 of the scope around dense/w puts ")


@pytest.mark.slow
def test_a_device_of_a_library_is_no_line_of_the_script(tmp_path: Path) -> None:
    text = TRAINED + "with tf.device('/gpu:1'):\n    v = tf.get_variable('v', [4])\n"
    (tmp_path / "script.py").write_text(text + "tf.group(w.initializer, v.initializer, name='both')\n", encoding="utf-8")
    shown = run_warm(tmp_path, "explain", "script.py", "--gpu", "2", "both/NoOp", "both/NoOp_1").output
    assert "requested       /device:CPU:0 by the scope at script.py:5:1\n" in shown
    assert "requested       /device:GPU:1 by the scope at script.py:10:1\n" in shown


@pytest.mark.slow
def test_a_device_function_names_the_device_lines_in_its_way_and_a_patch_changes_them(tmp_path: Path) -> None:
    (tmp_path / "script.py").write_text(TRAINED, encoding="utf-8")
    plan = ("plan", "script.py", "--free-all", "--gpu", "2", "--evaluations", "20", "--jobs", "1", "--output")
    told = run_warm(tmp_path, *plan, "planned.py").complaint
    assert "script.py:5:1 requests /cpu:0" in told
    assert ": change or remove th" in told
    assert "requests /cpu:0" not in run_warm(tmp_path, *plan, "plan.patch").complaint
    assert '\n-    with tf.device("/cpu:0"):\n+    with tf.device("/gpu:0"):\n' in _joined(
        (tmp_path / "plan.patch").read_text("utf-8")
    )


def _joined(patch: str) -> str:
    """A patch's removed and added lines in pairs."""
    lines = patch.splitlines()
    removed, added = ([line for line in lines if line[0] == sign and line[:3] != sign * 3] for sign in "-+")
    return "\n" + "\n".join(f"{old}\n{new}" for old, new in zip(removed, added, strict=True)) + "\n"
