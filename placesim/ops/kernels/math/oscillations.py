"""Special functions that oscillate: Bessel functions of the first, second and third kind, and the Fresnel integrals.

For large x, TensorFlow's float kernels compute an amplitude and an angle, and round the angle to float, which is coarse for
large angles. Here both are computed from doubles, and the angle is rounded in the same way.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from placesim.ops.kernels.broadcasting import unary
from placesim.ops.kernels.kernel import Table, Tensor
from placesim.ops.kernels.precision import widened

BESSEL_ANGLE_FROM = 2.0
"""Above this x the Bessel kernels use amplitude and angle; below it, polynomials."""
FRESNEL_ANGLE_FROM, FRESNEL_ANGLE_TO = 1.6, 36974.0
"""Range in which the Fresnel kernels use amplitude and angle; above it they return the limit, 1/2."""
SMALLEST_NORMAL = np.finfo(np.float32).tiny
"""Smallest normal float32: TensorFlow's threads treat smaller numbers as zero."""


def bessel_first(order: int) -> Callable[..., Any]:
    """Return J of order 0 or 1, a function of a tensor of any shape; J0 is even, J1 odd."""

    def compute(x: Tensor) -> Any:
        from scipy import special

        exact = (special.j0, special.j1)[order](x)
        if x.dtype == np.float64:
            return exact
        waved = _wave(order, np.abs(x), np.cos)
        waved = waved * np.sign(x) if order else waved
        return np.where(np.abs(x) > BESSEL_ANGLE_FROM, waved, exact).astype(x.dtype)

    return widened(compute)


def bessel_second(order: int) -> Callable[..., Any]:
    """Return Y of order 0 or 1, a function of a tensor of any shape: minus infinity for negative x, NaN for infinity."""

    def compute(x: Tensor) -> Any:
        from scipy import special

        exact = (special.y0, special.y1)[order](x)
        if order and x.dtype == np.float32:  # the kernel multiplies infinity by zero
            exact = np.where(x == 0, np.float32(np.nan), exact)
        if x.dtype == np.float32:
            exact = np.where(x > BESSEL_ANGLE_FROM, _wave(order, np.abs(x), np.sin), exact)
        return np.where(x == np.inf, np.nan, np.where(x < 0, -np.inf, exact)).astype(x.dtype)

    return widened(compute)


def _wave(order: int, x: Tensor, turn: Callable[[Tensor], Tensor]) -> Any:
    """Return J (`turn` is cosine) or Y (sine) for x > 0: amplitude times `turn` of x plus a phase, added in float."""
    from scipy import special

    wide = np.where((x > 0) & np.isfinite(x), x, 1.0).astype(float)
    j, y = (special.j0, special.j1)[order](wide), (special.y0, special.y1)[order](wide)
    # the phase is the angle less x; the kernel rounds their sum to float
    phase = np.arctan2(y * np.cos(wide) - j * np.sin(wide), j * np.cos(wide) + y * np.sin(wide))
    angle = phase.astype(np.float32) + wide.astype(np.float32)
    return np.where(np.isfinite(x), np.hypot(j, y) * turn(angle.astype(float)), np.nan)


def bessel_third(name: str) -> Callable[..., Any]:
    """Return K of order 0 or 1, perhaps scaled by exp(x), a function of a tensor of any shape: infinity for negative x."""

    def compute(x: Tensor) -> Any:
        from scipy import special

        found = np.where(x < 0, x.dtype.type(np.inf), getattr(special, name)(x))
        if x.dtype == np.float32:
            # if x / 2 is no normal number, the kernel takes the logarithm of zero, and multiplies it by zero in K1
            is_lost = (x >= SMALLEST_NORMAL) & (x < 2 * SMALLEST_NORMAL)
            found = np.where(is_lost, np.float32(np.nan if "1" in name else np.inf), found)
        return found

    return widened(compute)


def fresnel(part: int) -> Callable[..., Any]:
    """Return the integral of the sine (part 0) or cosine (part 1) of pi t**2 / 2 from 0 to x, for a tensor x of any shape."""

    def compute(x: Tensor) -> Any:
        from scipy import special

        exact = special.fresnel(x)[part]
        if x.dtype == np.float64:
            # here too the kernel returns the limit
            return np.where(np.abs(x) >= FRESNEL_ANGLE_TO, np.copysign(0.5, x), exact)
        far = (np.abs(x) > FRESNEL_ANGLE_FROM) & (np.abs(x) < FRESNEL_ANGLE_TO)
        return np.where(far, _fresnel_wave(np.where(far, x, 2))[part], exact).astype(x.dtype)

    return compute


def _fresnel_wave(x: Tensor) -> tuple[Tensor, Tensor]:
    """Return both integrals as 1/2 plus an oscillation, with its angle rounded to float."""
    from scipy import special

    wide = np.abs(x).astype(float)
    sine, cosine = special.fresnel(wide)
    exact = np.pi / 2 * wide * wide
    f = (cosine - 0.5) * np.sin(exact) + (0.5 - sine) * np.cos(exact)
    g = (0.5 - sine) * np.sin(exact) - (cosine - 0.5) * np.cos(exact)
    # as in the kernel, the square is rounded to float
    squared = np.square(x.astype(np.float32))
    angle = (np.float32(np.pi / 2) * squared).astype(float)
    sign = np.sign(x)
    return (
        sign * (0.5 - f * np.cos(angle) - g * np.sin(angle)),
        sign * (0.5 + f * np.sin(angle) - g * np.cos(angle)),
    )


TABLE: Table = {
    "BesselJ0": unary(bessel_first(0)),
    "BesselJ1": unary(bessel_first(1)),
    "BesselY0": unary(bessel_second(0)),
    "BesselY1": unary(bessel_second(1)),
    "BesselK0": unary(bessel_third("k0")),
    "BesselK0e": unary(bessel_third("k0e")),
    "BesselK1": unary(bessel_third("k1")),
    "BesselK1e": unary(bessel_third("k1e")),
    "FresnelSin": unary(fresnel(0)),
    "FresnelCos": unary(fresnel(1)),
}
