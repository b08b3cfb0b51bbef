"""Gradients of elementwise functions of one tensor.

Most of them wait for the incoming gradient before they read the forward tensor, so that no backward op runs during the
forward pass.  They read the conjugate of complex tensors.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from placesim.tf1.gradients.registry import GradientFunction
from placesim.tf1.graphs.default_graph_scopes import control_dependencies
from placesim.tf1.graphs.tensor import Operation, Tensor
from placesim.tf1.importing.namespaces import namespace
from placesim.tf1.ops.conversion import constant
from placesim.tf1.ops.generated_functions import gen

tf = namespace("")


def _late(rule: Callable[[Any, Any], Any], of_output: bool = False) -> GradientFunction:
    """Gradient from `rule(gradient, conjugate of x or y)`, whose nodes wait for the gradient."""

    def gradient(op: Operation, grad: Tensor) -> Any:
        with control_dependencies([grad]):
            return rule(grad, tf.conj(op.outputs[0] if of_output else op.inputs[0]))

    return gradient


def _late_real(rule: Callable[[Any, Any, Any], Any]) -> GradientFunction:
    """Gradient from `rule(gradient, x, y)` of real tensors, whose nodes wait for the gradient."""

    def gradient(op: Operation, grad: Tensor) -> Any:
        with control_dependencies([grad]):
            return rule(grad, op.inputs[0], op.outputs[0])

    return gradient


def _scaled(factor: float, rule: Callable[[Any], Any], of_output: bool = False) -> GradientFunction:
    """Gradient function `gradient * factor * rule(x or y)`: only the nodes of the rule wait for the gradient."""

    def gradient(op: Operation, grad: Tensor) -> Any:
        scaled = grad * constant(factor, dtype=grad.dtype)
        with control_dependencies([grad]):
            return scaled * rule(tf.conj(op.outputs[0] if of_output else op.inputs[0]))

    return gradient


def _from_output(op_name: str) -> GradientFunction:
    """Gradient function that applies one op to the output and the gradient."""
    return lambda op, grad: gen(op_name)(op.outputs[0], grad)


def _late_from_output(op_name: str) -> GradientFunction:
    """Gradient function that applies one op to the output's conjugate and the gradient."""
    return _late(lambda grad, y: gen(op_name)(y, grad), of_output=True)


def _one(tensor: Tensor) -> Any:
    return constant(1, dtype=tensor.dtype)


def _one_minus_square(grad: Tensor, x: Tensor) -> Any:
    squared = tf.square(x)
    return tf.subtract(_one(grad), squared)


def _inverse_of_root(grad: Tensor, x: Tensor) -> Any:
    return tf.reciprocal(tf.sqrt(_one_minus_square(grad, x)))


def _acos(grad: Tensor, x: Tensor) -> Any:
    factor = _inverse_of_root(grad, x)
    return -grad * factor


def _atan(grad: Tensor, x: Tensor) -> Any:
    squared = tf.square(x)
    return grad * tf.reciprocal(tf.add(_one(grad), squared))


def _angle(grad: Tensor, x: Tensor, y: Tensor) -> Any:
    real, imaginary = tf.real(x), tf.imag(x)
    inverse = tf.reciprocal(tf.complex(imaginary, real))
    return -tf.complex(grad, constant(0, dtype=grad.dtype)) * inverse


def _spence(grad: Tensor, x: Tensor, y: Tensor) -> Any:
    slope = tf.log(x) / (1 - x)
    at_one = tf.equal(x, 1.0)
    return grad * gen("Select")(at_one, -tf.ones_like(x), slope)


def _bessel_i1(grad: Tensor, x: Tensor, y: Tensor) -> Any:
    return grad * tf.where_v2(tf.equal(x, 0.0), tf.cast(1.0, x.dtype), tf.math.bessel_i0(x) - tf.div(y, x))


def _bessel_i1e(grad: Tensor, x: Tensor, y: Tensor) -> Any:
    at_zero = tf.equal(x, 0.0)
    half = tf.cast(0.5, x.dtype)
    return grad * tf.where_v2(at_zero, half, tf.math.bessel_i0e(x) - y * (tf.sign(x) + tf.reciprocal(x)))


def _bessel_j1(grad: Tensor, x: Tensor, y: Tensor) -> Any:
    return grad * tf.where_v2(tf.equal(x, 0.0), tf.cast(0.5, x.dtype), tf.math.bessel_j0(x) - tf.div(y, x))


def _abs_of_complex(op: Operation, grad: Tensor) -> Any:
    value = op.outputs[0]
    direction = tf.complex(grad, tf.zeros_like(grad)) * op.inputs[0]
    return tf.div_no_nan(direction, tf.complex(value, tf.zeros_like(value)))


def _cast(op: Operation, grad: Tensor) -> Any:
    source, target = op.inputs[0].dtype.base_dtype, grad.dtype.base_dtype
    if source.name in _CAST_BACK and target.name in _CAST_BACK:
        return tf.cast(grad, source)
    return None


_CAST_BACK_TYPES = (
    "float16 float32 float64 bfloat16 float8_e5m2 float8_e4m3fn float8_e4m3fnuz float8_e4m3b11fnuz float8_e5m2fnuz "
    "complex64 complex128"
)
_CAST_BACK = frozenset(_CAST_BACK_TYPES.split())
"""Types between which a Cast passes gradients."""


# --- gradients of the gradient ops -------------------------------------------------------------------------------------


def _reciprocal_grad(op: Operation, grad: Tensor) -> list[Any]:
    value = op.inputs[1]
    with control_dependencies([grad]):
        y, of_y = tf.conj(op.inputs[0]), tf.conj(grad)
        return [of_y * -2.0 * value * y, gen("ReciprocalGrad")(y, grad)]


def _sqrt_grad(op: Operation, grad: Tensor) -> list[Any]:
    value, product = op.inputs[0], op.outputs[0]
    with control_dependencies([grad]):
        quotient = grad / value
        return [-tf.conj(quotient) * product, 0.5 * quotient]


def _rsqrt_grad(op: Operation, grad: Tensor) -> list[Any]:
    value, of_value = op.inputs
    with control_dependencies([grad]):
        y, inner = tf.conj(value), tf.conj(grad)
        return [-1.5 * inner * of_value * tf.square(y), gen("RsqrtGrad")(y, grad)]


def _sigmoid_grad(op: Operation, grad: Tensor) -> list[Any]:
    with control_dependencies([grad]):
        y, inner = tf.conj(op.inputs[0]), tf.conj(op.inputs[1])
        product = grad * inner
        return [product - 2.0 * product * y, gen("SigmoidGrad")(y, grad)]


def _tanh_grad(op: Operation, grad: Tensor) -> list[Any]:
    with control_dependencies([grad]):
        y, inner = tf.conj(op.inputs[0]), tf.conj(op.inputs[1])
        return [grad * -2.0 * inner * y, gen("TanhGrad")(y, grad)]


GRADIENTS: dict[str, GradientFunction] = {
    "Abs": lambda op, grad: grad * tf.sign(op.inputs[0]),
    "Acos": _late(_acos),
    "Acosh": _late(lambda grad, y: grad / tf.sinh(y), of_output=True),
    "Angle": _late_real(_angle),
    "Asin": _late(lambda grad, x: grad * _inverse_of_root(grad, x)),
    "Asinh": _late(lambda grad, y: grad / tf.cosh(y), of_output=True),
    "Atan": _late(_atan),
    "Atanh": _late(lambda grad, x: grad * tf.reciprocal(_one_minus_square(grad, x))),
    "BesselI0": _late_real(lambda grad, x, y: grad * tf.math.bessel_i1(x)),
    "BesselI0e": _late_real(lambda grad, x, y: grad * (tf.math.bessel_i1e(x) - tf.sign(x) * y)),
    "BesselI1": _late_real(_bessel_i1),
    "BesselI1e": _late_real(_bessel_i1e),
    "BesselJ0": _late_real(lambda grad, x, y: grad * -tf.math.special.bessel_j1(x)),
    "BesselJ1": _late_real(_bessel_j1),
    "BesselK0": _late_real(lambda grad, x, y: grad * -tf.math.special.bessel_k1(x)),
    "BesselK0e": _late_real(lambda grad, x, y: grad * (y - tf.math.special.bessel_k1e(x))),
    "BesselK1": _late_real(lambda grad, x, y: grad * (-tf.math.special.bessel_k0(x) - tf.div(y, x))),
    "BesselK1e": _late_real(lambda grad, x, y: grad * (y * (1.0 - tf.reciprocal(x)) - tf.math.special.bessel_k0e(x))),
    "BesselY0": _late_real(lambda grad, x, y: grad * -tf.math.special.bessel_y1(x)),
    "BesselY1": _late_real(lambda grad, x, y: grad * (tf.math.special.bessel_y0(x) - tf.div(y, x))),
    "Cast": _cast,
    "Ceil": lambda op, grad: None,
    "ComplexAbs": _abs_of_complex,
    "Conj": lambda op, grad: tf.conj(grad),
    "Cos": _late(lambda grad, x: -grad * tf.sin(x)),
    "Cosh": _late(lambda grad, x: grad * tf.sinh(x)),
    "Dawsn": _late_real(lambda grad, x, y: grad * (1.0 - 2 * x * y)),
    "Digamma": _late(lambda grad, x: grad * tf.math.polygamma(_one(x), x)),
    "Erf": _scaled(2 / np.sqrt(np.pi), lambda x: tf.exp(-tf.square(x))),
    "Erfc": _scaled(-2 / np.sqrt(np.pi), lambda x: tf.exp(-tf.square(x))),
    "Erfinv": _scaled(np.sqrt(np.pi) / 2, lambda y: tf.exp(tf.square(y)), of_output=True),
    "Exp": _late(lambda grad, y: grad * y, of_output=True),
    "Expint": _late_real(lambda grad, x, y: grad * tf.exp(x) / x),
    "Expm1": _late(lambda grad, x: grad * tf.exp(x)),
    "Floor": lambda op, grad: None,
    "FresnelCos": _late_real(lambda grad, x, y: grad * tf.cos((np.pi / 2.0) * tf.square(x))),
    "FresnelSin": _late_real(lambda grad, x, y: grad * tf.sin((np.pi / 2.0) * tf.square(x))),
    "Imag": lambda op, grad: tf.complex(constant(0, dtype=grad.dtype), grad),
    "Inv": _from_output("ReciprocalGrad"),
    "InvGrad": _reciprocal_grad,
    "Lgamma": _late(lambda grad, x: grad * tf.digamma(x)),
    "Log": _late(lambda grad, x: grad * tf.reciprocal(x)),
    "Log1p": _late(lambda grad, x: grad * tf.reciprocal(1 + x)),
    "Ndtri": _scaled(np.sqrt(2 * np.pi), lambda y: tf.exp(tf.square(y) / 2.0), of_output=True),
    "Neg": lambda op, grad: -grad,
    "Real": lambda op, grad: tf.complex(grad, constant(0, dtype=grad.dtype)),
    "Reciprocal": _from_output("ReciprocalGrad"),
    "ReciprocalGrad": _reciprocal_grad,
    "Rint": lambda op, grad: None,
    "Round": lambda op, grad: None,
    "Rsqrt": _from_output("RsqrtGrad"),
    "RsqrtGrad": _rsqrt_grad,
    "Sigmoid": _late_from_output("SigmoidGrad"),
    "SigmoidGrad": _sigmoid_grad,
    "Sign": lambda op, grad: tf.zeros_like(op.inputs[0]),
    "Sin": _late(lambda grad, x: grad * tf.cos(x)),
    "Sinh": _late(lambda grad, x: grad * tf.cosh(x)),
    "Spence": _late_real(_spence),
    "Sqrt": _from_output("SqrtGrad"),
    "SqrtGrad": _sqrt_grad,
    "Square": _late(lambda grad, x: tf.multiply(grad, tf.multiply(x, constant(2.0, dtype=x.dtype)))),
    "Tan": _late(lambda grad, x: tf.square(tf.reciprocal(tf.cos(x))) * grad),
    "Tanh": _late_from_output("TanhGrad"),
    "TanhGrad": _tanh_grad,
}
