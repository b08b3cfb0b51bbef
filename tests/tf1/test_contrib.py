"""`tf.contrib`: names, ops and collections as TensorFlow 1.15.5 recorded them for the same calls."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import placesim.tf1 as tf
from placesim.tf1.graphs.graph import Graph

layers, slim, framework = tf.contrib.layers, tf.contrib.slim, tf.contrib.framework


@pytest.fixture(autouse=True)
def graph() -> Any:
    with Graph().as_default() as made:
        yield made


def _names(prefix: str = "", without: str = "Initializer") -> list[str]:
    found = [op.name for op in tf.get_default_graph().get_operations()]
    return [name for name in found if name.startswith(prefix) and without not in name]


def _collected(key: str) -> list[str]:
    return [item.name for item in tf.get_collection(key)]


def test_a_convolution_has_weights_and_biases() -> None:
    x = tf.placeholder(tf.float32, [None, 8, 8, 3], name="x")
    y = layers.conv2d(x, 4, 3)
    assert _names("Conv/", "/Initializer/") == [
        *("Conv/weights", "Conv/weights/Assign", "Conv/weights/read", "Conv/biases", "Conv/biases/Assign", "Conv/biases/read"),
        *("Conv/Conv2D", "Conv/BiasAdd", "Conv/Relu"),
    ]
    assert y.shape.as_list() == [None, 8, 8, 4]
    assert _collected("model_variables") == _collected("trainable_variables") == ["Conv/weights:0", "Conv/biases:0"]


@pytest.mark.parametrize(
    ("make", "name"),
    [
        (lambda x: layers.fully_connected(x, 4, normalizer_fn=layers.bias_add), "fully_connected/Relu"),
        (lambda x: layers.fully_connected(x, 4, activation_fn=None), "fully_connected/BiasAdd"),
        (lambda x: layers.linear(x, 4, scope="out"), "out/BiasAdd"),
        (lambda x: layers.layer_norm(x), "LayerNorm/batchnorm/add_1"),
        (lambda x: layers.unit_norm(x, 1), "UnitNorm/div"),
        (lambda x: layers.flatten(x), "Flatten/flatten/Reshape"),
        (lambda x: layers.dropout(x, is_training=False), "Dropout/Identity"),
        (lambda x: layers.stack(x, layers.fully_connected, [3, 4]), "Stack/fully_connected_2/Relu"),
        (lambda x: layers.repeat(x, 2, layers.fully_connected, 5, scope="fc"), "fc/fc_2/Relu"),
        (lambda x: layers.batch_norm(x), "BatchNorm/Reshape_1"),
    ],
)
def test_a_layers_output_is_named_by_its_scope(make: Any, name: str) -> None:
    assert make(tf.placeholder(tf.float32, [5, 6], name="h")).op.name == name


def test_batch_norm_moves_its_averages_at_once_or_leaves_updates() -> None:
    x = tf.placeholder(tf.float32, [2, 4, 4, 3])
    at_once = layers.batch_norm(x, updates_collections=None, scope="a")
    assert at_once.op.type == "Identity"
    assert [op.name for op in at_once.op.control_inputs] == ["a/AssignMovingAvg", "a/AssignMovingAvg_1"]
    assert _collected("update_ops") == []
    layers.batch_norm(x, scope="b")
    assert _collected("update_ops") == ["b/AssignMovingAvg", "b/AssignMovingAvg_1"]
    layers.batch_norm(tf.reshape(x, [2, 48]), scope="c", updates_collections="mine", is_training=tf.placeholder(tf.bool, []))
    assert _collected("mine") == ["c/cond_1/Merge:0", "c/cond_1/Merge_1:0"]


def test_arg_scope_gives_defaults_to_the_listed_functions_alone() -> None:
    x = tf.placeholder(tf.float32, [1, 8, 8, 3])
    with slim.arg_scope([slim.conv2d, slim.max_pool2d], padding="VALID"):
        with slim.arg_scope([slim.conv2d], activation_fn=None) as inner:
            assert slim.conv2d(x, 2, 3).op.type == "BiasAdd"
        y = slim.conv2d(x, 2, 3)
        assert (y.op.type, y.shape.as_list()) == ("Relu", [1, 6, 6, 2])
    with slim.arg_scope(inner):
        assert slim.conv2d(x, 2, 3, padding="SAME").shape.as_list() == [1, 8, 8, 2]
    with pytest.raises(ValueError, match="relu is not decorated with @add_arg_scope"), slim.arg_scope([tf.nn.relu], name="a"):
        pass


def test_end_points_are_outputs_by_their_scopes() -> None:
    x = tf.placeholder(tf.float32, [1, 8, 8, 3])
    with (
        tf.variable_scope("net", values=[x]) as scope,
        slim.arg_scope([slim.conv2d, slim.max_pool2d], outputs_collections=scope.original_name_scope + "end"),
    ):
        y = slim.max_pool2d(slim.repeat(x, 2, slim.conv2d, 4, 3, scope="c"), 2, scope="p")
    points = slim.utils.convert_collection_to_dict("net/end")
    assert list(points) == ["net/c/c_1", "net/c/c_2", "net/p"]
    assert points["net/p"] is y


def test_lists_of_variables() -> None:
    h = tf.placeholder(tf.float32, [5, 6])
    layers.fully_connected(h, 4, scope="a")
    layers.fully_connected(h, 4, scope="b")
    tf.Variable(0, name="other")
    assert [one.op.name for one in framework.get_variables("a")] == ["a/weights", "a/biases"]
    assert [one.op.name for one in framework.get_variables_by_name("biases")] == ["a/biases", "b/biases"]
    assert [one.op.name for one in framework.get_model_variables("b")] == ["b/weights", "b/biases"]
    kept = framework.get_variables_to_restore(exclude=["a", "other"])
    assert [one.op.name for one in kept] == ["b/weights", "b/biases"]
    assert framework.get_unique_variable("a/weights").op.name == "a/weights"


def test_regularizers() -> None:
    h = tf.placeholder(tf.float32, [5, 6])
    layers.fully_connected(h, 4, weights_regularizer=layers.l2_regularizer(0.5))
    (loss,) = tf.losses.get_regularization_losses()
    assert loss.name == "fully_connected/kernel/Regularizer/l2_regularizer:0"
    with pytest.raises(ValueError, match="scale cannot be an integer: 1"):
        layers.l1_regularizer(1)
    x = tf.constant([1.0, -2.0])
    both = layers.l1_l2_regularizer(1.0, 2.0)(x)
    with tf.Session() as session:
        assert session.run([both, layers.l1_regularizer(3.0)(x)]) == [3.0 + 5.0, 9.0]


@pytest.mark.parametrize(("mode", "limit"), [("FAN_IN", 6**0.5), ("FAN_OUT", 3**0.5), ("FAN_AVG", 2.0)])
def test_initializers_draw_by_the_number_of_inputs_and_outputs(mode: str, limit: float) -> None:
    """A [1, 2, 1, 2] kernel has 2 inputs and 4 outputs: 3 * 4 / n is the square of the largest value."""
    drawn = layers.variance_scaling_initializer(4.0, mode, uniform=True)([1, 2, 1, 2])
    assert tf.get_static_value(drawn.op.inputs[1]) == pytest.approx(-limit)


def test_losses_count_what_has_a_weight() -> None:
    predictions, labels = tf.constant([[1.0, 2.0], [3.0, 4.0]]), tf.zeros([2, 2])
    mean = slim.losses.mean_squared_error(predictions, labels)
    weighted = slim.losses.absolute_difference(predictions, labels, weights=tf.constant([0.0, 2.0]))
    assert (mean.name, weighted.name) == ("mean_squared_error/value:0", "absolute_difference/value:0")
    assert _collected("losses") == [mean.name, weighted.name]
    with tf.Session() as session:
        assert session.run([mean, weighted, slim.losses.get_total_loss()]) == [7.5, 7.0, 14.5]


def test_metrics_take_predictions_first() -> None:
    value, update = tf.contrib.metrics.streaming_accuracy(tf.constant([1, 2, 3, 4]), tf.constant([1, 2, 3, 5]))
    now = tf.contrib.metrics.accuracy(tf.constant([1, 2]), tf.constant([1, 3]))
    with tf.Session() as session:
        session.run(tf.local_variables_initializer())
        assert session.run([update, now]) == [0.75, 0.5]
        assert session.run(value) == 0.75


def test_optimize_loss_steps_before_it_gives_the_loss() -> None:
    w = tf.get_variable("w", initializer=np.float32(3.0))
    step = tf.train.get_or_create_global_step()
    loss = layers.optimize_loss(w * w, step, 0.5, "SGD", clip_gradients=1.0)
    assert loss.op.name == "OptimizeLoss/control_dependency"
    assert _collected("summaries") == [
        *("OptimizeLoss/global_norm/gradient_norm:0", "OptimizeLoss/loss:0"),
        "OptimizeLoss/global_norm/clipped_gradient_norm:0",
    ]
    with tf.Session() as session:
        session.run(tf.global_variables_initializer())
        assert session.run(loss) == 9.0
        assert session.run([w, step]) == [2.5, 1]
    with pytest.raises(ValueError, match="Optimizer name should be one of"):
        layers.optimize_loss(w * w, step, 0.5, "Nothing")


def test_a_train_op_runs_the_updates_and_a_step() -> None:
    w = tf.get_variable("w", initializer=np.float32(3.0))
    count = tf.get_variable("count", initializer=np.float32(0.0), trainable=False)
    tf.add_to_collection("update_ops", tf.assign_add(count, 1.0))
    train = slim.learning.create_train_op(w * w, tf.train.GradientDescentOptimizer(0.5), clip_gradient_norm=2.0)
    assert train.op.name == "train_op/control_dependency"
    with tf.Session() as session:
        session.run(tf.global_variables_initializer())
        assert session.run(train) == 9.0
        assert session.run([w, count, tf.train.get_global_step()]) == [2.0, 1.0, 1]


def test_values_are_assigned_to_variables_by_name() -> None:
    tf.get_variable("a", [2])
    assign = framework.assign_from_values_fn({"a": np.array([1.0, 2.0], np.float32)})
    with tf.Session() as session:
        assign(session)
        assert session.run("a:0").tolist() == [1.0, 2.0]


def test_hyperparameters_keep_their_types() -> None:
    params = tf.contrib.training.HParams(rate=0.1, layers=[1, 2], on=True, name="a")
    params.parse("rate=1,layers=[3,7],on=false")
    assert params.values() == {"rate": 1.0, "layers": [3, 7], "on": False, "name": "a"}
    assert (params.get("none", 5), "rate" in params, params.to_json(sort_keys=True)[:12]) == (5, True, '{"layers": [')
    with pytest.raises(ValueError, match="Unknown hyperparameter type for nothing"):
        params.parse("nothing=1")
    with pytest.raises(ValueError, match="Must not pass a list"):
        params.set_hparam("rate", [1])


def test_what_is_not_there_says_so_by_its_name() -> None:
    with pytest.raises(NotImplementedError, match=r"tf\.contrib\.crf\.crf_log_likelihood is not there"):
        tf.contrib.crf.crf_log_likelihood(1, 2, 3)
    with pytest.raises(NotImplementedError, match="batch_norm with renorm"):
        layers.batch_norm(tf.zeros([2, 3]), renorm=True)


@pytest.mark.slow
def test_networks_have_their_layers_by_name() -> None:
    vgg, resnet_v1, resnet_v2 = slim.nets.vgg, slim.nets.resnet_v1, slim.nets.resnet_v2
    images = tf.placeholder(tf.float32, [2, 224, 224, 3])
    with slim.arg_scope(vgg.vgg_arg_scope()):
        logits, points = vgg.vgg_16(images, num_classes=10, is_training=False)
    assert (logits.op.name, logits.shape.as_list()) == ("vgg_16/fc8/squeezed", [2, 10])
    assert (list(points)[:3], len(points)) == (["vgg_16/conv1/conv1_1", "vgg_16/conv1/conv1_2", "vgg_16/pool1"], 21)
    with slim.arg_scope(resnet_v1.resnet_arg_scope()):
        logits, points = resnet_v1.resnet_v1_50(images, 10, is_training=False)
    assert logits.op.name == "resnet_v1_50/logits/BiasAdd"
    assert list(points)[:3] == [
        *("resnet_v1_50/conv1", "resnet_v1_50/block1/unit_1/bottleneck_v1/shortcut"),
        "resnet_v1_50/block1/unit_1/bottleneck_v1/conv1",
    ]
    wide, _ = resnet_v2.resnet_v2_50(images, output_stride=16, global_pool=False)
    assert wide.shape.as_list() == [2, 14, 14, 2048]
