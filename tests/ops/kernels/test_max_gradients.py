"""The gradient of a maximum against a walk over windows and their cells."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import pytest

from placesim.ops.kernels.nn import pools
from placesim.ops.kernels.nn.pools import PoolWindows, spread_max
from placesim.ops.kernels.nn.windows import windows_of
from placesim.ops.process.intra_op_threads import IntraOpPool

Tensor = np.ndarray[Any, Any]


def reference(tensor: Tensor, grads: Tensor, pool: PoolWindows) -> Tensor:
    output = np.zeros(tensor.shape, np.float64)
    rows, columns = pool.windows
    for image, row, column, channel in np.ndindex(*grads.shape):
        best: tuple[int, int] | None = None
        for y in range(max(0, row * rows.stride - rows.before), min(rows.input, row * rows.stride - rows.before + rows.kernel)):
            left = column * columns.stride - columns.before
            for x in range(max(0, left), min(columns.input, left + columns.kernel)):
                if best is None or tensor[image, y, x, channel] > tensor[(image, *best, channel)]:
                    best = y, x
        if best is not None:
            output[(image, *best, channel)] += grads[image, row, column, channel]
    return output.astype(tensor.dtype)


@pytest.mark.slow
@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.float16, ml_dtypes.bfloat16, np.int32])
@pytest.mark.parametrize(("kernel", "stride", "padding"), [(3, 2, "VALID"), (3, 2, "SAME"), (2, 3, "SAME"), (4, 1, "SAME")])
def test_first_of_equals(
    kernel: int, stride: int, padding: str, dtype: Any, threads: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pools, "IMAGES_BYTES", 500)
    rng = np.random.default_rng(0)
    pool = PoolWindows(windows_of((7, 9), (kernel, kernel), (stride, stride), (1, 1), padding))
    shape = (5, 7, 9, 3)
    grads = rng.integers(-4, 5, pool.shape(shape)).astype(dtype)
    for tensor in (
        rng.integers(-1, 3, shape).astype(dtype),  # with many equal cells
        np.zeros(shape, dtype),
        *(
            rng.choice(np.array([-np.inf, np.inf, 0.0, -0.0, 1.0, third], dtype), shape)
            for third in (-np.inf, np.nan)
            if dtype is not np.int32
        ),
    ):
        with IntraOpPool(threads).serving(), np.errstate(all="ignore"):
            np.testing.assert_array_equal(spread_max(tensor, grads, pool), reference(tensor, grads, pool))
