"""Time of a piece of work on a processor: its launch, and then the slower of computing and moving bytes.

Work has one of four shapes: a product in tiles (of matrices, or a convolution), a stream of bytes, rows that are read again if
the cache can't hold them, or steps of a recurrent cell.  Each family of work has constants that hold for all processors;
`fitted_constants` has their values and sources.
The formulas use only arithmetic, so that the fit (`tests/benchmarks/fit_costs.py`) can apply them to whole columns.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import lru_cache
from typing import NamedTuple

from placesim.prediction.cost_constants import Constants, RowsConstants, StepsConstants, StreamConstants, TiledConstants
from placesim.prediction.fitted_constants import (
    BANDWIDTH_SHARE,
    ROWS,
    SPREAD,
    STEPS,
    STREAMS,
    SUSTAINED_OPERATIONS_PER_JOULE_NM,
    TILED,
)
from placesim.prediction.processors import Processor
from placesim.prediction.work_amounts import COMPLEX_BYTES, Product, RecurrentLayer, Rows, StreamedBytes, Work

TILES = ((256, 128), (128, 128), (128, 64), (64, 128), (64, 64), (64, 32), (32, 64), (32, 32), (16, 64), (64, 16))
"""Rows and columns of the tile that one thread block computes: the sizes that libraries offer."""
SPLITS = (1, 4, 16, 64)
"""Numbers of parts into which the summed dimension may be split, to give idle multiprocessors work."""
PAGE_BYTES = 65536
"""Page size of a GPU's memory mapping."""
REARRANGED_PASSES = 1.0
"""Passes over images and results to convert them to channels-last layout and back.

Reading and writing each once would be 2 passes; libraries save some of this.  The number comes from ResNets in both layouts on
an RTX 3090 (timm's inference, PyTorch 1.13 and 2.4).
"""
TF32_REARRANGED_PASSES = 2.0
"""`REARRANGED_PASSES` for tf32 on wide tensor cores, where libraries save nothing (recorded on an H100 and an H200)."""
TF32_CROSSWISE_SLOWDOWN = 1.2
"""Factor for tf32 on wide tensor cores for each operand whose depth is not contiguous (recorded on an H100).

The tensor cores read 4-byte elements along the depth only, so such an operand is rearranged on its way.
"""
TF32_START_SECONDS = 1.5e-6
"""Time by which products in tf32 on wide tensor cores start later than others.

Our recording of an H100 and an H200 alone gives 2 microseconds, XLA's tables of an H100 and a B200 1 to 1.5.
"""
RECENT_TENSOR_GAIN = 5.0
"""Float16 operations of narrow tensor cores since Ampere per joule, relative to float32 operations of other units.

Published products at a board's power limit reach 52 to 59 TFLOP/s on an L4, 264 on an L40S, 57 to 61 on an RTX A4000 and 332
to 407 on RTX PRO 6000 of 600 W (zzc0721/torch-performance-test-data): 3.5 to 5.1 times what float32 operations sustain.
GeForce's tensor cores sum in float32 at half of their rate and stay below the limit: an RTX 4090 reaches 155 to 175 of 165
TFLOP/s, an RTX 5090 220 to 240 of 210.
"""
UNEVEN_GROUPS_SLOWDOWN = 1.3
"""Factor for convolutions in uneven groups and their gradients in channels-first layout, on narrow tensor cores since Ampere.

RegNet needs 1.2 to 1.7 on RTX 3090, RTX 5090 and RTX PRO 6000 with cuDNN 8.5 to 9, and 0.9 to 2.5 in training.
"""
UNEVEN_GRADIENT_SLOWDOWN = 8.5
"""`UNEVEN_GROUPS_SLOWDOWN` for gradients in channels-last layout.

In PyTorch's issue 70954, the author of timm finds that cuDNN is slow in this layout for groups of some widths, above all for
networks with groups of a fixed width, such as RegNet.  The factor is the median of timm's training on an RTX 3090 with cuDNN
8.3; single networks need 4 to 14.
"""
EVEN_GROUPS_SHARE = 0.6
"""Time of convolutions in even groups in this layout, relative to products of the same sizes (ResNeXt on an RTX 3090)."""
UNALIGNED_FORWARD_SLOWDOWN = 1.8
"""Factor for forward convolutions without groups that cannot use wide tensor cores, such as those of three channels.

All ten that were recorded on an H100 and an H200 need more time than elsewhere; the factor is the median of those of 32 images.
"""
FOURIER_EFFICIENCY = 0.5
"""Share of the peak rate that the products of complex numbers of a convolution by Fourier transforms reach.

Single convolutions with filters of 5 by 5 to 9 by 9 give it, with two passes over the transformed numbers: float32 on an H100
and an H200 (recorded), a V100 (PipeDream's layers) and a Titan X (convnet-benchmarks' layers, forward and filter gradient).
"""
FOURIER_PASSES = 2
_FED_BYTES_PER_CLOCK = 2048
"""Operand bytes per clock for a multiprocessor whose tensor cores do 1,024 float16 operations per clock, as in V100."""
_HALF_BYTES = 2
_RAGGED_INT8_SHARE = 0.2
"""Share of its rate that int8 reaches on wide tensor cores, if rows are not a multiple of 16 bytes long (an H100)."""
_RAGGED_GAIN = 2.5
"""Rate of tensor cores since Ampere relative to float32, if rows are not a multiple of 16 bytes long (recorded on an H100)."""
START_DEVIATION_SECONDS = 0.3e-6
"""Deviation of the start time of kernels of one family on a GPU in both directions, by odd sizes and different instructions."""
_OVERLAP = 2
"""The p of the p-norm that combines moving bytes with computing places or rows."""
_CHOICE_SHARPNESS = 12
_LIMIT_SHARPNESS = 8


class Prediction(NamedTuple):
    """Predicted seconds, and the 10th and 90th percentile of measured times around them."""

    seconds: float
    low: float
    high: float


class ProcessorFigures(NamedTuple):
    """Figures of a processor that the formulas read; a fit of constants passes arrays with one value per measurement.

    `rate` is in operations per second at the clock that the board sustains.  `bandwidth` is the bytes per second that copying
    reaches.
    """

    rate: float
    bandwidth: float
    units: float
    clock_hz: float
    cache_bytes: float
    has_short_reach: float


@lru_cache(maxsize=65536)
def predict(work: Work, processor: Processor, launch_seconds: float = 0.0) -> Prediction:
    """Return the predicted time of `work` on `processor` and its interval; `launch_seconds` are added to all three figures.

    Raises InvalidArgumentError if the processor has no rate for the work's arithmetic.
    """
    family = work_family(work, processor)
    seconds = kernel_seconds(work, processor, family)
    low, high = SPREAD[family]
    deviation = 0.0 if processor.memory == "processor" else START_DEVIATION_SECONDS
    shortest, longest = seconds * low - deviation, seconds * high + deviation
    return Prediction(launch_seconds + seconds, launch_seconds + shortest, launch_seconds + longest)


def work_family(work: Work, processor: Processor) -> str:
    """Return the name of the work's family; processors with different kernels for the work have different families."""
    if isinstance(work, Product):
        if processor.memory == "processor":
            return "cpu convolution" if work.family.startswith("convolution") else "cpu product"
        if uses_tensor_cores(work, processor):
            return f"wide tensor {work.family}" if processor.has_wide_tensor_cores else f"tensor {work.family}"
        return f"int8 {work.family}" if work.arithmetic == "int8" else work.family
    return work.family


def uses_tensor_cores(work: Product, processor: Processor) -> bool:
    """Return whether tensor cores do the work. They need a supported arithmetic, and dimensions that are multiples of eight.

    Products of float64 have no such dimensions, and convolutions of float64 no kernels on tensor cores.  Nor have gradients of
    grouped convolutions on narrow tensor cores: ResNeXt and RegNet train as if without them (RTX 3090 in NCHW, cuDNN 8.3).  Nor
    has a convolution in uneven groups in channels-last layout: RegNet needs 2.6 times the time of tensor cores, between 1 and 6
    (RTX 3090, cuDNN 8.5 and 9.1).
    """
    if work.arithmetic not in processor.tensor:
        return False
    if work.batch > 1 and work.family.endswith("gradient") and processor.has_narrow_tf32_cores:
        return False
    if _lacks_quick_kernel(work, processor):
        return False
    return work.family == "product" if work.arithmetic == "float64" else work.is_aligned


def has_rare_kernel(work: Work, processor: Processor) -> bool:
    """Return whether libraries have no quick kernel for this work, or only some of them.

    This is so for all such kernels of a network or none, so that they deviate together.  Of float32, cuDNN has convolutions by
    Fourier transforms since version 3, and Winograd's method for 5 by 5 since version 5.  GPUs before Volta were measured with
    versions 2 to 7.
    """
    if not isinstance(work, Product):
        return False
    if work.fourier is not None and processor.memory == "early":
        return True
    return _lacks_quick_kernel(work, processor)


def _lacks_quick_kernel(work: Product, processor: Processor) -> bool:
    """Return whether it is a convolution in uneven groups in channels-last layout, on narrow tensor cores since Ampere."""
    return work.has_uneven_groups and not work.rearranged_bytes and processor.has_narrow_tf32_cores


def _grouping_factor(work: Product, processor: Processor) -> float:
    """Return the factor of the seconds of a convolution in groups, relative to products of the same sizes."""
    if work.batch == 1 or work.family == "product" or not processor.has_narrow_tf32_cores:
        return 1.0
    if work.rearranged_bytes:
        return UNEVEN_GROUPS_SLOWDOWN if work.has_uneven_groups else 1.0
    if not work.has_uneven_groups:
        return EVEN_GROUPS_SHARE
    return UNEVEN_GRADIENT_SLOWDOWN if work.family.endswith("gradient") else 1.0


def _unaligned_factor(work: Product, processor: Processor) -> float:
    """Return the factor of the seconds of a convolution that cannot use wide tensor cores."""
    is_forward = work.family == "convolution forward" and work.batch == 1 and work.arithmetic in ("tf32", "float16", "bfloat16")
    is_slow = is_forward and processor.has_wide_tensor_cores and not uses_tensor_cores(work, processor)
    return UNALIGNED_FORWARD_SLOWDOWN if is_slow else 1.0


def kernel_seconds(work: Work, processor: Processor, family: str) -> float:
    """Return the seconds of a kernel on the device, without its launch."""
    machine = machine_of(work, processor)
    formula, constants = _formula(work, family)
    seconds = formula(constants, machine, *work.load())
    if isinstance(work, Product):
        if _has_fourier_kernel(work, processor):
            seconds = _nearly_fastest((seconds, constants.start_seconds + _fourier_seconds(work, machine)))
        if family == "tensor convolution forward":
            seconds *= processor.forward_share
        seconds *= _grouping_factor(work, processor) * _unaligned_factor(work, processor)
        rearranging = rearranged_passes(work, processor) * work.rearranged_bytes / machine.bandwidth
        return seconds + later_start(work, processor) + rearranging
    # the start is that of a GPU kernel; on a CPU, only the executor's dispatch counts
    return seconds - constants.start_seconds if processor.memory == "processor" else seconds


def _has_fourier_kernel(work: Product, processor: Processor) -> bool:
    """Return whether a library may compute the work by Fourier transforms, as cuDNN does with sums in float32."""
    if work.fourier is None or processor.memory == "processor" or uses_tensor_cores(work, processor):
        return False
    return work.arithmetic in ("float32", "float16")


def _fourier_seconds(work: Product, machine: ProcessorFigures) -> float:
    """Return the seconds of a convolution by Fourier transforms, without its start."""
    assert work.fourier is not None
    moving = FOURIER_PASSES * COMPLEX_BYTES * work.fourier.numbers / machine.bandwidth
    return work.fourier.operations / (machine.rate * FOURIER_EFFICIENCY) + moving


def _nearly_fastest(times: Iterable[float]) -> float:
    """Return a smooth minimum of the times of several kernels, since libraries choose nearly the fastest one."""
    fastest: float = sum(time**-_CHOICE_SHARPNESS for time in times) ** (-1 / _CHOICE_SHARPNESS)
    return fastest


def later_start(work: Work, processor: Processor) -> float:
    """Return the seconds by which a kernel starts later than others of its family."""
    is_late = isinstance(work, Product) and work.family == "product" and work.arithmetic == "tf32"
    return TF32_START_SECONDS if is_late and processor.has_wide_tensor_cores else 0.0


def rearranged_passes(work: Product, processor: Processor) -> float:
    """Return the passes that convert tensors from channels-first layout; only tensor cores need channels last."""
    if not uses_tensor_cores(work, processor):
        return 0.0
    return TF32_REARRANGED_PASSES if work.arithmetic == "tf32" and processor.has_wide_tensor_cores else REARRANGED_PASSES


def _formula(work: Work, family: str) -> tuple[Callable[..., float], Constants]:
    """Return the formula for this shape of work, and the family's constants for it."""
    if isinstance(work, Product):
        return tiled_seconds, TILED[family]
    if isinstance(work, RecurrentLayer):
        return steps_seconds, STEPS[family]
    return (rows_seconds, ROWS[family]) if isinstance(work, Rows) else (stream_seconds, STREAMS[family])


def start_seconds(work: Work, processor: Processor) -> float:
    """Return the part of a kernel's seconds on the device that does not depend on sizes."""
    if processor.memory == "processor" and not isinstance(work, Product):
        return 0.0
    _, constants = _formula(work, work_family(work, processor))
    return constants.start_seconds + later_start(work, processor)


def machine_of(work: Work, processor: Processor) -> ProcessorFigures:
    """Return the processor's figures for this work's arithmetic."""
    slowdown = _power_slowdown(work, processor)
    return ProcessorFigures(
        peak_rate(work, processor) / slowdown,
        processor.bandwidth * BANDWIDTH_SHARE[processor.memory],
        processor.units,
        loading_hz(work, processor) / slowdown,
        processor.cache_bytes,
        float(processor.has_short_reach),
    )


def _power_slowdown(work: Work, processor: Processor) -> float:
    """Return the factor by which the power limit slows this work down; tensor cores need less energy for narrower numbers."""
    if isinstance(work, Product) and processor.has_narrow_tf32_cores and uses_tensor_cores(work, processor):
        gain = RECENT_TENSOR_GAIN * _HALF_BYTES / work.element_bytes
        return power_slowdown(processor.rate(work.arithmetic), processor.watts * gain, processor.process_nm)
    return power_slowdown(processor.rate("float32"), processor.watts, processor.process_nm)


def loading_hz(work: Work, processor: Processor) -> float:
    """Return the clock in Hz at which a multiprocessor loads operands.

    For wide tensor cores, the result grows with the bytes that they consume, since each generation's caches keep up with its
    tensor cores.  A100 to B200 load two to eight times V100's operands per clock: multiprocessors share tiles, and copies
    bypass registers.
    """
    if isinstance(work, Product) and uses_tensor_cores(work, processor) and processor.has_wide_tensor_cores:
        return peak_rate(work, processor) / processor.units * work.element_bytes / _FED_BYTES_PER_CLOCK
    return processor.clock_hz


def peak_rate(work: Work, processor: Processor) -> float:
    """Return the operations per second available to the work's arithmetic; `StreamedBytes` and `Rows` get the float32 rate."""
    if isinstance(work, StreamedBytes | Rows):
        return processor.rate("float32")
    if isinstance(work, Product) and work.arithmetic in processor.tensor and not uses_tensor_cores(work, processor):
        is_ragged_product = "tf32" in processor.tensor and work.family == "product"
        ragged_rate = processor.rate("float32") * (_RAGGED_GAIN if is_ragged_product else 1.0)
        return min(ragged_rate, processor.rate(work.arithmetic))
    if isinstance(work, Product) and work.arithmetic == "int8" and processor.has_wide_tensor_cores and not work.is_aligned:
        return processor.rate("int8") * _RAGGED_INT8_SHARE
    if isinstance(work, Product) and work.arithmetic == "tf32" and processor.has_wide_tensor_cores:
        return processor.rate("tf32") / TF32_CROSSWISE_SLOWDOWN**work.crosswise
    return processor.rate(work.arithmetic)


def power_slowdown(
    rate: float, watts: float, process_nm: float, operations_per_joule_nm: float = SUSTAINED_OPERATIONS_PER_JOULE_NM
) -> float:
    """Return the factor by which a board limited to `watts` is slower than its peak `rate` in operations per second.

    A board that would need more than its power limit lowers its clock.  The energy per operation is proportional to the
    process's feature size in nm.
    """
    sustained = operations_per_joule_nm * watts / process_nm
    slowdown: float = (1 + (rate / sustained) ** _LIMIT_SHARPNESS) ** (1 / _LIMIT_SHARPNESS)
    return slowdown


def tiled_seconds(
    c: TiledConstants,
    machine: ProcessorFigures,
    batch: float,
    rows: float,
    columns: float,
    depth: float,
    moved_bytes: float,
    element_bytes: float,
    is_winograd: float,
) -> float:
    """Return the seconds of `batch` products of `[rows, depth]` and `[depth, columns]`, in tiles that run in waves.

    Each pair of `TILES` and `SPLITS` has a time; the result is nearly the fastest of these. `is_winograd` is 1 if Winograd's
    method may apply the filter with fewer multiplications, else 0.
    """
    p = c.sharpness
    gain = 1 + (c.winograd_gain - 1) * is_winograd
    memory = moved_bytes * (1 + (c.winograd_traffic - 1) * is_winograd) / machine.bandwidth
    result = batch * rows * columns * element_bytes
    unit_rate = machine.rate / machine.units
    strides = 1 + machine.has_short_reach * c.far_cost * depth * element_bytes / PAGE_BYTES
    times: list[float] = []
    for tile_rows, tile_columns in TILES:
        intensity = tile_rows * tile_columns / (tile_rows + tile_columns)
        efficiency = c.efficiency * intensity / (intensity + c.half_intensity)
        blocks = batch * -(-rows // tile_rows) * -(-columns // tile_columns)
        for split in SPLITS:
            load = blocks * split / machine.units
            whole = -(-(blocks * split) // machine.units)
            waves = c.wave_share * whole + (1 - c.wave_share) * (c.resident_blocks**2 + load**2) ** 0.5
            part = depth / split
            computing = waves * 2 * tile_rows * tile_columns * (part + c.prologue_depth) / (unit_rate * efficiency * gain)
            loading = waves * element_bytes * part * (tile_rows + tile_columns) / (machine.clock_hz * c.loaded_bytes_per_clock)
            partial_sums = 2 * 4 * split * batch * rows * columns / machine.bandwidth if split > 1 else 0.0
            seconds = (computing**p + (loading * strides / gain) ** p + (memory + partial_sums) ** p) ** (1 / p)
            times.append(seconds + c.epilogue_share * result / machine.bandwidth)
    if c.direct_efficiency:
        direct = 2 * batch * rows * columns * depth / (machine.rate * c.direct_efficiency)
        times.append((direct**p + memory**p) ** (1 / p))
    return c.start_seconds + _nearly_fastest(times)


def stream_seconds(c: StreamConstants, machine: ProcessorFigures, moved_bytes: float, placed: float) -> float:
    """Return the seconds of a stream: moving its bytes, and finding the places of `placed` elements meanwhile."""
    moving = moved_bytes * c.passes / machine.bandwidth
    placing = placed * c.element_operations / machine.rate
    together: float = (moving**_OVERLAP + placing**_OVERLAP) ** (1 / _OVERLAP)
    return c.start_seconds + together


def rows_seconds(
    c: RowsConstants, machine: ProcessorFigures, moved_bytes: float, row_bytes: float, rows: float, columns: float
) -> float:
    """Return the seconds of a row-wise op: moving its bytes, and computing rows meanwhile.

    A thread block computes a row at a time, so that few long rows or many short ones take longer than their bytes.  Rows that
    don't fit the cache are read again in each further pass.
    """
    in_progress = machine.units * c.rows_per_unit
    crowding = (in_progress * row_bytes / machine.cache_bytes) ** 2
    moving = moved_bytes * (c.passes + c.further_passes * crowding / (1 + crowding)) / machine.bandwidth
    turns = (1 + (rows / in_progress) ** 2) ** 0.5
    computing = turns * (c.row_clocks + c.element_clocks * columns) / machine.clock_hz
    together: float = (moving**_OVERLAP + computing**_OVERLAP) ** (1 / _OVERLAP)
    return c.start_seconds + together


def steps_seconds(
    c: StepsConstants, machine: ProcessorFigures, gates: float, hidden: float, batch: float, steps: float, element_bytes: float
) -> float:
    """Return the seconds of a recurrent layer: one product for the inputs of all steps, then a small product per time step.

    Each time step depends on the previous one.  All multiprocessors together load the weights `[gates * hidden, hidden]` from
    the caches in each step.
    """
    p = c.sharpness
    weights = gates * hidden * hidden
    step_computing = 2 * weights * batch / (machine.rate * c.efficiency) * (1 + c.half_batch / batch)
    step_loading = weights * element_bytes / (machine.units * machine.clock_hz * c.loaded_bytes_per_clock)
    step: float = c.step_seconds + (step_computing**p + step_loading**p) ** (1 / p)
    return c.start_seconds + steps * step + 2 * weights * batch * steps * c.product_share / machine.rate
