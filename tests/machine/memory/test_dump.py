"""Texts of the log that no recording shows in so few words."""

from __future__ import annotations

import pytest

from placesim.core.byte_counts import human_readable_bytes
from placesim.machine.memory.allocator import BfcAllocator
from placesim.machine.memory.allocator_log import DumpLine, dump_lines, occupancy
from placesim.machine.memory.allocator_settings import BfcOptions
from placesim.machine.memory.sub_allocator import gpu_memory


@pytest.mark.parametrize(
    ("num_bytes", "text"),
    [
        (0, "0B"),
        (1023, "1023B"),
        (1024, "1.0KiB"),
        (1536, "1.5KiB"),
        (1048575, "1024.0KiB"),
        (1 << 20, "1.00MiB"),
        (3 << 19, "1.50MiB"),
        (5 << 29, "2.50GiB"),
        (1 << 40, "1.00TiB"),
        (1 << 50, "1.00PiB"),
        (1 << 60, "1.00EiB"),
        ((1 << 63) - 1, "8.00EiB"),
        (1 << 63, "-8E"),
        (-1, "-1B"),
        (-(3 << 19), "-1.50MiB"),
        (1 << 64, "0B"),
    ],
)
def test_bytes_as_tensorflow_writes_them(num_bytes: int, text: str) -> None:
    assert human_readable_bytes(num_bytes) == text


def test_an_allocator_without_memory() -> None:
    pool = BfcAllocator("GPU_0_bfc", 1 << 20, gpu_memory()).pool()
    assert occupancy(pool) == "<allocator contains no memory>"
    assert [line.line for line in dump_lines(pool, 256)] == [1049, *[1056] * 21, 1072, 1110, 1117, 1119, 1128]


def test_the_picture_shows_what_is_used_wasted_and_free() -> None:
    allocator = BfcAllocator("GPU_0_bfc", 25600, gpu_memory(), BfcOptions(allow_growth=False))
    first = allocator.allocate(2560)
    allocator.allocate(1)
    allocator.allocate(22784 // 2 + 256)
    allocator.deallocate(first)
    assert occupancy(allocator.pool()) == "_" * 10 + "*" + "*" * 46 + "x" * 43


def test_the_node_is_named_in_the_first_line() -> None:
    lines: list[DumpLine] = []
    allocator = BfcAllocator("GPU_0_bfc", 1024, gpu_memory(), BfcOptions(allow_retry_on_failure=False), log=lines.append)
    assert allocator.allocate(4096, operation_name="tower/MatMul") is None
    first = lines[0]
    assert (first.severity, first.file, first.line) == ("W", "bfc_allocator.cc", 502)
    assert "4.0KiB (rounded to 4096)requested by op tower/MatMul\nIf the cause" in first.text
