"""Gradients of ops for neural networks: activations, biases, normalisation, cross entropies, top k."""

from __future__ import annotations

from functools import partial
from math import prod
from typing import Any

from placesim.tf1.gradients.registry import GradientFunction, attrs_of, text_of
from placesim.tf1.graphs.default_graph_scopes import control_dependencies
from placesim.tf1.graphs.tensor import Operation, Tensor
from placesim.tf1.importing.namespaces import namespace
from placesim.tf1.ops.constant_values import constant_value
from placesim.tf1.ops.generated_functions import gen

tf = namespace("")


def _of_output(op_name: str) -> GradientFunction:
    return lambda op, grad: gen(op_name)(grad, op.outputs[0])


def _of_input(op_name: str, *attrs: str) -> GradientFunction:
    return lambda op, grad: gen(op_name)(grad, op.inputs[0], **attrs_of(op, attrs))


# --- activations -------------------------------------------------------------------------------------------------------------


def _piecewise_grad(op_name: str, *attrs: str) -> GradientFunction:
    """Gradient function of a piecewise linear activation's gradient op: the second derivative is zero."""

    def gradient(op: Operation, grad: Tensor) -> list[Any]:
        x = op.inputs[1]
        return [gen(op_name)(grad, x, **attrs_of(op, attrs)), tf.zeros_like(x)]

    return gradient


def _exponential_grad(op_name: str, op: Operation, grad: Tensor) -> list[Any]:
    inner, x = op.inputs
    return [gen(op_name)(grad, x), tf.where(x < 0, grad * inner, tf.zeros_like(x))]


def _softplus_grad(op: Operation, grad: Tensor) -> list[Any]:
    inner, x = op.inputs
    with control_dependencies([grad]):
        return [gen("SoftplusGrad")(grad, x), grad * inner / (tf.exp(-x) + 2.0 + tf.exp(x))]


def _softmax(op: Operation, grad: Tensor) -> Any:
    softmax = op.outputs[0]
    return (grad - tf.reduce_sum(grad * softmax, -1, keepdims=True)) * softmax


def _log_softmax(op: Operation, grad: Tensor) -> Any:
    shares = tf.exp(op.outputs[0])
    return grad - tf.reduce_sum(grad, -1, keepdims=True) * shares


def _bias_add_v1(op: Operation, grad: Tensor) -> list[Any]:
    return [grad, tf.reduce_sum(grad, tf.range(tf.rank(grad) - 1))]


def _bias_add_grad(op: Operation, grad: Tensor) -> Any:
    whole, channels = tf.shape(op.inputs[0]), tf.shape(grad)
    is_second = text_of(op.get_attr("data_format")) == "NCHW"
    around = [slice(None, 1), slice(2, None)] if is_second else [slice(None, -1)]
    ones = [tf.ones_like(whole[part]) for part in around[:1]]
    column = tf.concat([*ones, channels, *(tf.ones_like(whole[part]) for part in around[1:])], 0)
    times: list[Any] = [whole[part] for part in around]
    times.insert(1, [1])
    repeats = tf.concat(times, 0)
    return tf.tile(tf.reshape(grad, column), repeats)


# --- normalisation -----------------------------------------------------------------------------------------------------------


def _local_response(op: Operation, grad: Tensor) -> Any:
    attrs = attrs_of(op, ("depth_radius", "bias", "alpha", "beta"))
    return gen("LRNGrad")(grad, op.inputs[0], op.outputs[0], **attrs)


def _batch_norm_old(op: Operation, grad: Tensor) -> list[Any]:
    x, mean, variance, _, gamma = op.inputs
    attrs = attrs_of(op, ("variance_epsilon", "scale_after_normalization"))
    return list(gen("BatchNormWithGlobalNormalizationGrad")(x, mean, variance, gamma, grad, **attrs))


def _fused_batch_norm(version: int) -> GradientFunction:
    back = gen("FusedBatchNormGrad" + ("" if version == 1 else f"V{version}"))

    def gradient(op: Operation, *grads: object) -> list[Any]:
        x, scale, y_grad = op.inputs[0], op.inputs[1], grads[0]
        epsilon = op.get_attr("epsilon")
        data_format = text_of(op.get_attr("data_format"))
        training = op.get_attr("is_training")
        # the batch's own statistics, or the given ones
        saved = [op.outputs[3], op.outputs[4]] if training else [op.inputs[3], op.inputs[4]]
        reserved = [op.outputs[5]] if version == 3 else []
        # For inference, the kernels take only channels last.
        back_and_forth = None if training else _CHANNELS_FIRST.get(data_format)
        if back_and_forth is not None:
            to_last, to_first = back_and_forth
            x = tf.transpose(x, to_last)
            y_grad = tf.transpose(y_grad, to_last)
            data_format = "NHWC" if data_format == "NCHW" else "NDHWC"
        x_grad, scale_grad, offset_grad, *_ = back(
            y_grad, x, scale, *saved, *reserved, epsilon=epsilon, data_format=data_format, is_training=training
        )
        if back_and_forth is not None:
            x_grad = tf.transpose(x_grad, to_first)
        return [x_grad, scale_grad, offset_grad, None, None]

    return gradient


_CHANNELS_FIRST = {
    "NCHW": ([0, 2, 3, 1], [0, 3, 1, 2]),
    "NCDHW": ([0, 2, 3, 4, 1], [0, 4, 1, 2, 3]),
}


def _fused_batch_norm_grad(op: Operation, *grads: object) -> list[Any]:
    """Raise NotImplementedError: a fused batch norm has no second derivatives here."""
    raise NotImplementedError(
        "placesim.tf1 has no second derivatives of tf.nn.fused_batch_norm; tf.nn.moments with tf.nn.batch_normalization has; "
        "placesim convert reads a GraphDef that TensorFlow made of them."
    )


# --- cross entropies ---------------------------------------------------------------------------------------------------------


def _broadcast_mul(vector: object, matrix: Tensor) -> Any:
    return tf.expand_dims(vector, -1) * matrix


def _is_zero(tensor: Tensor) -> bool:
    """Whether a gradient is the zeros of an output that received no gradient."""
    if tensor.op.type in ("ZerosLike", "Zeros"):
        return True
    value = constant_value(tensor)
    return value is not None and not value.any()


def _logits_gradient(op: Operation, loss_grad: Tensor, backprop_grad: Tensor) -> Any:
    logits, backprop = op.inputs[0], op.outputs[1]
    grad = _broadcast_mul(loss_grad, backprop)
    # only second derivatives reach the second output, so these nodes are rare
    if backprop_grad is not None and not _is_zero(backprop_grad):
        softmax = gen("Softmax")(logits)
        product = tf.matmul(tf.expand_dims(backprop_grad, 1), tf.expand_dims(softmax, 2))
        grad += (backprop_grad - tf.squeeze(product, axis=1)) * softmax
    return grad


def _sparse_softmax_cross_entropy(op: Operation, loss_grad: Tensor, backprop_grad: Tensor) -> list[Any]:
    return [_logits_gradient(op, loss_grad, backprop_grad), None]


def _softmax_cross_entropy(op: Operation, loss_grad: Tensor, backprop_grad: Tensor) -> list[Any]:
    logits_grad = _logits_gradient(op, loss_grad, backprop_grad)
    return [logits_grad, _broadcast_mul(loss_grad, -gen("LogSoftmax")(op.inputs[0]))]


def _ctc(op: Operation, loss_grad: Tensor, _: object) -> list[Any]:
    # The kernel computes the gradient with the loss, but that gradient has no gradient.
    inner = gen("PreventGradient")(
        op.outputs[1],
        message="Currently there is no way to take the second  derivative of ctc_loss due to the fused implementation's "
        "interaction  with tf.gradients()",
    )
    return [_broadcast_mul(loss_grad, inner), None, None, None]


# --- order -------------------------------------------------------------------------------------------------------------------


def _top_k(op: Operation, grad: Tensor, _: object) -> list[Any]:
    x, indices = op.inputs[0], op.outputs[1]
    shape, indices_shape = tf.shape(x), tf.shape(indices)
    last = tf.gather(tf.cast(indices_shape, "int64"), tf.size(indices_shape) - 1)
    flat_indices = tf.reshape(indices, tf.stack([-1, last]))
    row_size = tf.gather(tf.cast(shape, "int64"), tf.size(shape) - 1)
    rows = tf.shape(flat_indices)[0]
    starts = tf.range(0, tf.cast(rows, "int64") * row_size, row_size)
    places = tf.reshape(flat_indices + tf.cast(tf.expand_dims(starts, -1), "int32"), [-1])
    scattered = tf.scatter_nd(tf.expand_dims(places, -1), tf.reshape(grad, [-1]), [tf.reduce_prod(shape)])
    result = tf.reshape(scattered, shape)
    return [result, *(tf.zeros([], dtype="int32") for _ in op.inputs[1:])]


def _nth_element(op: Operation, grad: Tensor) -> list[Any]:
    x = op.inputs[0]
    chosen = tf.cast(tf.equal(tf.expand_dims(op.outputs[0], -1), x), grad.dtype)
    spread = tf.expand_dims(grad, -1)
    count = tf.expand_dims(tf.reduce_sum(chosen, -1), -1)
    return [tf.divide(chosen, count) * spread, None]


def _approx_top_k(op: Any, grad: Tensor, _: object) -> Any:
    """Scatter the gradient to the chosen elements, by their indices in each dimension."""
    x, places = op.inputs[0], op.outputs[1]
    sizes, chosen = x.shape.as_list(), places.shape.as_list()
    rank = len(sizes)
    axis = op.get_attr("reduction_dimension")
    axis += rank if axis < 0 else 0
    parts = []
    for dim in range(rank):
        if dim == axis:
            parts.append(tf.reshape(places, [*chosen, 1]))
        else:
            steps = tf.reshape(tf.range(chosen[dim]), [chosen[dim] if i == dim else 1 for i in range(rank)] + [1])
            parts.append(tf.broadcast_to(steps, [*chosen, 1]))
    count = prod(chosen)
    flat = tf.reshape(tf.concat(parts, rank), [count, rank])
    return tf.scatter_nd(flat, tf.reshape(grad, [count]), sizes)


GRADIENTS: dict[str, GradientFunction] = {
    "ApproxTopK": _approx_top_k,
    "BatchNormWithGlobalNormalization": _batch_norm_old,
    "BiasAdd": lambda op, grad: [grad, gen("BiasAddGrad")(grad, data_format=text_of(op.get_attr("data_format")))],
    "BiasAddGrad": _bias_add_grad,
    "BiasAddV1": _bias_add_v1,
    "CTCLoss": _ctc,
    "CTCLossV2": _ctc,
    "Elu": _of_output("EluGrad"),
    "EluGrad": partial(_exponential_grad, "EluGrad"),
    "FusedBatchNorm": _fused_batch_norm(1),
    "FusedBatchNormGrad": _fused_batch_norm_grad,
    "FusedBatchNormGradV2": _fused_batch_norm_grad,
    "FusedBatchNormGradV3": _fused_batch_norm_grad,
    "FusedBatchNormV2": _fused_batch_norm(2),
    "FusedBatchNormV3": _fused_batch_norm(3),
    "L2Loss": lambda op, grad: op.inputs[0] * grad,
    "LRN": _local_response,
    "LeakyRelu": _of_input("LeakyReluGrad", "alpha"),
    "LeakyReluGrad": _piecewise_grad("LeakyReluGrad", "alpha"),
    "LogSoftmax": _log_softmax,
    "NthElement": _nth_element,
    "Relu": _of_output("ReluGrad"),
    "Relu6": _of_output("Relu6Grad"),
    "Relu6Grad": _piecewise_grad("Relu6Grad"),
    "ReluGrad": _piecewise_grad("ReluGrad"),
    "Selu": _of_output("SeluGrad"),
    "SeluGrad": partial(_exponential_grad, "SeluGrad"),
    "Softmax": _softmax,
    "SoftmaxCrossEntropyWithLogits": _softmax_cross_entropy,
    "Softplus": lambda op, grad: grad * tf.sigmoid(op.inputs[0]),
    "SoftplusGrad": _softplus_grad,
    "Softsign": _of_input("SoftsignGrad"),
    "SparseSoftmaxCrossEntropyWithLogits": _sparse_softmax_cross_entropy,
    "TopK": _top_k,
    "TopKV2": _top_k,
}
