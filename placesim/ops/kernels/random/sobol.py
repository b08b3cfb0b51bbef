"""Points of the Sobol sequence, which are evenly spread and not random.

Source: Joe and Kuo, "Constructing Sobol sequences with better two-dimensional projections" (2008), whose table scipy has.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from placesim.core.errors import InvalidArgumentError
from placesim.ops.attributes import Attrs
from placesim.ops.kernels.kernel import Kernel, Table, Tensor, one_per_output
from placesim.ops.kernels.shapes import Dims, ShapeContext, check_scalars

BITS = 31
MAX_DIMS = 21201
"""Number of dimensions in the published table."""
MAX_INT32 = (1 << 31) - 1


def check_sobol(dims: int, count: int, skip: int) -> None:
    """Raise InvalidArgumentError for an invalid number of dimensions, or of points."""
    if dims < 1:
        raise InvalidArgumentError("dim must be at least one")
    if dims > MAX_DIMS:
        raise InvalidArgumentError(f"dim must be at most {MAX_DIMS}")
    if count < 1:
        raise InvalidArgumentError("num_results must be at least one")
    if skip < 0:
        raise InvalidArgumentError("skip must be non-negative")
    if count >= MAX_INT32 - skip:
        raise InvalidArgumentError(f"num_results+skip must be less than {MAX_INT32}")


def sobol_sample(inputs: Sequence[Any], attrs: Attrs) -> Sequence[Tensor]:
    """Return points `[num_results, dim]` in [0, 1), after the first `skip` points; the origin is not one of the points.

    Raises InvalidArgumentError for inputs that are not scalars, and the errors of `check_sobol`.
    """
    from scipy.stats import qmc

    for name, value in zip(("dim", "num_results", "skip"), inputs, strict=True):
        if np.ndim(value) != 0:
            raise InvalidArgumentError(f"{name} must be a scalar")
    dims, count, skip = map(int, inputs)
    check_sobol(dims, count, skip)
    # TensorFlow omits the origin
    points = qmc.Sobol(dims, scramble=False, bits=BITS).fast_forward(skip + 1).random(count)
    return (points.astype(attrs["dtype"].numpy),)


def _infer_sobol(context: ShapeContext) -> Sequence[Dims]:
    check_scalars(context)
    dims, count = (-1 if value is None else int(value) for value in map(context.value, (0, 1)))
    return ((count, dims),)


TABLE: Table = {"SobolSample": Kernel(sobol_sample, _infer_sobol, one_per_output)}
