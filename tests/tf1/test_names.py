"""Names of nodes and collections that functions make on the way, as TensorFlow 2.21 makes them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

import placesim.tf1 as tf


@pytest.fixture(autouse=True)
def _graph() -> Iterator[Any]:
    with tf.Graph().as_default() as graph:
        yield graph


def test_a_layers_call_makes_a_collection_of_updates() -> None:
    dense = tf.layers.Dense(2)
    assert "update_ops" not in tf.get_default_graph().get_all_collection_keys()
    dense(tf.ones([1, 2]))
    assert "update_ops" in tf.get_default_graph().get_all_collection_keys()
    assert tf.get_collection(tf.GraphKeys.UPDATE_OPS) == []


def test_joined_texts_are_a_constant_of_the_scope() -> None:
    found = tf.reduce_join([["a", "b"]], 1)
    assert [t.name for t in found.op.inputs] == ["ReduceJoin/Const:0", "ReduceJoin/ReduceJoin/reduction_indices:0"]


@pytest.mark.parametrize("extreme", [tf.sparse_maximum, tf.sparse_minimum])
def test_the_greatest_of_sparse_tensors_takes_its_name_outside_the_ops_scope(extreme: Any) -> None:
    one = tf.SparseTensor([[0]], [1.0], [2])
    extreme(one, one)
    assert tf.SparseTensor([[0]], [1.0], [2]).values.name == "SparseTensor_2/values:0"


def test_each_call_of_a_dropout_layer_has_another_seed() -> None:
    layer = tf.layers.Dropout(seed=5)
    for _ in range(2):
        layer(tf.ones([2]), training=True)
    drawn = [op for op in tf.get_default_graph().get_operations() if op.type == "RandomUniform"]
    assert [op.get_attr("seed2") for op in drawn] == [5, 6]


def test_an_exact_name_is_not_marked_as_used() -> None:
    assert tf.constant(1, name="q/").op.name == "q"
    with pytest.raises(ValueError, match="Duplicate node name in graph: 'q'"):
        tf.constant(1, name="q")
    assert tf.constant(1, name="q").op.name == "q_1"


def test_imported_names_are_marked_as_used() -> None:
    with tf.Graph().as_default() as other:
        tf.no_op(name="a")
    tf.import_graph_def(other.as_graph_def(), name="")
    assert tf.no_op(name="A").name == "A_1"


def test_only_a_graph_def_has_its_control_inputs_sorted() -> None:
    second, first = tf.no_op(name="b"), tf.no_op(name="a")
    group = tf.group(second, first, name="group")
    assert list(group.node_def.input) == ["^b", "^a"]
    assert list(tf.get_default_graph().as_graph_def().node[-1].input) == ["^a", "^b"]
