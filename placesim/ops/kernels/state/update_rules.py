"""Update rules of optimizers: functions of variables' values and a gradient that return the variables' new values.

A rule takes the op's attrs and its inputs in order, without the indices of a sparse op, and returns a value for each variable.
It may overwrite the variables' values, to save passes over large ones. Tensors have the shape of the variables; in a sparse
op, they have the shape of the chosen rows. Every intermediate result is rounded to the tensors' type, so the operations are in
TensorFlow's order.
Source: TensorFlow's training kernels, and the papers named here.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from placesim.ops.attributes import Attrs
from placesim.ops.kernels.kernel import Tensor


def one(like: Tensor) -> Any:
    """Return the scalar 1 of the tensor's type, so that the type does not change."""
    return np.asarray(like).dtype.type(1)


def rsqrt(x: Tensor) -> Tensor:
    """Return one over the square root, of a tensor of any shape."""
    return np.asarray(one(x) / np.sqrt(x))


def gradient_descent(attrs: Attrs, var: Tensor, alpha: Tensor, delta: Tensor) -> Sequence[Tensor]:
    """Subtract the gradient times the learning rate."""
    var -= delta * alpha
    return (var,)


def _shrink(var: Tensor, rate: Tensor, l1: Tensor, l2: Tensor) -> Tensor:
    # the proximal step of forward-backward splitting (Duchi and Singer 2009)
    if l1 > 0:
        var = np.sign(var) * np.maximum(np.abs(var) - rate * l1, 0)
    return np.asarray(var / (one(var) + l2 * rate))


def proximal_gradient_descent(
    attrs: Attrs, var: Tensor, alpha: Tensor, l1: Tensor, l2: Tensor, delta: Tensor
) -> Sequence[Tensor]:
    """Gradient descent followed by a proximal step for the L1 and L2 terms."""
    return (_shrink(var - delta * alpha, alpha, l1, l2),)


def adadelta(
    attrs: Attrs, var: Tensor, accum: Tensor, accum_update: Tensor, lr: Tensor, rho: Tensor, epsilon: Tensor, grad: Tensor
) -> Sequence[Tensor]:
    """Adadelta (Zeiler 2012)."""
    accum = accum * rho + np.square(grad) * (one(rho) - rho)
    step = np.sqrt(accum_update + epsilon) * rsqrt(accum + epsilon) * grad
    return var - step * lr, accum, accum_update * rho + np.square(step) * (one(rho) - rho)


def adagrad(attrs: Attrs, var: Tensor, accum: Tensor, lr: Tensor, grad: Tensor) -> Sequence[Tensor]:
    """Adagrad (Duchi, Hazan and Singer 2011)."""
    if attrs["update_slots"]:
        accum = accum + np.square(grad)
    # an accumulator of 0 gives infinity times the gradient
    return var - grad * lr * rsqrt(accum), accum


def adagrad_v2(attrs: Attrs, var: Tensor, accum: Tensor, lr: Tensor, epsilon: Tensor, grad: Tensor) -> Sequence[Tensor]:
    """Adagrad with `epsilon` added to the root."""
    if attrs["update_slots"]:
        accum = accum + np.square(grad)
    return var - grad * lr / (np.sqrt(accum) + epsilon), accum


def proximal_adagrad(
    attrs: Attrs, var: Tensor, accum: Tensor, lr: Tensor, l1: Tensor, l2: Tensor, grad: Tensor
) -> Sequence[Tensor]:
    """Adagrad followed by a proximal step for the L1 and L2 terms."""
    accum = accum + np.square(grad)
    rate = lr * rsqrt(accum)
    return _shrink(var - grad * rate, rate, l1, l2), accum


def adagrad_da(attrs: Attrs, *inputs: Tensor) -> Sequence[Tensor]:
    """Adagrad with dual averaging."""
    # the new value depends only on the sums of all gradients
    _, total, total_squared, grad, lr, l1, l2, step = inputs
    step = np.asarray(step).astype(np.asarray(grad).dtype)
    total, total_squared = total + grad, total_squared + np.square(grad)
    pull = np.sign(total) * np.maximum(np.abs(total) - step * l1, 0) if l1 > 0 else total
    return -lr * pull / (l2 * (step * lr) + np.sqrt(total_squared)), total, total_squared


def momentum(attrs: Attrs, var: Tensor, accum: Tensor, lr: Tensor, grad: Tensor, momentum: Tensor) -> Sequence[Tensor]:
    """Momentum (Polyak 1964); with `use_nesterov`, Nesterov's (1983)."""
    accum *= momentum
    accum += grad
    var -= grad * lr + accum * momentum * lr if attrs["use_nesterov"] else accum * lr
    return var, accum


def keras_momentum(attrs: Attrs, var: Tensor, accum: Tensor, lr: Tensor, grad: Tensor, momentum: Tensor) -> Sequence[Tensor]:
    """Momentum with the learning rate inside the accumulator."""
    accum *= momentum
    accum -= grad * lr
    var += accum * momentum - grad * lr if attrs["use_nesterov"] else accum
    return var, accum


def adam(attrs: Attrs, *inputs: Tensor) -> Sequence[Tensor]:
    """Adam (Kingma and Ba 2014); with `use_nesterov`, Nadam (Dozat 2016)."""
    var, m, v, beta1_power, beta2_power, lr, beta1, beta2, epsilon, grad = inputs
    alpha = lr * np.sqrt(one(var) - beta2_power) / (one(var) - beta1_power)
    m += (grad - m) * (one(var) - beta1)
    v += (np.square(grad) - v) * (one(var) - beta2)
    step = grad * (one(var) - beta1) + beta1 * m if attrs["use_nesterov"] else m
    var -= (step * alpha) / (np.sqrt(v) + epsilon)
    return var, m, v


def adam_with_amsgrad(attrs: Attrs, *inputs: Tensor) -> Sequence[Tensor]:
    """AMSGrad (Reddi, Kale and Kumar 2018)."""
    var, m, v, vhat, beta1_power, beta2_power, lr, beta1, beta2, epsilon, grad = inputs
    alpha = lr * np.sqrt(one(var) - beta2_power) / (one(var) - beta1_power)
    m = m + (grad - m) * (one(var) - beta1)
    v = v + (np.square(grad) - v) * (one(var) - beta2)
    # the largest average so far, without bias correction
    vhat = np.maximum(vhat, v)
    return var - (m * alpha) / (np.sqrt(vhat) + epsilon), m, v, vhat


def adamax(attrs: Attrs, *inputs: Tensor) -> Sequence[Tensor]:
    """AdaMax (Kingma and Ba 2014, section 7.1)."""
    var, m, v, beta1_power, lr, beta1, beta2, epsilon, grad = inputs
    m = m + (grad - m) * (one(var) - beta1)
    # an infinity norm needs no correction by beta2's power
    v = np.maximum(beta2 * v, np.abs(grad))
    return var - lr / (one(var) - beta1_power) * (m / (v + epsilon)), m, v


def rms_prop(attrs: Attrs, *inputs: Tensor) -> Sequence[Tensor]:
    """RMSProp (Tieleman and Hinton 2012)."""
    var, ms, mom, lr, rho, momentum, epsilon, grad = inputs
    ms = ms + (np.square(grad) - ms) * (one(rho) - rho)
    mom = mom * momentum + (grad * lr) / np.sqrt(ms + epsilon)
    return var - mom, ms, mom


def centered_rms_prop(attrs: Attrs, *inputs: Tensor) -> Sequence[Tensor]:
    """Centered RMSProp (Graves 2013)."""
    var, mg, ms, mom, lr, rho, momentum, epsilon, grad = inputs
    ms = ms + (np.square(grad) - ms) * (one(rho) - rho)
    mg = mg + (grad - mg) * (one(rho) - rho)
    mom = mom * momentum + (grad * lr) / np.sqrt((ms - np.square(mg)) + epsilon)
    return var - mom, mg, ms, mom


def add_sign(attrs: Attrs, *inputs: Tensor) -> Sequence[Tensor]:
    """AddSign (Bello and others 2017)."""
    var, m, lr, alpha, sign_decay, beta, grad = inputs
    m = m * beta + grad * (one(beta) - beta)
    return var - lr * (alpha + sign_decay * (np.sign(grad) * np.sign(m))) * grad, m


def power_sign(attrs: Attrs, *inputs: Tensor) -> Sequence[Tensor]:
    """PowerSign (Bello and others 2017)."""
    var, m, lr, logbase, sign_decay, beta, grad = inputs
    m = m * beta + grad * (one(beta) - beta)
    return var - lr * np.exp(logbase * sign_decay * (np.sign(grad) * np.sign(m))) * grad, m


def ftrl(attrs: Attrs, *inputs: Tensor) -> Sequence[Tensor]:
    """FTRL, follow the regularized leader, proximal (McMahan and others 2013)."""
    var, accum, linear, grad, lr, l1, l2, lr_power = inputs
    return _follow_leader((var, accum, linear), grad, grad, _LeaderRates(lr, l1, l2, lr_power), attrs)


def ftrl_v2(attrs: Attrs, *inputs: Tensor) -> Sequence[Tensor]:
    """FTRL with shrinkage, which the accumulator ignores."""
    var, accum, linear, grad, lr, l1, l2, l2_shrinkage, lr_power = inputs
    shrunk = grad + np.asarray(grad).dtype.type(2) * l2_shrinkage * var
    return _follow_leader((var, accum, linear), grad, shrunk, _LeaderRates(lr, l1, l2, lr_power), attrs)


class _LeaderRates(NamedTuple):
    lr: Tensor
    l1: Tensor
    l2: Tensor
    lr_power: Tensor


def _follow_leader(
    state: tuple[Tensor, Tensor, Tensor], grad: Tensor, pull: Tensor, rates: _LeaderRates, attrs: Attrs
) -> Sequence[Tensor]:
    var, accum, linear = state
    lr, l1, l2, lr_power = rates
    new_accum = accum + np.square(grad)
    # for the usual power TensorFlow takes the square root, which rounds differently
    new_power, power = (np.sqrt(x) if lr_power == -0.5 else np.power(x, -lr_power) for x in (new_accum, accum))
    two = np.asarray(grad).dtype.type(2)
    if attrs["multiply_linear_by_lr"]:
        linear = linear + (pull * lr - (new_power - power) * var)
        l1, quadratic = l1 * lr, new_power + two * l2 * lr
    else:
        linear = linear + (pull - (new_power - power) / lr * var)
        quadratic = new_power / lr + two * l2
    var = np.where(np.abs(linear) > l1, (l1 * np.sign(linear) - linear) / quadratic, np.zeros_like(linear))
    return var, new_accum, linear
