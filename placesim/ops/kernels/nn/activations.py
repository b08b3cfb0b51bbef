"""Activation functions and their gradients, elementwise.

In half precision, an activation is computed in float32 and rounded once, and a gradient is rounded after each operation.

An activation keeps its tensor's shape. A gradient function takes two tensors of the same shape.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import numpy as np

from placesim.core.errors import InvalidArgumentError
from placesim.ops.attributes import Attrs
from placesim.ops.kernels.blocks.elementwise_blocks import in_parts
from placesim.ops.kernels.broadcasting import overwriting
from placesim.ops.kernels.cost_model import ONE_PASS, CostModel, Passes, elementwise_cost
from placesim.ops.kernels.element_selection import choose
from placesim.ops.kernels.kernel import Kernel, KernelContext, Table, Tensor, Trait, one_per_output
from placesim.ops.kernels.memory_rules import forwards
from placesim.ops.kernels.precision import widened
from placesim.ops.kernels.shapes import format_dims, merged, unchanged

ROW = 1 << 13
"""Elements of a row of zeros, which a large tensor is compared with."""
SELU_SCALE = 1.0507009873554804934193349852946
SELU_SCALE_ALPHA = 1.7580993408473768599402175208123
"""Klambauer et al., Self-Normalizing Neural Networks, 2017: lambda, and lambda times alpha."""


# --- kernels --------------------------------------------------------------------------------------------------------


def relu(features: Tensor, out: Tensor | None = None) -> Any:
    """max(x, 0), written to `out` if given. NaN stays NaN."""
    if features.size < ROW or not features.flags.c_contiguous or not (out is None or out.flags.c_contiguous):
        return np.maximum(features, features.dtype.type(0), out=out)
    # numpy compares rows of numbers in vector instructions, but a row and a single number one by one
    output = np.empty_like(features) if out is None else out
    flat, found, zeros = features.reshape(-1), output.reshape(-1), np.zeros(ROW, features.dtype)
    whole = len(flat) - len(flat) % ROW
    np.maximum(flat[:whole].reshape(-1, ROW), zeros, out=found[:whole].reshape(-1, ROW))
    np.maximum(flat[whole:], zeros[: len(flat) - whole], out=found[whole:])
    return output


def relu6(features: Tensor, out: Tensor | None = None) -> Any:
    """min(max(x, 0), 6), written to `out` if given."""
    zero, six = features.dtype.type(0), features.dtype.type(6)
    return features.clip(zero, six, out=out)


def leaky_relu(features: Tensor, alpha: float) -> Any:
    """x, but `alpha` times x for negative x."""
    return choose(features > 0, features, features * features.dtype.type(alpha))


def elu(features: Tensor) -> Any:
    """x, but exp(x) - 1 for negative x (Clevert et al. 2015)."""
    # NaN is not negative, and stays NaN
    return choose(features < 0, np.expm1(features), features)


def selu(features: Tensor) -> Any:
    """The ELU scaled so that activations keep mean 0 and variance 1 (Klambauer et al. 2017)."""
    scale, scale_alpha = features.dtype.type(SELU_SCALE), features.dtype.type(SELU_SCALE_ALPHA)
    return choose(features < 0, scale_alpha * np.expm1(features), scale * features)


def softplus(features: Tensor) -> Any:
    """log(1 + exp(x)), computed as max(x, 0) + log(1 + exp(-|x|))."""
    power = np.asarray(np.abs(features))
    np.exp(np.negative(power, out=power), out=power)
    # numpy's log1p is not vectorized, so this is log(1 + p), corrected for the part of p that rounding 1 + p lost
    total = power + power.dtype.type(1)
    power -= total - power.dtype.type(1)
    power /= total
    power += np.log(total)
    power += np.maximum(features, features.dtype.type(0))
    return power


def softsign(features: Tensor) -> Any:
    """x / (1 + |x|)."""
    return features / (np.abs(features) + features.dtype.type(1))


def relu_grad(grads: Tensor, features: Tensor) -> Any:
    """The gradient where the feature is positive, else 0."""
    # a product, as in TensorFlow: a gradient that is not finite gives NaN where the feature is not positive
    return grads * (features > 0)


def relu6_grad(grads: Tensor, features: Tensor) -> Any:
    """The gradient where the feature lies between 0 and 6, else 0."""
    return grads * ((features > 0) & (features < 6))


def leaky_relu_grad(grads: Tensor, features: Tensor, alpha: float) -> Any:
    """The gradient, but `alpha` times the gradient where the feature is not positive."""
    return choose(features > 0, grads, grads * grads.dtype.type(alpha))


def elu_grad(grads: Tensor, outputs: Tensor) -> Any:
    """The gradient, computed from ELU's outputs: for negative x, exp(x) is the output plus 1."""
    # an output has the sign of its feature
    return choose(outputs < 0, (outputs + grads.dtype.type(1)) * grads, grads)


def selu_grad(grads: Tensor, outputs: Tensor) -> Any:
    """The gradient, computed from SELU's outputs: for negative x, scale * alpha * exp(x) is the output plus scale * alpha."""
    scale, scale_alpha = grads.dtype.type(SELU_SCALE), grads.dtype.type(SELU_SCALE_ALPHA)
    return choose(outputs < 0, grads * (outputs + scale_alpha), grads * scale)


def softplus_grad(grads: Tensor, features: Tensor) -> Any:
    """The gradient times the logistic function of the features."""
    return grads / (np.exp(-features) + grads.dtype.type(1))


def softsign_grad(grads: Tensor, features: Tensor) -> Any:
    """The gradient divided by (1 + |x|) squared."""
    return grads / np.square(grads.dtype.type(1) + np.abs(features))


def apply(inputs: Sequence[Tensor], attrs: Attrs, function: Callable[..., Any]) -> Sequence[Tensor]:
    """Apply an activation to a tensor of any shape, with attr `alpha` if the op has it."""
    return (widened(_with_alpha(function, attrs))(inputs[0]),)


def apply_back(
    inputs: Sequence[Tensor], attrs: Attrs, context: KernelContext, op: str, function: Callable[..., Any]
) -> Sequence[Tensor]:
    """Apply a gradient function to (gradients of the outputs, features or outputs).

    Raises InvalidArgumentError if the shapes differ.
    """
    grads, features = inputs
    if grads.shape != features.shape:
        raise InvalidArgumentError(
            f"Inputs to operation {context.node} of type {op} must have the same size and shape.  "
            f"Input 0: {format_dims(grads.shape)} != input 1: {format_dims(features.shape)}"
        )
    return (_with_alpha(function, attrs)(grads, features),)


def _with_alpha(function: Callable[..., Any], attrs: Attrs) -> Callable[..., Any]:
    return partial(function, alpha=attrs["alpha"]) if "alpha" in attrs else function


def _apply_same_shapes(function: Callable[..., Any]) -> Callable[..., Any]:
    """The gradient function as a kernel's `direct`. For different shapes it raises, so that `compute` gives the message."""
    computed = widened(function)

    def applied(grads: Tensor, features: Tensor) -> Any:
        if grads.shape != features.shape:
            raise ValueError("shapes differ")
        return computed(grads, features)

    return applied


def _build_activation(
    function: Callable[..., Any], passes: Passes = ONE_PASS, *, needs_attrs: bool = False, is_cut: bool = False
) -> Kernel:
    if is_cut:
        function = in_parts(function)
    compute = partial(apply, function=function)
    direct = None if needs_attrs else widened(function)
    in_place = None if direct is None else overwriting(direct)
    cost = elementwise_cost(passes, is_cut=is_cut)
    return Kernel(compute, unchanged, one_per_output, direct, memory=forwards(0), in_place=in_place, cost=cost)


def _build_gradient(op: str, function: Callable[..., Any], passes: Passes, *, needs_attrs: bool = False) -> Kernel:
    direct = None if needs_attrs else _apply_same_shapes(function)
    compute = partial(apply_back, op=op, function=function)
    return Kernel(
        compute,
        merged,
        one_per_output,
        direct,
        needs_context=True,
        memory=forwards(0, 1),
        traits=Trait.CONTEXT_NAMES,
        cost=CostModel(passes=passes),
    )


TABLE: Table = {
    "Relu": _build_activation(relu, Passes(compared=1))._replace(in_place=relu),
    "Relu6": _build_activation(relu6, Passes(plain=2))._replace(in_place=relu6),
    "LeakyRelu": _build_activation(leaky_relu, Passes(plain=2, chosen=1), needs_attrs=True, is_cut=True),
    "Elu": _build_activation(elu, Passes(plain=1, exponential=2, chosen=1), is_cut=True),
    "Selu": _build_activation(selu, Passes(plain=3, exponential=2, chosen=1), is_cut=True),
    "Softplus": _build_activation(softplus, Passes(plain=8, divided=1, exponential=2), is_cut=True),
    "Softsign": _build_activation(softsign, Passes(plain=2, divided=1), is_cut=True),
    "ReluGrad": _build_gradient("ReluGrad", relu_grad, Passes(plain=2)),
    "Relu6Grad": _build_gradient("Relu6Grad", relu6_grad, Passes(plain=4)),
    "LeakyReluGrad": _build_gradient("LeakyReluGrad", leaky_relu_grad, Passes(plain=2, chosen=1), needs_attrs=True),
    "EluGrad": _build_gradient("EluGrad", elu_grad, Passes(plain=3, chosen=1)),
    "SeluGrad": _build_gradient("SeluGrad", selu_grad, Passes(plain=4, chosen=1)),
    "SoftplusGrad": _build_gradient("SoftplusGrad", softplus_grad, Passes(plain=2, divided=1, exponential=1)),
    "SoftsignGrad": _build_gradient("SoftsignGrad", softsign_grad, Passes(plain=3, divided=1)),
}
