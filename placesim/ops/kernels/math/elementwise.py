"""Functions of one tensor, element by element: roots, exponentials, circular functions, rounding, predicates, complex parts.

It also has the gradients of such functions, which take a function's output and its gradient.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from placesim.core.errors import InvalidArgumentError
from placesim.ops.attributes import Attrs
from placesim.ops.kernels.broadcasting import check_broadcast, unary
from placesim.ops.kernels.cost_model import ONE_PASS, CostModel, Passes
from placesim.ops.kernels.element_selection import choose
from placesim.ops.kernels.kernel import Kernel, Table, Tensor, Trait, one_per_output
from placesim.ops.kernels.memory_rules import forwards
from placesim.ops.kernels.precision import is_narrow, widened
from placesim.ops.kernels.shapes import Dims, broadcasted, unchanged

_SATURATED = 9.0
"""The logistic function of larger half-precision numbers is 1."""


def reciprocal_root(x: Tensor) -> Any:
    """Return 1 over the square root, any shape; both steps round, as in TensorFlow's kernel."""
    return np.reciprocal(np.sqrt(x))


def log1p(x: Tensor) -> Any:
    """Return log(1 + x), any shape; a complex -1 gives NaN in the imaginary part, as in TensorFlow's kernel."""
    result = np.log1p(x)
    return np.where(x == -1, complex(-np.inf, np.nan), result).astype(x.dtype) if x.dtype.kind == "c" else result


def sigmoid(x: Tensor) -> Any:
    """Return 1 / (1 + exp(-x)), any shape."""
    if x.dtype.kind == "c":
        return np.reciprocal(1 + np.exp(-x))
    decay = np.asarray(np.negative(x))
    np.exp(decay, out=decay)  # an overflow to infinity gives the right limit, 0
    decay += 1
    return np.divide(1, decay, out=decay)


def rounded_sigmoid(x: Tensor) -> Any:
    """Return the logistic function, any shape; half precision is rounded after each operation of exp(x) / (1 + exp(x))."""
    if not is_narrow(x.dtype):
        return sigmoid(x)
    power = np.exp(np.minimum(x, x.dtype.type(_SATURATED)).astype(np.float32)).astype(x.dtype)
    one = np.ones((), x.dtype)
    return choose(np.asarray(x > _SATURATED), one, power / (power + one))


def round_to_even(x: Tensor) -> Any:
    """Return the nearest whole number, any shape, with halves rounded to even."""
    # TensorFlow's kernel returns 0 for integers; its Python never calls the kernel for them
    return np.zeros_like(x) if x.dtype.kind in "iu" else np.rint(x)


def count_bits(x: Tensor) -> Any:
    """Return the number of set bits, any shape, as uint8; negative numbers are in two's complement."""
    return np.bitwise_count(x.view(f"u{x.dtype.itemsize}"))


# --- complex parts --------------------------------------------------------------------------------------------------


def _complex_abs(inputs: Sequence[Tensor], attrs: Attrs) -> Sequence[Any]:
    """Return the absolute value. Raises InvalidArgumentError if `Tout` is not the type of the parts of `T`."""
    given = f"{attrs['T'].name}->{attrs['Tout'].name}"
    expected = {"complex64": "complex64->float", "complex128": "complex128->double"}[attrs["T"].name]
    if given != expected:
        raise InvalidArgumentError(f"Signature mismatch, have: {given} expected: {expected}")
    return (np.abs(inputs[0]),)


def _complex_from_parts(inputs: Sequence[Tensor], attrs: Attrs) -> Sequence[Any]:
    """Return complex numbers from their parts, broadcast. Raises InvalidArgumentError for shapes that do not fit."""
    real, imaginary = inputs
    result = np.empty(check_broadcast(real, imaginary), attrs["Tout"].numpy)
    # numpy would compute real + 1j * imaginary, which turns an infinite part into NaN
    result.real, result.imag = real, imaginary
    return (result,)


# --- gradients, from a function's output `y` and its gradient `dy` --------------------------------------------------


def _root_gradient(y: Tensor, dy: Tensor) -> Any:
    # a gradient of zero stays zero, even if y is 0 and the quotient NaN
    return choose(dy == 0, dy, dy / 2 / np.conj(y))


def _reciprocal_root_gradient(y: Tensor, dy: Tensor) -> Any:
    y = np.conj(y)
    return choose(dy == 0, dy, -(dy * y) / 2 * (y * y))


def _reciprocal_gradient(y: Tensor, dy: Tensor) -> Any:
    y = np.conj(y)
    return choose(dy == 0, dy, -dy * y * y)


def _three_per_output(inputs: Sequence[Dims], outputs: Sequence[Dims], attrs: Attrs) -> int:
    return 3 * one_per_output(inputs, outputs, attrs)


_OVER_EITHER = forwards(0, 1)


def gradient(function: Callable[[Tensor, Tensor], Any], passes: Passes = ONE_PASS) -> Kernel:
    """Return the table row of a gradient, a function of `y` and `dy`; the result has the shape of `y`.

    Its kernel raises InvalidArgumentError for unequal numbers of elements; the shapes may differ, as in TensorFlow. It rounds
    half precision after each operation.
    """

    def compute(inputs: Sequence[Tensor], attrs: Attrs) -> Sequence[Any]:
        y, dy = inputs
        if y.size != dy.size:
            sizes = f"{y.size} and {dy.size}"
            raise InvalidArgumentError(f"The two arguments to a cwise op must have same number of elements, got {sizes}")
        return (function(y, dy.reshape(y.shape)),)

    return Kernel(compute, unchanged, _three_per_output, memory=_OVER_EITHER, cost=CostModel(passes=passes))


TABLE: Table = {
    "Abs": unary(np.abs),
    "Neg": unary(np.negative, traits=Trait.LINEAR),
    "Sign": unary(np.sign),
    "Square": unary(np.square),
    "Sqrt": unary(np.sqrt, Passes(rooted=1)),
    "Rsqrt": unary(widened(reciprocal_root), Passes(rooted=2)),
    "Exp": unary(widened(np.exp), Passes(exponential=1)),
    "Expm1": unary(widened(np.expm1), Passes(exponential=2), is_cut=True),
    "Log": unary(widened(np.log), Passes(exponential=1)),
    "Log1p": unary(widened(log1p), Passes(exponential=2), is_cut=True),
    "Sin": unary(widened(np.sin), Passes(exponential=1)),
    "Cos": unary(widened(np.cos), Passes(exponential=1)),
    "Tan": unary(widened(np.tan), Passes(exponential=2), is_cut=True),
    "Asin": unary(widened(np.arcsin), Passes(exponential=2), is_cut=True),
    "Acos": unary(widened(np.arccos), Passes(exponential=2), is_cut=True),
    "Atan": unary(widened(np.arctan), Passes(exponential=2), is_cut=True),
    "Sinh": unary(widened(np.sinh), Passes(exponential=2), is_cut=True),
    "Cosh": unary(widened(np.cosh), Passes(exponential=2), is_cut=True),
    "Tanh": unary(widened(np.tanh), Passes(exponential=1), has_in_place=True),
    "Asinh": unary(widened(np.arcsinh), Passes(special=1), is_cut=True),
    "Acosh": unary(widened(np.arccosh), Passes(special=1), is_cut=True),
    "Atanh": unary(widened(np.arctanh), Passes(special=1), is_cut=True),
    "Sigmoid": unary(rounded_sigmoid, Passes(plain=2, divided=1, exponential=1), has_in_place=True, is_cut=True),
    "Reciprocal": unary(np.reciprocal, Passes(divided=1)),
    "Inv": unary(np.reciprocal, Passes(divided=1)),
    "Ceil": unary(np.ceil),
    "Floor": unary(np.floor),
    "Rint": unary(np.rint),
    "Round": unary(round_to_even),
    "IsNan": unary(np.isnan),
    "IsInf": unary(np.isinf),
    "IsFinite": unary(np.isfinite),
    "Invert": unary(np.invert),
    "PopulationCount": unary(count_bits)._replace(memory=None),
    "LogicalNot": unary(np.logical_not),
    "Real": unary(np.real),
    "Imag": unary(np.imag),
    "Angle": unary(np.angle),
    "Conj": unary(np.conj),
    "ComplexAbs": Kernel(_complex_abs, unchanged, one_per_output),
    "Complex": Kernel(_complex_from_parts, broadcasted),
    "TanhGrad": gradient(lambda y, dy: dy * (1 - y * y), Passes(plain=3)),
    "SigmoidGrad": gradient(lambda y, dy: (1 - y) * y * dy, Passes(plain=3)),
    "SqrtGrad": gradient(_root_gradient),
    "RsqrtGrad": gradient(_reciprocal_root_gradient),
    "ReciprocalGrad": gradient(_reciprocal_gradient),
    "InvGrad": gradient(_reciprocal_gradient),
}
