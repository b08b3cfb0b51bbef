"""Gradients of convolutions and pooling."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any

from placesim.tf1.gradients.registry import GradientFunction, attrs_of
from placesim.tf1.graphs.tensor import Operation, Tensor
from placesim.tf1.importing.namespaces import namespace
from placesim.tf1.ops.generated_functions import gen

tf = namespace("")
_CONV = ("dilations", "strides", "padding", "explicit_paddings", "use_cudnn_on_gpu", "data_format")
_CONV_3D = ("dilations", "strides", "padding", "data_format")
_DEPTHWISE = ("strides", "padding", "explicit_paddings", "data_format", "dilations")


def _convolution(back_input: str, back_filter: str, names: Sequence[str], op: Operation, grad: Tensor) -> list[Any]:
    attrs = attrs_of(op, names)
    x_shape, filter_shape = tf.shape_n([op.inputs[0], op.inputs[1]])
    x_grad = gen(back_input)(x_shape, op.inputs[1], grad, **attrs)
    return [x_grad, gen(back_filter)(op.inputs[0], filter_shape, grad, **attrs)]


def _convolution_back_input(forward: str, back_filter: str, names: Sequence[str], op: Operation, grad: Tensor) -> list[Any]:
    attrs = attrs_of(op, names)
    filter_grad = gen(back_filter)(grad, tf.shape(op.inputs[1]), op.inputs[2], **attrs)
    return [None, filter_grad, gen(forward)(grad, op.inputs[1], **attrs)]


def _convolution_back_filter(forward: str, back_input: str, names: Sequence[str], op: Operation, grad: Tensor) -> list[Any]:
    attrs = attrs_of(op, names)
    x_grad = gen(back_input)(tf.shape(op.inputs[0]), grad, op.inputs[2], **attrs)
    return [x_grad, None, gen(forward)(op.inputs[0], grad, **attrs)]


def _depthwise(op: Operation, grad: Tensor) -> list[Any]:
    attrs = attrs_of(op, _DEPTHWISE)
    x, kernel = op.inputs
    x_grad = gen("DepthwiseConv2dNativeBackpropInput")(tf.shape(x), kernel, grad, **attrs)
    return [x_grad, gen("DepthwiseConv2dNativeBackpropFilter")(x, tf.shape(kernel), grad, **attrs)]


_POOL = ("ksize", "strides", "padding", "data_format")


def _max_pool(back: str, names: Sequence[str]) -> GradientFunction:
    return lambda op, grad: gen(back)(op.inputs[0], op.outputs[0], grad, **attrs_of(op, names))


def _max_pool_v2(op: Operation, grad: Tensor) -> list[Any]:
    x, ksize, strides = op.inputs
    attrs = attrs_of(op, ("padding", "data_format"))
    return [gen("MaxPoolGradV2")(x, op.outputs[0], grad, ksize, strides, **attrs), None, None]


def _max_pool_grad(back: str, op: Operation, grad: Tensor) -> list[Any]:
    """Gradient of a max pool's gradient op: zeros for its first two inputs, `back` applied for its third."""
    zeros = [tf.zeros_like(tensor) for tensor in op.inputs[:2]]
    return [*zeros, gen(back)(op.inputs[0], op.inputs[1], grad, **attrs_of(op, _POOL))]


def _max_pool_grad_v2(op: Operation, grad: Tensor) -> list[Any]:
    ksize, strides = op.inputs[3:]
    zeros = [tf.zeros_like(tensor) for tensor in op.inputs[:2]]
    attrs = attrs_of(op, ("padding", "data_format"))
    return [*zeros, gen("MaxPoolGradGradV2")(op.inputs[0], op.inputs[1], grad, ksize, strides, **attrs), None, None]


def _average_pool(back: str) -> GradientFunction:
    return lambda op, grad: gen(back)(tf.shape(op.inputs[0]), grad, **attrs_of(op, _POOL))


def _average_pool_grad(forward: str, op: Operation, grad: Tensor) -> list[Any]:
    return [gen("StopGradient")(op.inputs[0]), gen(forward)(grad, **attrs_of(op, _POOL))]


def _max_pool_with_argmax(op: Operation, grad: Tensor, _: object) -> Any:
    attrs = attrs_of(op, ("ksize", "strides", "padding", "include_batch_in_index"))
    return gen("MaxPoolGradWithArgmax")(op.inputs[0], grad, op.outputs[1], **attrs)


def _fractional_max_pool(op: Operation, grad: Tensor, *_: object) -> Any:
    outputs = op.outputs
    return gen("FractionalMaxPoolGrad")(op.inputs[0], outputs[0], grad, outputs[1], outputs[2], op.get_attr("overlapping"))


def _fractional_average_pool(op: Operation, grad: Tensor, *_: object) -> Any:
    shape = op.inputs[0].shape.as_list()
    return gen("FractionalAvgPoolGrad")(shape, grad, op.outputs[1], op.outputs[2], op.get_attr("overlapping"))


GRADIENTS: dict[str, GradientFunction] = {
    "AvgPool": _average_pool("AvgPoolGrad"),
    "AvgPool3D": _average_pool("AvgPool3DGrad"),
    "AvgPool3DGrad": partial(_average_pool_grad, "AvgPool3D"),
    "AvgPoolGrad": partial(_average_pool_grad, "AvgPool"),
    "Conv2D": partial(_convolution, "Conv2DBackpropInput", "Conv2DBackpropFilter", _CONV),
    "Conv2DBackpropFilter": partial(_convolution_back_filter, "Conv2D", "Conv2DBackpropInput", _CONV),
    "Conv2DBackpropInput": partial(_convolution_back_input, "Conv2D", "Conv2DBackpropFilter", _CONV),
    "Conv3D": partial(_convolution, "Conv3DBackpropInputV2", "Conv3DBackpropFilterV2", _CONV_3D),
    "Conv3DBackpropFilterV2": partial(_convolution_back_filter, "Conv3D", "Conv3DBackpropInputV2", _CONV_3D),
    "Conv3DBackpropInputV2": partial(_convolution_back_input, "Conv3D", "Conv3DBackpropFilterV2", _CONV_3D),
    "DepthwiseConv2dNative": _depthwise,
    "DepthwiseConv2dNativeBackpropFilter": partial(
        _convolution_back_filter,
        "DepthwiseConv2dNative",
        "DepthwiseConv2dNativeBackpropInput",
        _DEPTHWISE,
    ),
    "DepthwiseConv2dNativeBackpropInput": partial(
        _convolution_back_input, "DepthwiseConv2dNative", "DepthwiseConv2dNativeBackpropFilter", _DEPTHWISE
    ),
    "FractionalAvgPool": _fractional_average_pool,
    "FractionalMaxPool": _fractional_max_pool,
    "MaxPool": _max_pool("MaxPoolGrad", (*_POOL, "explicit_paddings")),
    "MaxPool3D": _max_pool("MaxPool3DGrad", _POOL),
    "MaxPool3DGrad": partial(_max_pool_grad, "MaxPool3DGradGrad"),
    "MaxPool3DGradGrad": partial(_max_pool_grad, "MaxPool3DGrad"),
    "MaxPoolGrad": partial(_max_pool_grad, "MaxPoolGradGrad"),
    "MaxPoolGradGrad": partial(_max_pool_grad, "MaxPoolGrad"),
    "MaxPoolGradV2": _max_pool_grad_v2,
    "MaxPoolV2": _max_pool_v2,
    "MaxPoolWithArgmax": _max_pool_with_argmax,
}
