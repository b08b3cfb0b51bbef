"""Creation of the allocators of devices with a memory limit."""

from __future__ import annotations

from collections.abc import Callable

from placesim.machine.gpu_memory import GpuMemory
from placesim.machine.memory.allocator import BfcAllocator
from placesim.machine.memory.allocator_log import DumpLine
from placesim.machine.memory.allocator_settings import BfcOptions, FailureLog
from placesim.machine.memory.sub_allocator import gpu_memory, mapped_memory


def make_allocator(
    gpu: GpuMemory | None, limit: int, failures: FailureLog | None = None, log: Callable[[DumpLine], object] | None = None
) -> BfcAllocator:
    """Return the allocator of a GPU, or of a CPU device with a memory limit."""
    if gpu is None:
        options, driver, name = BfcOptions(allow_growth=True), mapped_memory(), "bfc_cpu_allocator_for_gpu"
    else:
        options = BfcOptions(gpu.allow_growth, gpu.retries, gpu.garbage_collection, gpu.fragmentation_fraction)
        driver, name = gpu_memory(), gpu.name
    return BfcAllocator(name, limit, driver, options, failures=failures, log=log)
