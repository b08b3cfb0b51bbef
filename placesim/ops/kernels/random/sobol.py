"""Points of the Sobol sequence, which are evenly spread and not random.

Source: Joe and Kuo, "Constructing Sobol sequences with better two-dimensional projections" (2008), whose table scipy has.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from pathlib import Path
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
    for name, value in zip(("dim", "num_results", "skip"), inputs, strict=True):
        if np.ndim(value) != 0:
            raise InvalidArgumentError(f"{name} must be a scalar")
    dims, count, skip = map(int, inputs)
    check_sobol(dims, count, skip)
    directions = _directions(dims)
    first = skip + 1  # TensorFlow omits the origin
    bits = np.arange(BITS)
    # a point differs from the one before by one direction: that of the lowest bit that is set in its number
    lowest = np.zeros(count, np.int64)
    for bit in bits[1:]:
        lowest[-first % (1 << bit) :: 1 << bit] = bit
    steps = directions[:, lowest].T
    steps[0] = np.bitwise_xor.reduce(directions[:, (first ^ first >> 1) >> bits & 1 == 1], axis=1)
    points = np.bitwise_xor.accumulate(steps, axis=0, out=steps) * 2.0**-BITS
    return (points.astype(attrs["dtype"].numpy),)


def _directions(dims: int) -> np.ndarray[Any, Any]:
    """Return the direction numbers `[dims, BITS]`, the highest of BITS bits first."""
    polynomials, initial = _table()
    found = np.zeros((dims, BITS), np.int64)
    found[0] = 1
    for degree in range(1, initial.shape[1] + 1):
        rows = np.flatnonzero(polynomials[:dims] >> degree == 1)
        part = np.zeros((len(rows), BITS), np.int64)
        part[:, :degree] = initial[rows, :degree]
        for bit in range(degree, BITS):
            part[:, bit] = part[:, bit - degree] ^ part[:, bit - degree] << degree
            for back in range(1, degree):
                part[:, bit] ^= (polynomials[rows] >> (degree - back) & 1) * part[:, bit - back] << back
        found[rows] = part
    return found << np.arange(BITS)[::-1]


@cache
def _table() -> tuple[np.ndarray[Any, Any], np.ndarray[Any, Any]]:
    """Return the polynomials of all dimensions, and their initial direction numbers.

    `scipy.stats` would read them in a second, since it imports all distributions.
    """
    import scipy

    with np.load(Path(scipy.__file__).parent / "stats" / "_sobol_direction_numbers.npz") as table:
        return table["poly"], table["vinit"]


def _infer_sobol(context: ShapeContext) -> Sequence[Dims]:
    check_scalars(context)
    dims, count = (-1 if value is None else int(value) for value in map(context.value, (0, 1)))
    return ((count, dims),)


TABLE: Table = {"SobolSample": Kernel(sobol_sample, _infer_sobol, one_per_output)}
