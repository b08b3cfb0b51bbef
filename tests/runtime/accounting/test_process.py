"""Sessions of one process share its GPUs' allocators."""

from __future__ import annotations

from typing import Any

import pytest

import placesim
from placesim.core.errors import ResourceExhaustedError

GROWING = {"gpu_options": {"allow_growth": True}}


def _graph(size: int, config: dict[str, Any] | None = None) -> dict[str, Any]:
    nodes = [
        {"op": "Fill", "name": "a", "inputs": [[size], 1.0], "device": "/gpu:0"},
        {"op": "Neg", "name": "b", "inputs": ["a"], "device": "/gpu:0"},
    ]
    return {"nodes": nodes, "config": config or {}, "run": [{"fetch": ["b"]}]}


def test_the_first_session_takes_the_memory_and_the_next_finds_it() -> None:
    process = placesim.GpuProcess()
    placesim.run(_graph(1 << 20, GROWING), gpu=1, process=process)
    (device,) = (name for name in process.allocators if name.endswith("GPU:0"))
    allocator = process.allocators[device].allocator
    grown = allocator.statistics().pool_bytes
    assert grown == (2 << 20) + (4 << 20)
    assert allocator.bytes_in_use == 0
    placesim.run(_graph(1 << 20), gpu=1, process=process)
    assert process.allocators[device].allocator is allocator
    assert allocator.statistics().pool_bytes == grown


def test_without_a_process_each_run_has_its_own() -> None:
    peaks = [placesim.memory(_graph(1 << 20), gpu=1).memory[-1].peak for _ in range(2)]
    assert peaks[0] == peaks[1]


def test_what_failed_is_given_back() -> None:
    process = placesim.GpuProcess()
    limited = {"gpu_options": {"experimental": {"virtual_devices": [{"memory_limit_mb": [8]}]}}}
    with pytest.raises(ResourceExhaustedError):
        placesim.run(_graph(8 << 20, limited), gpu=1, process=process)
    (source,) = (held for name, held in process.allocators.items() if name.endswith("GPU:0"))
    assert source.in_use == 0
    assert placesim.run(_graph(16), gpu=1, process=process).results["b"].tolist() == [-1.0] * 16
