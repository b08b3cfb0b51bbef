"""AlexNet, OverFeat and VGG: sequences of convolutions, also in place of fully connected layers."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import placesim.tf1 as tf
from placesim.tf1.contrib.arg_scopes import arg_scope
from placesim.tf1.contrib.kernels import conv2d, fully_connected
from placesim.tf1.contrib.outputs import convert_collection_to_dict
from placesim.tf1.contrib.regularizers import l2_regularizer
from placesim.tf1.contrib.shaping import dropout, max_pool2d, repeat
from placesim.tf1.graphs.tensor import Tensor
from placesim.tf1.graphs.tensor_likes import TensorLike


def _spread(deviation: float) -> Any:
    return tf.truncated_normal_initializer(0.0, deviation)


def _weights_scope(weight_decay: float, biases_initializer: object) -> Any:
    settings = {"weights_regularizer": l2_regularizer(weight_decay), "biases_initializer": biases_initializer}
    with (
        arg_scope([conv2d, fully_connected], activation_fn=tf.nn.relu, **settings),
        arg_scope([conv2d], padding="SAME") as scope,
    ):
        return scope


def vgg_arg_scope(weight_decay: float = 0.0005) -> Any:
    """VGG's default arguments, for `arg_scope`."""
    return _weights_scope(weight_decay, tf.zeros_initializer())


def alexnet_v2_arg_scope(weight_decay: float = 0.0005) -> Any:
    """AlexNet's default arguments, for `arg_scope`."""
    with (
        arg_scope(_weights_scope(weight_decay, tf.constant_initializer(0.1))),
        arg_scope([max_pool2d], padding="VALID") as scope,
    ):
        return scope


def overfeat_arg_scope(weight_decay: float = 0.0005) -> Any:
    """OverFeat's default arguments, for `arg_scope`."""
    with arg_scope(vgg_arg_scope(weight_decay)), arg_scope([max_pool2d], padding="VALID") as scope:
        return scope


def _squeezed(net: Tensor, points: dict[str, Any], opened: Any, spatial_squeeze: bool) -> tuple[Any, dict[str, Any]]:
    """The logits, and the layers' outputs by name.  `spatial_squeeze` removes the logits' dimensions 1 and 2, of size 1."""
    if spatial_squeeze:
        net = tf.squeeze(net, [1, 2], name="fc8/squeezed")
        points[f"{opened.name}/fc8"] = net
    return net, points


def _hidden_layers(net: object, channels: int, kernel: list[int], keep_prob: float, is_training: bool) -> Any:
    """Two fully connected layers as convolutions, with dropout."""
    net = conv2d(net, channels, kernel, padding="VALID", scope="fc6")
    net = dropout(net, keep_prob, is_training=is_training, scope="dropout6")
    net = conv2d(net, 4096, [1, 1], scope="fc7")
    return dropout(net, keep_prob, is_training=is_training, scope="dropout7")


def _vgg(
    name: str,
    blocks: Sequence[int],
    inputs: TensorLike,
    num_classes: int,
    is_training: bool,
    dropout_keep_prob: float,
    spatial_squeeze: bool,
    scope: object,
) -> tuple[Any, dict[str, Any]]:
    """VGG: blocks of convolutions (each doubles the channels, up to 512), a pool after each block, and three last layers."""
    with tf.variable_scope(scope, name, [inputs]) as opened:
        collection = opened.original_name_scope + "_end_points"
        with arg_scope([conv2d, max_pool2d], outputs_collections=collection):
            net = inputs
            for block, count in enumerate(blocks, 1):
                net = repeat(net, count, conv2d, min(64 * 2 ** (block - 1), 512), [3, 3], scope=f"conv{block}")
                net = max_pool2d(net, [2, 2], scope=f"pool{block}")
            net = _hidden_layers(net, 4096, [7, 7], dropout_keep_prob, is_training)
            net = conv2d(net, num_classes, [1, 1], activation_fn=None, normalizer_fn=None, scope="fc8")
            return _squeezed(net, convert_collection_to_dict(collection), opened, spatial_squeeze)


def _vgg_net(name: str, blocks: Sequence[int]) -> Any:
    def net(
        inputs: TensorLike,
        num_classes: int = 1000,
        is_training: bool = True,
        dropout_keep_prob: float = 0.5,
        spatial_squeeze: bool = True,
        scope: object = name,
    ) -> tuple[Any, dict[str, Any]]:
        return _vgg(name, blocks, inputs, num_classes, is_training, dropout_keep_prob, spatial_squeeze, scope)

    net.__name__ = net.__qualname__ = name
    net.__doc__ = f"The logits of {name} on images of 224 x 224, and its layers' outputs by name."
    net.default_image_size = 224  # type: ignore[attr-defined]
    return net


vgg_a = _vgg_net("vgg_a", (1, 1, 2, 2, 2))
vgg_16 = vgg_d = _vgg_net("vgg_16", (2, 2, 3, 3, 3))
vgg_19 = vgg_e = _vgg_net("vgg_19", (2, 2, 4, 4, 4))


def alexnet_v2(
    inputs: TensorLike,
    num_classes: int = 1000,
    is_training: bool = True,
    dropout_keep_prob: float = 0.5,
    spatial_squeeze: bool = True,
    scope: object = "alexnet_v2",
) -> tuple[Any, dict[str, Any]]:
    """The logits of AlexNet on images of 224 x 224, and its layers' outputs by name."""
    with tf.variable_scope(scope, "alexnet_v2", [inputs]) as opened:
        collection = opened.original_name_scope + "_end_points"
        with arg_scope([conv2d, fully_connected, max_pool2d], outputs_collections=[collection]):
            net = conv2d(inputs, 64, [11, 11], 4, padding="VALID", scope="conv1")
            net = max_pool2d(net, [3, 3], 2, scope="pool1")
            net = conv2d(net, 192, [5, 5], scope="conv2")
            net = max_pool2d(net, [3, 3], 2, scope="pool2")
            net = conv2d(net, 384, [3, 3], scope="conv3")
            net = conv2d(net, 384, [3, 3], scope="conv4")
            net = conv2d(net, 256, [3, 3], scope="conv5")
            net = max_pool2d(net, [3, 3], 2, scope="pool5")
            with arg_scope([conv2d], weights_initializer=_spread(0.005), biases_initializer=tf.constant_initializer(0.1)):
                net = _hidden_layers(net, 4096, [5, 5], dropout_keep_prob, is_training)
                net = _logits(net, num_classes)
            return _squeezed(net, convert_collection_to_dict(collection), opened, spatial_squeeze)


def _logits(net: object, num_classes: int) -> Any:
    settings = {"activation_fn": None, "normalizer_fn": None, "biases_initializer": tf.zeros_initializer()}
    return conv2d(net, num_classes, [1, 1], scope="fc8", **settings)


def overfeat(
    inputs: TensorLike,
    num_classes: int = 1000,
    is_training: bool = True,
    dropout_keep_prob: float = 0.5,
    spatial_squeeze: bool = True,
    scope: object = "overfeat",
) -> tuple[Any, dict[str, Any]]:
    """The logits of OverFeat on images of 231 x 231, and its layers' outputs by name."""
    with tf.variable_scope(scope, "overfeat", [inputs]) as opened:
        collection = opened.name + "_end_points"
        with arg_scope([conv2d, fully_connected, max_pool2d], outputs_collections=collection):
            net = conv2d(inputs, 64, [11, 11], 4, padding="VALID", scope="conv1")
            net = max_pool2d(net, [2, 2], scope="pool1")
            net = conv2d(net, 256, [5, 5], padding="VALID", scope="conv2")
            net = max_pool2d(net, [2, 2], scope="pool2")
            net = conv2d(net, 512, [3, 3], scope="conv3")
            net = conv2d(net, 1024, [3, 3], scope="conv4")
            net = conv2d(net, 1024, [3, 3], scope="conv5")
            net = max_pool2d(net, [2, 2], scope="pool5")
            with arg_scope([conv2d], weights_initializer=_spread(0.005), biases_initializer=tf.constant_initializer(0.1)):
                net = _hidden_layers(net, 3072, [6, 6], dropout_keep_prob, is_training)
                net = _logits(net, num_classes)
            return _squeezed(net, convert_collection_to_dict(collection), opened, spatial_squeeze)


alexnet_v2.default_image_size = 224  # type: ignore[attr-defined]
overfeat.default_image_size = 231  # type: ignore[attr-defined]
