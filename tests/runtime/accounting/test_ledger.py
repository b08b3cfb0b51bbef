"""The books of a session: room for a step in any order, what outlives steps, what a step leaves, and the log of failures."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from placesim.core.dtypes import FLOAT
from placesim.core.errors import OpError, ResourceExhaustedError
from placesim.machine.inventory import TaskInventory, build_devices
from placesim.machine.memory.allocator import BfcAllocator
from placesim.machine.memory.allocator_log import DumpLine
from placesim.machine.memory.allocator_settings import BfcOptions
from placesim.machine.memory.buffer_sources import AllocatedMemory, CountedMemory, DeviceSource
from placesim.machine.memory.device_allocators import make_allocator
from placesim.machine.memory.sub_allocator import host_memory
from placesim.ops.kernels.device_resources import ResourceHandle, ResourceManager, VariableResource
from placesim.ops.kernels.memory_rules import TensorMemory
from placesim.runtime.accounting.ledger import Ledger
from placesim.runtime.accounting.ledger_setup import UNLIMITED, build_ledger
from placesim.runtime.accounting.out_of_memory import MemoryFailure, ReportOptions
from placesim.runtime.executors.program import DeviceState

CPU = "/job:localhost/replica:0/task:0/device:CPU:0"


def limited(told: int, room: int = 1 << 20) -> AllocatedMemory:
    return AllocatedMemory(BfcAllocator("bfc", room, host_memory(), BfcOptions(False, False)), told)


def ledger_of(*sources: DeviceSource, log: list[DumpLine] | None = None) -> Ledger:
    hosts = {CPU: sources[-1]}
    return Ledger({CPU: sources[0]}, hosts, ReportOptions(), None if log is None else log.append)


@pytest.mark.parametrize(("limit", "has_room"), [(1535, False), (1536, True)])
def test_a_step_fits_in_any_order_where_there_is_room_for_twice_what_it_asks_for(limit: int, has_room: bool) -> None:
    source = limited(limit)
    ledger = ledger_of(source, CountedMemory("host"))
    kept = source.allocate(512, "kept")
    ledger.begin_step()
    for _ in range(2):
        source.allocate(256, "step").release()
    kept.hold()
    assert (source.in_use, source.handed_out) == (512, 512)
    assert ledger.has_room_for_all() is has_room
    ledger.begin_step()
    assert ledger.has_room_for_all()


def test_what_a_step_left_is_given_back_and_named() -> None:
    source = CountedMemory("cpu")
    others = source.allocate(64, "another session's")
    ledger = ledger_of(source)
    kept = source.allocate(16, "v")
    ledger.variable(VariableResource("v", FLOAT)).buffer = kept
    kept.hold()
    left = source.allocate(32, "left")
    ledger.store("a", "b").put([source.allocate(8, "stored")])
    ledger.end_step()
    assert ledger.left_over == (left, kept)
    assert kept.holders == 1
    assert [buffer.owner for buffer in source.live] == ["another session's", "v", "stored"]
    ledger.end_step()
    assert not ledger.left_over
    ledger.close()
    assert list(source.live) == [others]
    assert ledger.clock.moment == 1


def test_a_store_of_the_step_ends_with_it() -> None:
    source = CountedMemory("cpu")
    ledger = ledger_of(source)
    manager = ResourceManager()
    ledger.find_resources = {CPU: manager}.__getitem__
    handle = ResourceHandle(CPU, "c", "stack", "Stack")
    queue = ResourceHandle(CPU, "c", "queue", "Queue")
    manager.put(queue, object())
    for one in (handle, queue):
        ledger.find_resource(one).put([source.allocate(8, one.name)])  # type: ignore[union-attr]
    assert ledger.find_resource(handle) is ledger.find_resource(handle)
    ledger.end_step()
    assert [buffer.owner for buffer in source.live] == ["queue"]
    variable = VariableResource("v", FLOAT)
    manager.put(ResourceHandle(CPU, "c", "v", "Var"), variable)
    assert ledger.find_resource(ResourceHandle(CPU, "c", "v", "Var")) is ledger.variable(variable)


def test_buffers_that_outlive_a_step_have_their_keepers() -> None:
    source = CountedMemory("cpu")
    ledger = ledger_of(source)
    whole = source.allocate(64, "whole")
    ledger.variable(VariableResource("v", FLOAT)).buffer = whole.view(16)
    stored, inner = source.allocate(8, "list"), source.allocate(8, "inner")
    stored.contents = [inner, None]
    ledger.store("a").put([stored, None])
    ledger.variable(VariableResource("unset", FLOAT))
    assert ledger.kept() == {whole, stored, inner}
    assert ledger.keeper_of() == {whole: "variable v"}
    usage = ledger.usage(source, 100, {whole: "n"})
    assert (usage.source, usage.size, usage.live) == (source, 100, (whole, stored, inner))
    assert usage.kept == {whole: "variable v", stored: "kept by a resource", inner: "kept by a resource"}
    assert ledger.kept_bytes == 64 + 8 + 8


def failing(count: int, *, is_body: bool) -> list[int]:
    """Which of so many errors, from 1 on, are logged as a rendezvous' end."""
    log: list[DumpLine] = []
    ledger = ledger_of(CountedMemory("cpu"), log=log)
    found = []
    for number in range(1, count + 1):
        log.clear()
        ledger.begin_step()
        error = ResourceExhaustedError("no room", node="n")
        assert ledger.failed(MemoryFailure(error, None)) is error
        ledger.failed(MemoryFailure(ResourceExhaustedError("again"), None))
        assert ledger.failure is error
        if is_body:
            called = ledger.passed_on(error, "caller")
            assert called.message.startswith("no room\n\t [[{{node caller}}]]\nHint: ")
            assert called.node == "n"
            assert ledger.failure is called
        found += [number] * len(log)
    return found


def test_of_a_session_s_errors_ever_fewer_are_logged() -> None:
    assert failing(9, is_body=False) == [1, 2, 4, 8]
    assert failing(5, is_body=True) == [1, 1, 2, 4]


def test_another_error_of_a_function_is_passed_on_as_it_is() -> None:
    ledger = ledger_of(CountedMemory("cpu"))
    error = OpError("other")
    assert ledger.passed_on(error, "caller") is error
    assert ledger.failure is None


def test_lines_are_logged_where_there_are_any() -> None:
    log: list[DumpLine] = []
    ledger = ledger_of(CountedMemory("cpu"), log=log)
    line = DumpLine("W", "f.cc", 1, "text")
    ledger.failed(MemoryFailure(ResourceExhaustedError("no room", node="n"), line))
    assert [found.text for found in log] == ["text", "Local rendezvous is aborting with status: RESOURCE_EXHAUSTED: no room"]


def state_with(value: Any) -> tuple[DeviceState, VariableResource]:
    (device,) = build_devices([TaskInventory()])
    state = DeviceState(device)
    variable = VariableResource("v", FLOAT)
    variable.value = value
    state.resources.put(ResourceHandle(device.name, "localhost", "v", "Var", FLOAT), variable)
    return state, variable


@pytest.mark.parametrize(
    ("value", "in_use", "dims"), [(np.zeros((2, 3), np.float32), 24, (2, 3)), (None, 0, ()), (np.zeros(0), 0, (0,))]
)
def test_variables_from_a_file_take_their_memory_once(value: Any, in_use: int, dims: tuple[int, ...]) -> None:
    source = CountedMemory("cpu")
    ledger = ledger_of(source)
    state, variable = state_with(value)
    for _ in range(2):
        ledger.adopt({CPU: state})
    assert (source.in_use, ledger.dims_of(variable)) == (in_use, dims)
    held = ledger.variable(variable)
    assert (held.buffer is None) is not in_use
    read = ledger.dereferenced(TensorMemory((), FLOAT), variable) if value is not None else None
    if read is not None:
        assert (read.dims, read.dtype, read.buffer) == (dims, FLOAT, held.buffer)
        assert held.buffer is None or held.buffer.holders == 2
    plain = TensorMemory((), FLOAT)
    assert ledger.dereferenced(plain, 3) is plain


def test_a_variable_from_a_file_for_which_there_is_no_room() -> None:
    ledger = ledger_of(limited(1024, 1024), CountedMemory("host"))
    state, _ = state_with(np.zeros((3, 100), np.float32))
    with pytest.raises(ResourceExhaustedError) as caught:
        ledger.adopt({CPU: state})
    assert caught.value.message == (
        f"OOM when allocating tensor with shape[3,100] and type float on {CPU} by allocator bfc\n\t [[{{{{node v}}}}]]"
    )
    assert (caught.value.node, caught.value.device) == ("v", CPU)
    assert caught.value.help[0] == "0B of 1.0KiB of bfc are in use when 1.2KiB are requested"
    assert caught.value.help[1] == "at least 256B more are needed here"


# --- the memory of a machine ----------------------------------------------------------------------------------------


def test_a_cpu_s_allocator_grows_and_a_gpu_s_takes_all_at_once() -> None:
    (gpu,) = (device.gpu for device in build_devices([TaskInventory(gpu=1)]) if device.gpu is not None)
    for found, name, takes_all in (
        (make_allocator(None, 64 << 20), "bfc_cpu_allocator_for_gpu", False),
        (make_allocator(gpu, 64 << 20), gpu.name, True),
        (make_allocator(gpu._replace(allow_growth=True), 64 << 20), gpu.name, False),
    ):
        found.allocate(256)
        taken = sum(chunk.size for chunk in found.pool().chunks())
        assert (found.name, taken == 64 << 20) == (name, takes_all)


def test_what_a_gpu_keeps_on_the_host_is_its_task_s_cpu_s() -> None:
    devices = build_devices([TaskInventory(job="a", gpu=1), TaskInventory(job="b", cpu=2, gpu=1)])
    ledger = build_ledger(devices)
    by_name = {device.name: ledger._hosts[device.name] for device in devices}
    sources = {device.name.removesuffix(":0"): ledger.sources[device.name] for device in devices}
    a, b = (f"/job:{job}/replica:0/task:0/device:" for job in "ab")
    assert by_name[f"{a}CPU:0"] is by_name[f"{a}GPU:0"] is sources[f"{a}CPU"]
    assert by_name[f"{b}CPU:1"] is by_name[f"{b}GPU:0"] is sources[f"{b}CPU"]
    assert sources[f"{a}CPU"] is not sources[f"{b}CPU"]
    assert (sources[f"{a}CPU"].name, sources[f"{a}CPU"].limit) == ("cpu", None)


def test_without_limits_nothing_runs_out() -> None:
    devices = build_devices([TaskInventory(gpu=1)])
    (gpu,) = (device for device in devices if device.gpu is not None)
    for has_limits in (True, False):
        source = build_ledger(devices, has_limits=has_limits).sources[gpu.name]
        assert isinstance(source, AllocatedMemory)
        assert source.limit == gpu.allocation_limit
        assert source.allocator.memory_limit == (gpu.allocation_limit if has_limits else UNLIMITED)
