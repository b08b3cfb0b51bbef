"""The sampling kernels of ScaleAndTranslate: the weight of an input pixel by its distance from the sampled position.

Source: TensorFlow's `sampling_kernels.h`; Keys (1981) and Mitchell and Netravali (1988) for the cubics.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import numpy as np

from placesim.core.errors import InvalidArgumentError
from placesim.ops.kernels.kernel import Tensor

SamplingKernel = Callable[[Tensor], Tensor]
"""Distances (float, not negative) -> weights."""

GAUSSIAN_RADIUS = 1.5
GAUSSIAN_DEVIATION = GAUSSIAN_RADIUS / 3


def _lanczos(radius: float, x: Tensor) -> Tensor:
    # near 0 the quotient is replaced by its limit 1
    apart = np.where(x <= 1e-3, 1, x)
    wave = radius * np.sin(np.pi * apart) * np.sin(np.pi * apart / radius) / (np.pi * np.pi * apart * apart)
    return np.where(x > radius, 0, np.where(x <= 1e-3, 1, wave))


def _gaussian(x: Tensor) -> Tensor:
    return np.where(x >= GAUSSIAN_RADIUS, 0, np.exp(-x * x / (2 * GAUSSIAN_DEVIATION**2)))


def _box(x: Tensor) -> Tensor:
    # the border has half the weight, since two neighbours share it
    return np.where(x < 0.5, 1, np.where(x == 0.5, 0.5, 0))


def _keys_cubic(x: Tensor) -> Tensor:
    far = ((-0.5 * x + 2.5) * x - 4) * x + 2
    near = (1.5 * x - 2.5) * x * x + 1
    return np.where(x >= 2, 0, np.where(x >= 1, far, near))


def _mitchell_cubic(x: Tensor) -> Tensor:
    far = ((-7 / 18 * x + 2) * x - 10 / 3) * x + 16 / 9
    near = (7 / 6 * x - 2) * x * x + 8 / 9
    return np.where(x >= 2, 0, np.where(x >= 1, far, near))


SAMPLING_KERNELS: dict[str, tuple[SamplingKernel, float]] = {
    # name: (function, radius)
    "lanczos1": (partial(_lanczos, 1.0), 1.0),
    "lanczos3": (partial(_lanczos, 3.0), 3.0),
    "lanczos5": (partial(_lanczos, 5.0), 5.0),
    "gaussian": (_gaussian, GAUSSIAN_RADIUS),
    "box": (_box, 1.0),
    "triangle": (lambda x: np.where(x < 1, 1 - x, 0), 1.0),
    "keyscubic": (_keys_cubic, 2.0),
    "mitchellcubic": (_mitchell_cubic, 2.0),
}


def find_sampling_kernel(name: str) -> tuple[SamplingKernel, float]:
    """(function, radius) of the kernel with this name, in upper or lower case. Raises InvalidArgumentError if there is none."""
    found = SAMPLING_KERNELS.get(name.lower())
    if found is None:
        raise InvalidArgumentError(f"Unrecognized kernel type: {name}")
    return found
