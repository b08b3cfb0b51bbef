"""The processor of a simulated machine's host: nothing says which it is, so that one is assumed."""

from __future__ import annotations

from dataclasses import replace
from functools import lru_cache

from placesim.prediction.processors import Arithmetic, Processor

HOST_CORES = 8
_CLOCK_HZ = 2.5e9
_FLOATS_PER_CLOCK = 32
"""Two fused multiply-adds of eight float32 each, as every x86 server core has them since 2013."""
_BYTES_PER_CORE = 8e9
"""Of main memory, a second: 64 GB/s for all cores, about four channels of DDR4-2400."""
_FLOAT32 = _CLOCK_HZ * _FLOATS_PER_CLOCK
_CACHE_BYTES_PER_CORE = 2.5 * (1 << 20)
DISPATCH_SECONDS = 1e-6
"""What a thread of the host takes for a node beside its kernel: assumed."""
LAUNCH_SECONDS = 5e-6
"""What a thread of the host takes to launch a kernel on a GPU: assumed."""
SHARE_SECONDS = 40e-6
"""A node is given another core for so much work each: TensorFlow's pools cut no smaller shares than some ten microseconds."""
HOST_ASSUMPTION = (
    f"each task's host is assumed to have {HOST_CORES} cores of {_CLOCK_HZ / 1e9:g} GHz, with {_FLOAT32 / 1e9:g} GFLOPS of "
    f"float32 and {_BYTES_PER_CORE / 1e9:g} GB/s each: the times of what runs on CPUs are uncertain beyond their intervals"
)


@lru_cache
def host_processor(cores: int) -> Processor:
    """So many cores of the assumed host; rates and bandwidth are in proportion."""
    rates: dict[Arithmetic, float] = dict.fromkeys(("float32", "tf32", "float16", "bfloat16", "int8"), _FLOAT32 * cores)
    rates["float64"] = _FLOAT32 * cores / 2
    one = Processor("assumed host", rates, _BYTES_PER_CORE, 1, _CLOCK_HZ, "processor")
    return replace(one, units=cores, bandwidth=_BYTES_PER_CORE * cores, cache_bytes=_CACHE_BYTES_PER_CORE * cores)
