"""What public TensorFlow 1 scripts lean on beside the common calls; the values are TensorFlow 2.21's."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import placesim.tf1 as tf
from placesim.tf1.importing.submodule_sources import names_of
from placesim.tf1.queues.staging import StagingArea


@pytest.fixture
def graph() -> Iterator[Any]:
    with tf.Graph().as_default() as made:
        yield made


def nodes(graph: Any) -> list[tuple[str, str]]:
    return [(op.name, op.type) for op in graph.get_operations()]


@pytest.mark.parametrize(
    ("shape", "axis", "layout"),
    [
        ([4, 5, 6, 3], -1, "NHWC"),
        ([4, 3, 8, 8], 1, "NCHW"),
        ([4, 3, 8, 8], 2, None),
        ([4, 2, 3, 8, 8], 4, "NDHWC"),
        ([4, 2, 3, 8, 8], 1, "NCDHW"),
        ([4, 8, 3], -1, None),
        ([4, 3], -1, None),
    ],
)
@pytest.mark.parametrize("fused", [None, True])
def test_one_kernel_normalizes_pictures_and_volumes(
    graph: Any, shape: list[int], axis: int, layout: str | None, fused: bool | None
) -> None:
    tf.layers.batch_normalization(tf.placeholder(tf.float32, shape), axis=axis, training=True, fused=fused)
    found = [op.get_attr("data_format").decode() for op in graph.get_operations() if op.type == "FusedBatchNormV3"]
    assert found == ([] if layout is None else [layout])


def test_a_normalization_without_scale_and_offset_makes_its_constants_when_it_is_called(graph: Any) -> None:
    tf.layers.batch_normalization(tf.placeholder(tf.float32, [4, 8, 8, 3]), scale=False, center=False)
    found = nodes(graph)
    kernel = graph.get_operation_by_name("batch_normalization/FusedBatchNormV3")
    assert found[-3:-1] == [("batch_normalization/Const", "Const"), ("batch_normalization/Const_1", "Const")]
    assert [source.op.name for source in kernel.inputs[1:3]] == ["batch_normalization/Const_1", "batch_normalization/Const"]


def test_a_staging_area_stands_beside_its_root(graph: Any) -> None:
    with tf.device("/gpu:0"):
        area = StagingArea([tf.float32, tf.int32], shapes=[[2, 3], None], names=["x", "y"], capacity=3)
    with tf.device("/cpu:0"):
        area.put({"y": tf.constant(1), "x": tf.zeros([2, 3])})
        found = area.get()
    assert [(op.name, op.type, op.device) for op in graph.get_operations()] == [
        ("StagingArea_root/NoOp", "NoOp", "/device:GPU:0"),
        ("Const", "Const", "/device:CPU:0"),
        ("zeros", "Const", "/device:CPU:0"),
        ("StagingArea_put", "Stage", "/device:GPU:0"),
        ("StagingArea_get", "Unstage", "/device:GPU:0"),
        ("NoOp", "NoOp", "/device:CPU:0"),
        ("Identity", "Identity", "/device:CPU:0"),
        ("Identity_1", "Identity", "/device:CPU:0"),
    ]
    assert found["x"].shape.as_list() == [2, 3]
    assert found["y"].shape.ndims is None
    put = graph.get_operation_by_name("StagingArea_put")
    assert put.get_attr("_class") == [b"loc:@StagingArea_root/NoOp"]
    assert (put.get_attr("shared_name"), put.get_attr("capacity")) == (b"StagingArea", 3)


def test_a_staging_area_refuses_what_does_not_fit(graph: Any) -> None:
    area = StagingArea([tf.float32], shapes=[[2]])
    with pytest.raises(ValueError, match=r"Shapes \(3,\) and \(2,\) are incompatible"):
        area.put([tf.zeros([3])])
    with pytest.raises(ValueError, match="Unexpected number of inputs 2 vs 1"):
        area.put([tf.zeros([2]), tf.zeros([2])])
    with pytest.raises(ValueError, match="same length as dtypes"):
        StagingArea([tf.float32], names=["a", "b"])


def test_views_of_a_dictionary_are_structures() -> None:
    made = {"b": 1, "a": 2}
    assert tf.nest.flatten({"z": made.values(), "y": [made.items()]}) == ["b", 1, "a", 2, 1, 2]
    assert tf.nest.flatten(made.keys()) == ["b", "a"]
    assert tf.nest.flatten(range(3)) == [0, 1, 2]


def test_an_optimizer_takes_the_values_of_a_dictionary(graph: Any) -> None:
    weights = {"b": tf.Variable(1.0), "a": tf.Variable(2.0)}
    pairs = tf.train.GradientDescentOptimizer(0.1).compute_gradients(weights["b"] * weights["a"], weights.values())
    assert [variable.name for _, variable in pairs] == ["Variable:0", "Variable_1:0"]


def test_pictures_in_summaries_show_bad_values_in_red(graph: Any) -> None:
    tf.summary.image("p", tf.zeros([1, 2, 2, 3]))
    found = graph.get_operation_by_name("p").get_attr("bad_color")
    assert np.frombuffer(found.tensor_content, np.uint8).tolist() == [255, 0, 0, 255]


def test_a_sparse_placeholder_takes_its_shape_from_a_tensor(graph: Any) -> None:
    made = tf.sparse_placeholder(tf.float32, shape=tf.constant([5, 7], tf.int64))
    assert [op.type for op in graph.get_operations()] == ["Const", "PlaceholderWithDefault", "Placeholder", "Placeholder"]
    assert made.indices.shape.as_list() == [None, 2]
    assert made.get_shape().as_list() == [5, 7]


def test_the_first_version_of_something_needs_no_number() -> None:
    assert list(names_of("VariableV1")) == ["VariableV1", "Variable"]
    assert list(names_of("reduce_sum_v1")) == ["reduce_sum_v1", "reduce_sum"]
    assert list(names_of("V1")) == ["V1"]


def test_a_normal_distribution_draws_and_weighs(graph: Any) -> None:
    made = tf.distributions.Normal(tf.placeholder(tf.float32, [None, 1]), 2.0, name="policy")
    drawn = made.sample(3)
    assert [name for name, _ in nodes(graph)][1:8] == [
        "policy/loc",
        "policy/scale/input",
        "policy/scale",
        "policy/sample/sample_shape",
        "policy/sample/sample_shape_1",
        "policy/batch_shape_tensor/Shape",
        "policy/batch_shape_tensor/Shape_1",
    ]
    assert drawn.shape.as_list() == [3, None, 1]
    before = len(nodes(graph))
    made.log_prob(0.5)
    kinds = ["Const", "Sub", "RealDiv", "Square", "Const", "Mul", "Log", "Const", "AddV2", "Sub"]
    assert [kind for _, kind in nodes(graph)[before:]] == kinds
    fixed = tf.distributions.Normal(0.0, 1.0)
    with tf.Session() as session:
        values = session.run([fixed.log_prob(0.0), fixed.entropy(), tf.distributions.kl_divergence(fixed, fixed)])
    assert values == pytest.approx([-0.9189385, 1.4189385, 0.0])


def test_divergences_of_other_distributions_are_not_there() -> None:
    with pytest.raises(NotImplementedError, match="No KL"):
        tf.distributions.kl_divergence(1, 2)
