"""Buffers of single kernels, and what is told of a device's memory: forwarding, journals, traces and their replay."""

from __future__ import annotations

from math import isnan
from typing import Any

import numpy as np
import pytest

from placesim.core.dtypes import FLOAT, INT32, DataType
from placesim.graph.graph import Graph
from placesim.machine.memory.allocator import BfcAllocator
from placesim.machine.memory.allocator_settings import BfcOptions
from placesim.machine.memory.buffer_sources import AllocatedMemory, CountedMemory
from placesim.machine.memory.buffers import Buffer
from placesim.machine.memory.sub_allocator import host_memory
from placesim.ops.attributes import Shape
from placesim.ops.kernels.memory_rules import AliasRule, ForwardingRule, MemoryRule, TensorMemory
from placesim.ops.registry import load_registry
from placesim.runtime.accounting.call_memory import Call
from placesim.runtime.accounting.default_rule import PlainKernel, is_plain
from placesim.runtime.accounting.ledger import Ledger
from placesim.runtime.accounting.out_of_memory import ReportOptions
from placesim.runtime.accounting.trace_replay import dump_text, replay
from placesim.runtime.accounting.usage import CURVE_POINTS, device_usage, end_record, record

FORWARDING: MemoryRule = ForwardingRule((0,))


def tensor(source: CountedMemory, dims: tuple[int, ...], dtype: DataType = FLOAT, *, on_host: bool = False) -> TensorMemory:
    size = int(np.prod(dims)) * dtype.size
    return TensorMemory(dims, dtype, source.allocate(size, "given") if size else None, on_host=on_host)


def plain(source: CountedMemory, rule: MemoryRule | None, dtype: DataType = FLOAT, *, on_host: bool = False) -> PlainKernel:
    return PlainKernel("node", dtype, rule, source, on_host=on_host)


@pytest.mark.parametrize(
    ("given", "made", "is_forwarded"),
    [
        (((2, 3), FLOAT, False), ((2, 3), FLOAT, False), True),
        (((2, 3), FLOAT, False), ((6,), FLOAT, False), True),
        (((2, 3), FLOAT, False), ((2, 4), FLOAT, False), False),
        (((2, 3), FLOAT, False), ((2, 3), INT32, False), False),
        (((2, 3), FLOAT, True), ((2, 3), FLOAT, False), False),
        (((2, 3), FLOAT, True), ((2, 3), FLOAT, True), True),
    ],
)
def test_an_input_of_the_same_bytes_becomes_the_output(
    given: tuple[tuple[int, ...], DataType, bool], made: tuple[tuple[int, ...], DataType, bool], is_forwarded: bool
) -> None:
    source = CountedMemory("cpu")
    memory = tensor(source, given[0], given[1], on_host=given[2])
    buffer = memory.buffer
    output = plain(source, FORWARDING, made[1], on_host=made[2]).run([memory], np.zeros(made[0], made[1].numpy))
    assert (output.buffer is buffer) is is_forwarded
    assert (output.dims, output.dtype, output.on_host, output.is_ref) == (*made, False)
    assert output.buffer is not None
    assert (output.buffer.holders, list(source.live)) == (1, [output.buffer])
    assert output.buffer.owner == ("given" if is_forwarded else "node")


@pytest.mark.parametrize("who", ["held twice", "a view", "foreign", "no rule"])
def test_an_input_that_is_needed_elsewhere_stays(who: str) -> None:
    source = CountedMemory("cpu")
    memory = tensor(source, (4,))
    whole = memory.buffer
    assert whole is not None
    if who == "held twice":
        whole.hold()
    elif who == "a view":
        memory.buffer = whole.view(16)
    elif who == "foreign":
        whole.release()
        memory.buffer = Buffer(None, 16)
    output = plain(source, None if who == "no rule" else FORWARDING).run([memory], np.zeros(4, np.float32))
    assert output.buffer is not whole
    assert source.in_use == (16 if who in ("foreign", "no rule") else 32)
    assert whole.holders == (1 if who in ("held twice", "a view") else 0)


def test_an_alias_holds_its_input_and_an_empty_output_nothing() -> None:
    source = CountedMemory("cpu")
    memory = tensor(source, (4,))
    output = plain(source, AliasRule(0)).run([memory], np.zeros((2, 2), np.float32))
    assert output.buffer is memory.buffer is next(iter(source.live))
    assert output.buffer is not None
    assert output.buffer.holders == 1
    empty = plain(source, FORWARDING).run([output], np.zeros((0, 2), np.float32))
    assert (empty.buffer, source.in_use) == (None, 0)
    assert plain(source, AliasRule(0)).run([empty], np.zeros((2, 0), np.float32)).buffer is None


@pytest.mark.parametrize(
    ("op", "attrs", "is_simple"),
    [
        ("Neg", {"T": FLOAT}, True),
        ("Unpack", {"T": FLOAT, "num": 2}, False),
        ("Assign", {"T": FLOAT}, False),
        ("VariableV2", {"dtype": FLOAT, "shape": Shape(())}, False),
        ("IsVariableInitialized", {"dtype": FLOAT}, False),
        ("ReadVariableOp", {"dtype": FLOAT}, False),
        ("VarHandleOp", {"dtype": FLOAT, "shape": Shape(())}, False),
    ],
)
def test_which_kernels_are_plain(op: str, attrs: dict[str, Any], is_simple: bool) -> None:
    signature = Graph(load_registry()).signatures.signature(op, attrs)
    for rule in (None, FORWARDING, AliasRule(0)):
        assert is_plain(rule, signature) is is_simple
    assert not is_plain(lambda memory: None, signature)


def test_memory_that_a_call_s_functions_gave() -> None:
    source = CountedMemory("cpu")
    given, first, second = object(), object(), object()
    outer, one, two = (tensor(source, (4,)) for _ in range(3))
    call = Call([given], [outer])
    call.replace(1, [(first, one)])
    assert (call.find(given), call.find(first), call.find(second)) == (outer, one, None)
    call.replace(1, [(second, two)])
    assert (call.find(first), call.find(second), source.in_use) == (None, two, 32)
    call.close()
    assert (call.find(second), source.in_use) == (None, 16)


# --- journals -------------------------------------------------------------------------------------------------------


def recorded(events: str, source: Any) -> Ledger:
    """`a` makes a buffer of 256 bytes in node a, `A` frees it, and so on; `b` of 512, `c` of 768."""
    ledger = Ledger({"GPU": source}, {"GPU": source}, ReportOptions())
    record(ledger)
    made: dict[str, Buffer] = {}
    for letter in events:
        ledger.clock.node = letter
        if letter.islower():
            made[letter] = source.allocate(256 * (ord(letter) - ord("a") + 1), letter)
        else:
            made.pop(letter.lower()).release()
    return ledger


def test_usage_of_a_device() -> None:
    ledger = recorded("abAcBa", CountedMemory("memory"))
    (found,) = device_usage(ledger)
    assert (found.device, found.allocator, found.limit, found.room) == ("GPU", "memory", None, None)
    assert (found.peak, found.peak_at, found.peak_node) == (1280, 3, "c")
    assert (found.in_use, found.allocations, found.fragmentation) == (1024, 4, None)
    assert found.curve == (256, 768, 512, 1280, 768, 1024)
    assert list(found.trace) == [256, 512, -1, 768, -2, 256]
    holders = [(h.node, h.size, h.requested, h.since, h.until, h.kept, h.made, h.freed) for h in found.holders]
    assert holders == [("c", 768, 768, "c", "", "", 3, None), ("b", 512, 512, "b", "B", "", 1, 4)]


def test_devices_that_were_not_used_are_left_out_and_a_record_ends() -> None:
    used, unused = CountedMemory("one"), CountedMemory("two")
    ledger = Ledger({"A": unused, "B": used}, {}, ReportOptions())
    record(ledger)
    used.allocate(1, "n")
    assert [found.device for found in device_usage(ledger)] == ["B"]
    end_record(ledger)
    assert (used.journal, unused.journal, ledger.recorder) == (None, None, None)


def test_the_first_moment_of_the_peak_counts() -> None:
    (found,) = device_usage(recorded("aAa", CountedMemory("memory")))
    assert (found.peak, found.peak_at, [holder.until for holder in found.holders]) == (256, 0, ["A"])


@pytest.mark.parametrize(("pairs", "points"), [(CURVE_POINTS // 2, 240), (CURVE_POINTS // 2 + 1, 121), (CURVE_POINTS, 240)])
def test_a_long_curve_has_the_most_of_each_part(pairs: int, points: int) -> None:
    (found,) = device_usage(recorded("aA" * pairs, CountedMemory("memory")))
    assert len(found.curve) == points
    assert set(found.curve) == ({256, 0} if pairs == CURVE_POINTS // 2 else {256})


def allocator(limit: int = 1536) -> BfcAllocator:
    return BfcAllocator("GPU_0_bfc", limit, host_memory(), BfcOptions(False, False))


def test_a_limited_device_has_room_and_fragments() -> None:
    (found,) = device_usage(recorded("abA", AllocatedMemory(allocator(1536))))
    assert (found.limit, found.peak, found.room) == (1536, 768, 768)
    assert found.fragmentation == pytest.approx(1 - 768 / 1024)
    (full,) = device_usage(recorded("bbb", AllocatedMemory(allocator(1536))))
    assert full.fragmentation is not None
    assert isnan(full.fragmentation)


def test_a_trace_is_replayed_up_to_where_there_is_no_room() -> None:
    trace = [512, 512, -1, 1024, -2, 1024]
    assert replay(trace, allocator()) == 3
    assert replay(trace, allocator(), end=2) is None
    assert replay(trace, allocator(), end=3) == 3
    assert replay(trace, allocator(4096)) is None
    half = allocator()
    assert replay([512, 512, -1], half) is None
    assert half.bytes_in_use == 512
    lines = dump_text(half, 1000)
    assert "\n" not in "".join(lines)
    assert any("1024" in line or "1.0KiB" in line for line in lines)
