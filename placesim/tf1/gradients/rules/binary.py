"""Gradients of elementwise ops with several inputs, which may be broadcast."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

from placesim.tf1.gradients.broadcasting import reduced, reductions, same_static_shapes
from placesim.tf1.gradients.registry import GradientFunction
from placesim.tf1.graphs.default_graph_scopes import control_dependencies
from placesim.tf1.graphs.tensor import Operation, Tensor
from placesim.tf1.importing.namespaces import namespace
from placesim.tf1.ops.generated_functions import gen

tf = namespace("")


def _conjugates(op: Operation) -> tuple[Any, Any]:
    return tf.conj(op.inputs[0]), tf.conj(op.inputs[1])


def _add(op: Operation, grad: Tensor) -> list[Any]:
    x, y = op.inputs
    # equal shapes need no sums, which saves several nodes
    return [grad, grad] if same_static_shapes(x, y, grad) else reduced(x, y, grad, grad)


def _subtract(op: Operation, grad: Tensor) -> list[Any]:
    x, y = op.inputs
    negated = -grad
    return [grad, negated] if same_static_shapes(x, y, grad) else reduced(x, y, grad, negated)


_PLAIN_PRODUCTS = frozenset({"float32", "int32"})
"""Types for which a product of equal shapes needs neither reductions nor conjugates."""


def _multiply(op: Operation, grad: Tensor) -> list[Any]:
    x, y = op.inputs
    multiply = gen("Mul")
    if same_static_shapes(x, y, grad) and grad.dtype.base_dtype.name in _PLAIN_PRODUCTS:
        return [multiply(grad, y), multiply(grad, x)]
    return reduced(x, y, multiply(grad, tf.conj(y)), multiply(tf.conj(x), grad))


def _multiply_no_nan(op: Operation, grad: Tensor) -> list[Any]:
    x, y = op.inputs
    multiply = gen("MulNoNan")
    x_grad, y_grad = multiply(grad, y), multiply(x, grad)
    return [x_grad, y_grad] if same_static_shapes(x, y, grad) else reduced(x, y, x_grad, y_grad)


def _quotient(divide: Callable[[Any, Any], Any], op: Operation, grad: Tensor) -> list[Any]:
    x, y = _conjugates(op)
    x_grad = divide(grad, y)
    y_grad = grad * divide(divide(-x, y), y)
    return reduced(op.inputs[0], op.inputs[1], x_grad, y_grad)


def _remainder(op: Operation, grad: Tensor) -> list[Any]:
    x, y = _conjugates(op)
    quotient = gen("FloorDiv")(x, y)
    return reduced(op.inputs[0], op.inputs[1], grad, grad * tf.negative(quotient))


def _power(op: Operation, grad: Tensor) -> list[Any]:
    x, y = _conjugates(op)
    x_grad = grad * y * tf.pow(x, y - 1)
    # The logarithm is undefined where x <= 0, for complex numbers only where x is 0.
    defined = tf.not_equal(x, 0) if x.dtype.is_complex else x > 0
    safe = tf.where(defined, x, tf.ones_like(x))
    logarithm = tf.where(defined, tf.log(safe), tf.zeros_like(x))
    y_grad = grad * tf.conj(op.outputs[0]) * logarithm
    return reduced(op.inputs[0], op.inputs[1], x_grad, y_grad)


def _chosen(compare: Callable[[Any, Any], Any], op: Operation, grad: Tensor) -> list[Any]:
    """Gradient of Maximum and Minimum: the gradient goes to the input that was taken."""
    x, y = op.inputs
    zeros = tf.zeros_like(grad)
    taken = compare(x, y)
    return reduced(x, y, tf.where_v2(taken, grad, zeros), tf.where_v2(taken, zeros, grad))


def _squared_difference(op: Operation, grad: Tensor) -> list[Any]:
    x, y = op.inputs
    # the factor is computed late, so that its memory is not held during the forward pass
    with control_dependencies([grad]):
        x_grad = tf.scalar_mul(2.0, grad) * (x - y)
    negated = -x_grad
    return [x_grad, negated] if same_static_shapes(x, y, grad) else reduced(x, y, x_grad, negated)


def _arctangent(op: Operation, grad: Tensor) -> list[Any]:
    y, x = op.inputs
    with control_dependencies([grad]):
        inverse = grad / (tf.square(y) + tf.square(x))
        return reduced(y, x, x * inverse, -y * inverse)


def _complex(op: Operation, grad: Tensor) -> list[Any]:
    return reduced(op.inputs[0], op.inputs[1], tf.real(grad), tf.imag(grad))


# --- gradients that are always reduced by runtime shapes ---------------------------------------------------------------------


def _partial(rule: Callable[[Any, Any, Any], tuple[Any, Any]]) -> GradientFunction:
    """Gradient function from `rule(x, y, shapes)`, which returns both partial derivatives (None for a missing one)."""

    def gradient(op: Operation, grad: Tensor) -> list[Any]:
        x, y = op.inputs
        shapes = tf.shape(x), tf.shape(y)
        axes = gen("BroadcastGradientArgs")(*shapes)
        with control_dependencies([grad]):
            partials = rule(x, y, shapes)
            return [
                None if partial is None else tf.reshape(tf.reduce_sum(partial * grad, over), shape)
                for partial, over, shape in zip(partials, axes, shapes, strict=True)
            ]

    return gradient


def _is_not_zero(x: Tensor) -> Any:
    return tf.cast(tf.not_equal(x, tf.cast(0.0, x.dtype)), x.dtype)


def _igamma(a: Tensor, x: Tensor, shapes: object) -> tuple[Any, Any]:
    return gen("IgammaGradA")(a, x), tf.exp(-x + (a - 1) * tf.log(x) - tf.lgamma(a))


def _igammac(op: Operation, grad: Tensor) -> list[Any]:
    of_a, of_x = _IGAMMA(op, grad)
    return [-of_a, -of_x]


_IGAMMA = _partial(_igamma)


def _next_after(x: Tensor, y: Tensor, shapes: Any) -> tuple[Any, Any]:
    return tf.ones(shapes[0], dtype=x.dtype), tf.zeros(shapes[1], dtype=y.dtype)


def _betainc(op: Operation, grad: Tensor) -> list[Any]:
    a, b, x = op.inputs
    shapes = tf.shape(a), tf.shape(x)
    over = gen("BroadcastGradientArgs")(*shapes)[1]
    log_beta = tf.lgamma(a) + tf.lgamma(b) - tf.lgamma(a + b)
    of_x = tf.exp(tf.math.xlog1py(b - 1, -x) + gen("Xlogy")(a - 1, x) - log_beta)
    return [None, None, tf.reshape(tf.reduce_sum(of_x * grad, over), shapes[1])]


# --- choosing and clipping ---------------------------------------------------------------------------------------------------


def _select(op: Operation, grad: Tensor) -> list[Any]:
    condition, x = op.inputs[0], op.inputs[1]
    zeros = tf.zeros_like(x)
    return [None, tf.where(condition, grad, zeros), tf.where(condition, zeros, grad)]


def _select_broadcast(op: Operation, grad: Tensor) -> list[Any]:
    condition, x, y = op.inputs
    zeros = tf.zeros([], dtype=grad.dtype.base_dtype)
    grads = [tf.where_v2(condition, grad, zeros), tf.where_v2(condition, zeros, grad)]
    output = op.outputs[0]
    return [None, *(reductions(given, output)[0].of(of_it) for given, of_it in zip((x, y), grads, strict=True))]


def _clip_by_value(op: Operation, grad: Tensor) -> list[Any]:
    x, low, high = op.inputs
    shapes = [tf.shape(tensor) for tensor in (x, low, high)]
    zeros = tf.zeros(tf.shape(grad), grad.dtype)
    below, above = tf.less(x, low), tf.greater(x, high)
    over = [gen("BroadcastGradientArgs")(shapes[0], shape)[1] for shape in shapes[1:]]
    x_grad = tf.where(tf.logical_or(below, above), zeros, grad)
    bounds = [tf.where(below, grad, zeros), tf.where(above, grad, zeros)]
    return [
        x_grad,
        *(tf.reshape(tf.reduce_sum(bound, axes), shape) for bound, axes, shape in zip(bounds, over, shapes[1:], strict=True)),
    ]


def _cross(op: Operation, grad: Tensor) -> list[Any]:
    u, v = op.inputs
    return [gen("Cross")(v, grad), gen("Cross")(grad, u)]


GRADIENTS: dict[str, GradientFunction] = {
    "AccumulateNV2": lambda op, grad: [grad] * len(op.inputs),
    "Add": _add,
    "AddN": lambda op, grad: [grad] * len(op.inputs),
    "AddV2": _add,
    "Atan2": _arctangent,
    "Betainc": _betainc,
    "ClipByValue": _clip_by_value,
    "Complex": _complex,
    "Cross": _cross,
    "Div": partial(_quotient, tf.divide),
    "DivNoNan": partial(_quotient, tf.div_no_nan),
    # constant almost everywhere
    "FloorDiv": lambda op, grad: [None, None],
    "FloorMod": _remainder,
    "Igamma": _IGAMMA,
    "Igammac": _igammac,
    "Maximum": partial(_chosen, tf.greater_equal),
    "Minimum": partial(_chosen, tf.less_equal),
    "Mul": _multiply,
    "MulNoNan": _multiply_no_nan,
    "NextAfter": _partial(_next_after),
    "Polygamma": _partial(lambda a, x, shapes: (None, tf.math.polygamma(a + 1, x))),
    "Pow": _power,
    "RealDiv": partial(_quotient, gen("RealDiv")),
    "Select": _select,
    "SelectV2": _select_broadcast,
    "SquaredDifference": _squared_difference,
    "Sub": _subtract,
    "TruncateDiv": lambda op, grad: [None, None],
    "Xdivy": _partial(lambda x, y, shapes: (gen("Xdivy")(_is_not_zero(x), y), gen("Xdivy")(tf.negative(x), y**2))),
    "Xlog1py": _partial(lambda x, y, shapes: (gen("Xlog1py")(_is_not_zero(x), y), gen("Xdivy")(x, y + 1.0))),
    "Xlogy": _partial(lambda x, y, shapes: (gen("Xlogy")(_is_not_zero(x), y), gen("Xdivy")(x, y))),
    "Zeta": _partial(lambda x, q, shapes: (None, -x * tf.math.zeta(x + 1, q))),
}
