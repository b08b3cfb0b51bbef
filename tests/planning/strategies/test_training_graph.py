"""The parts of training graphs, and graphs that cannot be rewritten: each is refused with the node and the reason."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from placesim.core.errors import UsageError
from placesim.formats.sources.loading import load
from placesim.graph.graph import TensorRef
from placesim.machine.options import make_options
from placesim.planning.strategies.rewriting import MAX_PARTS, Strategy, rewrite_training
from placesim.planning.strategies.training_graph import batch_dims, find_conditional_nodes, find_training
from placesim.runtime.shapes.graph_shapes import GraphShapes
from tests.planning.strategies.models import OPTIMIZERS, Document, dense, loaded, node, placeholder, variable
from tests.planning.strategies.test_replication import script
from tests.processes import ROOT

TRAIN: Document = {"train": {"minimize": "loss", "optimizer": OPTIMIZERS["gradient descent"]}}
X, W, Y = placeholder("x", 4, 3), variable("w", 3, 1, seed=1), node("MatMul", "y", "x", "w")
LOSS = node("Mean", "loss", "y", [0, 1])
MEANS = node("Mean", "a", "y", [0, 1]), node("Mean", "b", "z", [0])
SUMS = node("Sum", "s", "kept", [0, 1]), node("Sum", "count", "x", [0, 1])

PHASES = """
import numpy as np
import tensorflow.compat.v1 as tf
tf.disable_control_flow_v2()
x = tf.placeholder(tf.float32, [None, 3], name="x")
phase = tf.placeholder(tf.bool, name="phase")
y = tf.layers.dense(x, 1)
loss = tf.reduce_mean(tf.cond(phase, lambda: y * 2.0, lambda: y * 0.5))
train = tf.train.GradientDescentOptimizer(0.1).minimize(loss)
with tf.Session() as session:
    session.run(tf.global_variables_initializer())
    session.run([train, loss], {x: np.ones((4, 3)), phase: FED})
"""
"""A script with a placeholder of unknown rank."""


@pytest.mark.parametrize("optimizer", OPTIMIZERS)
@pytest.mark.parametrize("kind", ["ref", "resource"])
def test_the_parts_of_a_training_graph(optimizer: str, kind: str) -> None:
    graph = loaded(dense(optimizer, kind=kind)).file.graph  # type: ignore[union-attr]
    training = find_training(graph)
    assert [graph.tensor_name(ref) for ref in training.batch] == ["x", "y"]
    assert training.loss == TensorRef(graph.ids["loss"], 0)
    assert [graph.nodes[number].name for number in training.variables] == ["w", "b", "v"]
    assert {len(update.gradients) for update in training.updates} == {1}
    forward, backward = ({graph.nodes[number].name for number in part} for part in (training.forward, training.backward))
    assert {"xw", "h", "errors", "mean", "decay", "loss"} <= forward
    assert {name for name in graph.ids if name.startswith("gradients/")} == backward
    assert not any("read" in name.lower() or "Adam" in name for name in forward)
    assert {training.forward_node(graph.node(name)) for name in backward if name.startswith("gradients/xw_grad/")} == {
        graph.node("xw")
    }


@pytest.mark.parametrize("queue", ["FIFOQueueV2", "PriorityQueueV2"])
def test_a_dequeued_batch_has_the_shapes_of_the_queue(queue: str) -> None:
    priority = ["int64"] if queue == "PriorityQueueV2" else []
    taken = "batch:1" if priority else "batch"
    nodes = [
        node(queue, "queue", component_types=["float"], shapes=[[3]]),
        *(node("QueueDequeueManyV2", "batch", "queue", 4, component_types=[*priority, "float"]), W),
        *(node("MatMul", "y", taken, "w"), LOSS, TRAIN),
    ]
    graph = loaded({"nodes": nodes}).file.graph  # type: ignore[union-attr]
    (batch,) = find_training(graph).batch
    assert graph.tensor_name(batch) == taken
    assert batch_dims(graph, GraphShapes(graph), batch) == (4, 3)


def refused(nodes: list[Document], **settings: Any) -> str:
    file = load({"nodes": nodes}, None, make_options({})).file
    assert file is not None
    with pytest.raises(UsageError) as caught:
        rewrite_training(file, Strategy(**({"replicas": 2} | settings)))
    return str(caught.value)


@pytest.mark.parametrize(
    ("nodes", "expected"),
    [
        ([Y, placeholder("z", 8), *MEANS, node("Add", "loss", "a", "b")], "different first dimensions: got 4 of x, 8 of z"),
        ([node("L2Loss", "loss", "w")], "no batch: got a loss that reads no placeholder"),
        ([Y, node("Max", "loss", "y", [0, 1])], "in which loss (Max) is not linear"),
        ([Y, node("Mean", "m", "y", [0, 1]), node("Sqrt", "loss", "m")], "in which loss (Sqrt) is not linear"),
        (
            [Y, node("Sum", "s", "y", [0, 1]), node("L2Loss", "decay", "w"), node("Add", "loss", "s", "decay")],
            "in which loss (Add) adds a term without the batch to a sum over the batch",
        ),
        (
            [Y, node("Mul", "kept", "y", "x"), *SUMS, node("RealDiv", "loss", "s", "count")],
            "in which loss (RealDiv) divides by a number that depends on the examples",
        ),
        (
            [Y, node("MatMul", "pairs", "y", "y", transpose_b=True), node("Mean", "loss", "pairs", [0, 1])],
            "examples depend on each other: got pairs (MatMul) [4,4]",
        ),
        (
            [variable("rows", 4, 1, seed=2), Y, node("Add", "z", "y", "rows"), node("Mean", "loss", "z", [0, 1])],
            "rows/read (Identity) [4,1] is not divided, but z reads it together with a divided tensor. If dimension 0",
        ),
    ],
)
def test_a_graph_without_equal_parts_is_refused(nodes: list[Document], expected: str) -> None:
    assert expected in refused([X, W, *nodes, TRAIN])


MIXED = [
    (node("Cumsum", "z", "y", 0), node("Cumsum", "z", "y", 1)),
    (node("ReverseV2", "z", "y", [0]), node("ReverseV2", "z", "y", [-1])),
    (node("Reverse", "z", "y", [True, False]), node("Reverse", "z", "y", [False, True])),
    (node("Roll", "z", "y", [1], [0]), node("Roll", "z", "y", [1], [1])),
    (node("GatherV2", "z", "y", [3, 2, 1, 0], 0), node("GatherV2", "z", "y", [0], 1)),
    (node("ReverseSequence", "z", "yt", [2], seq_dim=1, batch_dim=0), node("ReverseSequence", "z", "y", [1] * 4, seq_dim=1)),
    (node("Softmax", "z", "yt"), node("Softmax", "z", "y")),
]
"""Nodes along the dimension of the batch, each with one along the other dimension."""


@pytest.mark.parametrize(("along_batch", "along_units"), MIXED)
def test_a_node_that_mixes_the_examples_of_the_batch_is_refused(along_batch: Document, along_units: Document) -> None:
    nodes = [X, W, Y, node("Transpose", "yt", "y", [1, 0])]
    expected = f"examples depend on each other: got z ({along_batch['op']}) along the dimension of the batch"
    assert expected in refused([*nodes, along_batch, node("Mean", "loss", "z", [0, 1]), TRAIN])
    file = load({"nodes": [*nodes, along_units, node("Mean", "loss", "z", [0, 1]), TRAIN]}, None, make_options({})).file
    assert file is not None
    assert rewrite_training(file, Strategy(accumulate=2)).is_mean


def test_a_graph_with_other_than_one_training_is_refused() -> None:
    assert "got no variable that is updated with a gradient" in refused([X, W, Y, LOSS])
    second = {"train": TRAIN["train"] | {"minimize": "other"}, "name": "second"}
    assert "several losses: got" in refused([X, W, Y, LOSS, node("Mean", "other", "y", [0, 1]), TRAIN, second])
    towers = load(ROOT / "graphs/cifar10-towers.yaml").file
    assert towers is not None
    with pytest.raises(UsageError, match="several losses: got tower_1/loss, tower/loss"):
        rewrite_training(towers, Strategy(replicas=2))
    assert "got a batch of 3, expected a multiple of 2" in refused([placeholder("x", 3, 3), W, Y, LOSS, TRAIN])
    constant = {"op": "Const", "name": "x", "value": [[1.0] * 3]}
    assert "name the tensors that hold the batch with --split" in refused([constant, W, Y, LOSS, TRAIN])


def test_a_sum_of_losses_is_one_loss_though_it_has_no_gradient_of_its_own(tmp_path: Path) -> None:
    script = tmp_path / "script.py"
    script.write_text(
        """
import tensorflow as tf
x = tf.placeholder(tf.float32, [4, 2], name="x")
w = tf.Variable([[1.0], [2.0]], name="w")
y = tf.matmul(x, w)
terms = [tf.reduce_mean(y * 3.0, name="one"), tf.reduce_mean(tf.square(y), name="two"), tf.reduce_mean(y, name="three")]
loss = tf.add(terms[0] + terms[1], terms[2], name="all")
(gradient,) = tf.gradients(loss, [w])  # not grouped, as `minimize` does it
tf.train.GradientDescentOptimizer(0.1).apply_gradients([(gradient, w)], name="train")
""",
        encoding="utf-8",
    )
    file = load(script).file
    assert file is not None
    training = rewrite_training(file, Strategy(replicas=2)).training
    assert training.graph.nodes[training.loss.node].name == "all"


@pytest.mark.slow
@pytest.mark.parametrize(("fed", "is_scalar"), [("True", True), ("[True]", False)])
def test_a_placeholder_of_unknown_rank_is_no_batch_if_a_scalar_is_fed(tmp_path: Path, fed: str, is_scalar: bool) -> None:
    file = script(tmp_path / "phases.py", PHASES.replace("FED", fed)).file
    assert file is not None
    if is_scalar:
        assert [*rewrite_training(file, Strategy(accumulate=2)).batch] == ["x"]
    else:
        with pytest.raises(UsageError, match="no batch dimension: got phase of unknown rank"):
            rewrite_training(file, Strategy(accumulate=2))


@pytest.mark.parametrize(
    ("settings", "expected"),
    [
        ({"replicas": 1}, "no strategy"),
        ({"replicas": 0}, "wrong replicas: got 0"),
        ({"accumulate": True}, "wrong accumulate: got True"),
        ({"reduce": "star"}, "wrong reduce: got 'star', expected one of cpu, ring, tree, nccl"),
        ({"variables": "gpu"}, "wrong variables: got 'gpu', expected one of cpu, mirrored"),
        ({"replicas": 1, "accumulate": 2, "reduce": "ring"}, "no replicas"),
        ({"replicas": 4096, "accumulate": 2}, "too many parts: got 8192"),
        ({"split": ("q",)}, "no such tensor: got 'q' in --split"),
    ],
)
def test_wrong_settings_are_refused(settings: dict[str, Any], expected: str) -> None:
    assert expected in refused([X, W, Y, LOSS, TRAIN], **settings)


def test_as_many_parts_as_are_allowed() -> None:
    assert Strategy(replicas=MAX_PARTS // 2, accumulate=2).parts == MAX_PARTS


NESTED = """
import tensorflow.compat.v1 as tf

tf.disable_v2_behavior()
tf.disable_control_flow_v2()
inner = lambda i, h: tf.while_loop(lambda j, h: j < 2, lambda j, h: (j + 1, -h), (i, h))
loop = tf.while_loop(lambda i, h: i < 2, inner, (0, tf.ones([2])))
with tf.Session() as session:
    session.run(loop)
"""


@pytest.mark.slow
def test_the_exits_of_a_loop_in_a_loop_may_run_several_times(tmp_path: Path) -> None:
    graph = script(tmp_path / "nested.py", NESTED).file.graph  # type: ignore[union-attr]
    conditional = find_conditional_nodes(graph)
    exits = [node.id in conditional for node in graph.nodes if node.op == "Exit"]
    assert sorted(exits) == [False, False, True, True]
