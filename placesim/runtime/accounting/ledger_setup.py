"""Creation of the memory ledger for a session's devices."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from placesim.machine.gpu_memory import GpuProcess
from placesim.machine.inventory import Device
from placesim.machine.memory.allocator_log import DumpLine
from placesim.machine.memory.allocator_settings import FailureLog
from placesim.machine.memory.buffer_sources import AllocatedMemory, CountedMemory, DeviceSource
from placesim.machine.memory.device_allocators import make_allocator
from placesim.runtime.accounting.ledger import Ledger
from placesim.runtime.accounting.out_of_memory import ReportOptions


def build_ledger(
    devices: Sequence[Device],
    *,
    has_limits: bool = True,
    report: ReportOptions | None = None,
    log: Callable[[DumpLine], object] | None = None,
    process: GpuProcess | None = None,
) -> Ledger:
    """Build a ledger with an allocator for each device that has a memory limit.

    Host memory that a GPU's kernels use is counted for the CPU of the GPU's task. With `has_limits`, all sessions of the
    `process` share the allocators of its GPUs. Without it, the session has its own allocators, which never run out of memory.
    `log` is called with the allocators' log lines.
    """
    allocators = process.allocators if process is not None and has_limits else {}
    failures = allocators.setdefault("", FailureLog())
    sources: dict[str, DeviceSource] = {}
    hosts: dict[tuple[str, int | None], DeviceSource] = {}
    for device in devices:
        source = sources[device.name] = allocators.get(device.name) or _source(device, failures, log, has_limits=has_limits)
        if device.gpu is None:
            hosts.setdefault(_task(device), source)
        else:
            allocators[device.name] = source
            source.start_session(log)
    return Ledger(
        sources,
        {device.name: hosts.setdefault(_task(device), CountedMemory("cpu")) for device in devices},
        report or ReportOptions(),
        log,
    )


def _task(device: Device) -> tuple[str, int | None]:
    return (device.spec.job or "", device.spec.task)


def _source(
    device: Device, failures: FailureLog, log: Callable[[DumpLine], object] | None, *, has_limits: bool
) -> DeviceSource:
    limit = device.allocation_limit
    if limit is None:
        return CountedMemory("cpu")
    return AllocatedMemory(make_allocator(device.gpu, limit if has_limits else UNLIMITED, failures, log), limit)


UNLIMITED = 1 << 50
"""Limit in bytes of an allocator that must never run out of memory."""
