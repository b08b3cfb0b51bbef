"""Residual networks (ResNet v1 and v2), made of blocks of units that add their input to their output."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import placesim.tf1 as tf
from placesim.tf1.contrib.arg_scopes import add_arg_scope, arg_scope
from placesim.tf1.contrib.batch_norm import batch_norm
from placesim.tf1.contrib.initializers import variance_scaling_initializer
from placesim.tf1.contrib.kernels import conv2d
from placesim.tf1.contrib.outputs import collect_named_outputs, convert_collection_to_dict, last_dimension
from placesim.tf1.contrib.regularizers import l2_regularizer
from placesim.tf1.contrib.shaping import max_pool2d, softmax
from placesim.tf1.graphs.tensor import Tensor
from placesim.tf1.graphs.tensor_likes import TensorLike


class Block(NamedTuple):
    """Scope of a block, function that makes a unit, and the arguments of each of its units."""

    scope: str
    unit_fn: Callable[..., Any]
    args: Sequence[Any]


def subsample(inputs: TensorLike, factor: int, scope: str | None = None) -> Any:
    """Every `factor`-th pixel in both directions."""
    return inputs if factor == 1 else max_pool2d(inputs, [1, 1], stride=factor, scope=scope)


def conv2d_same(
    inputs: TensorLike, num_outputs: int, kernel_size: int, stride: int, rate: int = 1, scope: str | None = None
) -> Any:
    """A convolution whose padding does not depend on the stride."""
    if stride == 1:
        return conv2d(inputs, num_outputs, kernel_size, stride=1, rate=rate, padding="SAME", scope=scope)
    whole = (kernel_size - 1) * rate
    around = [whole // 2, whole - whole // 2]
    padded = tf.pad(inputs, [[0, 0], around, around, [0, 0]])
    return conv2d(padded, num_outputs, kernel_size, stride=stride, rate=rate, padding="VALID", scope=scope)


@add_arg_scope
def stack_blocks_dense(
    net: object, blocks: Sequence[Block], output_stride: int | None = None, outputs_collections: object = None
) -> Any:
    """Apply blocks in sequence.  Once `output_stride` is reached, dilation replaces strides.  Raises ValueError."""
    stride, rate = 1, 1
    for block in blocks:
        with tf.variable_scope(block.scope, "block", [net]) as opened:
            for number, unit in enumerate(block.args, 1):
                if output_stride is not None and stride > output_stride:
                    raise ValueError("The target output_stride cannot be reached.")
                with tf.variable_scope(f"unit_{number}", values=[net]):
                    if output_stride is not None and stride == output_stride:
                        net = block.unit_fn(net, rate=rate, **{**unit, "stride": 1})
                        rate *= unit.get("stride", 1)
                    else:
                        net = block.unit_fn(net, rate=1, **unit)
                        stride *= unit.get("stride", 1)
            net = collect_named_outputs(outputs_collections, opened.name, net)
    if output_stride is not None and stride != output_stride:
        raise ValueError("The target output_stride cannot be reached.")
    return net


def resnet_arg_scope(
    weight_decay: float = 0.0001,
    batch_norm_decay: float = 0.997,
    batch_norm_epsilon: float = 1e-5,
    batch_norm_scale: bool = True,
) -> Any:
    """A residual network's default arguments, for `arg_scope`."""
    norm = {
        "decay": batch_norm_decay,
        "epsilon": batch_norm_epsilon,
        "scale": batch_norm_scale,
        "updates_collections": "update_ops",
    }
    with (
        arg_scope(
            [conv2d],
            weights_regularizer=l2_regularizer(weight_decay),
            weights_initializer=variance_scaling_initializer(),
            activation_fn=tf.nn.relu,
            normalizer_fn=batch_norm,
            normalizer_params=norm,
        ),
        arg_scope([batch_norm], **norm),
        arg_scope([max_pool2d], padding="SAME") as scope,
    ):
        return scope


@add_arg_scope
def bottleneck_v1(
    inputs: Tensor,
    depth: int,
    depth_bottleneck: int,
    stride: int,
    rate: int = 1,
    outputs_collections: object = None,
    scope: object = None,
) -> Any:
    """Unit of three convolutions, each followed by batch normalisation."""
    with tf.variable_scope(scope, "bottleneck_v1", [inputs]) as opened:
        if depth == last_dimension(inputs.get_shape(), min_rank=4):
            shortcut = subsample(inputs, stride, "shortcut")
        else:
            shortcut = conv2d(inputs, depth, [1, 1], stride=stride, activation_fn=None, scope="shortcut")
        residual = conv2d(inputs, depth_bottleneck, [1, 1], stride=1, scope="conv1")
        residual = conv2d_same(residual, depth_bottleneck, 3, stride, rate=rate, scope="conv2")
        residual = conv2d(residual, depth, [1, 1], stride=1, activation_fn=None, scope="conv3")
        return collect_named_outputs(outputs_collections, opened.name, tf.nn.relu(shortcut + residual))


@add_arg_scope
def bottleneck_v2(
    inputs: Tensor,
    depth: int,
    depth_bottleneck: int,
    stride: int,
    rate: int = 1,
    outputs_collections: object = None,
    scope: object = None,
) -> Any:
    """Unit that normalises its inputs before its three convolutions."""
    with tf.variable_scope(scope, "bottleneck_v2", [inputs]) as opened:
        before = batch_norm(inputs, activation_fn=tf.nn.relu, scope="preact")
        plain = {"normalizer_fn": None, "activation_fn": None}
        if depth == last_dimension(inputs.get_shape(), min_rank=4):
            shortcut = subsample(inputs, stride, "shortcut")
        else:
            shortcut = conv2d(before, depth, [1, 1], stride=stride, scope="shortcut", **plain)
        residual = conv2d(before, depth_bottleneck, [1, 1], stride=1, scope="conv1")
        residual = conv2d_same(residual, depth_bottleneck, 3, stride, rate=rate, scope="conv2")
        residual = conv2d(residual, depth, [1, 1], stride=1, scope="conv3", **plain)
        return collect_named_outputs(outputs_collections, opened.name, shortcut + residual)


def _block(unit_fn: Callable[..., Any], scope: str, base_depth: int, num_units: int, stride: int) -> Block:
    """A block whose last unit has the stride."""
    unit = {"depth": base_depth * 4, "depth_bottleneck": base_depth}
    return Block(scope, unit_fn, [{**unit, "stride": 1}] * (num_units - 1) + [{**unit, "stride": stride}])


def resnet_v1_block(scope: str, base_depth: int, num_units: int, stride: int) -> Block:
    """A block of ResNet v1."""
    return _block(bottleneck_v1, scope, base_depth, num_units, stride)


def resnet_v2_block(scope: str, base_depth: int, num_units: int, stride: int) -> Block:
    """A block of ResNet v2."""
    return _block(bottleneck_v2, scope, base_depth, num_units, stride)


def _network(name: str, unit: Callable[..., Any], is_second: bool) -> Callable[..., Any]:
    def network(
        inputs: TensorLike,
        blocks: Sequence[Block],
        num_classes: int | None = None,
        is_training: bool | None = None,
        global_pool: bool = True,
        output_stride: int | None = None,
        include_root_block: bool = True,
        reuse: object = None,
        scope: object = None,
    ) -> tuple[Any, dict[str, Any]]:
        with tf.variable_scope(scope, name, [inputs], reuse=reuse) as opened:
            collection = opened.original_name_scope + "_end_points"
            training = {} if is_training is None else {"is_training": is_training}
            with (
                arg_scope([conv2d, unit, stack_blocks_dense], outputs_collections=collection),
                arg_scope([batch_norm], **training),
            ):
                net = inputs
                if include_root_block:
                    net, output_stride = _root(net, output_stride, is_second)
                net = stack_blocks_dense(net, blocks, output_stride)
                if is_second:
                    net = batch_norm(net, activation_fn=tf.nn.relu, scope="postnorm")
                if global_pool:
                    net = tf.reduce_mean(net, [1, 2], name="pool5", keepdims=True)
                if num_classes is not None:
                    net = conv2d(net, num_classes, [1, 1], activation_fn=None, normalizer_fn=None, scope="logits")
                points = convert_collection_to_dict(collection)
                if num_classes is not None:
                    points["predictions"] = softmax(net, scope="predictions")
                return net, points

    network.__name__ = network.__qualname__ = name
    network.__doc__ = f"A {name} of these blocks: its last layer, and the layers' outputs by name.  Raises ValueError."
    return network


def _root(net: TensorLike, output_stride: int | None, is_second: bool) -> tuple[Any, int | None]:
    """Output of the first convolution and pool (together a stride of 4), and the output stride left for the blocks."""
    if output_stride is not None:
        if output_stride % 4:
            raise ValueError("The output_stride needs to be a multiple of 4.")
        output_stride //= 4
    if is_second:
        with arg_scope([conv2d], activation_fn=None, normalizer_fn=None):
            net = conv2d_same(net, 64, 7, stride=2, scope="conv1")
    else:
        net = conv2d_same(net, 64, 7, stride=2, scope="conv1")
    return max_pool2d(net, [3, 3], stride=2, scope="pool1"), output_stride


resnet_v1 = _network("resnet_v1", bottleneck_v1, False)
resnet_v2 = _network("resnet_v2", bottleneck_v2, True)


def _sized(name: str, network: Callable[..., Any], block: Callable[..., Block], counts: Sequence[int]) -> Callable[..., Any]:
    def sized(
        inputs: TensorLike,
        num_classes: int | None = None,
        is_training: bool | None = None,
        global_pool: bool = True,
        output_stride: int | None = None,
        reuse: object = None,
        scope: object = name,
    ) -> tuple[Any, dict[str, Any]]:
        strides = (2, 2, 2, 1)
        blocks = [
            block(f"block{number}", base_depth=64 * 2 ** (number - 1), num_units=count, stride=stride)
            for number, (count, stride) in enumerate(zip(counts, strides, strict=True), 1)
        ]
        return network(inputs, blocks, num_classes, is_training, global_pool, output_stride, True, reuse, scope)  # type: ignore[no-any-return]

    sized.__name__ = sized.__qualname__ = name
    sized.__doc__ = f"{name}: its last layer, and the layers' outputs by name.  Raises ValueError."
    return sized


_COUNTS = {50: (3, 4, 6, 3), 101: (3, 4, 23, 3), 152: (3, 8, 36, 3), 200: (3, 24, 36, 3)}
resnet_v1_50, resnet_v1_101, resnet_v1_152, resnet_v1_200 = (
    _sized(f"resnet_v1_{size}", resnet_v1, resnet_v1_block, counts) for size, counts in _COUNTS.items()
)
resnet_v2_50, resnet_v2_101, resnet_v2_152, resnet_v2_200 = (
    _sized(f"resnet_v2_{size}", resnet_v2, resnet_v2_block, counts) for size, counts in _COUNTS.items()
)
