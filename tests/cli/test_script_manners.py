"""What scripts do beside building a graph, what they need that is not there, and where messages point."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.cli.warm import run_warm

HEAD = "import tensorflow as tf\n"


def placed(directory: Path, text: str, *arguments: str) -> tuple[str, str]:
    """What `placesim place` prints of a script on both streams, which has to succeed."""
    (directory / "script.py").write_text(text)
    ended = run_warm(directory, "place", "script.py", *arguments)
    assert ended.code == 0, ended.complaint
    return ended.output, ended.complaint


@pytest.mark.slow
@pytest.mark.parametrize(
    "text",
    [
        "import argparse\np = argparse.ArgumentParser()\np.add_argument('--n')\ntf.constant(0, name='n' + p.parse_args().n)",
        "flags = tf.flags\nflags.DEFINE_integer('n', 1, '')\ndef main(_):\n  tf.constant(0, name='n%d' "
        "% flags.FLAGS.n)\ntf.app.run()",
        "import sys\ntf.constant(0, name='n' + sys.argv[2])\nsys.exit(3)",
        "from part.of import made\nmade('n5')",
        "import os\nos.chdir('/')\ntf.constant(0, name='n5')",
        "tf.constant(len(open('data.txt').read()), name='n5')",
        "tf.compat.v1.disable_v2_behavior()\ntf.compat.v1.placeholder(tf.float32, [2], name='n5')",
        "import threading\ng = tf.get_default_graph()\ndef f():\n  with g.as_default():\n    tf.constant(0, name='n5')\n"
        "t = threading.Thread(target=f)\nt.start()\nt.join()",
        "import multiprocessing as mp\nif __name__ == '__main__':\n  with mp.get_context('fork').Pool(1) as pool:\n"
        "    tf.constant(0, name='n%d' % pool.map(abs, [-5])[0])",
    ],
    ids=["argparse", "flags", "exit", "modules", "chdir", "files", "disable_v2", "threads", "processes"],
)
def test_a_script_does_what_programs_do(tmp_path: Path, text: str) -> None:
    (tmp_path / "part").mkdir()
    (tmp_path / "part" / "__init__.py").write_text("")
    (tmp_path / "part" / "of.py").write_text(f"{HEAD}def made(name):\n    return tf.constant(1, name=name)\n")
    (tmp_path / "data.txt").write_text("12345")
    output, complaint = placed(tmp_path, HEAD + text, "--", "--n", "5")
    assert "n5: (" in output
    assert "script.py has run to its end" in complaint


def test_what_is_drawn_goes_nowhere(tmp_path: Path) -> None:
    (tmp_path / "matplotlib").mkdir()
    (tmp_path / "matplotlib" / "__init__.py").write_text("import os\nbackend = os.environ['MPLBACKEND']\n")
    output, _ = placed(tmp_path, f"{HEAD}import matplotlib\ntf.constant(1, name=matplotlib.backend)")
    assert "Agg: (Const)" in output


@pytest.mark.slow
@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("x = 1\nprint 'hello'", "script.py:3:1\n  print 'hello'\n  this is Python 2: `2to3 -w script.py` converts it"),
        ("try:\n  pass\nexcept ValueError, e:\n  pass", "this is Python 2"),
        ("for i in xrange(3): pass", "this is Python 2"),
        ("{}.iteritems()", "this is Python 2"),
        ("import cPickle", "this is Python 2"),
        (
            "import pycuda.autoinit",
            "at script.py:2:1\n  import pycuda.autoinit\n  pycuda works on real GPUs",
        ),
        ("import horovod.tensorflow as hvd", "horovod works on real GPUs"),
        ("import cupy", "cupy works on real GPUs"),
        ("import no_such_module", "no_such_module is not installed for "),
        ("print(tf.constant(1).numpy())", "placesim does not run TensorFlow 2's eager mode"),
        ("with tf.GradientTape() as tape: pass", "placesim does not run TensorFlow 2's eager mode"),
        ("def f(:", "SyntaxError: invalid syntax\n  at script.py:2:7\n  def f(:\n"),
        ("import json\njson.loads('{')", "at script.py:3:1\n  json.loads('{')"),
    ],
)
def test_what_is_not_there_is_named_with_a_way_out(tmp_path: Path, text: str, said: str) -> None:
    (tmp_path / "script.py").write_text(HEAD + text + "\n")
    ended = run_warm(tmp_path, "place", "script.py")
    assert ended.code == 2
    assert said in ended.complaint
    assert "Traceback" not in ended.complaint


@pytest.mark.parametrize("session", ["", "session = tf.Session()\n"])
def test_scripts_without_sessions_are_said_to_be_eager(tmp_path: Path, session: str) -> None:
    for text in ("bool(tf.constant(1) > 0)", "list(tf.data.Dataset.range(3))"):
        (tmp_path / "script.py").write_text(HEAD + session + text + "\n")
        complaint = run_warm(tmp_path, "place", "script.py").complaint
        assert f"\n  {text}\n" in complaint
        assert ("placesim does not run TensorFlow 2's eager mode" in complaint) == (not session)


@pytest.mark.slow
def test_a_function_that_no_session_runs_is_told(tmp_path: Path) -> None:
    (tmp_path / "script.py").write_text(HEAD + "double = tf.function(lambda x: x * 2)\ny = double(tf.constant([2.0]))\n")
    ended = run_warm(tmp_path, "run", "script.py")
    assert ended.code == 0
    assert ended.complaint.startswith(
        "Nothing was computed: the call of a tf.function made the node PartitionedCall, and no session ran it\n"
        "  placesim does not run TensorFlow 2's eager mode"
    )
    with (tmp_path / "script.py").open("a") as script:
        script.write("print(tf.Session().run(y))\n")
    ended = run_warm(tmp_path, "run", "script.py")
    assert (ended.output, ended.complaint) == ("[4.]\n", "")


def test_only_what_is_python_2_is_said_to_be(tmp_path: Path) -> None:
    (tmp_path / "script.py").write_text("x = = 1\n")
    assert "Python 2" not in run_warm(tmp_path, "place", "script.py").complaint


LINES = """\
import tensorflow as tf
from helper import layer
f = lambda v: layer(v)
with tf.device('/cpu:0'):
    y = [f(tf.ones([1, 2])) for _ in range(2)]
loss = tf.reduce_sum(
    tf.multiply(y[0], 2.0))
train = tf.train.GradientDescentOptimizer(0.1).minimize(
    loss)
"""


@pytest.mark.slow
def test_lines_are_those_that_made_the_op_its_gradient_and_what_that_is_of(tmp_path: Path) -> None:
    helper = "import tensorflow as tf\ndef layer(x):\n    w = tf.Variable(tf.ones([2, 3]))\n    return tf.matmul(x, w)\n"
    (tmp_path / "helper.py").write_text(helper)
    (tmp_path / "script.py").write_text(LINES)
    shown = run_warm(
        tmp_path, "explain", "script.py", "MatMul_1", "gradients/Mul_grad/Mul", "gradients/MatMul_grad/MatMul"
    ).output
    assert "MatMul_1: (MatMul): /job:localhost/replica:0/task:0/device:CPU:0 at helper.py:4:1\n" in shown
    assert "gradients/Mul_grad/Mul: (Mul): /job:localhost/replica:0/task:0/device:CPU:0 at script.py:8:1\n" in shown
    assert "gradient of     Mul at script.py:7:1\n" in shown
    assert "gradient of     MatMul at helper.py:4:1\n" in shown


@pytest.mark.slow
def test_a_script_as_yaml_has_its_log_and_its_results(tmp_path: Path) -> None:
    text = LINES + "with tf.Session() as s:\n    s.run(tf.global_variables_initializer())\n    print(s.run([train, loss]))\n"
    helper = "import tensorflow as tf\ndef layer(x):\n    w = tf.Variable(tf.ones([2, 3]))\n    return tf.matmul(x, w)\n"
    (tmp_path / "helper.py").write_text(helper)
    (tmp_path / "script.py").write_text(text)
    assert run_warm(tmp_path, "convert", "script.py", "script.yaml").code == 0
    written = (tmp_path / "script.yaml").read_text()
    assert "value: 1.0, shape: [2, 3]}  # helper.py:3\n" in written
    assert "- {variable: Variable, shape: [2, 3], initializer: {tensor: ones_1}}\n" in written
    assert "- {initializer: init, device: /cpu:0}  # script.py:11\n" in written
    assert run_warm(tmp_path, "place", "script.py").output == run_warm(tmp_path, "place", "script.yaml").output
    results = run_warm(tmp_path, "run", "script.py", "--fetch", "Sum:0", "--until", "end").output
    assert run_warm(tmp_path, "run", "script.yaml").output == results == "12.0\n"


def test_an_unknown_gpu_model_is_an_error_of_the_command_and_not_of_the_script(tmp_path: Path) -> None:
    (tmp_path / "script.py").write_text("print('started')\n" + HEAD + "tf.compat.v1.Session()\n")
    ended = run_warm(tmp_path, "run", "script.py", "--gpu-model", "V100")
    assert (ended.code, ended.output) == (2, "")
    assert ended.complaint.startswith("UsageError: unknown GPU model: got 'V100'")
