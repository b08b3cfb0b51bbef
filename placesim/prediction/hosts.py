"""A task's host for cost predictions: its cores and rates, with assumptions for missing figures."""

from __future__ import annotations

from collections.abc import Iterator
from functools import lru_cache

from placesim.machine.host_models import HostModel
from placesim.prediction.processors import Arithmetic, Processor

HOST_CORES = 8
_CLOCK_HZ = 2.5e9
_FLOATS_PER_CLOCK = 32
"""Two fused multiply-adds of eight float32 each, as on every x86 server core since 2013."""
_BYTES_PER_CORE = 8e9
"""Bytes per second of main memory for one core: 64 GB/s for eight cores, about four channels of DDR4-2400."""
_FLOAT32 = _CLOCK_HZ * _FLOATS_PER_CLOCK
_CACHE_BYTES_PER_CORE = 2.5 * (1 << 20)
DISPATCH_SECONDS = 1e-6
"""Assumed overhead of a node on a host thread."""
LAUNCH_SECONDS = 5e-6
"""Assumed time of a host thread to launch a kernel on a GPU."""
SHARE_SECONDS = 40e-6
"""Seconds of work for which a node uses one more core; TensorFlow's pools do not divide work below about ten microseconds."""
_RATES: tuple[Arithmetic, ...] = ("tf32", "float16", "bfloat16", "int8")
"""Kinds of arithmetic that a CPU computes at the float32 rate, unless its model has a rate for them."""


class Host:
    """A host: its number of cores, and the processors that some of these cores form."""

    def __init__(self, model: HostModel) -> None:
        self.model = model
        self.cores = model.cores or HOST_CORES
        self.inter_op_threads = model.inter_op_threads or self.cores
        self.dispatch = model.dispatch or DISPATCH_SECONDS
        self.launch = model.launch or LAUNCH_SECONDS
        self.profile = model.profile

    @property
    def is_assumed(self) -> bool:
        """Whether the rates that determine times on CPUs are assumed."""
        return self.profile is None and not (self.model.cores and self.model.flops and self.model.bandwidth)

    @lru_cache  # noqa: B019  # a machine has a few hosts, which live as long as it
    def processor(self, cores: int) -> Processor:
        """Return the processor that `cores` cores form, with proportional rates and bandwidth."""
        model, share = self.model, cores / self.cores
        float32 = model.flops * share or _FLOAT32 * cores
        rates: dict[Arithmetic, float] = {"float32": float32, "float64": float32 / 2, **dict.fromkeys(_RATES, float32)}
        rates |= {name: rate * share for name, rate in model.rates.items() if name in rates}
        return Processor(
            model.name or ("assumed host" if self.is_assumed else "host"),
            rates,
            model.bandwidth * share or _BYTES_PER_CORE * cores,
            cores,
            float32 / cores / _FLOATS_PER_CLOCK,
            "processor",
            cache_bytes=_CACHE_BYTES_PER_CORE * cores,
        )

    def assumptions(self, *, has_gpus: bool) -> Iterator[str]:
        """Yield a sentence for each assumption about missing figures."""
        if self.is_assumed:
            model = self.model
            float32 = model.flops / self.cores or _FLOAT32
            clock = "" if model.flops else f" of {_CLOCK_HZ / 1e9:g} GHz"
            bandwidth = model.bandwidth / self.cores or _BYTES_PER_CORE
            yield (
                f"each task's host is assumed to have {self.cores} cores{clock}, with {float32 / 1e9:g} GFLOPS of float32 and "
                f"{bandwidth / 1e9:g} GB/s each: CPU times are less certain than their intervals suggest"
            )
        assumed = []
        if self.profile is None and not self.model.dispatch:
            assumed.append(f"{self.dispatch * 1e6:g} us per node")
        if has_gpus and not self.model.launch:
            assumed.append(f"{self.launch * 1e6:g} us per GPU kernel launch")
        if assumed:
            yield f"a host thread is assumed to spend {' and '.join(assumed)}"
