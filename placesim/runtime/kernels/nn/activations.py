"""Activation functions and their gradients, elementwise; half precision is computed in float32 and rounded once."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import numpy as np

from placesim.errors import InvalidArgumentError
from placesim.ops.attributes import Attrs
from placesim.runtime.kernels.kernel import Kernel, KernelContext, Table, Tensor, one_per_output
from placesim.runtime.kernels.precision import widened
from placesim.runtime.shapes import format_dims, merged, unchanged

SELU_SCALE = 1.0507009873554804934193349852946
SELU_SCALE_ALPHA = 1.7580993408473768599402175208123
"""Klambauer et al., Self-Normalizing Neural Networks, 2017: lambda, and lambda times alpha."""


def relu(features: Tensor) -> Any:
    """max(x, 0)."""
    return np.maximum(features, features.dtype.type(0))


def relu6(features: Tensor) -> Any:
    """min(max(x, 0), 6)."""
    zero, six = features.dtype.type(0), features.dtype.type(6)
    return np.minimum(np.maximum(features, zero), six)


def leaky_relu(features: Tensor, alpha: float) -> Any:
    """x, and `alpha` times x below 0."""
    return np.where(features > 0, features, features * features.dtype.type(alpha))


def elu(features: Tensor) -> Any:
    """x, and exp(x) - 1 below 0 (Clevert et al. 2015)."""
    return np.where(features < 0, np.expm1(features), features)


def selu(features: Tensor) -> Any:
    """The ELU scaled so that activations keep mean 0 and variance 1 (Klambauer et al. 2017)."""
    scale, scale_alpha = features.dtype.type(SELU_SCALE), features.dtype.type(SELU_SCALE_ALPHA)
    return np.where(features < 0, scale_alpha * np.expm1(features), scale * features)


def softplus(features: Tensor) -> Any:
    """log(1 + exp(x)), and x or exp(x) alone where the other would be lost in rounding."""
    threshold = np.log(np.finfo(features.dtype).eps) + 2
    exponential = np.exp(features)
    return np.where(features > -threshold, features, np.where(features < threshold, exponential, np.log1p(exponential)))


def softsign(features: Tensor) -> Any:
    """x / (1 + |x|)."""
    return features / (np.abs(features) + features.dtype.type(1))


def relu_grad(grads: Tensor, features: Tensor) -> Any:
    """The gradient where the feature is positive."""
    return grads * (features > 0)


def relu6_grad(grads: Tensor, features: Tensor) -> Any:
    """The gradient where the feature lies between 0 and 6."""
    return grads * ((features > 0) & (features < 6))


def leaky_relu_grad(grads: Tensor, features: Tensor, alpha: float) -> Any:
    """The gradient, and `alpha` times it where the feature is not positive."""
    return np.where(features > 0, grads, grads * grads.dtype.type(alpha))


def elu_grad(grads: Tensor, outputs: Tensor) -> Any:
    """The gradient by the outputs: exp(x) is the output plus 1."""
    return np.where(outputs < 0, (outputs + grads.dtype.type(1)) * grads, grads)


def selu_grad(grads: Tensor, outputs: Tensor) -> Any:
    """The gradient by the outputs."""
    scale, scale_alpha = grads.dtype.type(SELU_SCALE), grads.dtype.type(SELU_SCALE_ALPHA)
    return np.where(outputs < 0, grads * (outputs + scale_alpha), grads * scale)


def softplus_grad(grads: Tensor, features: Tensor) -> Any:
    """The gradient times the logistic function of the features."""
    return grads / (np.exp(-features) + grads.dtype.type(1))


def softsign_grad(grads: Tensor, features: Tensor) -> Any:
    """The gradient over (1 + |x|) squared."""
    return grads / np.square(grads.dtype.type(1) + np.abs(features))


# --- kernels --------------------------------------------------------------------------------------------------------


def apply(inputs: Sequence[Tensor], attrs: Attrs, function: Callable[..., Any]) -> Sequence[Tensor]:
    """An activation of one tensor, with the attr `alpha` where it has one."""
    return (widened(_with_alpha(function, attrs))(inputs[0]),)


def apply_back(
    inputs: Sequence[Tensor], attrs: Attrs, context: KernelContext, op: str, function: Callable[..., Any]
) -> Sequence[Tensor]:
    """A gradient from (gradients of the outputs, features or outputs), both of one shape."""
    grads, features = inputs
    if grads.shape != features.shape:
        raise InvalidArgumentError(
            f"Inputs to operation {context.node} of type {op} must have the same size and shape.  "
            f"Input 0: {format_dims(grads.shape)} != input 1: {format_dims(features.shape)}"
        )
    return (widened(_with_alpha(function, attrs))(grads, features),)


def _with_alpha(function: Callable[..., Any], attrs: Attrs) -> Callable[..., Any]:
    return partial(function, alpha=attrs["alpha"]) if "alpha" in attrs else function


def _apply_same_shapes(function: Callable[..., Any]) -> Callable[..., Any]:
    """The gradient by itself; where the shapes differ it fails, and the kernel finds the words for it."""
    computed = widened(function)

    def applied(grads: Tensor, features: Tensor) -> Any:
        if grads.shape != features.shape:
            raise ValueError("shapes differ")
        return computed(grads, features)

    return applied


def _gradient(op: str, function: Callable[..., Any], needs_attrs: bool = False) -> dict[str, Kernel]:
    direct = None if needs_attrs else _apply_same_shapes(function)
    compute = partial(apply_back, op=op, function=function)
    return {op: Kernel(compute, merged, one_per_output, direct, needs_context=True)}


# --- rows -------------------------------------------------------------------------------------------------------------


def _activation(function: Callable[..., Any], needs_attrs: bool = False) -> Kernel:
    direct = None if needs_attrs else widened(function)
    return Kernel(partial(apply, function=function), unchanged, one_per_output, direct)


TABLE: Table = {
    "Relu": _activation(relu),
    "Relu6": _activation(relu6),
    "LeakyRelu": _activation(leaky_relu, needs_attrs=True),
    "Elu": _activation(elu),
    "Selu": _activation(selu),
    "Softplus": _activation(softplus),
    "Softsign": _activation(softsign),
    **_gradient("ReluGrad", relu_grad),
    **_gradient("Relu6Grad", relu6_grad),
    **_gradient("LeakyReluGrad", leaky_relu_grad, needs_attrs=True),
    **_gradient("EluGrad", elu_grad),
    **_gradient("SeluGrad", selu_grad),
    **_gradient("SoftplusGrad", softplus_grad),
    **_gradient("SoftsignGrad", softsign_grad),
}
