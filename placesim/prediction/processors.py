"""Figures of a device that the cost formulas need: rates, bandwidth, multiprocessors and power, from the catalogue of GPUs."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

from placesim.core.errors import InvalidArgumentError, UsageError
from placesim.machine.gpu_models import GPU_MODELS, GpuModel
from placesim.prediction.fitted_constants import MEASURED_GPUS

Arithmetic = Literal["float64", "float32", "tf32", "float16", "bfloat16", "float8", "int8"]
Evidence = Literal["measured", "similar", "none"]
"""Measurements of a GPU that the constants have: of GPUs with its chip, of other GPUs of the catalogue only, or of none."""
Memory = Literal["stacked", "planar", "gddr6x", "checked", "early", "processor"]
"""Kind of memory: HBM, GDDR, GDDR6X, GDDR with ECC bits in the same memory, any kind before Volta, a CPU's main memory."""
_BITS = {"float64": 64, "float32": 32, "tf32": 19, "float16": 16, "bfloat16": 16, "float8": 8, "int8": 8}
_NO_LIMIT = float("inf")
_VOLTA = 7.0
_REACHED_SHARES = {3: 0.74, 5: 0.8}
"""Largest share of the data sheet's float32 rate that products reach, by major compute capability; 1 for all others.

Kepler has 192 lanes for four schedulers of 32.  Maxwell's lanes do 1.35 times as much each (GM107's white paper, recalled).
Maxwell's boards ran below their boost clock (DeepBench: 0.71 of M40's sheet, 0.78 of Titan X's).
"""
_FORWARD_SHARES = {8: 0.88, 12: 1.03}
"""Time of forward convolutions on narrow tensor cores, relative to V100 and T4 with cuDNN 7, by major compute capability.

From published inference of convolutional networks with cuDNN 8 and 9: an RTX 3090 gives 0.88, an RTX 5090 and an
RTX PRO 6000 1.03 each.  Libraries are less well tuned for the latter two: an RTX 5090's
bfloat16 products of 4096 by 4096 reach 0.78 of its larger ones (zzc0721/torch-performance-test-data).
"""
_ENERGIES = {3: 2.0}
"""Energy per operation of Kepler (3) relative to Maxwell and later chips of the same process."""
_USUAL_LANES = 128
_USUAL_CLOCK_HZ = 1.5e9
_USUAL_CACHE_BYTES = 64 << 10
_FLOAT8_SINCE = 8.9
"""Compute capability of Ada; the data sheets have one rate for float8 and int8."""
_FLOAT64_TENSOR_CORES, _FLOAT64_TENSOR_GAIN = ("8.0", "9.0"), 2.0
"""Compute capabilities of A100 and H100, whose tensor cores double the rate of float64 products."""
_WIDE_OPERATIONS_PER_CLOCK = 1500


def _chip(model: GpuModel) -> tuple[str, int]:
    """Return compute capability and multiprocessors; boards for which both are equal differ only in clock and memory."""
    return model.compute_capability, model.figures.multiprocessors


_CHIPS = frozenset(map(_chip, GPU_MODELS.values()))
_MEASURED_CHIPS = frozenset(_chip(GPU_MODELS[name]) for name in MEASURED_GPUS)
_TENSOR_CORES_GAIN = 3
"""Minimum ratio of the float16 to the float32 rate of GPUs with tensor cores. Without tensor cores, the ratio is at most 2."""


class NoFiguresError(UsageError):
    """Raised when a device's data sheet lacks a figure that a prediction needs."""

    @property
    def type_name(self) -> str:
        return UsageError.__name__


@dataclass(frozen=True, slots=True)
class Processor:
    """A processor: peak operations per second by arithmetic (0: none), bytes per second, and properties that slow kernels down.

    - `tensor`: the kinds of arithmetic whose rate is that of tensor cores.
    - `units`: multiprocessors, or a CPU's cores.
    - `watts`, `process_nm`: power limit and feature size, which bound the sustained rate.
    - `reached`: largest share of the data sheet's float32 rate that kernels reach; `rates` include it.
    - `forward_share`: time of forward convolutions on narrow tensor cores, relative to V100 and T4.
    - `evidence`: the measurements that the constants have of such a GPU.
    - `has_short_reach`: whether its translation lookaside buffer (TLB) is too small for rows that are several pages apart.
    """

    name: str
    rates: Mapping[Arithmetic, float] = field(hash=False)
    bandwidth: float
    units: float
    clock_hz: float
    memory: Memory
    tensor: frozenset[Arithmetic] = frozenset()
    watts: float = _NO_LIMIT
    process_nm: float = 1.0
    cache_bytes: float = 0.0
    has_short_reach: bool = False
    reached: float = 1.0
    forward_share: float = 1.0
    evidence: Evidence = "none"

    @property
    def has_wide_tensor_cores(self) -> bool:
        """Whether a multiprocessor does at least 2,048 float16 operations per clock: A100 and later GPUs do."""
        return "float16" in self.tensor and self.rates["float16"] > _WIDE_OPERATIONS_PER_CLOCK * self.units * self.clock_hz

    @property
    def has_narrow_tf32_cores(self) -> bool:
        """Whether it has tensor cores for tf32 that are not wide: GeForce RTX since Ampere, A10, L4, L40S, RTX PRO 6000."""
        return "tf32" in self.tensor and not self.has_wide_tensor_cores

    def __post_init__(self) -> None:
        for what, value in (("bandwidth", self.bandwidth), ("number of units", self.units), ("clock", self.clock_hz)):
            if not 0 < value < _NO_LIMIT:
                raise InvalidArgumentError(f"{self.name}: got {what} {value:g}, expected a value above 0")

    def rate(self, arithmetic: Arithmetic) -> float:
        """Return the peak operations per second for a kind of arithmetic.

        Raises InvalidArgumentError if there is none. The message names the kinds with a rate, and the one with the
        nearest number of bits.
        """
        found = self.rates.get(arithmetic, 0.0)
        if not 0 < found < _NO_LIMIT:
            known = [name for name, value in self.rates.items() if value > 0]
            nearest = min(known, key=lambda name: abs(_BITS[name] - _BITS[arithmetic]), default=None)
            has = f"{', '.join(known)}; the nearest is {nearest}" if nearest else "none"
            raise InvalidArgumentError(f"{self.name} has no rate for {arithmetic}: got rates for {has}")
        return found

    def peak(self, arithmetic: Arithmetic) -> float:
        """Return the data sheet's operations per second for a kind of arithmetic; if it has none, those for float32."""
        found, float32 = self.rates.get(arithmetic, 0.0), self.rates["float32"]
        return found if found not in (0.0, float32) else float32 / self.reached


def gpu_processor(model: GpuModel) -> Processor:
    """Make the processor for a GPU model of the catalogue or the inventory.

    Without a rate for float16 or bfloat16, the GPU computes tensors of these types as float32, at the float32 rate.  tf32 has a
    rate only if there are tensor cores for it. If the number of multiprocessors is unknown, it is computed from the model's
    flops: each multiprocessor is assumed to have 128 lanes at 1.5 GHz, as in most chips since 2014.  If the cache size is
    unknown, each multiprocessor is assumed to have 64 KiB.
    """
    own = model.figures
    clock_hz = own.clock_mhz * 1e6 or _USUAL_CLOCK_HZ
    units = own.multiprocessors or max(1.0, model.flops / (2 * _USUAL_LANES * clock_hz))
    # for a user's own model, the compute capability alone does not determine its speed
    generation = float(model.compute_capability) if own.multiprocessors else _VOLTA
    reached = _REACHED_SHARES.get(int(generation), 1.0)
    float32 = model.flops * reached
    rates: dict[Arithmetic, float] = {
        "float64": own.float64 * (_FLOAT64_TENSOR_GAIN if _has_float64_cores(model) else 1.0),
        "float32": float32,
        "tf32": own.tf32,
        "float16": own.float16 or float32,
        "bfloat16": own.bfloat16 or float32,
        "float8": own.int8 if _has_float8(model) else 0.0,
        "int8": own.int8 or float32,
    }
    return Processor(
        name=model.name,
        rates=rates,
        bandwidth=model.bandwidth,
        units=units,
        clock_hz=clock_hz,
        memory="early" if generation < _VOLTA else own.memory_kind,
        tensor=_tensor_arithmetics(model),
        watts=own.watts or _NO_LIMIT,
        process_nm=(own.process_nm or 1.0) * _ENERGIES.get(int(generation), 1.0),
        cache_bytes=own.cache or units * _USUAL_CACHE_BYTES,
        has_short_reach=generation < _VOLTA,
        reached=reached,
        forward_share=_FORWARD_SHARES.get(int(generation), 1.0) if own.tf32 else 1.0,
        evidence=_evidence(model),
    )


def _evidence(model: GpuModel) -> Evidence:
    """Return the evidence of a GPU model. Of one whose chip the catalogue lacks, nothing but the user's figures is known."""
    chip = _chip(model)
    return "measured" if chip in _MEASURED_CHIPS else "similar" if chip in _CHIPS else "none"


def _tensor_arithmetics(model: GpuModel) -> frozenset[Arithmetic]:
    """Return the arithmetic with tensor cores; none if float16 is about as fast as float32.

    Tensor cores compute float16 since Volta, tf32 and bfloat16 since Ampere, and float8 since Ada; float64 on A100 and H100.
    """
    own = model.figures
    if own.tf32:
        more: list[Arithmetic] = ["float8"] if _has_float8(model) else []
        more += ["float64"] if _has_float64_cores(model) else []
        return frozenset(("tf32", "float16", "bfloat16", *more))
    return frozenset(("float16",) if own.float16 > _TENSOR_CORES_GAIN * model.flops else ())


def _has_float8(model: GpuModel) -> bool:
    return model.figures.tf32 > 0 and float(model.compute_capability) >= _FLOAT8_SINCE


def _has_float64_cores(model: GpuModel) -> bool:
    return model.figures.tf32 > 0 and model.compute_capability in _FLOAT64_TENSOR_CORES
