"""What the recordings of sequences do not show: mistakes, several allocators in a process, waiting, and what holds always."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from placesim.core.errors import DefectError, InvalidArgumentError
from placesim.machine.memory.allocator import BfcAllocator, _nine_tenths
from placesim.machine.memory.allocator_log import DumpLine
from placesim.machine.memory.allocator_settings import BfcOptions, FailureLog, TimingCounter
from placesim.machine.memory.allocator_state import BinFigures, Chunk, bin_of, rounded_up
from placesim.machine.memory.sub_allocator import AddressRanges, gpu_memory, host_memory

MIB = 1 << 20
NO_RETRY = BfcOptions(allow_retry_on_failure=False)


class CountingMemory(AddressRanges):
    """A driver that counts how often it was asked."""

    __slots__ = ("asked",)

    def __init__(self, supply: int) -> None:
        super().__init__(supply, coalesces=False)
        self.asked = 0

    def allocate(self, num_bytes: int) -> int | None:
        self.asked += 1
        return super().allocate(num_bytes)


def given_chunk(allocator: BfcAllocator, num_bytes: int) -> Chunk:
    chunk = allocator.allocate(num_bytes)
    assert chunk
    return chunk


@pytest.mark.parametrize("fraction", [0.0009765625, 1e-300])
def test_a_fraction_of_less_than_a_byte_is_refused(fraction: float) -> None:
    with pytest.raises(InvalidArgumentError, match=r"of 512 bytes is less than a byte.*Could not find Region.*Use 0"):
        BfcAllocator("GPU_0_bfc", 512, gpu_memory(), BfcOptions(fragmentation_fraction=fraction))


@pytest.mark.parametrize(("fraction", "size"), [(0.0, 1 << 21), (1e-6, 1 << 20), (0.5, 1 << 21), (math.inf, 1 << 21)])
def test_what_a_chunk_may_waste(fraction: float, size: int) -> None:
    options = BfcOptions(allow_growth=False, fragmentation_fraction=fraction)
    allocator = BfcAllocator("GPU_0_bfc", 1 << 21, gpu_memory(), options)
    assert given_chunk(allocator, (1 << 20) + 256).size == (size if size > 1 << 20 else (1 << 20) + 256)


@pytest.mark.parametrize("limit", [-1, -(1 << 40)])
def test_a_negative_limit_is_refused(limit: int) -> None:
    with pytest.raises(InvalidArgumentError, match="memory limit is -"):
        BfcAllocator("GPU_0_bfc", limit, gpu_memory())


def test_a_negative_size_is_refused() -> None:
    with pytest.raises(InvalidArgumentError, match="asked for -1 bytes"):
        BfcAllocator("GPU_0_bfc", MIB, gpu_memory()).allocate(-1)


def test_nothing_can_be_freed_twice_but_none_can_be_freed() -> None:
    allocator = BfcAllocator("GPU_0_bfc", MIB, gpu_memory())
    allocator.deallocate(None)
    chunk = given_chunk(allocator, 10)
    allocator.deallocate(chunk)
    with pytest.raises(DefectError, match="not in use"):
        allocator.deallocate(chunk)


def test_allocators_of_a_process_fall_silent_together() -> None:
    lines: list[DumpLine] = []
    failures = FailureLog()
    allocators = [
        BfcAllocator(name, 1024, gpu_memory(), NO_RETRY, failures=failures, log=lines.append)
        for name in ("GPU_0_bfc", "GPU_1_bfc")
    ]
    for index in range(14):
        assert allocators[index % 2].allocate(2048) is None
    said = [line.text.split()[1] for line in lines if line.line == 311]
    assert said == ["(GPU_0_bfc)", "(GPU_1_bfc)"] * 5
    assert [line.line for line in lines].count(502) == 10
    assert not failures.is_open


def test_a_failure_of_0_bytes_counts_unless_the_caller_waits() -> None:
    for options, logged in ((NO_RETRY, 1), (BfcOptions(), 0)):
        allocator = BfcAllocator("GPU_0_bfc", 1024, gpu_memory(), options)
        assert allocator.allocate(0) is None
        assert allocator.failures.logged == logged


def test_who_waits_gets_what_others_free() -> None:
    lines: list[DumpLine] = []
    allocator = BfcAllocator("GPU_0_bfc", MIB, gpu_memory(), log=lines.append)
    held = [given_chunk(allocator, MIB // 4) for _ in range(4)]

    def free_one() -> bool:
        allocator.deallocate(held.pop())
        return True

    allocator.wait_for_memory = free_one
    assert given_chunk(allocator, MIB // 2).address == held[0].address + MIB // 2
    assert len(held) == 2
    assert not lines


def test_who_waits_in_vain_tries_four_times_and_logs_the_dump_alone() -> None:
    lines: list[DumpLine] = []
    driver = CountingMemory(MIB)
    allocator = BfcAllocator("GPU_0_bfc", MIB * 4, driver, BfcOptions(allow_growth=False), log=lines.append)
    assert allocator.allocate(MIB * 4) is None
    assert driver.asked == 4
    assert (lines[0].line, lines[-1].line) == (502, 513)
    assert allocator.failures.logged == 0


def test_a_driver_with_nothing_left_is_not_asked_for_ever() -> None:
    driver = CountingMemory(2 * MIB)
    allocator = BfcAllocator("GPU_0_bfc", 64 * MIB, driver, NO_RETRY)
    held = [allocator.allocate(MIB) for _ in range(2)]
    assert all(held)
    assert allocator.allocate(1) is None
    assert driver.asked < 100


def test_a_host_region_grows_where_a_gpu_gets_another() -> None:
    for driver, regions in ((host_memory(), 1), (gpu_memory(), 2)):
        allocator = BfcAllocator("GPU_0_bfc", 64 * MIB, driver)
        first, second = given_chunk(allocator, 2 * MIB), given_chunk(allocator, 2 * MIB)
        assert second.address == first.address + 2 * MIB
        allocator.deallocate(first)
        allocator.deallocate(second)
        pool = allocator.pool()
        assert len(pool.regions) == len(list(pool.chunks())) == regions


@given(st.one_of(st.integers(0, 1 << 63), st.integers(0, 63).flatmap(lambda bits: st.integers(0, 1 << bits))))
def test_a_tenth_less_in_single_precision(size: int) -> None:
    assert _nine_tenths(size) == rounded_up(int(np.float32(np.uint64(size)) * np.float32(0.9)))


SIZES = st.one_of(st.integers(1, 2000), st.sampled_from([256, 512, 4096, MIB]), st.integers(1, 4 * MIB))
STEPS = st.lists(st.tuples(st.integers(0, 2), SIZES, st.integers(0, 1 << 30)), max_size=80)
OPTIONS = st.builds(
    BfcOptions,
    allow_growth=st.booleans(),
    allow_retry_on_failure=st.just(False),
    garbage_collection=st.booleans(),
    fragmentation_fraction=st.sampled_from([0.0, 0.01, 0.5]),
)
DRIVERS = st.fixed_dictionaries(
    {
        "supply": st.sampled_from([1 << 62, 16 * MIB, 5 * MIB + 768]),
        "coalesces": st.booleans(),
        "order": st.sampled_from(["up", "down"]),
        "gap": st.sampled_from([0, 256, 4096]),
    }
)


def check(allocator: BfcAllocator, held: list[Chunk]) -> None:
    """Chunks fill their regions without a gap, regions lie apart, and every figure is the sum of what it stands for."""
    pool = allocator.pool()
    chunks = list(pool.chunks())
    for region in pool.regions:
        parts = list(region.chunks())
        ends = [part.address + part.size for part in parts]
        assert [part.address for part in parts] == [region.address, *ends[:-1]]
        assert ends[-1] == region.end
        assert [part.prev for part in parts] == [None, *parts[:-1]]
        assert all(part.size > 0 and part.size % 256 == 0 for part in parts)
    assert all(one.end <= other.address for one, other in zip(pool.regions, pool.regions[1:], strict=False))
    assert sorted(map(id, held)) == sorted(id(chunk) for chunk in chunks if chunk.in_use)
    assert len({chunk.handle for chunk in chunks}) == len(chunks)
    free = sorted((chunk.size, chunk.address) for chunk in chunks if not chunk.in_use)
    assert list(allocator._chunks._free.of_at_least(0)) == [address for _, address in free]
    if allocator.timing_counter is None:
        assert all(chunk.in_use or chunk.next is None or chunk.next.in_use for chunk in chunks)
    statistics = pool.statistics
    assert statistics.bytes_in_use == sum(chunk.size for chunk in held)
    assert statistics.pool_bytes == sum(region.size for region in pool.regions) <= pool.memory_limit
    assert statistics.peak_bytes_in_use >= statistics.bytes_in_use
    totals = [sum(column) for column in zip(*pool.bins(), strict=True)]
    sizes_in_use = sum(chunk.requested_size for chunk in held)
    assert BinFigures(*totals) == (statistics.bytes_in_use, statistics.pool_bytes, len(held), len(chunks), sizes_in_use)
    assert [chunk for number in range(21) for chunk in pool.free_chunks(number)] == [
        chunk for _, _, chunk in sorted((chunk.size, chunk.address, chunk) for chunk in chunks if not chunk.in_use)
    ]


def best_fit(allocator: BfcAllocator, num_bytes: int) -> int | None:
    """The address of the chunk that a search through all of them ends with."""
    rounded = rounded_up(num_bytes)
    fitting = [(chunk.size, chunk.address) for chunk in allocator.pool().chunks() if not chunk.in_use and chunk.size >= rounded]
    return min(fitting)[1] if fitting else None


@settings(deadline=None)
@given(STEPS, OPTIONS, DRIVERS, st.sampled_from([MIB, 8 * MIB + 100, 1 << 30]), st.booleans())
def test_chunks_never_overlap_and_figures_are_sums(
    steps: list[tuple[int, int, int]], options: BfcOptions, driver: dict[str, object], limit: int, timed: bool
) -> None:
    ranges = AddressRanges(**driver)  # type: ignore[arg-type]
    counter = TimingCounter() if timed else None
    allocator = BfcAllocator("GPU_0_bfc", limit, ranges, options, timing_counter=counter)
    held: list[Chunk] = []
    for kind, num_bytes, choice in steps:
        if kind == 2 and held:
            allocator.deallocate(held.pop(choice % len(held)))
        elif kind == 1 and counter:
            allocator.advance_safe_frontier(choice % (counter.value + 2))
        else:
            expected = None if timed else best_fit(allocator, num_bytes)
            chunk = allocator.allocate(num_bytes, freed_by=choice % 4 * counter.value // 4 if counter else 0)
            assert expected is None or (chunk and chunk.address == expected)
            if chunk:
                assert chunk.requested_size == num_bytes <= chunk.size
                assert chunk.bin_num == -1
                held.append(chunk)
        check(allocator, held)
        assert ranges.bytes_out == allocator.statistics().pool_bytes
    for chunk in held:
        allocator.deallocate(chunk)
    if counter:
        allocator.advance_safe_frontier(counter.value + 1)
        allocator.allocate(limit + 1)
    pool = allocator.pool()
    assert not allocator.bytes_in_use
    if not timed:
        assert len(list(pool.chunks())) == len(pool.regions)


@given(STEPS, st.integers(0, 1 << 20))
def test_where_the_memory_begins_changes_nothing(steps: list[tuple[int, int, int]], pages: int) -> None:
    def offsets(base: int) -> list[int]:
        allocator = BfcAllocator("GPU_0_bfc", 1 << 26, AddressRanges(coalesces=False, base=base))
        held: list[Chunk] = []
        found = []
        for kind, num_bytes, choice in steps:
            if kind == 2 and held:
                allocator.deallocate(held.pop(choice % len(held)))
            elif chunk := allocator.allocate(num_bytes):
                held.append(chunk)
                found.append(chunk.address - base)
        return found

    assert offsets(1 << 40) == offsets((1 << 40) + 4096 * pages)


@pytest.mark.parametrize(
    ("size", "number"), [(0, 0), (256, 0), (511, 0), (512, 1), (1 << 28, 20), (1 << 40, 20), (1 << 27, 19)]
)
def test_bins_are_powers_of_two(size: int, number: int) -> None:
    assert bin_of(size) == number
