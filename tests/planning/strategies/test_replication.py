"""Replicas and micro-batches compute the same losses and variables as the whole batch."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from placesim.core.errors import UsageError
from placesim.formats.sources.loading import LoadedGraph, load
from placesim.graph.session_steps import Fetch, GraphStep
from placesim.machine.inventory import TaskInventory, build_devices
from placesim.machine.options import make_options
from placesim.ops.categories import REF_VARIABLES
from placesim.planning.strategies.divided_training import DividedTraining, Replication
from placesim.planning.strategies.gradient_reduction import REDUCTIONS
from placesim.planning.strategies.replication import replicate
from placesim.planning.strategies.rewriting import Strategy, rewrite_training, sorted_gpus
from placesim.planning.strategies.training_graph import find_training
from tests.planning.strategies.models import (
    CASES,
    MODELS,
    STEPS,
    Document,
    dense,
    loaded,
    node,
    placeholder,
    recurrent,
    results,
    training,
    variable,
)


def check(graph: LoadedGraph, *replications: Replication) -> None:
    """Compare the results of the steps of a graph with those of its replicated forms."""
    assert graph.file is not None
    training = find_training(graph.file.graph)
    expected = results(graph)
    for replication in replications:
        found = results(graph, replicate(graph.file, DividedTraining(training, replication)))
        assert [name for name, _ in found] == [name for name, _ in expected]
        for (name, array), (_, other) in zip(expected, found, strict=True):
            np.testing.assert_allclose(other, array, rtol=1e-5, atol=1e-7, err_msg=f"{name} with {replication}")


def test_replicas_take_gpus_in_the_order_of_the_machine_and_by_number() -> None:
    machine = [TaskInventory(gpu=1, job="worker"), TaskInventory(gpu=11, job="chief", tasks=2)]
    expected = [device.name for device in build_devices(machine) if device.type == "GPU"]
    assert sorted_gpus([device.name for device in reversed(build_devices(machine))], machine) == expected
    assert sorted_gpus(sorted(expected, reverse=True), machine) == expected


@pytest.mark.slow
@pytest.mark.parametrize(("model", "optimizer"), CASES)
def test_parts_of_the_batch_give_the_losses_and_variables_of_the_whole(model: str, optimizer: str) -> None:
    check(loaded(MODELS[model](optimizer)), Replication(2, 1), Replication(1, 2), Replication(2, 2))


@pytest.mark.slow
def test_all_reductions_with_shared_and_mirrored_variables_give_the_same_results() -> None:
    ways = [*product(REDUCTIONS, (False, True))]
    check(loaded(dense("adam", declared=-1, examples=9)), *(Replication(3, 1, *way) for way in ways))
    check(loaded(recurrent("momentum")), Replication(4, 1, "nccl"), Replication(2, 2, "ring", is_mirrored=True))


@pytest.mark.parametrize("is_mirrored", [False, True])
def test_a_ring_passes_sums_on_only_to_mirrored_variables(is_mirrored: bool) -> None:
    graph = loaded(dense("momentum"))
    assert graph.file is not None
    training = DividedTraining(find_training(graph.file.graph), Replication(2, 1, "ring", is_mirrored=is_mirrored))
    names = {node.name.rpartition("/")[2] for node in replicate(graph.file, training).graph.nodes}
    assert {name for name in names if "_to_" in name} == ({"chunk_0_to_1", "chunk_1_to_0"} if is_mirrored else set())


WORDS = """
import numpy as np
import tensorflow.compat.v1 as tf

tf.disable_v2_behavior()
tf.set_random_seed(1)
words, wanted = tf.placeholder(tf.int32, [BATCH, 3], name="words"), tf.placeholder(tf.int32, [BATCH], name="wanted")
table = tf.get_variable("table", [11, 6])
cell = tf.nn.rnn_cell.BasicLSTMCell(6)
state = cell.zero_state(BATCH or tf.shape(words)[0], tf.float32)
outputs, _ = tf.nn.static_rnn(cell, tf.unstack(tf.nn.embedding_lookup(table, words), axis=1), initial_state=state)
logits = tf.layers.dense(outputs[-1], 5, kernel_regularizer=lambda weights: 0.01 * tf.nn.l2_loss(weights))
tf.losses.sparse_softmax_cross_entropy(wanted, logits)
loss = tf.losses.get_total_loss(name="loss")
hits = tf.reduce_sum(tf.to_int32(tf.equal(tf.argmax(logits, 1, output_type=tf.int32), wanted)), name="hits")
optimizer = tf.train.AdamOptimizer(1e-2)
gradients, variables = zip(*optimizer.compute_gradients(loss))
train = optimizer.apply_gradients(zip(tf.clip_by_global_norm(gradients, 0.5)[0], variables), name="train")
random = np.random.RandomState(1)
with tf.Session() as session:
    session.run(tf.global_variables_initializer())
    session.run([loss, hits, logits, train], {words: random.randint(0, 11, (4, 3)), wanted: random.randint(0, 5, 4)})
"""
"""Words in a recurrent network: rows of a table, states of zeros, a regularizer, clipped gradients, and other results."""
NORMALIZED = """
import numpy as np
import tensorflow.compat.v1 as tf

tf.disable_v2_behavior()
tf.set_random_seed(1)
images = tf.placeholder(tf.float32, [8, 4, 4, 2], name="images")
hidden = tf.nn.relu(tf.layers.batch_normalization(tf.layers.conv2d(images, 3, 3, padding="same"), training=True))
loss = tf.reduce_mean(tf.square(tf.layers.dense(tf.layers.dropout(tf.layers.flatten(hidden)), 1)))
with tf.control_dependencies(tf.get_collection(tf.GraphKeys.UPDATE_OPS)):
    train = tf.train.MomentumOptimizer(1e-2, 9e-1).minimize(loss)
with tf.Session() as session:
    session.run(tf.global_variables_initializer())
    session.run([loss, train], {images: np.random.RandomState(1).randn(8, 4, 4, 2)})
"""


BRANCHES = """
import numpy as np
import tensorflow.compat.v1 as tf

tf.disable_v2_behavior()
tf.disable_control_flow_v2()
tf.set_random_seed(1)
x = tf.placeholder(tf.float32, [8, 6], name="x")
h = tf.layers.dense(tf.layers.dense(x, 6, tf.tanh), 6, tf.tanh)
for is_first in (True, False):
    one, other = (lambda: tf.layers.dense(tf.layers.dense(h, 5, tf.tanh), 5, tf.tanh) for _ in range(2))
    h = tf.cond(tf.reduce_all(tf.constant([is_first])), one, other)
loss = tf.reduce_mean(tf.square(tf.layers.dense(tf.layers.dense(h, 6, tf.tanh), 2)))
train = tf.train.MomentumOptimizer(1e-2, 9e-1).minimize(loss)
with tf.control_dependencies([train]):
    train = tf.train.ExponentialMovingAverage(decay=0.9).apply(tf.trainable_variables())
with tf.Session() as session:
    session.run(tf.global_variables_initializer())
    session.run([loss, train], {x: np.random.RandomState(1).randn(8, 6)})
"""
"""Two conditionals of two layers, and moving averages of the variables after their update."""
SIZES = """
import numpy as np
import tensorflow.compat.v1 as tf

tf.disable_v2_behavior()
tf.set_random_seed(1)
x, labels = tf.placeholder(tf.float32, [4, 3, 3, 2], name="x"), tf.placeholder(tf.int64, [4], name="labels")
h = tf.layers.conv2d_transpose(x, 4, 3, strides=2)
h = tf.reshape(tf.layers.dense(tf.reshape(h, [tf.shape(h)[0] * 7, 28]), 5), [4, 35])
errors = tf.nn.softmax_cross_entropy_with_logits_v2(labels=tf.one_hot(labels, 5), logits=tf.layers.dense(h, 5))
loss = tf.reduce_sum(errors) / tf.to_float(tf.shape(x)[0])
train = tf.train.MomentumOptimizer(1e-2, 9e-1).minimize(loss)
random = np.random.RandomState(1)
with tf.Session() as session:
    session.run(tf.global_variables_initializer())
    session.run([loss, train], {x: random.randn(4, 3, 3, 2), labels: random.randint(0, 5, 4)})
"""
"""Shapes made of slices and products of a constant shape with the batch; Adam would divide by a gradient near zero."""


TABLE = """
import numpy as np
import tensorflow.compat.v1 as tf

tf.disable_v2_behavior()
tf.set_random_seed(1)
words = tf.placeholder(tf.int32, [8, 3], name="words")
table = tf.get_variable("table", [11, 6])
h = tf.layers.dense(tf.reshape(tf.nn.embedding_lookup(table, words), [-1, 18]), 5, tf.tanh)
loss = tf.reduce_mean(tf.square(tf.layers.dense(h, 2)))
train = tf.train.MomentumOptimizer(1e-2, 9e-1).minimize(loss)
with tf.control_dependencies([train]):
    train = tf.train.ExponentialMovingAverage(decay=0.9).apply(tf.trainable_variables())
with tf.Session() as session:
    session.run(tf.global_variables_initializer())
    session.run([loss, train], {words: np.random.RandomState(1).randint(0, 11, [8, 3])})
"""
"""A table whose update, SparseApplyMomentum, has no kernel for GPUs, and moving averages."""


_READ = "/Read/ReadVariableOp"
"""End of the name of the op by which a script reads a resource variable."""


def script(path: Path, text: str) -> LoadedGraph:
    """Load a script, with its last step repeated, and a further step that fetches all variables."""
    path.write_text(text, encoding="utf-8")
    graph = load(path, None, make_options({}))
    if graph.error is not None or graph.file is None:
        raise graph.error or AssertionError
    *first, last = graph.file.steps or ()
    nodes = graph.file.graph.nodes
    variables = [Fetch(f"{node.name}:0") for node in nodes if node.op in REF_VARIABLES or node.name.endswith(_READ)]
    steps = (*first, replace(last, repeat=STEPS), GraphStep(tuple(variables)))
    return replace(graph, file=replace(graph.file, steps=steps, each_step=None))


@pytest.mark.slow
@pytest.mark.parametrize("batch", ["4", "None"])
def test_scripts_give_the_same_results_in_parts(tmp_path: Path, batch: str) -> None:
    graph = script(tmp_path / "words.py", WORDS.replace("BATCH", batch))
    check(graph, Replication(2, 1), Replication(1, 4), Replication(2, 2, "ring", is_mirrored=True))


@pytest.mark.slow
def test_statistics_of_a_batch_are_those_of_its_parts(tmp_path: Path) -> None:
    graph = script(tmp_path / "normalized.py", NORMALIZED)
    assert graph.file is not None
    training = find_training(graph.file.graph)
    found = []
    for replication in (Replication(2, 1), Replication(1, 2), Replication(2, 1, "tree", is_mirrored=True)):
        parts = DividedTraining(training, replication)
        assert parts.notes == (
            "statistics of a part of the batch, not of the whole: batch_normalization/FusedBatchNormV3",
            "the exact gradient is 0, so rounding decides the updates: conv2d/bias (what they add is ignored by "
            "batch_normalization/FusedBatchNormV3)",
        )
        found.append(results(graph, replicate(graph.file, parts)))
    for other in found[1:]:
        for (name, array), (_, own) in zip(found[0], other, strict=True):
            np.testing.assert_allclose(own, array, rtol=1e-5, atol=1e-7, err_msg=name)


@pytest.mark.slow
def test_sizes_of_the_batch_within_constant_shapes_are_those_of_a_part(tmp_path: Path) -> None:
    check(script(tmp_path / "sizes.py", SIZES), Replication(2), Replication(1, 4))


@pytest.mark.slow
def test_a_variable_is_read_after_its_update_on_any_device(tmp_path: Path) -> None:
    graph = script(tmp_path / "branches.py", BRANCHES)
    assert graph.file is not None
    expected = results(graph)
    for settings in ({"replicas": 2}, {"replicas": 2, "variables": "mirrored"}):
        found = results(graph, rewrite_training(graph.file, Strategy(**settings)).file)
        averages = 0
        for (name, array), (_, other) in zip(expected, found, strict=True):
            np.testing.assert_allclose(other, array, rtol=1e-5, atol=1e-7, err_msg=f"{name} with {settings}")
            averages += name.endswith("/ExponentialMovingAverage:0")
        assert averages == 24


@pytest.mark.slow
def test_a_table_is_on_a_device_with_kernels_for_its_updates(tmp_path: Path) -> None:
    graph = script(tmp_path / "table.py", TABLE)
    assert graph.file is not None
    expected = results(graph)
    for settings in (
        {"replicas": 2, "variables": "mirrored", "reduce": "nccl"},
        {"stages": 2, "micro_batches": 2},
        {"replicas": 2, "variables": "mirrored", "stages": 2, "micro_batches": 2},
    ):
        file = rewrite_training(graph.file, Strategy(**settings)).file
        for (name, array), (_, other) in zip(expected, results(graph, file, is_soft=False), strict=True):
            np.testing.assert_allclose(other, array, rtol=1e-5, atol=1e-7, err_msg=f"{name} with {settings}")
        assert {node.device for node in file.graph.nodes if node.op == "VariableV2" and "table" in node.name} == {""}
        assert {node.device for node in file.graph.nodes if node.name.endswith("dense/kernel")} >= {"/device:GPU:0"}


BY_HAND = """
import numpy as np
import tensorflow.compat.v1 as tf

tf.disable_v2_behavior()
x = tf.placeholder(tf.float32, [4, 3], name="x")
w, v = (tf.get_variable(name, [3], initializer=tf.ones_initializer(), use_resource=name == "v") for name in "wv")
loss = tf.reduce_mean(tf.square(tf.tanh(x * w) * v))
gradients = tf.gradients(loss, [w, v])
train = [tf.assign_sub(w, 0.5 * gradients[0]), UPDATE]
with tf.Session() as session:
    session.run(tf.global_variables_initializer())
    session.run([loss, train], {x: np.random.RandomState(1).randn(4, 3)})
"""
"""Gradient descent without an optimizer."""


@pytest.mark.slow
@pytest.mark.parametrize("update", ["v.assign_sub(0.5 * gradients[1])", "v.assign(v - 0.5 * gradients[1])"])
def test_updates_written_by_hand_are_updates(tmp_path: Path, update: str) -> None:
    graph = script(tmp_path / "by_hand.py", BY_HAND.replace("UPDATE", update))
    assert graph.file is not None
    training = find_training(graph.file.graph)
    assert [graph.file.graph.nodes[number].name for number in training.variables] == ["w", "v"]
    check(graph, Replication(2), Replication(1, 4), Replication(2, 1, "ring", is_mirrored=True))


def _linear(loss: Sequence[Document]) -> Document:
    """A linear model of four examples, with a sum `total` over them; `loss` are further nodes."""
    nodes = [
        *(placeholder("x", 4, 3), variable("w", 3, 2, seed=1), node("MatMul", "y", "x", "w"), node("Square", "squares", "y")),
        *(node("Sum", "total", "squares", [0, 1]), node("L2Loss", "decay", "w"), *loss),
    ]
    return training(nodes, "gradient descent", lambda random: {"x": random.randn(4, 3)})


def test_a_term_without_the_batch_beside_a_sum_over_the_batch_is_refused() -> None:
    stacked = [node("Pack", "terms", "total", "decay", axis=0), node("Sum", "loss", "terms", [0])]
    graph = loaded(_linear(stacked))
    assert graph.file is not None
    with pytest.raises(UsageError, match=r"terms \(Pack\) is not linear in the examples' results"):
        DividedTraining(find_training(graph.file.graph), Replication(1, 2))
    both = [node("Pack", "terms", "total", "total", axis=0), node("GatherV2", "one", "terms", 1, 0), node("Neg", "loss", "one")]
    check(loaded(_linear(both)), Replication(1, 2))


def test_a_size_of_the_batch_is_found_through_ops_that_move_elements() -> None:
    sizes = [
        {"op": "Const", "name": "sizes", "dtype": "int32", "value": [[2], [4]], "shape": [2, 1]},
        *(node("Reshape", "flat", "sizes", [2]), node("GatherV2", "dims", "flat", [1, 0], 0)),
        *(node("Fill", "twos", "dims", 2.0), node("Mul", "doubled", "y", "twos"), node("Sum", "loss", "doubled", [0, 1])),
    ]
    check(loaded(_linear(sizes)), Replication(2), Replication(1, 4))


def test_small_integers_beside_the_batch_are_data_of_the_examples() -> None:
    nodes = [
        *(placeholder("x", 4, dtype="uint8"), variable("w", 1, 1, seed=1)),
        {"op": "Const", "name": "offsets", "dtype": "uint8", "value": [8, 1, 2, 4], "shape": [4]},
        *(node("AddV2", "moved", "x", "offsets"), {"op": "Cast", "name": "y", "inputs": ["moved"], "attrs": {"DstT": "float"}}),
        *(node("ExpandDims", "columns", "y", 1), node("MatMul", "products", "columns", "w")),
        node("Mean", "loss", "products", [0, 1]),
    ]
    check(loaded(training(nodes, "gradient descent", lambda random: {"x": random.randint(0, 9, 4)})), Replication(2))


LOOP = """
import tensorflow.compat.v1 as tf

tf.disable_v2_behavior()
x, w = tf.placeholder(tf.float32, [4, 3], name="x"), tf.get_variable("w", [3, 3])
_, y, _ = tf.while_loop(lambda i, h, s: i < 2, lambda i, h, s: (i + 1, tf.matmul(s, w), h), (0, x, x))
tf.train.AdamOptimizer().minimize(tf.reduce_mean(y))
"""
"""A loop with a result that nothing reads."""


def test_a_loop_between_the_batch_and_the_loss_is_refused(tmp_path: Path) -> None:
    (tmp_path / "loop.py").write_text(LOOP, encoding="utf-8")
    file = load(tmp_path / "loop.py", None, make_options({})).file
    assert file is not None
    with pytest.raises(
        UsageError,
        match=r"cannot rewrite a loop as copies: got while/Enter\w* \(Enter\), expected a loss without dynamic loops",
    ):
        DividedTraining(find_training(file.graph), Replication(2))


ROWS = """
import tensorflow.compat.v1 as tf

tf.disable_v2_behavior()
words = tf.placeholder(tf.int32, [None], name="words")
table = tf.get_variable("table", [10, 4], partitioner=tf.fixed_size_partitioner(2))
tf.train.AdamOptimizer().minimize(tf.reduce_mean(tf.nn.embedding_lookup(table, words)))
"""


def test_rows_whose_number_depends_on_values_are_refused(tmp_path: Path) -> None:
    (tmp_path / "rows.py").write_text(ROWS, encoding="utf-8")
    file = load(tmp_path / "rows.py", None, make_options({})).file
    assert file is not None
    for replication in (Replication(2), Replication(1, 2)):
        with pytest.raises(UsageError, match=r"gradient of unknown shape: got gradients/.*Reshape_1 \[\?\]"):
            DividedTraining(find_training(file.graph), replication)


@pytest.mark.parametrize(
    "settings", [{"replicas": 2}, {"accumulate": 2}, {"stages": 2}, {"recompute": ("sqrt",)}, {"precision": "float16"}]
)
def test_a_graph_whose_steps_add_nodes_is_refused(settings: dict[str, Any]) -> None:
    document = dense("adam")
    graph = loaded(document | {"run": [*document["run"], {"nodes": [node("Neg", "less", "loss")], "fetch": ["less:0"]}]})
    assert graph.file is not None
    with pytest.raises(UsageError, match=r"^cannot rewrite a graph that grows: got steps that add nodes, expected one graph"):
        rewrite_training(graph.file, Strategy(**settings))
