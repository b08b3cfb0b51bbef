"""What a session makes of the GPUs of a machine: devices that placement, sessions and allocators agree on."""

from __future__ import annotations

import pytest

from placesim.core.errors import AlreadyExistsError, InvalidArgumentError, UnknownError
from placesim.formats.graph_file.reader import graph_file_from_mapping
from placesim.graph.session_steps import Config
from placesim.machine.gpu_memory import GpuLogLine, GpuProcess
from placesim.machine.gpu_models import MIB
from placesim.machine.gpu_options import GpuOptions, VirtualDevices
from placesim.machine.inventory import TaskInventory, build_devices
from placesim.runtime.sessions.session import GraphSession
from placesim.runtime.sessions.visible_devices import build_device_set, build_session_devices

MACHINE = (TaskInventory(gpu=2),)
CUT = Config(gpu_options=GpuOptions(virtual_devices=(VirtualDevices((64, 32)), VirtualDevices((128,)))))
GRAPH = {"nodes": [{"op": "Const", "name": "a", "value": 1.0, "device": "/gpu:2"}]}


def session(config: Config, process: GpuProcess | None = None) -> GraphSession:
    devices = build_session_devices(MACHINE, config, None, process)
    return GraphSession(graph_file_from_mapping(GRAPH).graph, devices, config)


def test_virtual_devices_are_placed_on() -> None:
    opened = session(CUT)
    placement = opened.placement
    assert placement.error is None
    assert [device.name for device in placement.devices if device] == ["/job:localhost/replica:0/task:0/device:GPU:2"]
    assert [device.allocation_limit for device in opened.device_set.devices] == [None, 64 * MIB, 32 * MIB, 128 * MIB]
    names = [device.gpu.name for device in opened.device_set.devices if device.gpu]
    assert names == ["GPU_0_bfc", "GPU_1_bfc", "GPU_2_bfc"]


def test_without_them_there_are_two() -> None:
    assert isinstance(session(Config()).placement.error, InvalidArgumentError)


def test_device_count_bounds_before_they_are_cut() -> None:
    with pytest.raises(UnknownError, match=r"num_gpus_to_use: 1 #virtual_devices: 2"):
        session(Config(device_count=(("GPU", 1),), gpu_options=CUT.gpu_options))
    parts = Config(device_count=(("GPU", 1),), gpu_options=GpuOptions(num_virtual_devices_per_gpu=3))
    assert len(build_session_devices(MACHINE, parts)) == 1 + 3


def test_a_second_session_of_a_process() -> None:
    process = GpuProcess()
    first = session(CUT, process)
    other = Config(gpu_options=GpuOptions(allow_growth=True, virtual_devices=(VirtualDevices((1, 2)), VirtualDevices((3, 4)))))
    later = session(other, process)
    assert later.device_set.devices[1:4] == first.device_set.devices[1:4]
    assert later.device_set.devices[4].allocation_limit == 4 * MIB
    with pytest.raises(AlreadyExistsError):
        session(Config(), process)


def test_only_the_environment_that_is_given_counts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TF_DEVICE_MIN_SYS_MEMORY_IN_MB", "1")
    log: list[GpuLogLine] = []
    plain = build_session_devices(MACHINE, Config())[1]
    asked = build_session_devices(MACHINE, Config(), {"TF_DEVICE_MIN_SYS_MEMORY_IN_MB": "1"}, None, log.append)[1]
    assert asked.memory_limit - plain.memory_limit == 499 * MIB
    assert [line.severity for line in log] == ["I", "I"]


@pytest.mark.parametrize(
    ("filters", "master", "tasks"),
    [
        ((), "", ["ps/0", "ps/1", "worker/0", "worker/1"]),
        (("/job:worker/task:1",), "", ["ps/0", "worker/1"]),
        (("/job:worker/device:GPU:3", "no name"), "/job:ps/task:1", ["ps/1", "worker/0", "worker/1"]),
        (("/job:chief",), "/job:worker/task:0", ["worker/0"]),
    ],
)
def test_filters_admit_tasks_besides_the_session_s_own(filters: tuple[str, ...], master: str, tasks: list[str]) -> None:
    machine = build_devices([TaskInventory(job="ps", tasks=2), TaskInventory(job="worker", tasks=2)])
    found = build_device_set(machine, Config(device_filters=filters, master=master))
    assert sorted(f"{device.spec.job}/{device.spec.task}" for device in found.devices) == tasks


def test_a_filter_does_not_leave_a_single_task_without_devices() -> None:
    machine = build_devices([TaskInventory(gpu=1)])
    assert build_device_set(machine, Config(device_filters=("/job:ps",))).devices == machine


def test_a_master_that_is_no_task_is_refused_with_the_tasks_that_there_are() -> None:
    expected = ", expected one such as /job:ps/replica:0/task:0 or /job:ps/replica:0/task:1"
    for inventory, text in (([TaskInventory(job="ps", tasks=2)], expected), ([], "")):
        with pytest.raises(InvalidArgumentError) as caught:
            build_device_set(build_devices(inventory), Config(master="/job:chief"))
        assert caught.value.message == f"config.master is not a task of the inventory: got '/job:chief'{text}"
