"""`tf.keras` in graphs: nodes, names and collections as TensorFlow 2.21 with tf_keras 2.21 recorded them for the same calls."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import placesim.tf1 as tf
from placesim.tf1.graphs.graph import Graph

keras = tf.keras


@pytest.fixture(autouse=True)
def graph() -> Any:
    with Graph().as_default() as made:
        yield made


def _names(prefix: str = "") -> list[str]:
    found = [op.name for op in tf.get_default_graph().get_operations()]
    return [name for name in found if name.startswith(prefix) and "/Initializer/" not in name]


def test_a_layer_has_variables_of_handles_and_a_scope_for_each_call() -> None:
    h = tf.placeholder(tf.float32, [5, 7], name="h")
    layer = keras.layers.Dense(4, activation="relu")
    assert [layer(h).name, layer(h).name, keras.layers.Dense(2, use_bias=False)(h).name] == [
        *("dense/Relu:0", "dense_1/Relu:0"),
        "dense_1_1/MatMul:0",
    ]
    assert _names("dense/") == [
        *("dense/kernel", "dense/kernel/IsInitialized/VarIsInitializedOp", "dense/kernel/Assign"),
        *("dense/kernel/Read/ReadVariableOp", "dense/bias", "dense/bias/IsInitialized/VarIsInitializedOp"),
        *("dense/bias/Assign", "dense/bias/Read/ReadVariableOp", "dense/MatMul/ReadVariableOp", "dense/MatMul"),
        *("dense/BiasAdd/ReadVariableOp", "dense/BiasAdd", "dense/Relu"),
    ]
    assert [one.name for one in layer.trainable_weights] == ["dense/kernel:0", "dense/bias:0"]


def test_variables_follow_name_scopes_and_no_variable_scopes() -> None:
    with tf.name_scope("a"), tf.variable_scope("v"):
        keras.layers.Dense(4, name="d")(tf.zeros([2, 3]))
    assert [one.name for one in tf.trainable_variables()] == ["a/v/d/kernel:0", "a/v/d/bias:0"]


@pytest.mark.parametrize(
    ("make", "name", "shape"),
    [
        (lambda: keras.layers.Conv2D(4, 3, padding="same", activation="relu"), "conv2d/Relu", [2, 8, 8, 4]),
        (lambda: keras.layers.MaxPool2D(), "max_pooling2d/MaxPool", [2, 4, 4, 3]),
        (lambda: keras.layers.GlobalAveragePooling2D(), "global_average_pooling2d/Mean", [2, 3]),
        (lambda: keras.layers.Flatten(), "flatten/Reshape", [2, 192]),
        (lambda: keras.layers.Reshape([4, -1]), "reshape/Reshape", [2, 4, 48]),
        (lambda: keras.layers.LeakyReLU(), "leaky_re_lu/LeakyRelu", [2, 8, 8, 3]),
        (lambda: keras.layers.ZeroPadding2D(), "zero_padding2d/Pad", [2, 10, 10, 3]),
        (lambda: keras.layers.UpSampling2D(), "up_sampling2d/resize/ResizeNearestNeighbor", [2, 16, 16, 3]),
        (lambda: keras.layers.Activation("softmax"), "activation/Softmax", [2, 8, 8, 3]),
        (lambda: keras.layers.Lambda(lambda t: t * 2), "lambda/mul", [2, 8, 8, 3]),
        (lambda: keras.layers.Dropout(0.5), "dropout/cond/Merge", [2, 8, 8, 3]),
        (lambda: keras.layers.BatchNormalization(), "batch_normalization/cond/Merge", [2, 8, 8, 3]),
    ],
)
def test_outputs_of_layers(make: Any, name: str, shape: list[int]) -> None:
    output = make()(tf.placeholder(tf.float32, [2, 8, 8, 3], name="x"))
    assert (output.op.name, output.shape.as_list()) == (name, shape)


def test_the_learning_phase_is_a_placeholder_of_the_graph_until_it_is_set() -> None:
    phase = keras.backend.learning_phase()
    assert (phase.op.name, phase.op.type) == ("keras_learning_phase", "PlaceholderWithDefault")
    assert keras.backend.learning_phase() is phase
    keras.backend.set_learning_phase(1)
    assert keras.layers.Dropout(0.2)(tf.zeros([2, 3])).op.name == "dropout/dropout/SelectV2"


def test_regularizers_are_built_when_losses_are_asked_for() -> None:
    layer = keras.layers.Dense(3, kernel_regularizer=keras.regularizers.l2(0.01))
    layer(tf.zeros([5, 7]))
    assert not _names("dense/kernel/Regularizer")
    assert [loss.name for loss in layer.losses + layer.losses] == [
        *("dense/kernel/Regularizer/mul:0", "dense/kernel/Regularizer_1/mul:0"),
    ]
    with tf.Session() as session:
        x = tf.constant([1.0, -2.0])
        kinds = [keras.regularizers.l1(0.5), keras.regularizers.l2(0.5), keras.regularizers.l1_l2(0.5, 0.5)]
        assert session.run([kind(x) for kind in kinds]) == [1.5, 2.5, 4.0]


def test_layers_in_a_row_stand_in_the_models_scope() -> None:
    model = keras.Sequential([keras.layers.Dense(4), keras.layers.Dropout(0.5), keras.layers.Dense(2)])
    output = model(tf.zeros([5, 7]), training=False)
    assert output.op.name == "sequential/dense_1/BiasAdd"
    assert [one.name for one in model.trainable_weights][::2] == ["sequential/dense/kernel:0", "sequential/dense_1/kernel:0"]


def test_the_inputs_of_layers_in_a_row_may_be_told() -> None:
    model = keras.Sequential([keras.Input([3]), keras.Sequential([keras.layers.Dense(2, input_shape=(3,))])])
    assert (model.output.op.name, [one.name for one in model.layers]) == ("sequential/dense/BiasAdd", ["sequential"])
    with pytest.raises(TypeError, match="The added layer must be an instance of class Layer"):
        keras.Sequential([lambda x: x])


def test_a_users_own_layer() -> None:
    class ScaleLayer(keras.layers.Layer):  # type: ignore[misc,name-defined]
        def build(self, shape: Any) -> None:
            self.scale = self.add_weight("scale", shape=[int(shape[-1])], initializer="ones")

        def call(self, inputs: Any) -> Any:
            return inputs * self.scale

    output = ScaleLayer()(tf.constant([[1.0, 2.0]]))
    assert output.op.name == "scale_layer/mul"
    with tf.Session() as session:
        session.run(tf.global_variables_initializer())
        assert session.run(output).tolist() == [[1.0, 2.0]]


def test_a_model_of_a_recurrent_layer_learns_as_in_tensorflow() -> None:
    values = np.random.RandomState(0).randn(4, 5, 3).astype(np.float32)
    inputs = keras.Input([None, 3])
    kernels = [tf.constant_initializer(value) for value in (0.3, -0.2)]
    hidden = keras.layers.LSTM(2, kernel_initializer=kernels[0], recurrent_initializer=kernels[1])(inputs)
    model = keras.Model(inputs, keras.layers.Dense(1, kernel_initializer="ones")(hidden))
    loss = tf.reduce_mean(tf.square(model(values) - 1.0))
    step = tf.train.GradientDescentOptimizer(0.5).minimize(loss, var_list=model.trainable_weights)
    with tf.Session() as session:
        session.run(tf.global_variables_initializer())
        losses = [session.run([loss, step])[0] for _ in range(3)]
    # of TensorFlow 2.21 and of 1.15
    np.testing.assert_allclose(losses, [0.7019058, 0.2080974, 0.0928470], rtol=1e-5)


def test_wrong_arguments_have_errors_instead_of_no_effect() -> None:
    for make in (keras.layers.Dense, keras.layers.LSTM, keras.layers.GRUCell):
        with pytest.raises(TypeError, match="positional arguments too many"):
            make(3, *[None] * 40)
        with pytest.raises(TypeError, match="multiple values for argument 'activation'"):
            make(3, "tanh", activation="tanh")
    with pytest.raises(ValueError, match="retrieve layer at index 1 but model only has 1 layers"):
        keras.Sequential([keras.layers.Dense(3)]).get_layer(index=1)
    with pytest.raises(ValueError, match='Name "a" is already the name of a layer in this model'):
        keras.Sequential([keras.layers.Dense(3, name="a"), keras.layers.Dense(3, name="a")])
    inputs = keras.Input((3,))
    with pytest.raises(ValueError, match=r'Layer "model" expects 1 input\(s\), but it received 2 input tensors'):
        keras.Model(inputs, keras.layers.Dense(2)(inputs))([inputs, inputs])
    with pytest.raises(ValueError, match="Please initialize `TimeDistributed` layer"):
        keras.layers.TimeDistributed(3)


def test_replicas_that_wait_in_a_layers_call_do_not_change_the_training_of_others() -> None:
    told = []

    class Waiting(keras.layers.Layer):  # type: ignore[misc, name-defined]
        def call(self, inputs: Any, training: object = None) -> Any:
            told.append(training)
            return tf.distribute.get_replica_context().merge_call(lambda strategy, values: values, (inputs,))

    def run() -> Any:
        is_first = not tf.get_static_value(tf.distribute.get_replica_context().replica_id_in_sync_group)
        return Waiting()(tf.constant([1.0]), training=True if is_first else None)

    tf.distribute.MirroredStrategy(["/cpu:0", "/cpu:1"]).run(run)
    assert told == [True, None]


def test_what_is_not_there_says_so() -> None:
    with pytest.raises(NotImplementedError, match=r"tf\.keras\.layers\.Conv2D with groups is not there"):
        keras.layers.Conv2D(4, 3, groups=2)


def test_ops_between_layers_are_repeated_with_their_constants() -> None:
    inputs = keras.Input([3])
    rate = tf.Variable([1.0, 2.0, 3.0], use_resource=True)
    hidden = keras.layers.Dense(3, kernel_initializer="ones")(inputs) * tf.constant([1.0, 10.0, 100.0]) - 1.0
    model = keras.Model(inputs, [hidden, tf.reduce_sum(hidden, 1)])
    outputs = model(tf.constant([[1.0, 2.0, 3.0]]))
    session = keras.backend.get_session()
    assert [found.tolist() for found in session.run(outputs)] == [[[5.0, 59.0, 599.0]], [663.0]]
    with pytest.raises(tf.errors.FailedPreconditionError, match="uninitialized"):
        keras.Model(inputs, inputs * rate)


def test_categories_as_rows_with_a_one() -> None:
    assert keras.utils.to_categorical([[1], [2]], 4).tolist() == [[0, 1, 0, 0], [0, 0, 1, 0]]
