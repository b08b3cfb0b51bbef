"""A Python script where commands take a graph: what it builds, what it is told, and what goes wrong with it."""

from __future__ import annotations

import json
import os
import signal
import subprocess
from pathlib import Path
from typing import Any

import pytest

from tests.cli import warm
from tests.cli.shell import ROOT, CommandResult, Shell
from tests.cli.warm import run_warm, start_warm
from tests.processes import interrupt, read_until

GUIDES = ROOT / "tests" / "data" / "tf1" / "scripts"
PRODUCT = """\
import sys
import tensorflow as tf
with tf.device('/cpu:0'):
    a = tf.constant([[1.0, 2.0]], name='a')
x = tf.placeholder(tf.float32, [None, 2], name='x')
y = tf.matmul(a, x, transpose_b=True, name='y')
print('told', sys.argv[1:])
with tf.Session(config=tf.ConfigProto(log_device_placement=True)) as sess:
    print(sess.run(y, {x: [[3.0, 4.0]]}))
    z = tf.add(y, 1.0, name='z')
    print(sess.run(z, {x: [[3.0, 4.0]]}))
"""
TRAINING = """\
import tensorflow as tf
v = tf.raw_ops.VariableV2(shape=[], dtype=tf.float32, name='v')
init = tf.raw_ops.Assign(ref=v, value=tf.zeros([]), name='init')
more = tf.raw_ops.AssignAdd(ref=v, value=tf.ones([]), name='more')
with tf.Session() as sess:
    print(sess.run(tf.group(init.op)))
    for _ in range(3):
        sess.run(more)
    print(sess.run(more))
"""


# --- its graph ------------------------------------------------------------------------------------------------------


def test_a_script_is_placed_as_it_is_at_its_first_step(tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text(PRODUCT)
    ended = run_warm(tmp_path, "place", "train.py", "--gpu", "1", "--format", "json", "--", "--steps", "3")
    document = json.loads(ended.output)
    places = {row["node"]: row["device"].rpartition(":")[0][-3:] for row in document["placements"]}
    assert places == {"a": "CPU", "x": "GPU", "y": "GPU"}
    assert ended.complaint == "told ['--steps', '3']\ntrain.py has run up to its first step (line 9)\n"


def test_a_script_that_runs_to_its_end_has_all_its_steps(tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text(PRODUCT)
    ended = run_warm(tmp_path, "run", "train.py", "--until", "end", "--format", "json")
    results = json.loads(ended.output)["results"]
    assert [(row["name"], row["value"]) for row in results] == [("y:0", [[11.0]]), ("z:0", [[12.0]])]
    assert ended.complaint.endswith("train.py has run to its end\n")


@pytest.mark.slow
def test_steps_that_only_initialise_come_before_the_first_and_repetitions_count(tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text(TRAINING)
    assert run_warm(tmp_path, "run", "train.py", "--fetch", "v:0").output == "0.0\n"
    ended = run_warm(tmp_path, "convert", "train.py", "-", "--until", "end")
    assert (
        ended.output.endswith("run:\n  - {fetch: [group_deps]}\n  - fetch: ['more:0']\n    repeat: 4\n")
        or "{fetch: ['more:0'], repeat: 4}" in ended.output
    )


def test_nodes_stand_in_the_scripts_lines(tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text(PRODUCT)
    assert (
        "y: (MatMul): /job:localhost/replica:0/task:0/device:GPU:0 at train.py:6:1\n"
        in run_warm(tmp_path, "explain", "train.py", "y", "--gpu", "1").output
    )


@pytest.mark.slow
def test_a_graph_of_a_script_is_the_same_as_a_yaml_file(tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text(PRODUCT)
    assert run_warm(tmp_path, "convert", "train.py", "train.yaml").code == 0
    ended = run_warm(tmp_path, "diff", "train.py", "train.yaml", "--gpu", "2")
    assert (ended.code, ended.output) == (0, "")


@pytest.mark.slow
@pytest.mark.parametrize("command", ["simulate", "memory", "check", "show"])
def test_other_commands_take_a_script(tmp_path: Path, command: str) -> None:
    (tmp_path / "train.py").write_text(PRODUCT)
    ended = run_warm(
        tmp_path, command, "train.py", "--gpu", "1", "--batch" if command in ("simulate", "memory") else "--cpu", "1"
    )
    assert ended.code == 0, ended.complaint
    assert ended.complaint.count("has run up to its first step") == 1


@pytest.mark.slow
def test_a_sweep_runs_the_script_once(tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text(PRODUCT)
    ended = run_warm(tmp_path, "sweep", "train.py", "--gpu", "1,2", "--jobs", "2", "--format", "csv")
    assert ended.code == 0, ended.complaint
    assert ended.complaint.count("has run up to its first step") == 1
    assert len(ended.output.splitlines()) == 3


def test_a_script_sees_the_machine_that_is_asked_for(tmp_path: Path) -> None:
    (tmp_path / "towers.py").write_text(
        "import tensorflow as tf\n"
        "from tensorflow.python.client import device_lib\n"
        "gpus = [d.name for d in device_lib.list_local_devices() if d.device_type == 'GPU']\n"
        "for name in gpus:\n"
        "    with tf.device(name):\n"
        "        tf.constant(1.0, name='tower')\n"
    )
    rows = json.loads(run_warm(tmp_path, "place", "towers.py", "--gpu", "2", "--format", "json").output)["placements"]
    assert [row["device"][-5:] for row in rows] == ["GPU:0", "GPU:1"]


# --- what goes wrong ------------------------------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.parametrize(
    ("text", "code", "complaint"),
    [
        (
            "import tensorflow as tf\ndef build():\n    return nothing\nbuild()\n",
            2,
            "NameError: name 'nothing' is not defined\n  at bad.py:3:12\n  return nothing\n  called at bad.py:4: build()\n",
        ),
        ("x = (1,\n", 2, "SyntaxError: '(' was never closed\n  at bad.py:1:5\n  x = (1,\n"),
        (
            "import pycuda.driver\n",
            2,
            "ModuleNotFoundError: No module named 'pycuda'\n  at bad.py:1:1\n  import pycuda.driver\n",
        ),
        (
            "import tensorflow as tf\na = tf.constant([1.0, 2.0])\ntf.raw_ops.MatMul(a=a, b=a)\n",
            1,
            "ValueError: Shape must be rank 2 but is rank 1 for ",
        ),
        (
            "import sys\nsys.exit('no data')\n",
            2,
            "no data\nSystemExit: 1\n  at bad.py\n  the script built no graph; pass its own arguments after `--`\n",
        ),
        ("import os\nos._exit(3)\n", 2, "SystemExit: 3\n"),
        ("import os\nos.kill(os.getpid(), 9)\n", 1, "UnavailableError: the process of bad.py died of signal 9"),
        (
            "import time\nimport tensorflow as tf\ntime.sleep(60)\n",
            1,
            "DeadlineExceededError: Timed out waiting for bad.py: it has run for 1 seconds",
        ),
    ],
)
def test_a_script_that_fails(tmp_path: Path, text: str, code: int, complaint: str) -> None:
    (tmp_path / "bad.py").write_text(text)
    ended = run_warm(tmp_path, "place", "bad.py", "--timeout", "1" if "time" in text else "50")
    assert (ended.code, ended.output) == (code, "")
    assert ended.complaint.startswith(complaint)
    assert "Traceback" not in ended.complaint


def test_that_a_script_has_built_no_graph_is_said(tmp_path: Path) -> None:
    (tmp_path / "words.py").write_text("print('words')\n")
    done = run_warm(tmp_path, "place", "words.py", "--cpu", "1")
    assert (done.code, done.complaint) == (0, "words\nwords.py has run to its end; it has built no graph\n")


def test_options_of_models_mean_nothing_for_a_script(shell: Shell) -> None:
    shell.write("train.py", PRODUCT)
    ended = shell("place", "train.py", "--tag", "serve")
    assert (ended.code, ended.complaint) == (
        2,
        "UsageError: --tag does not apply: got a Python script, expected a TensorFlow model\n",
    )


def test_a_script_that_is_not_there(shell: Shell) -> None:
    for command in ("run", "place"):
        ended = shell(command, "none.py")
        assert ended.code == 2
        assert ended.complaint.startswith("GraphFileError: none.py: cannot read the graph file: No such file or directory")


# --- run ------------------------------------------------------------------------------------------------------------


def test_run_lets_a_script_run(tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text(PRODUCT)
    ended = run_warm(tmp_path, "run", "train.py", "--gpu", "1", "--gpu-model", "Tesla K40c", "--", "quick")
    lines = ended.output.splitlines()
    assert lines[:3] == [
        "told ['quick']",
        "Device mapping:",
        "/job:localhost/replica:0/task:0/device:GPU:0 -> device: 0, name: Tesla K40c, pci bus id: 0000:05:00.0, "
        "compute capability: 3.5",
    ]
    assert lines[3:7] == [
        "y: (MatMul): /job:localhost/replica:0/task:0/device:GPU:0",
        "a: (Const): /job:localhost/replica:0/task:0/device:CPU:0",
        "x: (Placeholder): /job:localhost/replica:0/task:0/device:GPU:0",
        "[[11.]]",
    ]
    assert lines[-1] == "[[12.]]"
    assert (ended.code, ended.complaint) == (0, "")


@pytest.mark.slow
def test_flags_override_what_a_script_says(tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text(PRODUCT)
    quiet = run_warm(tmp_path, "run", "train.py", "--no-log-placement")
    assert quiet.output == "told []\n[[11.]]\n[[12.]]\n"
    some = run_warm(tmp_path, "run", "train.py", "--log-filter", "z*", "--log-filter", "Z/Y", "--log-filter", "none")
    expected = "expected a node's name or id, a pattern, or a scope that ends in '/'"
    assert some.complaint.splitlines()[-2:] == [
        f"no node matches 'Z/Y' in --log-filter: {expected}; did you mean 'z/y'?",
        f"no node matches 'none' in --log-filter: {expected}",
    ]
    assert run_warm(tmp_path, "run", "train.py", "--quiet", "--log-filter", "none").complaint.count("\n") == 1
    assert some.output.splitlines()[-3:-1] == [
        "z: (AddV2): /job:localhost/replica:0/task:0/device:CPU:0",
        "z/y: (Const): /job:localhost/replica:0/task:0/device:CPU:0",
    ]


def test_run_ends_with_the_scripts_own_code(tmp_path: Path) -> None:
    (tmp_path / "ends.py").write_text("import sys\nprint('out')\nsys.exit(7)\n")
    assert run_warm(tmp_path, "run", "ends.py") == CommandResult(7, "out\n", "")


def test_an_error_of_a_step_is_told_with_both_lines(tmp_path: Path) -> None:
    (tmp_path / "far.py").write_text(
        "import tensorflow as tf\nwith tf.device('/gpu:2'):\n    a = tf.constant(1.0, name='a')\nprint(tf.Session().run(a))\n"
    )
    ended = run_warm(tmp_path, "run", "far.py", "--gpu", "1")
    assert ended.code == 1
    assert "node a (defined at far.py:3) was explicitly assigned to /device:GPU:2" in ended.complaint
    assert ended.complaint.endswith("  at far.py:4:7\n  print(tf.Session().run(a))\n")


def test_a_missing_device_is_told_with_the_line_of_its_scope(tmp_path: Path) -> None:
    (tmp_path / "far.py").write_text(
        "import tensorflow as tf\nwith tf.device('/gpu:2'):\n    a = tf.constant(1.0, name='a')\nprint(tf.Session().run(a))\n"
    )
    (tmp_path / "far.yaml").write_text("nodes:\n  - device: /gpu:2\n    nodes:\n      - {op: Const, name: a, value: 1.0}\n")
    (tmp_path / "group.py").write_text(
        "import tensorflow as tf\nwith tf.device('/gpu:2'):\n    v = tf.get_variable('v', [2])\n"
        "tf.Session().run(tf.global_variables_initializer())\n"
    )
    for name in ("far.py", "far.yaml", "group.py"):
        ended = run_warm(tmp_path, "run", name, "--gpu", "1")
        assert f"\n  requested at {name}:2; `placesim explain {name}` lists fixes\n" in ended.complaint


@pytest.mark.slow
def test_the_environment_says_what_the_machine_has(tmp_path: Path) -> None:
    (tmp_path / "list.py").write_text("import tensorflow as tf\nprint([d.name[-5:] for d in tf.Session().list_devices()])\n")
    variables = {"PLACESIM_GPU": "2", "PLACESIM_CPU": "2"}
    assert run_warm(tmp_path, "run", "list.py", **variables).output == "['CPU:0', 'CPU:1', 'GPU:0', 'GPU:1']\n"
    assert run_warm(tmp_path, "run", "list.py", "--gpu", "0", **variables).output == "['CPU:0', 'CPU:1']\n"
    assert "wrong PLACESIM_GPU: got 'two'" in run_warm(tmp_path, "run", "list.py", PLACESIM_GPU="two").complaint


@pytest.mark.slow
@pytest.mark.parametrize("command", ["place", "run"])
def test_an_interrupt_ends_the_script_too(tmp_path: Path, command: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("placesim.core.process.interrupts.GRACE_SECONDS", 0)  # as on a machine that is too busy
    (tmp_path / "sleeps.py").write_text("import os, time\nprint(os.getpid(), flush=True)\ntime.sleep(60)\n")
    with start_warm(command, "sleeps.py", cwd=tmp_path, stderr=subprocess.STDOUT) as process:
        script = int(read_until(process, b"\n"))
        assert interrupt(process) == (130, "", "")
    with pytest.raises(ProcessLookupError):
        os.kill(script, 0)


def test_an_interrupt_while_the_script_starts_ends_it_too(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    class Interrupted(warm._ForkedScript):
        def __init__(self, *given: Any, **options: Any) -> None:
            super().__init__(*given, **options)
            signal.raise_signal(signal.SIGINT)

    monkeypatch.setattr(warm, "_ForkedScript", Interrupted)
    (tmp_path / "sleeps.py").write_text("import time\ntime.sleep(60)\n")
    with start_warm("place", "sleeps.py", cwd=tmp_path, stderr=subprocess.STDOUT) as process:
        # the script has the other end of the pipe, too
        assert process.communicate(timeout=30)[0] == b""
    assert process.returncode == 130


GUIDE_LOG = """\
Device mapping:
/job:localhost/replica:0/task:0/device:GPU:0 -> device: 0, name: Tesla K40c, pci bus id: 0000:05:00.0
b: /job:localhost/replica:0/task:0/{constants}
a: /job:localhost/replica:0/task:0/{constants}
MatMul: /job:localhost/replica:0/task:0/device:GPU:0
[[ 22.  28.]
 [ 49.  64.]]
"""


@pytest.mark.slow
@pytest.mark.parametrize(
    ("script", "constants"),
    [("seed_000_2_cpu", "cpu:0"), ("seed_001_1_logging", "device:GPU:0"), ("seed_001_2_manual", "cpu:0")],
)
def test_the_guides_scripts_print_what_the_guides_show(script: str, constants: str) -> None:
    ended = run_warm(GUIDES, "run", f"{script}.py", "--gpu", "1", "--gpu-model", "Tesla K40c", "--log-style", "classic")
    assert ended.output == GUIDE_LOG.format(constants=constants)


def test_the_guides_towers_print_what_the_guides_show() -> None:
    machine = ("--gpu", "4", "--gpu-model", "Tesla K20m", "--log-style", "classic")
    lines = run_warm(GUIDES, "run", "seed_000_3_towers.py", *machine).output.splitlines()
    assert lines[1].endswith("name: Tesla K20m, pci bus id: 0000:02:00.0")
    assert [line.partition(":")[0] for line in lines[5:12]] == [
        "Const_3",
        "Const_2",
        "MatMul_1",
        "Const_1",
        "Const",
        "MatMul",
        "AddN",
    ]
    assert lines[12:] == ["[[  44.   56.]", " [  98.  128.]]"]


def test_the_guides_missing_gpu_is_refused_in_the_guides_words() -> None:
    ended = run_warm(GUIDES, "run", "seed_001_7_missing_gpu.py", "--gpu", "1", "--log-style", "classic")
    assert ended.complaint == (
        "InvalidArgumentError: Invalid argument: Cannot assign a device to node 'b': Could not satisfy explicit device "
        "specification '/device:GPU:2'\n"
        "   [[Node: b = Const[dtype=DT_FLOAT, value=Tensor<type: float shape: [3,2] values: 1 2 3...>, "
        '_device="/device:GPU:2"]()]]\n'
    )
    assert ended.code == 1
