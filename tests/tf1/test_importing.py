"""What scripts import from within TensorFlow is found, or says what it is when it is used."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from placesim.tf1.importing.submodule_sources import SOURCES
from tests.processes import PLACESIM, run_process

_START = "from placesim.tf1.importing import import_hook\nimport_hook.install()\n"


def _run(program: str, **variables: str) -> str:
    done = run_process((sys.executable, "-c", _START + program), environment=variables)
    assert done.complaint == ""
    return done.output


_FOUND = """
from tensorflow.python.framework import ops, dtypes, tensor_shape, tensor_util, constant_op, graph_util, random_seed
from tensorflow.python.ops import array_ops, math_ops, control_flow_ops, variable_scope as vs, init_ops, nn_ops, rnn_cell_impl
from tensorflow.python.ops import gen_nn_ops, gen_math_ops, state_ops, embedding_ops, image_ops, metrics_impl, gradients_impl
from tensorflow.python.training import moving_averages, training_ops, slot_creator, saver, adam, training_util
from tensorflow.python.client import device_lib, timeline, session
from tensorflow.python.platform import gfile, tf_logging as logging, flags, app
from tensorflow.python.util import nest, deprecation
from tensorflow.python.layers import base, core
from tensorflow.python.lib.io import file_io
from tensorflow.python import pywrap_tensorflow
from tensorflow.core.framework import graph_pb2, types_pb2
from tensorflow.contrib import slim, rnn
from tensorflow.contrib.layers.python.layers import layers, regularizers, initializers, utils
from tensorflow.contrib.framework.python.ops import arg_scope, variables
from tensorflow.contrib.training.python.training.hparam import HParams
import tensorflow.contrib.slim as slim_again
import tensorflow as tf
found = {
    math_ops.matmul: tf.matmul, array_ops.concat: tf.concat, ops.Tensor: tf.Tensor, ops.RegisterGradient: tf.RegisterGradient,
    vs.get_variable: tf.get_variable, nn_ops.relu: tf.nn.relu, tensor_shape.TensorShape: tf.TensorShape, slim_again: slim,
    image_ops.flip_left_right: tf.image.flip_left_right, metrics_impl.mean: tf.metrics.mean, saver.Saver: tf.train.Saver,
    embedding_ops.embedding_lookup: tf.nn.embedding_lookup, adam.AdamOptimizer: tf.train.AdamOptimizer,
    gradients_impl.gradients: tf.gradients,
    file_io.file_exists: tf.gfile.Exists, core.Dense: tf.layers.Dense, base.Layer: tf.layers.Layer,
    gen_math_ops.mat_mul: tf.raw_ops.MatMul, training_ops.apply_adam: tf.raw_ops.ApplyAdam, layers.conv2d: slim.conv2d,
    regularizers.l2_regularizer: slim.l2_regularizer, arg_scope: slim.arg_scope, HParams: tf.contrib.training.HParams,
    initializers.xavier_initializer: slim.xavier_initializer, variables.get_variables: slim.get_variables,
    pywrap_tensorflow.NewCheckpointReader: tf.train.NewCheckpointReader, graph_pb2.GraphDef: tf.GraphDef,
}
print([ours for ours, public in found.items() if ours is not public])
deprecation._PRINT_DEPRECATION_WARNINGS = False
print(moving_averages.assign_moving_average.__name__, slot_creator.create_zeros_slot.__name__, types_pb2.DT_FLOAT)
"""


def test_version_1_is_found_below_version_2() -> None:
    program = (
        "import tensorflow as tf\nimport tensorflow.compat.v2.compat.v1 as inner\nprint(inner.placeholder is tf.placeholder)"
    )
    assert _run(program) == "True\n"


@pytest.mark.slow
def test_names_are_those_of_the_public_modules() -> None:
    assert _run(_FOUND) == "[]\nassign_moving_average create_zeros_slot 1\n"


_ABSENT = """
from tensorflow.python.tools import freeze_graph
from tensorflow.python.debug import LocalCLIDebugWrapperSession
from tensorflow.contrib.tensorboard.plugins import projector
from tensorflow.keras.applications import VGG16
from tensorflow.python import debug
print(hasattr(freeze_graph, 'nothing_here'))
uses = (lambda: freeze_graph.freeze_graph(1), LocalCLIDebugWrapperSession, lambda: projector.ProjectorConfig(), VGG16)
for use in uses:
    try:
        use()
    except NotImplementedError as error:
        print(type(error).__name__, str(error).partition(' is not there')[0])
try:
    from tensorflow.python.ops.rnn_cell_impl import _no_such_function
except ImportError as error:
    print(type(error).__name__)
try:
    import tensorflow.no_such_module
except ModuleNotFoundError as error:
    print(error)
"""


def test_what_is_not_there_can_be_imported_and_says_so_when_it_is_used() -> None:
    assert _run(_ABSENT).splitlines() == [
        "False",
        "NotImplementedError tf.python.tools.freeze_graph.freeze_graph",
        "NotImplementedError tf.python.debug.LocalCLIDebugWrapperSession",
        "NotImplementedError tf.contrib.tensorboard.plugins.projector.ProjectorConfig",
        "NotImplementedError tf.keras.applications.VGG16",
        "ImportError",
        "No module named 'tensorflow.no_such_module'",
    ]


def test_a_source_is_a_module_or_a_part_of_the_api() -> None:
    from importlib.util import find_spec

    from placesim.tf1.importing.namespaces import is_package

    sources = {source for of_module in SOURCES.values() for source in of_module if source}
    assert not [one for one in sources if not is_package(one) and find_spec("placesim.tf1." + one) is None]


_DIGITS = """
from tensorflow.examples.tutorials.mnist import input_data, mnist
import tensorflow as tf
try:
    data = input_data.read_data_sets('nowhere', one_hot=True)
except FileNotFoundError as error:
    raise SystemExit(print(error))
print(data.train.num_examples, data.validation.num_examples, data.test.num_examples, data.train.images.shape)
images, labels = data.train.next_batch(100)
print(images.shape, images.dtype, images.max(), labels.shape, labels.sum(), mnist.IMAGE_PIXELS)
"""


@pytest.mark.slow
def test_digits_are_read_or_made_up_where_that_is_asked_for() -> None:
    told = _run(_DIGITS)
    assert told.startswith("The MNIST digits are not in 'nowhere'")
    assert "PLACESIM_MNIST=synthetic" in told
    assert _run(_DIGITS, PLACESIM_MNIST="synthetic").splitlines() == [
        "55000 5000 10000 (55000, 784)",
        "(100, 784) float32 1.0 (100, 10) 100.0 784",
    ]


def test_digits_of_files(tmp_path) -> None:  # type: ignore[no-untyped-def]
    import gzip

    import numpy as np

    from placesim.tf1.examples.mnist import _FILES, read_data_sets

    for name, count in zip(_FILES, (6, 6, 2, 2), strict=True):
        sizes = (count, 28, 28) if "images" in name else (count,)
        head = np.array([2051 if "images" in name else 2049, *sizes], ">u4").tobytes()
        with gzip.open(tmp_path / name, "wb") as file:
            file.write(head + (np.arange(np.prod(sizes)) % 10).astype(np.uint8).tobytes())
    data = read_data_sets(str(tmp_path), validation_size=1)
    assert (data.train.num_examples, data.validation.labels.tolist(), data.test.images.shape) == (5, [0], (2, 784))
    first = data.train.next_batch(4, shuffle=False)[1].tolist()
    assert (first, data.train.next_batch(4, shuffle=False)[1].tolist()) == ([1, 2, 3, 4], [5, 1, 2, 3])
    assert data.train.epochs_completed == 1


_SPAWNS = """
import multiprocessing as mp
import tensorflow as tf
def doubled(x):
    with tf.Session() as session:
        return float(session.run(tf.constant(x) * 2))
if __name__ == "__main__":
    with mp.get_context("spawn").Pool(1) as pool:
        print(pool.map(doubled, [1.5, 2.5]))
"""


@pytest.mark.slow
def test_processes_that_a_script_spawns_find_tensorflow(tmp_path: Path) -> None:
    script = tmp_path / "spawns.py"
    script.write_text(_SPAWNS)
    ended = run_process((*PLACESIM, "run", script))
    assert "[3.0, 5.0]" in ended.output, ended.complaint


def test_a_missing_name_is_told_of_the_module_that_was_imported() -> None:
    program = """
import tensorflow, tensorflow.compat.v1 as v1
for module in (tensorflow, tensorflow.compat.v1, v1, v1.nn):
    try:
        module.foo
    except AttributeError as error:
        print(error)
"""
    assert _run(program).splitlines() == [
        "module 'tensorflow' has no attribute 'foo'",
        *["module 'tensorflow.compat.v1' has no attribute 'foo'"] * 2,
        "module 'tensorflow._api.v2.compat.v1.nn' has no attribute 'foo'",
    ]
