"""The regularized incomplete gamma functions P(a, x) and Q(a, x) = 1 - P, and derivatives by a of P and of a gamma sample.

P is the probability that a gamma variable of shape a is below x.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from placesim.ops.kernels.kernel import Tensor

Factor = Callable[[Tensor, Tensor], Tensor]

MAX_TERMS = 5000
RESCALE_ABOVE = 2.0**60
"""Above this value, numerator and denominator of the continued fraction are scaled down together."""


def regularized_lower_gamma(a: Tensor, x: Tensor) -> Any:
    """Return P(a, x), broadcast: 0 at x = 0 for any a, else NaN outside a > 0, x > 0."""
    from scipy import special

    inside = np.where((x < 0) | ~(a > 0), x.dtype.type(np.nan), special.gammainc(a, x))
    return np.where((x == 0) | ((a == np.inf) & (x > 0)), x.dtype.type(0), inside)


def regularized_upper_gamma(a: Tensor, x: Tensor) -> Any:
    """Return Q(a, x), broadcast: NaN outside a > 0, x >= 0."""
    from scipy import special

    inside = np.where((x < 0) | ~(a > 0), x.dtype.type(np.nan), special.gammaincc(a, x))
    return np.where((x == np.inf) & (a > 0), x.dtype.type(0), inside)


def differentiate_lower_gamma(a: Tensor, x: Tensor) -> Any:
    """Return the derivative of P(a, x) by a, broadcast: 0 at x = 0 for any a, else NaN outside a > 0, x > 0."""
    from scipy import special

    a, x = np.broadcast_arrays(a, x)
    inside = (a > 0) & (x > 0)
    finite = np.isfinite(a) & np.isfinite(x)
    result = _by_method(
        a,
        x,
        inside & finite,
        lambda a, x: np.exp(a * np.log(x) - x - special.gammaln(a + 1)),
        lambda a, x: -np.exp(a * np.log(x) - x - special.gammaln(a)),
    )
    result[(x == 0) | (inside & ~finite)] = 0
    return result.astype(x.dtype)


def differentiate_sample(alpha: Tensor, sample: Tensor) -> Any:
    """Return a gamma sample's derivative by its shape parameter, broadcast: 0 for a sample of 0, else NaN unless both are > 0.

    Source: "Implicit reparameterization gradients" (Figurnov, Mohamed and Mnih, 2018), -(dP/da) / (dP/dx).
    """
    alpha, sample = np.broadcast_arrays(alpha, sample)
    result = _by_method(alpha, sample, (alpha > 0) & (sample > 0), lambda a, x: -x / a, lambda a, x: x)
    result[(sample == 0) & ~np.isnan(alpha)] = 0
    return result.astype(sample.dtype)


def _by_method(a: Tensor, x: Tensor, usual: Tensor, series_factor: Factor, fraction_factor: Factor) -> Tensor:
    """Return a derivative by `a`, multiplied by a factor, in doubles; NaN for elements that are not `usual`.

    For large x, the continued fraction of Q is differentiated, else the series of P; each has a factor `(a, x) -> number`.
    """
    result = np.full(x.shape, np.nan)
    # TensorFlow's kernel uses the continued fraction here too
    is_large = (x > 1) & (x > a)
    for chosen, differentiate, factor in (
        (usual & is_large, _differentiate_fraction, fraction_factor),
        (usual & ~is_large, _differentiate_series, series_factor),
    ):
        if chosen.any():
            one, two = a[chosen].astype(float), x[chosen].astype(float)
            result[chosen] = factor(one, two) * differentiate(one, two)
    return result


def _differentiate_series(a: Tensor, x: Tensor) -> Tensor:
    """Return d log P / da * S for P(a, x) = x**a e**-x / gamma(a + 1) * S, S = 1 + x / (a + 1) + x**2 / (a + 1)(a + 2) + .."""
    from scipy import special

    term, total = np.ones_like(x), np.ones_like(x)
    term_by_a, total_by_a = np.zeros_like(x), np.zeros_like(x)
    for k in range(1, MAX_TERMS):
        factor = x / (a + k)
        term_by_a = (term_by_a - term / (a + k)) * factor
        term = term * factor
        total += term
        total_by_a += term_by_a
        if np.all(np.abs(term_by_a) <= 1e-17 * np.abs(total_by_a)):
            break
    derivative: Tensor = total_by_a + total * (np.log(x) - special.psi(a + 1))
    return derivative


def _differentiate_fraction(a: Tensor, x: Tensor) -> Tensor:
    """Return d log Q / da * F with Q(a, x) = x**a e**-x / gamma(a) * F, F = 1 / (x + 1 - a - 1 (1 - a) / (x + 3 - a - ...))."""
    from scipy import special

    # the last two convergents p / q, with the derivatives of p and q by a
    p, p_by_a, q, q_by_a = np.ones_like(x), np.zeros_like(x), x + 1 - a, -np.ones_like(x)
    p_before, p_before_by_a, q_before, q_before_by_a = (np.zeros_like(x), np.zeros_like(x), np.ones_like(x), np.zeros_like(x))
    value, value_by_a = p / q, p_by_a / q - p * q_by_a / q**2
    for k in range(1, MAX_TERMS):
        b, c = x + 2 * k + 1 - a, -k * (k - a)
        next_p, next_p_by_a = b * p + c * p_before, b * p_by_a - p + c * p_before_by_a + k * p_before
        next_q, next_q_by_a = b * q + c * q_before, b * q_by_a - q + c * q_before_by_a + k * q_before
        p, p_by_a, p_before, p_before_by_a = next_p, next_p_by_a, p, p_by_a
        q, q_by_a, q_before, q_before_by_a = next_q, next_q_by_a, q, q_by_a
        scale = np.where(np.abs(q) > RESCALE_ABOVE, 1 / RESCALE_ABOVE, 1)
        p, p_by_a, p_before, p_before_by_a = p * scale, p_by_a * scale, p_before * scale, p_before_by_a * scale
        q, q_by_a, q_before, q_before_by_a = q * scale, q_by_a * scale, q_before * scale, q_before_by_a * scale
        last, value, value_by_a = value_by_a, p / q, (p_by_a - p / q * q_by_a) / q
        if np.all(np.abs(value_by_a - last) <= 1e-16 * np.abs(value_by_a)):
            break
    derivative: Tensor = value_by_a + value * (np.log(x) - special.psi(a))
    return derivative
