"""Rounding to narrow floats."""

from __future__ import annotations

from typing import Any

import numpy as np

from placesim.ops.kernels.precision import rounded_to_half


def test_rounding_to_half_is_numpys_bit_for_bit() -> None:
    halves = np.arange(1 << 16, dtype=np.uint16).view(np.float16)
    finite: np.ndarray[Any, Any] = halves[np.isfinite(halves)].astype(np.float32)
    # halves, what is between two neighbours and beside it, and numbers that round to 0
    within = finite[np.abs(finite) < 60000]
    middles = within + np.float32(0.5) * np.spacing(within.astype(np.float16)).astype(np.float32)
    beside = [np.nextafter(middles, np.float32(towards)) for towards in (-np.inf, np.inf)]
    tiny = np.array([0.0, -0.0, 2.0**-25, -(2.0**-25), 2.0**-24, 1e-30, -1e-30], np.float32)
    random = np.random.RandomState(0).randint(0, 1 << 32, 100_000, np.uint32).view(np.float32)
    small = [values[np.abs(values) < 1 << 15] for values in (finite, middles, *beside, tiny, random)]
    large = np.array([65504, 65519.9, 65520, -70000, np.inf, -np.inf, np.nan], np.float32)
    for values in (*small, *(np.append(values, large) for values in small), np.array([], np.float32)):
        with np.errstate(over="ignore"):
            expected = values.astype(np.float16).astype(np.float32)
            found = rounded_to_half(values)
        assert np.array_equal(np.isnan(found), np.isnan(expected))
        numbers = ~np.isnan(expected)
        assert np.array_equal(found[numbers].view(np.uint32), expected[numbers].view(np.uint32))
    assert all(len(values) > 6 for values in small)
