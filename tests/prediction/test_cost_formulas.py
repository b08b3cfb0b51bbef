"""The cost formulas term by term, worked out by hand on machines of round figures."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import get_args

import pytest

from placesim.core.errors import InvalidArgumentError
from placesim.machine.gpu_models import GPU_MODELS, GpuFigures, GpuModel
from placesim.prediction import cost_formulas
from placesim.prediction.cost_constants import RowsConstants, StepsConstants, StreamConstants, TiledConstants
from placesim.prediction.cost_formulas import (
    EVEN_GROUPS_SHARE,
    FOURIER_EFFICIENCY,
    FOURIER_PASSES,
    START_DEVIATION_SECONDS,
    TF32_START_SECONDS,
    UNALIGNED_FORWARD_SLOWDOWN,
    UNEVEN_GRADIENT_SLOWDOWN,
    UNEVEN_GROUPS_SLOWDOWN,
    ProcessorFigures,
    has_rare_kernel,
    kernel_seconds,
    machine_of,
    peak_rate,
    power_slowdown,
    predict,
    rows_seconds,
    start_seconds,
    steps_seconds,
    stream_seconds,
    tiled_seconds,
    work_family,
)
from placesim.prediction.fitted_constants import BANDWIDTH_SHARE, ROWS, SPREAD, STEPS, STREAMS, TILED
from placesim.prediction.processors import Arithmetic, NoFiguresError, Processor, gpu_processor
from placesim.prediction.work_amounts import (
    Convolution,
    Direction,
    FourierWork,
    RecurrentLayer,
    Rows,
    StreamedBytes,
    Work,
    matrix_product,
)

ENDLESS = float("inf")
PAGE = 65536
TILE = TiledConstants(
    start_seconds=0.0,
    efficiency=0.5,
    half_intensity=32.0,  # a tile of 64 by 64 has as much: half the efficiency is left
    prologue_depth=10.0,
    wave_share=0.25,
    resident_blocks=3.0,
    loaded_bytes_per_clock=2.0,
    epilogue_share=0.0,
    winograd_gain=4.0,
    winograd_traffic=3.0,
    direct_efficiency=0.0,
    far_cost=0.5,
    sharpness=2.0,
)
QUICK = ProcessorFigures(ENDLESS, ENDLESS, 4.0, ENDLESS, 1.0, 0.0)
COMPUTING, LOADING, MOVING = QUICK._replace(rate=8.0), QUICK._replace(clock_hz=2.0), QUICK._replace(bandwidth=5.0)
# 100 rows and 60 columns are two tiles: of 8 products there are 4 for each unit, of 9 there are 4.5, in 5 waves
WAVES = {8: 0.25 * 4 + 0.75 * 5, 9: 0.25 * 5 + 0.75 * math.hypot(3, 4.5)}


@pytest.fixture
def one_tile(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cost_formulas, "TILES", ((64, 64),))
    monkeypatch.setattr(cost_formulas, "SPLITS", (1,))


def tiled(machine: ProcessorFigures, constants: TiledConstants = TILE, batch: int = 8, is_winograd: float = 0.0) -> float:
    """Products of 100 by 20 and 20 by 60 numbers of 4 bytes, of which 1000 bytes are moved."""
    return tiled_seconds(constants, machine, batch, 100, 60, 20, 1000.0, 4.0, is_winograd)


@pytest.mark.usefixtures("one_tile")
@pytest.mark.parametrize("batch", WAVES)
def test_a_wave_computes_its_tiles_with_what_starting_them_costs(batch: int) -> None:
    expected = WAVES[batch] * 2 * 64 * 64 * (20 + 10) / (2 * 0.25)
    assert tiled(COMPUTING, batch=batch) == pytest.approx(expected)
    assert tiled(COMPUTING, batch=batch, is_winograd=1.0) == pytest.approx(expected / 4)
    assert tiled(COMPUTING, TILE._replace(start_seconds=7.0), batch) == pytest.approx(7 + expected)


@pytest.mark.usefixtures("one_tile")
def test_a_wave_loads_the_edges_of_its_tiles() -> None:
    expected = WAVES[8] * 4 * 20 * (64 + 64) / (2 * 2)
    assert tiled(LOADING) == pytest.approx(expected)
    assert tiled(LOADING, is_winograd=1.0) == pytest.approx(expected / 4)
    assert tiled(LOADING._replace(has_short_reach=1.0)) == pytest.approx(expected * (1 + 0.5 * 20 * 4 / PAGE))


@pytest.mark.usefixtures("one_tile")
def test_operands_are_moved_and_the_result_is_written_afterwards() -> None:
    assert tiled(MOVING) == pytest.approx(1000 / 5)
    assert tiled(MOVING, is_winograd=1.0) == pytest.approx(3 * 1000 / 5)
    written = 8 * 100 * 60 * 4 / 5
    assert tiled(MOVING, TILE._replace(epilogue_share=0.5)) == pytest.approx(200 + written / 2)


@pytest.mark.usefixtures("one_tile")
def test_computing_loading_and_moving_go_on_side_by_side() -> None:
    slow = COMPUTING._replace(clock_hz=2.0, bandwidth=5.0)
    assert tiled(slow) == pytest.approx(math.hypot(tiled(COMPUTING), tiled(LOADING), tiled(MOVING)))


def test_a_split_sum_is_cut_into_more_blocks_whose_sums_are_written_and_read(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cost_formulas, "TILES", ((64, 64),))
    monkeypatch.setattr(cost_formulas, "SPLITS", (4,))
    waves = 0.25 * 16 + 0.75 * math.hypot(3, 16)
    assert tiled(COMPUTING) == pytest.approx(waves * 2 * 64 * 64 * (5 + 10) / (2 * 0.25))
    assert tiled(LOADING) == pytest.approx(waves * 4 * 5 * (64 + 64) / (2 * 2))
    assert tiled(MOVING) == pytest.approx(200 + 2 * 4 * 4 * 8 * 100 * 60 / 5)


def test_of_several_tiles_about_the_least_counts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cost_formulas, "SPLITS", (1,))
    monkeypatch.setattr(cost_formulas, "TILES", ((64, 64), (64, 64)))
    assert tiled(MOVING) == pytest.approx(200 * 2 ** (-1 / 12))


@pytest.mark.usefixtures("one_tile")
def test_computing_without_tiles_is_another_way() -> None:
    direct = TILE._replace(direct_efficiency=0.5)
    seconds = 2 * 8 * 100 * 60 * 20 / (8 * 0.5)
    both = (tiled(COMPUTING) ** -12 + seconds**-12) ** (-1 / 12)
    assert tiled(COMPUTING, direct) == pytest.approx(both)
    # it moves what the tiles move
    slow = COMPUTING._replace(bandwidth=0.001)
    both = (tiled(slow) ** -12 + math.hypot(seconds, 1e6) ** -12) ** (-1 / 12)
    assert tiled(slow, direct) == pytest.approx(both)


def test_tiles_and_splits_are_powers_of_two() -> None:
    sides = [side for tile in cost_formulas.TILES for side in tile]
    assert all(side in (16, 32, 64, 128, 256) for side in sides)
    assert cost_formulas.SPLITS == (1, 4, 16, 64)


def test_rows_pass_again_as_far_as_the_cache_is_crowded() -> None:
    constants = RowsConstants(1.0, passes=2.0, further_passes=3.0, rows_per_unit=5.0, row_clocks=0.0, element_clocks=0.0)
    for cache, crowded in ((4 * 5 * 100.0, 1 / 2), (4 * 5 * 50.0, 4 / 5), (ENDLESS, 0)):
        machine = MOVING._replace(cache_bytes=cache)
        assert rows_seconds(constants, machine, 1000.0, 100.0, 10.0, 25.0) == pytest.approx(1 + 1000 * (2 + 3 * crowded) / 5)


def test_rows_take_turns_on_the_multiprocessors() -> None:
    """Few rows take the clocks of one, many those of all in turns, and what is moved meanwhile counts by a norm."""
    machine = MOVING._replace(clock_hz=10.0)
    constants = RowsConstants(1.0, passes=0.0, further_passes=0.0, rows_per_unit=5.0, row_clocks=100.0, element_clocks=2.0)
    one = (100 + 2 * 25) / 10
    for rows, turns in ((0.02, 1), (20000, 1000)):
        assert rows_seconds(constants, machine, 60.0, 100.0, rows, 25.0) == pytest.approx(1 + turns * one, rel=1e-5)
    moved = rows_seconds(constants._replace(passes=3.0), machine, 60.0, 100.0, 0.02, 25.0)
    assert moved == pytest.approx(1 + math.hypot(60 * 3 / 5, one), rel=1e-5)


def test_a_stream_finds_the_places_of_elements_while_it_moves() -> None:
    constants = StreamConstants(start_seconds=1.0, passes=2.0, element_operations=30.0)
    together = math.hypot(2 * 1000 / 5, 30 * 40 / 8)
    assert stream_seconds(constants, MOVING._replace(rate=8.0), 1000.0, 40.0) == pytest.approx(1 + together)


def test_steps_wait_for_each_other() -> None:
    constants = StepsConstants(
        start_seconds=1.0, step_seconds=2.0, efficiency=0.5, half_batch=8.0, loaded_bytes_per_clock=2.0,
        product_share=0.25, sharpness=2.0,
    )  # fmt: skip
    weights = 4 * 10 * 10
    computing = 2 * weights * 8 / (8 * 0.5) * (1 + 8 / 8)
    whole = 2 * weights * 8 * 3 * 0.25 / 8
    assert steps_seconds(constants, COMPUTING, 4, 10, 8, 3, 4.0) == pytest.approx(1 + 3 * (2 + computing) + whole)
    loading = weights * 4 / (4 * 2 * 2)
    assert steps_seconds(constants, LOADING, 4, 10, 8, 3, 4.0) == pytest.approx(1 + 3 * (2 + loading))
    both = COMPUTING._replace(clock_hz=2.0)
    expected = 1 + 3 * (2 + math.hypot(computing, loading)) + whole
    assert steps_seconds(constants, both, 4, 10, 8, 3, 4.0) == pytest.approx(expected)


def test_a_board_that_needs_what_it_may_draw_is_an_eighth_root_slower() -> None:
    assert power_slowdown(100.0, 50.0, 10.0, 20.0) == pytest.approx(2 ** (1 / 8))


# --- which figures, which constants

CPU = Processor("cpu", {"float32": 1e10, "float64": 5e9, "int8": 2e10}, 1e9, 2, 2.5e9, "processor", cache_bytes=1e6)
GPU = Processor(
    "gpu",
    {"float32": 1e12, "float16": 8e12, "int8": 4e12},
    1e11,
    10,
    1e9,
    "stacked",
    frozenset(("float16",)),
    cache_bytes=2e6,
    has_short_reach=True,
)
IMAGES = Convolution(8, 64, 28, 28, 64, 3, 3, 1, 1, 28, 28)


@pytest.mark.parametrize(
    ("work", "processor", "family", "rate"),
    [
        (matrix_product(1, 64, 64, 64, "float32", 4), GPU, "product", 1e12),
        (matrix_product(1, 64, 64, 64, "float16", 2), GPU, "tensor product", 8e12),
        (matrix_product(1, 64, 63, 64, "float16", 2), GPU, "product", 1e12),
        (matrix_product(1, 64, 64, 63, "float16", 2), GPU, "product", 1e12),
        (matrix_product(1, 63, 64, 64, "float16", 2), GPU, "tensor product", 8e12),
        (matrix_product(1, 64, 64, 64, "int8", 1), GPU, "int8 product", 4e12),
        (IMAGES.work("forward", "int8", 1), GPU, "int8 convolution forward", 4e12),
        (IMAGES.work("filter gradient", "float16", 2), GPU, "tensor convolution filter gradient", 8e12),
        (IMAGES._replace(filters=60).work("forward", "float16", 2), GPU, "convolution forward", 1e12),
        (IMAGES._replace(channels=60).work("forward", "float16", 2), GPU, "convolution forward", 1e12),
        (IMAGES.work("input gradient", "float32", 4), CPU, "cpu convolution", 1e10),
        (matrix_product(1, 64, 64, 64, "float64", 8), CPU, "cpu product", 5e9),
        (matrix_product(1, 64, 64, 64, "int8", 1), CPU, "cpu product", 2e10),
        (StreamedBytes("pooling", 64.0), GPU, "pooling", 1e12),
        (Rows("softmax", 8, 8, 2), GPU, "softmax", 1e12),
        (RecurrentLayer("recurrent forward", 4, 8, 8, 8, "float16", 2), GPU, "recurrent forward", 8e12),
    ],
)  # fmt: skip
def test_work_has_the_constants_and_the_rate_of_its_units(work: Work, processor: Processor, family: str, rate: float) -> None:
    assert work_family(work, processor) == family
    machine = machine_of(work, processor)
    assert machine.rate == rate
    assert machine.bandwidth == processor.bandwidth * BANDWIDTH_SHARE[processor.memory]
    assert machine[2:] == (processor.units, processor.clock_hz, processor.cache_bytes, processor.has_short_reach)


def test_tf32_operands_across_the_depth_slow_wide_tensor_cores_down() -> None:
    wide, narrow = (gpu_processor(GPU_MODELS[name]) for name in ("H100-SXM5-80GB", "GeForce RTX 3090"))
    product = matrix_product(1, 4096, 4096, 4096, "tf32", 4)
    figures = [machine_of(product._replace(crosswise=count), wide) for count in range(3)]
    for count, found in enumerate(figures):
        assert found.rate == pytest.approx(figures[0].rate / 1.2**count)
        assert found.clock_hz == pytest.approx(figures[0].clock_hz / 1.2**count)
    assert machine_of(product, narrow) == machine_of(product._replace(crosswise=2), narrow)
    half = matrix_product(1, 4096, 4096, 4096, "float16", 2)
    assert machine_of(half, wide) == machine_of(half._replace(crosswise=2), wide)


def test_tf32_products_start_later_on_wide_tensor_cores() -> None:
    wide, narrow = (gpu_processor(GPU_MODELS[name]) for name in ("H100-SXM5-80GB", "GeForce RTX 3090"))
    product = matrix_product(1, 256, 256, 256, "tf32", 4)
    half = product._replace(arithmetic="bfloat16")
    assert start_seconds(product, wide) - start_seconds(half, wide) == pytest.approx(TF32_START_SECONDS)
    assert start_seconds(product, narrow) == start_seconds(half, narrow)
    machine, constants = machine_of(product, wide), TILED["wide tensor product"]
    alone = tiled_seconds(constants, machine, *product.load())
    assert kernel_seconds(product, wide, "wide tensor product") == pytest.approx(alone + TF32_START_SECONDS)


def test_forward_convolutions_take_another_time_on_narrow_tensor_cores_since_ampere() -> None:
    """Only forward, and without what changes the layout."""
    family, work = "tensor convolution forward", IMAGES.work("forward", "float16", 2)
    apart = IMAGES.work("forward", "float16", 2, has_channels_apart=True)
    for name, has_share in (("Tesla T4", False), ("GeForce RTX 3090", True), ("GeForce RTX 5090", True)):
        gpu = gpu_processor(GPU_MODELS[name])
        share = gpu.forward_share
        assert (share != 1.0) is has_share
        machine = machine_of(work, gpu)
        alone = tiled_seconds(TILED[family], machine, *work.load())
        assert kernel_seconds(work, gpu, family) == pytest.approx(share * alone)
        moved = apart.rearranged_bytes / machine.bandwidth
        assert kernel_seconds(apart, gpu, family) == pytest.approx(share * alone + moved)
        back = IMAGES.work("input gradient", "float16", 2)
        gradient = tiled_seconds(TILED["tensor convolution input gradient"], machine_of(back, gpu), *back.load())
        assert kernel_seconds(back, gpu, "tensor convolution input gradient") == pytest.approx(gradient)


@pytest.mark.parametrize(
    ("name", "arithmetic", "gain"),
    [
        ("Tesla T4", "float16", 1.0),
        ("GeForce RTX 3090", "tf32", 1.0),  # never quicker than with whole octets
        ("GeForce RTX 3090", "float16", 2.0),
        ("A100-SXM4-40GB", "float16", 2.5),
    ],
)
def test_ragged_products_are_some_times_as_quick_as_float32(name: str, arithmetic: Arithmetic, gain: float) -> None:
    gpu = gpu_processor(GPU_MODELS[name])
    ragged = matrix_product(12, 197, 197, 64, arithmetic, 2)
    assert not ragged.is_aligned
    assert peak_rate(ragged, gpu) / gpu.rate("float32") == pytest.approx(gain, rel=0.01)


def test_float64_products_of_any_sizes_and_no_convolutions_have_tensor_cores_on_an_h100() -> None:
    h100, b200 = (gpu_processor(GPU_MODELS[name]) for name in ("H100-SXM5-80GB", "B200-SXM6-180GB"))
    product, convolution = matrix_product(1, 33, 33, 33, "float64", 8), IMAGES.work("forward", "float64", 8)
    families = [work_family(work, gpu) for gpu in (h100, b200) for work in (product, convolution)]
    assert families == ["wide tensor product", "convolution forward", "product", "convolution forward"]
    assert [gpu.rate("float64") / gpu.rate("float32") for gpu in (h100, b200)] == pytest.approx([1.0, 37 / 75])


def test_what_is_short_of_power_has_a_slower_clock_and_the_same_bandwidth() -> None:
    slow = machine_of(StreamedBytes("elementwise", 1.0), gpu_processor(GPU_MODELS["NVIDIA L4"]))
    card = gpu_processor(GPU_MODELS["NVIDIA L4"])
    slowdown = power_slowdown(card.rate("float32"), card.watts, card.process_nm)
    assert slow.rate == pytest.approx(card.rate("float32") / slowdown)
    assert slow.clock_hz == pytest.approx(card.clock_hz / slowdown)
    assert slow.bandwidth == card.bandwidth * BANDWIDTH_SHARE[card.memory]


def test_tensor_cores_need_less_power_for_an_operation() -> None:
    """The tensor cores of an RTX 4090 keep to half of their rate, so that its 450 W suffice; an L4's 72 W do not."""
    product = matrix_product(1, 8192, 8192, 8192, "float16", 2)
    card, small = (gpu_processor(GPU_MODELS[name]) for name in ("GeForce RTX 4090", "NVIDIA L4"))
    assert machine_of(product, card).rate == pytest.approx(card.rate("float16"), rel=1e-3)
    assert 52e12 < machine_of(product, small).rate < 59e12
    sizes: list[tuple[Arithmetic, int]] = [("float32", 4), ("tf32", 4), ("float16", 2), ("float8", 1)]
    shares = [
        small.rate(arithmetic) / machine_of(matrix_product(1, 8192, 8192, 8192, arithmetic, size), small).rate
        for arithmetic, size in sizes
    ]
    assert shares[0] == pytest.approx(power_slowdown(small.rate("float32"), small.watts, small.process_nm))
    assert shares[1:] == pytest.approx([shares[2]] * 3, rel=0.02)
    assert 1 < shares[2] < shares[0]


def test_gradients_of_grouped_convolutions_have_no_narrow_tensor_cores() -> None:
    grouped = IMAGES._replace(groups=2)
    families = {
        name: [
            work_family(sizes.work(direction, "float16", 2, has_channels_apart=True), gpu_processor(GPU_MODELS[name]))
            for sizes in (IMAGES, grouped)
            for direction in get_args(Direction)
        ]
        for name in ("GeForce RTX 3090", "A100-SXM4-40GB")
    }
    names = [f"convolution {direction}" for direction in get_args(Direction)]
    narrow = [f"tensor {name}" for name in names]
    assert families["GeForce RTX 3090"] == [*narrow, narrow[0], *names[1:]]
    assert families["A100-SXM4-40GB"] == [f"wide tensor {name}" for name in names] * 2


def _grouped_factors(sizes: Convolution, name: str) -> list[float]:
    """The seconds in each direction with channels last, relative to the formula for products of these sizes."""
    gpu, factors = gpu_processor(GPU_MODELS[name]), []
    for direction in get_args(Direction):
        work = sizes.work(direction, "float16", 2)
        family = work_family(work, gpu)
        alone = tiled_seconds(TILED[family], machine_of(work, gpu), *work.load())
        share = gpu.forward_share if family == "tensor convolution forward" else 1.0
        factors.append(kernel_seconds(work, gpu, family) / (share * alone))
    return factors


def test_uneven_groups_in_the_last_axis_take_longer_and_even_ones_less() -> None:
    """On narrow tensor cores since Ampere; gradients of wide groups are uneven, too, and forward has no tensor cores then."""
    even = Convolution(32, 512, 14, 14, 512, 3, 3, 1, 1, 14, 14, 32)
    uneven, wide = even._replace(groups=16), even._replace(channels=2048, filters=2048)
    for sizes, expected in (
        (even, [EVEN_GROUPS_SHARE] * 3),
        (uneven, [1.0, UNEVEN_GRADIENT_SLOWDOWN, UNEVEN_GRADIENT_SLOWDOWN]),
        (wide, [EVEN_GROUPS_SHARE, UNEVEN_GRADIENT_SLOWDOWN, UNEVEN_GRADIENT_SLOWDOWN]),
    ):
        assert _grouped_factors(sizes, "GeForce RTX 3090") == pytest.approx(expected)
        assert _grouped_factors(sizes, "A100-SXM4-40GB") == pytest.approx([1.0] * 3)
    rtx, forward = gpu_processor(GPU_MODELS["GeForce RTX 3090"]), uneven.work("forward", "float16", 2)
    assert (work_family(forward, rtx), has_rare_kernel(forward, rtx)) == ("convolution forward", True)
    assert not has_rare_kernel(even.work("forward", "float16", 2), rtx)


def test_uneven_groups_of_planes_take_a_little_longer() -> None:
    even = Convolution(32, 512, 14, 14, 512, 3, 3, 1, 1, 14, 14, 32)
    gpu = gpu_processor(GPU_MODELS["GeForce RTX 3090"])
    for direction in get_args(Direction):
        work = even.work(direction, "float16", 2, has_channels_apart=True)._replace(rearranged_bytes=1e-3)
        family = work_family(work, gpu)
        slow = kernel_seconds(work._replace(has_uneven_groups=True), gpu, family)
        assert slow == pytest.approx(UNEVEN_GROUPS_SLOWDOWN * kernel_seconds(work, gpu, family))


def test_filters_of_five_pixels_have_quick_kernels_in_some_early_libraries_only() -> None:
    gpu = gpu_processor(GPU_MODELS["Tesla P100-PCIE-16GB"])
    small, wide = (Convolution(8, 64, 28, 28, 64, side, side, 1, 1, 28, 28) for side in (3, 5))
    strided = wide._replace(stride_height=2, stride_width=2, out_height=14, out_width=14)
    found = [has_rare_kernel(sizes.work("forward", "float32", 4), gpu) for sizes in (small, wide, strided)]
    assert found == [False, True, False]
    assert not has_rare_kernel(wide.work("forward", "float32", 4), CPU)
    for name in ("Tesla T4", "Tesla V100-SXM2-16GB", "GeForce RTX 3090"):
        assert not has_rare_kernel(wide.work("forward", "float32", 4), gpu_processor(GPU_MODELS[name]))


@pytest.mark.parametrize(
    ("sizes", "side", "tiles"),
    [
        (Convolution(256, 64, 27, 27, 192, 5, 5, 1, 1, 27, 27), 32, 1),  # AlexNet: 28 results of a tile's 32
        (Convolution(128, 128, 16, 16, 128, 7, 7, 1, 1, 10, 10), 16, 1),
        (Convolution(128, 64, 64, 64, 128, 9, 9, 1, 1, 56, 56), 64, 1),
        (Convolution(16, 512, 14, 14, 48, 5, 5, 1, 1, 14, 14), 16, 4),  # one tile of 32 has more numbers of filters
        (Convolution(256, 96, 27, 27, 256, 5, 5, 1, 1, 27, 27, 2), 32, 1),
        (Convolution(8, 64, 200, 200, 64, 41, 61, 1, 1, 160, 140), 64, 7 * 35),  # only a tile of 64 holds the filter
    ],
)
def test_a_large_filter_is_a_product_for_each_point_of_transformed_tiles(sizes: Convolution, side: int, tiles: int) -> None:
    points, pairs = side * (side // 2 + 1), sizes.channels * sizes.filters // sizes.groups
    tiles *= sizes.images
    numbers = points * (tiles * (sizes.channels + sizes.filters) + pairs)
    for direction in get_args(Direction):
        assert sizes.work(direction, "float32", 4).fourier == FourierWork(numbers, 8 * points * tiles * pairs)


def test_small_filters_strides_and_filters_larger_than_a_tile_are_not_transformed() -> None:
    wide = Convolution(256, 64, 27, 27, 192, 5, 5, 1, 1, 27, 27)
    strided = wide._replace(stride_height=2, stride_width=2, out_height=14, out_width=14)
    for sizes in (wide._replace(filter_width=3), strided, wide._replace(filter_height=65)):
        assert sizes.work("forward", "float32", 4).fourier is None


def test_large_filters_take_nearly_the_time_of_their_transforms() -> None:
    """AlexNet's second convolution on a V100: 2.86 ms were measured, 9.8 without transforms were predicted."""
    gpu = gpu_processor(GPU_MODELS["Tesla V100-SXM2-16GB"])
    work = Convolution(256, 64, 27, 27, 192, 5, 5, 1, 1, 27, 27).work("forward", "float32", 4)
    machine, fourier = machine_of(work, gpu), work.fourier
    assert fourier is not None
    moving = FOURIER_PASSES * 8 * fourier.numbers / machine.bandwidth
    start = TILED["convolution forward"].start_seconds
    transformed = start + fourier.operations / (FOURIER_EFFICIENCY * machine.rate) + moving
    direct = kernel_seconds(work._replace(fourier=None), gpu, "convolution forward")
    assert direct > 3 * transformed
    assert kernel_seconds(work, gpu, "convolution forward") == pytest.approx(transformed, rel=1e-6)
    assert 0.8 < transformed / 2.86e-3 < 1.2


@pytest.mark.parametrize(
    ("name", "arithmetic", "size"),
    [
        ("Tesla V100-SXM2-16GB", "float16", 2),
        ("A100-SXM4-40GB", "tf32", 4),
        ("Tesla P4", "int8", 1),
        ("Tesla K80", "float64", 8),
    ],
)
def test_tensor_cores_and_other_types_transform_nothing(name: str, arithmetic: Arithmetic, size: int) -> None:
    gpu, sizes = gpu_processor(GPU_MODELS[name]), Convolution(256, 64, 27, 27, 192, 5, 5, 1, 1, 27, 27)
    work = sizes.work("forward", arithmetic, size)
    assert work.fourier is not None
    for processor in (gpu, CPU) if arithmetic in CPU.rates else (gpu,):
        family = work_family(work, processor)
        assert kernel_seconds(work, processor, family) == kernel_seconds(work._replace(fourier=None), processor, family)


def test_forward_convolutions_of_few_channels_are_slow_beside_wide_tensor_cores() -> None:
    sizes = Convolution(32, 3, 224, 224, 64, 7, 7, 2, 2, 112, 112)
    assert _grouped_factors(sizes, "H100-SXM5-80GB") == pytest.approx([UNALIGNED_FORWARD_SLOWDOWN, 1.0, 1.0])
    assert _grouped_factors(sizes, "GeForce RTX 4090") == pytest.approx([1.0] * 3)
    for others in (sizes._replace(channels=8), sizes._replace(channels=96, filters=96, groups=16)):
        assert _grouped_factors(others, "H100-SXM5-80GB") == pytest.approx([1.0] * 3)


LOADS: list[tuple[Work, float, Callable[[ProcessorFigures], float]]] = [
    (
        StreamedBytes("pooling", 1e6),
        STREAMS["pooling"].start_seconds,
        lambda m: stream_seconds(STREAMS["pooling"]._replace(start_seconds=0.0), m, 1e6, 0.0),
    ),
    (
        Rows("softmax", 1000, 50, 4),
        ROWS["softmax"].start_seconds,
        lambda m: rows_seconds(ROWS["softmax"]._replace(start_seconds=0.0), m, 2 * 1000 * 50 * 4, 50 * 4, 1000, 50),
    ),
    (
        RecurrentLayer("recurrent forward", 4, 32, 16, 10, "float32", 4),
        STEPS["recurrent forward"].start_seconds,
        lambda m: steps_seconds(STEPS["recurrent forward"]._replace(start_seconds=0.0), m, 4, 32, 16, 10, 4),
    ),
]


@pytest.mark.parametrize(("work", "start", "rest"), LOADS, ids=lambda value: type(value).__name__)
def test_only_a_gpu_has_a_start(work: Work, start: float, rest: Callable[[ProcessorFigures], float]) -> None:
    gpu, cpu = machine_of(work, GPU), machine_of(work, CPU)
    assert (start_seconds(work, GPU), start_seconds(work, CPU)) == (start, 0.0)
    assert kernel_seconds(work, GPU, work.family) == pytest.approx(start + rest(gpu))
    assert kernel_seconds(work, CPU, work.family) == pytest.approx(rest(cpu), rel=1e-6)


def test_the_start_of_a_product_is_that_of_its_units() -> None:
    work = matrix_product(1, 64, 64, 64, "float16", 2)
    assert start_seconds(work, GPU) == TILED["tensor product"].start_seconds
    assert start_seconds(work._replace(arithmetic="float32"), CPU) == TILED["cpu product"].start_seconds


def test_an_interval_is_around_the_kernel_and_not_its_launch() -> None:
    work = StreamedBytes("pooling", 1e6)
    low, high = SPREAD["pooling"]
    seconds = kernel_seconds(work, GPU, "pooling")
    deviation = START_DEVIATION_SECONDS
    assert predict(work, GPU, 1.0) == pytest.approx(
        (1 + seconds, 1 + seconds * low - deviation, 1 + seconds * high + deviation)
    )
    on_cpu = kernel_seconds(work, CPU, "pooling")
    assert predict(work, CPU, 1.0) == pytest.approx((1 + on_cpu, 1 + on_cpu * low, 1 + on_cpu * high))


# --- processors


def test_a_model_without_figures_is_a_volta_of_usual_ones() -> None:
    model = GpuModel("own", 1 << 30, "3.5", flops=38.4e12, bandwidth=1e12)
    found = gpu_processor(model)
    assert (found.units, found.clock_hz, found.cache_bytes) == (100, 1.5e9, 100 * 65536)
    assert (found.memory, found.process_nm, found.watts, found.has_short_reach) == ("planar", 1, ENDLESS, False)
    assert found.rates == {
        "float8": 0, "float64": 0, "float32": 38.4e12, "tf32": 0, "float16": 38.4e12, "bfloat16": 38.4e12, "int8": 38.4e12
    }  # fmt: skip
    assert gpu_processor(model._replace(flops=1e9)).units == 1


def test_a_models_own_figures_count() -> None:
    figures = GpuFigures(1.0, 0.0, 2e13, 3e13, 4e13, 80, 1000, 12, "stacked", 1 << 20, 300)
    model = GpuModel("own", 1 << 30, "7.0", flops=1e13, bandwidth=1e12, figures=figures)
    found = gpu_processor(model)
    assert (found.units, found.clock_hz, found.cache_bytes, found.watts) == (80, 1e9, 1 << 20, 300)
    assert (found.memory, found.process_nm, found.has_short_reach) == ("stacked", 12, False)
    assert found.rates == {
        "float8": 0,
        "float64": 1,
        "float32": 1e13,
        "tf32": 0,
        "float16": 2e13,
        "bfloat16": 3e13,
        "int8": 4e13,
    }
    old = gpu_processor(model._replace(compute_capability="6.1"))
    assert (old.memory, old.has_short_reach) == ("early", True)


@pytest.mark.parametrize(
    ("tf32", "float16", "expected"),
    [(1.0, 0.0, {"tf32", "float16", "bfloat16"}), (0.0, 3.1e13, {"float16"}), (0.0, 3e13, set()), (0.0, 0.0, set())],
)
def test_tensor_cores_are_told_by_their_rates(tf32: float, float16: float, expected: set[str]) -> None:
    model = GpuModel("own", 1 << 30, flops=1e13, bandwidth=1e12, figures=GpuFigures(tf32=tf32, float16=float16))
    assert gpu_processor(model).tensor == expected


def test_what_has_no_rate_is_told_with_the_nearest() -> None:
    with pytest.raises(
        InvalidArgumentError, match="gpu has no rate for tf32: got rates for float32, float16, int8; the nearest is float16"
    ):
        GPU.rate("tf32")
    with pytest.raises(InvalidArgumentError, match=r"none has no rate for int8: got rates for none$"):
        Processor("none", {"float32": 0.0}, 1.0, 1, 1.0, "planar").rate("int8")
    with pytest.raises(InvalidArgumentError, match="has no rate for float32"):
        Processor("endless", {"float32": ENDLESS}, 1.0, 1, 1.0, "planar").rate("float32")


def test_a_missing_figure_is_an_error_of_usage() -> None:
    assert NoFiguresError("no time for a node").type_name == "UsageError"
