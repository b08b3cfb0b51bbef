"""The cost formulas: their laws, what they refuse, and that their intervals hold what they say."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from placesim.core.errors import InvalidArgumentError
from placesim.machine.gpu_models import GPU_MODELS
from placesim.prediction.cost_constants import StreamConstants
from placesim.prediction.cost_formulas import (
    REARRANGED_PASSES,
    loading_hz,
    machine_of,
    power_slowdown,
    predict,
    stream_seconds,
    tiled_seconds,
    work_family,
)
from placesim.prediction.fitted_constants import BANDWIDTH_SHARE, ROWS, SPREAD, STEPS, STREAMS, TILED
from placesim.prediction.processors import Arithmetic, Processor, gpu_processor
from placesim.prediction.work_amounts import Convolution, Direction, RecurrentLayer, Rows, StreamedBytes, matrix_product

V100 = gpu_processor(GPU_MODELS["Tesla V100-SXM2-16GB"])
A100 = gpu_processor(GPU_MODELS["A100-SXM4-80GB"])
H100 = gpu_processor(GPU_MODELS["H100-SXM5-80GB"])
PROCESSORS = st.sampled_from([gpu_processor(model) for model in GPU_MODELS.values()])
SIZES = st.integers(1, 20_000)
GROWN = st.integers(0, 5_000)
DIRECTIONS: tuple[Direction, ...] = ("forward", "input gradient", "filter gradient")


def faster(processor: Processor, factor: float) -> Processor:
    """The same chip with every rate so many times as high."""
    return replace(
        processor,
        rates={name: rate * factor for name, rate in processor.rates.items()},
        bandwidth=processor.bandwidth * factor,
        clock_hz=processor.clock_hz * factor,
        watts=processor.watts * factor,
    )


@given(PROCESSORS, SIZES, SIZES, SIZES, GROWN, GROWN, GROWN)
def test_a_larger_product_is_never_faster(
    processor: Processor, rows: int, columns: int, depth: int, more_rows: int, more_columns: int, more_depth: int
) -> None:
    small = predict(matrix_product(1, rows, columns, depth, "float32", 4), processor)
    large = predict(matrix_product(1, rows + more_rows, columns + more_columns, depth + more_depth, "float32", 4), processor)
    assert large.seconds >= small.seconds * (1 - 1e-12)


@given(PROCESSORS, st.integers(0, 10**10), st.integers(0, 10**10))
def test_more_bytes_are_never_faster(processor: Processor, some: int, more: int) -> None:
    for family in STREAMS:
        assert predict(StreamedBytes(family, some + more), processor) >= predict(StreamedBytes(family, some), processor)


@given(PROCESSORS, st.integers(1, 5_000), st.integers(1, 50_000), GROWN, GROWN)
def test_more_rows_and_longer_ones_are_never_faster(
    processor: Processor, rows: int, columns: int, more_rows: int, more_columns: int
) -> None:
    for family in ROWS:
        small = predict(Rows(family, rows, columns, 4), processor)
        assert predict(Rows(family, rows + more_rows, columns + more_columns, 4), processor) >= small


@given(PROCESSORS, st.integers(1, 3_000), st.integers(1, 256), st.integers(1, 1_000), st.integers(0, 100))
def test_more_steps_of_a_larger_cell_are_never_faster(
    processor: Processor, hidden: int, batch: int, steps: int, more: int
) -> None:
    for family in STEPS:
        small = predict(RecurrentLayer(family, 4, hidden, batch, steps, "float32", 4), processor)
        large = predict(RecurrentLayer(family, 4, hidden + more, batch + more, steps + more, "float32", 4), processor)
        assert large.seconds >= small.seconds * (1 - 1e-12)


@pytest.mark.slow
@given(PROCESSORS, SIZES, SIZES, SIZES, st.floats(1, 8))
def test_a_faster_device_is_never_slower(processor: Processor, rows: int, columns: int, depth: int, factor: float) -> None:
    for work in (
        matrix_product(1, rows, columns, depth, "float32", 4),
        StreamedBytes("elementwise", 4.0 * rows * columns),
        Rows("softmax", rows, columns, 4),
        RecurrentLayer("recurrent forward", 4, columns, rows, 10, "float32", 4),
    ):
        assert predict(work, faster(processor, factor)).seconds <= predict(work, processor).seconds * (1 + 1e-12)


@given(SIZES, SIZES, SIZES, st.integers(1, 8))
def test_more_multiprocessors_of_the_same_kind_are_never_slower(rows: int, columns: int, depth: int, times: int) -> None:
    grown = replace(V100, units=V100.units * times, rates={name: rate * times for name, rate in V100.rates.items()})
    work = matrix_product(1, rows, columns, depth, "float32", 4)
    few, many = (replace(processor, watts=float("inf")) for processor in (V100, grown))
    assert predict(work, many).seconds <= predict(work, few).seconds * (1 + 1e-12)


def test_the_unit_is_seconds() -> None:
    """A gigabyte read and written on 900 GB/s takes above its 2.2 ms, and not twice as long; so with 137 Gflop on 15.7 T/s."""
    assert 2e9 / 900e9 < predict(StreamedBytes("elementwise", 2e9), V100).seconds < 2 * 2e9 / 900e9
    work = matrix_product(1, 4096, 4096, 4096, "float32", 4)
    assert work.operations == 2 * 4096**3
    assert work.operations / 15.7e12 / 1.3 < predict(work, V100).seconds < 2 * work.operations / 15.7e12


def test_a_launch_is_added() -> None:
    work = StreamedBytes("elementwise", 1e6)
    assert predict(work, V100, 1e-3).seconds == pytest.approx(predict(work, V100).seconds + 1e-3)


def test_tensor_cores_take_channels_in_eights() -> None:
    for columns, family in ((1024, "tensor product"), (1023, "product")):
        assert work_family(matrix_product(1, 1024, columns, 1024, "float16", 2), V100) == family
    halves = matrix_product(1, 1024, 1023, 1024, "float16", 2)
    assert machine_of(halves, V100).rate == pytest.approx(machine_of(halves._replace(arithmetic="float32"), V100).rate)


@pytest.mark.parametrize(
    ("model", "is_wide"),
    [
        ("A100-SXM4-80GB", True),  # 312 T/s on 108 multiprocessors at 1,410 MHz: 2,049 operations a clock
        ("B200-SXM6-180GB", True),
        ("Tesla V100-SXM2-16GB", False),  # 125 T/s, 80, 1,530 MHz: 1,021
        ("NVIDIA L40S", False),  # 362 T/s, 142, 2,520 MHz: 1,012
        ("Tesla P100-PCIE-16GB", False),  # no tensor cores
    ],
)
def test_tensor_cores_are_wide_by_their_operations_a_clock(model: str, is_wide: bool) -> None:
    assert gpu_processor(GPU_MODELS[model]).has_wide_tensor_cores == is_wide


def test_wide_tensor_cores_load_as_fast_as_they_compute() -> None:
    """989 T/s of float16 on 132 multiprocessors take 2,048 bytes 7.3e9 times a second; tf32 and float8 as many."""
    kinds: dict[Arithmetic, int] = {"float16": 2, "tf32": 4, "float8": 1}
    products = [matrix_product(1, 1024, 1024, 1024, kind, size) for kind, size in kinds.items()]
    assert [work_family(work, H100) for work in products] == ["wide tensor product"] * 3
    assert [loading_hz(work, H100) for work in products] == pytest.approx([989e12 / 132 * 2 / 2048] * 3, rel=1e-3)
    assert loading_hz(products[0], V100) == 1530e6
    assert loading_hz(matrix_product(1, 1024, 1024, 1024, "float32", 4), H100) == 1980e6


def test_ragged_products_of_wide_tensor_cores_are_faster_than_float32() -> None:
    kinds: dict[Arithmetic, int] = {"bfloat16": 2, "float32": 4}
    ragged, plain = (matrix_product(1, 2047, 2047, 2047, kind, size) for kind, size in kinds.items())
    assert work_family(ragged, H100) == "product"
    assert machine_of(ragged, H100).rate == pytest.approx(2.5 * machine_of(plain, H100).rate)
    depthwise = Convolution(8, 64, 28, 28, 64, 3, 3, 1, 1, 28, 28, groups=64)
    halves, floats = (depthwise.work("forward", kind, size) for kind, size in kinds.items())
    assert machine_of(halves, H100).rate == pytest.approx(machine_of(floats, H100).rate)


def test_float8_has_tensor_cores_since_ada() -> None:
    work = matrix_product(1, 8192, 8192, 8192, "float8", 1)
    for name in ("NVIDIA L4", "H100-SXM5-80GB", "B200-SXM6-180GB"):
        processor = gpu_processor(GPU_MODELS[name])
        half = work._replace(arithmetic="float16", element_bytes=2, moved_bytes=2 * work.moved_bytes)
        assert 1.9 < predict(half, processor).seconds / predict(work, processor).seconds <= 2
    with pytest.raises(InvalidArgumentError, match=r"A100-SXM4-80GB has no rate for float8: .*; the nearest is int8"):
        predict(work, A100)


def test_tf32_is_faster_than_float32_where_there_are_cores_for_it() -> None:
    slow, fast = (predict(matrix_product(1, 4096, 4096, 4096, kind, 4), A100).seconds for kind in ("float32", "tf32"))
    assert fast < slow / 3


def test_a_rate_that_is_not_there_is_named_with_those_that_are() -> None:
    with pytest.raises(
        InvalidArgumentError, match="Tesla V100-SXM2-16GB has no rate for tf32: got rates for float64, float32, float16"
    ):
        predict(matrix_product(1, 8, 8, 8, "tf32", 4), V100)


@pytest.mark.parametrize("change", [{"bandwidth": 0.0}, {"bandwidth": -1.0}, {"units": 0}, {"clock_hz": float("inf")}])
def test_a_processor_without_its_figures_is_refused(change: dict[str, Any]) -> None:
    with pytest.raises(InvalidArgumentError, match="expected a value above 0"):
        replace(V100, **change)


def test_a_board_short_of_power_is_slower() -> None:
    """An L4 has 72 W for 30 Tflop/s; an H100 has ten times as many for twice that."""
    card, module = GPU_MODELS["NVIDIA L4"], GPU_MODELS["H100-SXM5-80GB"]
    assert power_slowdown(card.flops, card.figures.watts, card.figures.process_nm) > 2
    assert power_slowdown(module.flops, module.figures.watts, module.figures.process_nm) < 1.1
    assert power_slowdown(card.flops, float("inf"), 5) == 1


def test_old_chips_reach_less_of_their_sheet() -> None:
    for name, share in (("Tesla K80", 0.74), ("Tesla M40", 0.8), ("Tesla P40", 1), ("Tesla T4", 1)):
        model = GPU_MODELS[name]
        assert gpu_processor(model).rate("float32") == pytest.approx(share * model.flops)
    assert gpu_processor(GPU_MODELS["Tesla K80"]).process_nm == 2 * gpu_processor(GPU_MODELS["Tesla M40"]).process_nm


def test_memory_is_told_apart_by_kind_checks_and_age() -> None:
    names = ("Tesla T4", "GeForce RTX 5090", "GeForce RTX 4090", "TITAN V", "Tesla P100-PCIE-16GB")
    kinds = [gpu_processor(GPU_MODELS[name]).memory for name in names]
    assert kinds == ["checked", "planar", "gddr6x", "stacked", "early"]
    checked, planar, gddr6x, stacked, early = (BANDWIDTH_SHARE[kind] for kind in kinds)
    assert max(checked, early) < planar < min(gddr6x, stacked)


def test_matrix_units_rearrange_channels_that_lie_apart() -> None:
    """On an A100, not on a P100; an image and its result pass at the bandwidth of copying, those of tf32 twice."""
    made = Convolution(8, 64, 28, 28, 64, 3, 3, 1, 1, 28, 28)
    a100, p100 = (gpu_processor(GPU_MODELS[name]) for name in ("A100-SXM4-40GB", "Tesla P100-PCIE-16GB"))
    together, apart = (made.work("forward", "float16", 2, has_channels_apart=apart) for apart in (False, True))
    moved = 2 * 2 * 8 * 64 * 28 * 28 * REARRANGED_PASSES / (a100.bandwidth * BANDWIDTH_SHARE["stacked"])
    assert predict(apart, a100).seconds - predict(together, a100).seconds == pytest.approx(moved)
    assert predict(apart, p100) == predict(together, p100)
    together, apart = (made.work("forward", "tf32", 4, has_channels_apart=apart) for apart in (False, True))
    assert predict(apart, a100).seconds - predict(together, a100).seconds == pytest.approx(2 * 2 * moved / REARRANGED_PASSES)


def test_every_model_of_the_catalogue_has_its_figures() -> None:
    for model in GPU_MODELS.values():
        figures = model.figures
        assert min(figures.multiprocessors, figures.watts, figures.cache, figures.process_nm) > 0, model.name
        lanes = model.flops / (2e6 * figures.multiprocessors * figures.clock_mhz)
        expected = (
            192
            if model.compute_capability in ("3.5", "3.7")
            else 64
            if model.compute_capability in ("6.0", "7.0", "7.5", "8.0")
            else 128
        )
        assert lanes == pytest.approx(expected, rel=0.12), model.name


def test_a_model_of_ones_own_gets_usual_figures() -> None:
    own = gpu_processor(
        GPU_MODELS["Tesla K40c"]._replace(name="own", flops=38.4e12, figures=GPU_MODELS["Tesla K40c"].figures.__class__())
    )
    assert (own.units, own.clock_hz, own.watts) == (100, 1.5e9, float("inf"))


def test_what_is_fitted_is_whole() -> None:
    """Each family has its spread around 1, and each direction of a convolution its constants on each kind of unit."""
    assert set(SPREAD) == {*TILED, *STREAMS, *ROWS, *STEPS}
    assert all(low < 1 < high for low, high in SPREAD.values())
    assert all(0 < share <= 1 for share in BANDWIDTH_SHARE.values())
    for direction in DIRECTIONS:
        work = Convolution(8, 64, 28, 28, 64, 3, 3, 1, 1, 28, 28).work(direction, "float32", 4)
        assert {work.family, f"tensor {work.family}", f"wide tensor {work.family}"} <= set(TILED)
        assert work.operations == 2 * 8 * 28 * 28 * 64 * 64 * 9


def test_a_strided_gradient_has_the_operations_of_its_convolution() -> None:
    forward, back, filters = (
        Convolution(4, 64, 56, 56, 128, 4, 4, 2, 2, 28, 28).work(direction, "float32", 4).operations for direction in DIRECTIONS
    )
    assert forward == back == filters


def test_each_phase_of_a_stride_takes_the_largest_part_of_the_filter() -> None:
    """Of 3 by 3 taps, the four phases of a stride of 2 have 4, 2, 2 and 1."""
    odd = Convolution(4, 64, 56, 56, 128, 3, 3, 2, 2, 28, 28)
    forward, back = (odd.work(direction, "float32", 4).operations for direction in ("forward", "input gradient"))
    assert back == pytest.approx(forward * 4 * 4 / 9)


def test_a_filter_of_three_by_three_may_take_fewer_multiplications() -> None:
    three = Convolution(16, 256, 28, 28, 256, 3, 3, 1, 1, 28, 28).work("forward", "float32", 4)
    plain = three._replace(is_winograd=False)
    assert three.is_winograd
    assert predict(three, V100).seconds < predict(plain, V100).seconds


def test_the_interval_holds_four_fifths_of_a_sample() -> None:
    """Times drawn as far around a family's prediction as its residuals were: the 10th to 90th percentile is its interval."""
    rng = np.random.default_rng(7)
    low, high = SPREAD["elementwise"]
    sigma_low, sigma_high = -np.log(low) / 1.2816, np.log(high) / 1.2816
    sizes = rng.integers(10**6, 10**9, 400)
    held = 0
    for size in sizes:
        found = predict(StreamedBytes("elementwise", float(size)), V100)
        normal = rng.standard_normal()
        measured = found.seconds * np.exp(normal * (sigma_low if normal < 0 else sigma_high))
        assert found.low < found.seconds < found.high
        held += found.low <= measured <= found.high
    assert 0.74 < held / len(sizes) < 0.86


def test_formulas_take_columns() -> None:
    """The fit hands whole columns to the formulas that predictions take numbers from."""
    works = [matrix_product(1, size, 2 * size, 300, "float32", 4) for size in (17, 500, 4000)]
    loads = [np.array(column) for column in zip(*(work.load() for work in works), strict=True)]
    found = tiled_seconds(TILED["product"], machine_of(works[0], V100), *loads)  # type: ignore[arg-type]
    assert found == pytest.approx([predict(work, V100).seconds for work in works])
    machine = machine_of(StreamedBytes("elementwise", 1.0), V100)
    assert stream_seconds(StreamConstants(1.0, 2.0, 0.0), machine, machine.bandwidth, 0.0) == pytest.approx(3.0)
