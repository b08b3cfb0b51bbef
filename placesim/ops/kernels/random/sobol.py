"""Points of the Sobol sequence, which are evenly spread and not random.

Source: Joe and Kuo, "Constructing Sobol sequences with better two-dimensional projections" (2008), whose table scipy has.
"""

from __future__ import annotations

from collections.abc import Sequence
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
    # TensorFlow omits the origin
    return ((_sobol_points(dims, count, skip + 1) * 2.0**-BITS).astype(attrs["dtype"].numpy),)


def _sobol_points(dims: int, count: int, first: int) -> Tensor:
    """Return points `[count, dims]` as multiples of `2**-BITS`, from the point of that number on.

    A point is the sum modulo 2 of the direction numbers of the bits of its number's Gray code, of which one changes with each.
    """
    directions = _direction_numbers(dims)
    numbers = np.arange(first, first + count)
    changed = np.bitwise_count(~numbers & (numbers - 1))
    gray = first ^ first >> 1
    points = directions[changed]
    points[0] = np.bitwise_xor.reduce(directions[[bit for bit in range(BITS) if gray >> bit & 1]], axis=0)
    return np.bitwise_xor.accumulate(points, axis=0, out=points)


def _direction_numbers(dims: int) -> Tensor:
    """Return the numbers `[BITS, dims]` of the table's polynomials and first numbers.

    The table is read from its file: `scipy.stats` takes half a second to import, and steps through all points that are skipped.
    """
    import scipy

    with np.load(Path(scipy.__file__).parent / "stats" / "_sobol_direction_numbers.npz") as table:
        polynomials, numbers = table["poly"][:dims].astype(np.int64), table["vinit"][:dims].T.astype(np.int64)
    degrees = np.frexp(polynomials)[1] - 1
    found = np.zeros((BITS, dims), np.int64)
    found[: len(numbers)] = numbers
    for bit in range(1, BITS):
        earlier = found[np.maximum(bit - degrees, 0), np.arange(dims)]
        new = earlier ^ earlier << degrees
        for back in range(1, min(bit, len(numbers))):
            new ^= np.where(polynomials >> np.maximum(degrees - back, 0) & (back < degrees), found[bit - back] << back, 0)
        found[bit] = np.where(bit < degrees, found[bit], new)
    found[:, 0] = 1
    return (found << np.arange(BITS)[::-1, None]).astype(np.uint32)


def _infer_sobol(context: ShapeContext) -> Sequence[Dims]:
    check_scalars(context)
    dims, count = (-1 if value is None else int(value) for value in map(context.value, (0, 1)))
    return ((count, dims),)


TABLE: Table = {"SobolSample": Kernel(sobol_sample, _infer_sobol, one_per_output)}
