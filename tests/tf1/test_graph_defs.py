"""Imports of GraphDefs and MetaGraphs: input maps and loops, as TensorFlow 2.21 makes them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

import placesim.tf1 as tf


@pytest.fixture(autouse=True)
def _graph() -> Iterator[Any]:
    with tf.Graph().as_default() as graph:
        yield graph


def _product() -> Any:
    with tf.Graph().as_default() as graph:
        tf.multiply(tf.placeholder(tf.float32, [], name="x"), 2.0, name="y")
    return graph.as_graph_def()


def test_an_import_without_a_scope_takes_tensors_alone() -> None:
    x = tf.constant(3.0)
    (y,) = tf.import_graph_def(_product(), {"x": x}, ["y:0"], name="")
    assert [t.name for t in y.op.inputs] == ["Const:0", "y/y:0"]
    with pytest.raises(ValueError, match="requires a non-empty `name` if `input_map` contains non-Tensor values"):
        tf.import_graph_def(_product(), {"x": 3.0}, name="")


def test_values_of_an_input_map_become_tensors_in_a_scope_of_their_own() -> None:
    (y,) = tf.import_graph_def(_product(), {"x": 3.0}, ["y:0"])
    assert y.op.inputs[0].name == "import/_inputs/Const:0"


def test_the_frames_of_a_meta_graph_in_a_scope_have_its_name() -> None:
    with tf.Graph().as_default():
        tf.while_loop(lambda i: i < 3, lambda i: i + 1, [0], name="loop")
        written = tf.train.export_meta_graph()
    tf.train.import_meta_graph(written, import_scope="scope")
    enter = tf.get_default_graph().get_operation_by_name("scope/loop/Enter")
    assert enter.get_attr("frame_name") == b"scope/loop/while_context"


def test_nodes_of_training_are_removed_unless_others_are_colocated_with_them() -> None:
    with tf.Graph().as_default() as graph:
        x = tf.placeholder(tf.float32, [], name="x")
        y = tf.identity(tf.stop_gradient(x), name="y")
        with tf.colocate_with(y):
            tf.negative(y, name="z")
        tf.identity(tf.check_numerics(x, "", name="checked"), name="w")
        tf.add(tf.identity(x, name="gone"), 1.0, name="sum")
    found = tf.graph_util.remove_training_nodes(graph.as_graph_def(), protected_nodes=["w"])
    assert {node.name: list(node.input) for node in found.node} == {
        "x": [],
        "y": ["x"],
        "z": ["y"],
        "w": [],
        "sum/y": [],
        "sum": ["x", "sum/y"],
    }
