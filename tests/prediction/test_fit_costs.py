"""The fit finds the constants that made its rows."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from placesim.machine.gpu_models import GPU_MODELS
from placesim.prediction.cost_constants import StreamConstants
from placesim.prediction.cost_formulas import machine_of, stream_seconds
from placesim.prediction.fitted_constants import (
    BANDWIDTH_SHARE,
    ROWS,
    SPREAD,
    STEPS,
    STREAMS,
    SUSTAINED_OPERATIONS_PER_JOULE_NM,
    TILED,
)
from placesim.prediction.processors import gpu_processor
from placesim.prediction.work_amounts import StreamedBytes
from tests.benchmarks import step_intervals
from tests.benchmarks.fit_costs import (
    FULL_ROWS,
    LEAST,
    MOST,
    Model,
    SharedConstants,
    by_family,
    fitted,
    fold_of,
    held_out,
    measured_devices,
    shape_of,
    spreads,
)
from tests.benchmarks.timing_rows import Measurement

TRUE = StreamConstants(start_seconds=2e-5, passes=1.4, element_operations=0.0)
SHARED = SharedConstants(SUSTAINED_OPERATIONS_PER_JOULE_NM, *BANDWIDTH_SHARE.values())
FAMILY = "pooling"


def rows(noise: float) -> list[Measurement]:
    rng = np.random.default_rng(3)
    found = []
    for name in ("Tesla T4", "Tesla V100-SXM2-16GB", "A100-SXM4-40GB"):
        processor = gpu_processor(GPU_MODELS[name])
        for size in rng.integers(10**5, 10**9, 100):
            work = StreamedBytes(FAMILY, float(size))
            seconds = stream_seconds(TRUE, machine_of(work, processor), float(size), 0.0) * np.exp(
                noise * rng.standard_normal()
            )
            found.append(Measurement((work,), processor, 1e-6, seconds + 1e-6, name, "made up", f"pool {size}"))
    return found


def test_constants_are_found_again() -> None:
    columns = by_family(rows(noise=0.0))[FAMILY]
    constants, shared = fitted(shape_of(FAMILY), columns, SHARED)
    assert shared == SHARED
    assert constants == pytest.approx(TRUE, rel=0.05)


def test_a_spread_is_that_of_the_noise() -> None:
    columns = by_family(rows(noise=0.2))
    model = Model(SHARED, {FAMILY: TRUE})
    held = held_out(columns, model, lambda rows: rows.fold, range(5))
    assert len(held) == 300
    low, high = spreads(held)[FAMILY]
    assert low == pytest.approx(np.exp(-0.2 * 1.28), abs=0.08)
    assert high == pytest.approx(np.exp(0.2 * 1.28), abs=0.12)


def test_a_gpu_counts_as_measured_with_many_kernels_or_steps() -> None:
    kernels = ["Titan Xp"] * FULL_ROWS + ["Tesla T4"] * (FULL_ROWS - 1) + ["AMD MI25"] * 1000
    steps = ["RTX 3090"] * step_intervals.FULL_ROWS + ["Tesla T4"] * (step_intervals.FULL_ROWS - 1)
    assert measured_devices(kernels, steps) == {"TITAN Xp": (FULL_ROWS, 0), "GeForce RTX 3090": (0, step_intervals.FULL_ROWS)}


def test_folds_go_by_sizes() -> None:
    assert {fold_of(f"gemm m={size}") for size in range(100)} == set(range(5))
    assert fold_of("gemm m=7") == fold_of("gemm m=7")


def test_shipped_constants_are_such_as_the_fit_makes() -> None:
    """Each family has the record of its shape, with what the fit leaves alone as it was, and the rest between its bounds."""
    shipped: dict[str, Any] = {**TILED, **STREAMS, **ROWS, **STEPS}
    assert set(shipped) == set(SPREAD)
    for family, constants in shipped.items():
        shape = shape_of(family)
        start = shape.record(*shape.start)
        assert type(constants) is shape.record
        for name, value in constants._asdict().items():
            if name in shape.fixed:
                assert value == getattr(start, name), (family, name)
            else:
                assert LEAST.get(name, 0.0) <= value <= MOST.get(name, float("inf")), (family, name)
    assert set(BANDWIDTH_SHARE) == {"stacked", "planar", "gddr6x", "checked", "early", "processor"}
